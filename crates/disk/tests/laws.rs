//! Any history of a shelf, over a disk that crashes, fills up and fails: what was synced is there,
//! in order, and nothing was invented.

mod support;

use std::collections::BTreeMap;

use disk::{DiskError, Faults, Owner, Shelf, ShelfConfig, Simulated};
use proptest::prelude::*;
use support::{CONFIG, Sample, are, owner, put, some_of};

const QUEUES: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Puts a segment of so many messages with so many bytes each.
    Put(usize, usize, usize),
    /// Reads the first segment of a queue, and forgets it.
    Take(usize),
    ForgetLast(usize),
    ForgetAll(usize),
    Sync,
    /// The process ends, in order or not.
    Restart(bool),
    /// The machine goes down.
    Crash(u64),
    /// So many bytes more fit; with none, everything does.
    Full(Option<u16>),
    Fails(bool, bool, bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let queue = 0..QUEUES;
    let step = prop_oneof![
        8 => (queue.clone(), 1..5usize, 0..900usize).prop_map(|(q, n, b)| Step::Put(q, n, b)),
        4 => queue.clone().prop_map(Step::Take),
        1 => queue.clone().prop_map(Step::ForgetLast),
        1 => queue.prop_map(Step::ForgetAll),
        3 => Just(Step::Sync),
        1 => any::<bool>().prop_map(Step::Restart),
        2 => any::<u64>().prop_map(Step::Crash),
        1 => proptest::option::of(0..3000u16).prop_map(Step::Full),
        1 => (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(w, r, s)| Step::Fails(w, r, s)),
        2 => Just(Step::Full(None)),
        2 => Just(Step::Fails(false, false, false)),
    ];
    proptest::collection::vec(step, 1..60)
}

/// What should be known of a segment.
#[derive(Clone, Debug)]
struct Segment {
    samples: Vec<Sample>,
    is_synced: bool,
    /// It was taken out; whether that is synced shows at the next crash.
    is_gone: bool,
    /// It may be back after a crash of the machine.
    may_return: bool,
    /// It may be missing after one: a sync has failed.
    is_doubtful: bool,
}

struct World {
    shelf: Option<Shelf<Simulated>>,
    segments: BTreeMap<(Owner, u64), Segment>,
    next: [u64; QUEUES],
    next_id: u64,
    lives: u64,
    /// The disk has failed at something: what was to be noted may not be.
    has_failed: bool,
}

impl World {
    fn new() -> World {
        let (shelf, opened) = Shelf::open(Simulated::default(), CONFIG, 1).expect("it opens");
        assert!(opened.owners.is_empty());
        World {
            shelf: Some(shelf),
            segments: BTreeMap::new(),
            next: [1; QUEUES],
            next_id: 0,
            lives: 1,
            has_failed: false,
        }
    }

    fn shelf(&mut self) -> &mut Shelf<Simulated> {
        self.shelf.as_mut().expect("it is open")
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Put(queue, count, bytes) => self.put(queue, count, bytes),
            Step::Take(queue) => self.take(queue),
            Step::ForgetLast(queue) => {
                let last = self.shelf().segments(&owner(queue)).last();
                if let Some(last) = last {
                    self.forget(queue, last.number);
                }
            }
            Step::ForgetAll(queue) => {
                self.shelf().forget_all(&owner(queue));
                let mine = |key: &Owner| *key == owner(queue);
                for (_, segment) in self.segments.iter_mut().filter(|((key, _), _)| mine(key)) {
                    segment.may_return |= !segment.is_gone;
                    segment.is_gone = true;
                }
            }
            Step::Sync => self.sync(),
            Step::Restart(in_order) => self.restart(in_order, |_| {}),
            Step::Crash(seed) => {
                let mut random = clock::stream(seed, "crash");
                self.restart(false, |disk| {
                    disk.crash(|bound| u64::from(clock::below(&mut random, bound as u32)));
                });
            }
            Step::Full(more) => {
                let disk = self.shelf().volume_mut();
                disk.faults.full_at = more.map(|more| disk.used() + u64::from(more));
            }
            Step::Fails(writes, reads, syncs) => {
                self.has_failed |= writes || syncs;
                let faults = &mut self.shelf().volume_mut().faults;
                faults.writes_fail = writes;
                faults.reads_fail = reads;
                faults.syncs_fail = syncs;
            }
        }
    }

    fn put(&mut self, queue: usize, count: usize, bytes: usize) {
        let samples: Vec<Sample> = (0..count)
            .map(|_| {
                self.next_id += 1;
                Sample::new(self.next_id, bytes)
            })
            .collect();
        let number = self.next[queue];
        self.next[queue] += 1;
        if put(self.shelf(), &owner(queue), number, &samples).is_ok() {
            let segment = Segment {
                samples,
                is_synced: false,
                is_gone: false,
                may_return: false,
                is_doubtful: false,
            };
            self.segments.insert((owner(queue), number), segment);
        }
    }

    fn take(&mut self, queue: usize) {
        let Some(first) = self.shelf().segments(&owner(queue)).next() else {
            return;
        };
        match self.shelf().read(&owner(queue), first.number) {
            Ok(contents) => {
                let expected = &self.segments[&(owner(queue), first.number)];
                let found = some_of(contents.messages(), &expected.samples);
                let is_whole = found == Some(expected.samples.len());
                assert!(is_whole || expected.is_doubtful && found.is_some());
                self.forget(queue, first.number);
            }
            Err(DiskError::Io { .. }) => {
                assert!(self.shelf().volume_mut().faults.reads_fail);
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn forget(&mut self, queue: usize, number: u64) {
        // Not noted, it may be back after the end of the process as well.
        let _ = self.shelf().forget(&owner(queue), number);
        let segment = self.segments.get_mut(&(owner(queue), number));
        let segment = segment.expect("it was put");
        segment.is_gone = true;
        segment.may_return = true;
    }

    fn sync(&mut self) {
        let is_done = self.shelf().sync().is_ok();
        self.note_sync(is_done);
    }

    fn note_sync(&mut self, is_done: bool) {
        let stays_gone = is_done && !self.has_failed;
        for segment in self.segments.values_mut() {
            segment.is_doubtful |= !segment.is_synced && !is_done;
            segment.is_synced = true;
            segment.may_return &= !stays_gone;
        }
        self.segments
            .retain(|_, segment| !segment.is_gone || segment.may_return);
    }

    /// Ends the process, has `meanwhile` happen to the disk, and looks at what is there.
    fn restart(&mut self, in_order: bool, meanwhile: impl FnOnce(&mut Simulated)) {
        let mut shelf = self.shelf.take().expect("it is open");
        if in_order {
            let is_done = shelf.end().is_ok();
            self.note_sync(is_done);
        }
        let mut disk = shelf.into_volume();
        let before = disk.used();
        meanwhile(&mut disk);
        let is_crash = before != disk.used() || !in_order;
        disk.faults = Faults::default();
        self.lives += 1;
        let (shelf, opened) = Shelf::open(disk, CONFIG, self.lives).expect("it opens");
        self.shelf = Some(shelf);
        let mut found: BTreeMap<(Owner, u64), usize> = BTreeMap::new();
        for (owner, kept) in opened.owners {
            for each in kept {
                found.insert((owner.clone(), each.number), each.messages);
            }
        }
        let keys: Vec<_> = self.segments.keys().cloned().collect();
        for key in &keys {
            self.look_at(key, found.remove(key), is_crash);
        }
        assert!(found.is_empty(), "nobody put {found:?}");
    }

    fn look_at(&mut self, key: &(Owner, u64), found: Option<usize>, is_crash: bool) {
        let segment = self.segments[key].clone();
        let (owner, number) = key;
        if let Some(messages) = found {
            assert!(
                !segment.is_gone || segment.may_return,
                "{owner} {number} is back"
            );
            let contents = self.shelf().read(owner, *number).expect("readable");
            let count = some_of(contents.messages(), &segment.samples);
            assert_eq!(count, Some(messages), "{owner} {number}");
        }
        let messages = found.unwrap_or(0);
        let is_whole = messages == segment.samples.len();
        let must_be = !segment.is_gone && segment.is_synced && !segment.is_doubtful;
        assert!(
            is_whole || !must_be,
            "{owner} {number} was synced; {messages} are left"
        );
        assert!(is_whole || is_crash || segment.is_gone || segment.is_doubtful);
        match found {
            None if segment.is_gone => {}
            None => drop(self.segments.remove(key)),
            Some(_) => {
                let now = self.segments.get_mut(key).expect("looked at");
                now.samples = match is_whole {
                    true => segment.samples,
                    false => self
                        .shelf
                        .as_mut()
                        .expect("open")
                        .read(owner, *number)
                        .expect("readable")
                        .messages()
                        .map(|each| Sample {
                            id: each.id,
                            body: each.body.to_vec(),
                        })
                        .collect(),
                };
                // What came back is yet to be synced.
                now.is_synced &= !segment.is_gone;
                now.is_gone = false;
                now.may_return = false;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn what_was_synced_is_there_in_order_and_nothing_was_invented(history in steps()) {
        let mut world = World::new();
        for step in history {
            world.step(step);
        }
        world.restart(true, |_| {});
    }
}

#[test]
fn a_full_disk_takes_nothing_and_leaves_what_it_has() {
    let (mut shelf, _) = Shelf::open(Simulated::default(), CONFIG, 1).expect("it opens");
    let samples = [Sample::new(1, 500)];
    put(&mut shelf, &owner(0), 1, &samples).expect("there is room");
    for room in 0..600 {
        let disk = shelf.volume_mut();
        disk.faults.full_at = Some(disk.used() + room);
        let (used, bytes) = (disk.used(), shelf.bytes());
        put(&mut shelf, &owner(0), 2, &samples).expect_err("there is no room");
        assert_eq!((shelf.volume_mut().used(), shelf.bytes()), (used, bytes));
        put(&mut shelf, &owner(1), 1, &samples).expect_err("there is no room");
        assert_eq!((shelf.files(), shelf.bytes()), (1, bytes));
    }
    shelf.volume_mut().faults = Faults::default();
    put(&mut shelf, &owner(0), 2, &samples).expect("there is room again");
    // A mark needs none.
    let disk = shelf.volume_mut();
    disk.faults.full_at = Some(disk.used());
    shelf.forget(&owner(0), 1).expect("noted");
    let disk = shelf.into_volume();
    let (shelf, opened) = Shelf::open(disk, CONFIG, 2).expect("it opens");
    let numbers: Vec<u64> = shelf.segments(&owner(0)).map(|kept| kept.number).collect();
    assert_eq!(numbers, [2]);
    assert!(
        opened
            .reports
            .iter()
            .all(|report| report.damages.is_empty())
    );
}

#[test]
fn a_body_that_looks_like_a_record_is_none() {
    let config = ShelfConfig {
        file_bytes_max: u64::MAX,
        ..CONFIG
    };
    let (mut shelf, _) = Shelf::open(Simulated::default(), config, 1).expect("it opens");
    let honest = Sample::new(1, 100);
    put(&mut shelf, &owner(0), 1, std::slice::from_ref(&honest)).expect("there is room");
    let disk = shelf.volume_mut();
    let name = disk::Volume::list(disk).expect("listed").remove(0);
    // The whole file, as somebody might have got hold of it, in a message.
    let stolen = disk.bytes_mut(&name).expect("there").clone();
    let forged = Sample {
        id: 2,
        body: stolen,
    };
    put(&mut shelf, &owner(0), 2, std::slice::from_ref(&forged)).expect("there is room");
    let mut disk = shelf.into_volume();
    let bytes = disk.bytes_mut(&name).expect("there");
    let forged_at = bytes.len() - forged.body.len() - disk::MESSAGE_HEAD_BYTES;
    for hit in [forged_at - 20, forged_at + 8, forged_at - 40] {
        let mut disk = disk.clone();
        disk.bytes_mut(&name).expect("there")[hit] ^= 1;
        let (mut shelf, opened) = Shelf::open(disk, config, 2).expect("it opens");
        assert!(opened.reports.iter().any(|report| !report.is_clean()));
        let kept: Vec<u64> = shelf.segments(&owner(0)).map(|kept| kept.number).collect();
        for number in kept {
            let expected = if number == 1 { &honest } else { &forged };
            let contents = shelf.read(&owner(0), number).expect("readable");
            assert!(are(contents.messages(), std::slice::from_ref(expected)));
        }
    }
}
