//! Any history of a log, over a disk that crashes, fills up and fails: what was synced and is not finished is there, what was finished and
//! synced is not, and nothing was invented.

use std::collections::{BTreeMap, BTreeSet};

use disk::{
    Entry, Faults, Logs, LogsConfig, Message, OWN_QUEUE, Simulated, Stamps, Standing, Step,
};
use proptest::prelude::*;
use wire::TopicName;

const CONFIG: LogsConfig = LogsConfig {
    file_bytes_max: 2000,
    bytes_max: u64::MAX,
};

#[derive(Clone, Copy, Debug)]
enum Act {
    /// So many messages of so many bytes arrive; they are passed on at once, or wait.
    Publish(usize, usize, bool),
    /// The messages that wait are passed on.
    Pass,
    Discard,
    AddChannel,
    RemoveChannel(usize),
    /// The n-th message of the n-th channel.
    Deliver(usize, usize),
    Defer(usize, usize, i64),
    Finish(usize, usize),
    FinishAll(usize),
    Empty(usize),
    /// A message is put into one channel only.
    TakeOver(usize),
    Reclaim,
    Sync,
    Restart,
    Crash(u64),
    Full(Option<u16>),
    Fails(bool, bool),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let n = 0..6usize;
    let act = prop_oneof![
        8 => (1..5usize, 0..600usize, any::<bool>()).prop_map(|(n, b, p)| Act::Publish(n, b, p)),
        2 => Just(Act::Pass),
        1 => Just(Act::Discard),
        1 => Just(Act::AddChannel),
        1 => n.clone().prop_map(Act::RemoveChannel),
        4 => (n.clone(), n.clone()).prop_map(|(c, m)| Act::Deliver(c, m)),
        2 => (n.clone(), n.clone(), 1..99i64).prop_map(|(c, m, d)| Act::Defer(c, m, d)),
        6 => (n.clone(), n.clone()).prop_map(|(c, m)| Act::Finish(c, m)),
        2 => n.clone().prop_map(Act::FinishAll),
        1 => n.clone().prop_map(Act::Empty),
        1 => n.prop_map(Act::TakeOver),
        6 => Just(Act::Reclaim),
        4 => Just(Act::Sync),
        1 => Just(Act::Restart),
        2 => any::<u64>().prop_map(Act::Crash),
        1 => proptest::option::of(0..3000u16).prop_map(Act::Full),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(w, s)| Act::Fails(w, s)),
        2 => Just(Act::Full(None)),
        2 => Just(Act::Fails(false, false)),
    ];
    proptest::collection::vec(act, 1..80)
}

/// Queues with their messages: deliveries and due times.
type Queues = BTreeMap<u64, BTreeMap<u32, (u16, i64)>>;

#[derive(Clone, Debug, Default)]
struct Written {
    messages: Vec<(u64, Vec<Standing>)>,
    steps: Vec<Step>,
}

struct World {
    logs: Option<Logs<Simulated>>,
    topic: TopicName,
    now: Queues,
    /// As it was when it was synced last.
    synced: Queues,
    channels: BTreeMap<u32, bool>,
    synced_channels: BTreeSet<u32>,
    /// Channels that were added shortly before a sync failed: what was passed on about then may be missing in them.
    may_lack: BTreeSet<u32>,
    bodies: BTreeMap<u64, Vec<u8>>,
    /// Since the last sync.
    unsynced: Vec<Written>,
    /// A sync has failed that had queues emptied, or channels added: what those queues had may be back, and what was passed on before
    /// may be in those channels.
    may_return: bool,
    next_id: u64,
    next_channel: u32,
    lives: u64,
}

fn message(id: u64, body: &[u8]) -> Message<'_> {
    Message {
        id,
        attempts: 0,
        has_paid: false,
        has_waited: false,
        half_rtt_us: 0,
        flow: 0,
        stamps: Stamps::default(),
        body,
    }
}

fn name(channel: u32) -> wire::ChannelName {
    format!("c{channel}").parse().expect("a name")
}

impl World {
    fn new() -> World {
        let (logs, opened) = Logs::open(Simulated::default(), CONFIG, 1).expect("they open");
        assert!(opened.topics.is_empty());
        World {
            logs: Some(logs),
            topic: "t".parse().expect("a name"),
            now: Queues::new(),
            synced: Queues::new(),
            channels: BTreeMap::new(),
            synced_channels: BTreeSet::new(),
            may_lack: BTreeSet::new(),
            bodies: BTreeMap::new(),
            unsynced: Vec::new(),
            may_return: false,
            next_id: 0,
            next_channel: 0,
            lives: 1,
        }
    }

    fn logs(&mut self) -> &mut Logs<Simulated> {
        self.logs.as_mut().expect("they are open")
    }

    /// Writes; whether that was done.
    fn write(&mut self, written: &Written) -> bool {
        let bodies = &self.bodies;
        let messages = written.messages.iter();
        let messages = messages.map(|(id, standings)| (message(*id, &bodies[id]), &standings[..]));
        let entry = Entry {
            before: &[],
            messages,
            after: &written.steps,
        };
        let logs = self.logs.as_mut().expect("they are open");
        logs.write(&self.topic, entry).is_ok()
    }

    fn put(&mut self, messages: Vec<(u64, Vec<Standing>)>, steps: Vec<Step>) {
        let written = Written { messages, steps };
        if !self.write(&written) {
            return;
        }
        for (id, standings) in &written.messages {
            let standings = standings.iter();
            let queues = standings.map(|each| (each.queue, (each.attempts, each.due_ns)));
            self.now.insert(*id, queues.collect());
        }
        for step in &written.steps {
            self.apply(step);
        }
        self.now.retain(|_, queues| !queues.is_empty());
        self.unsynced.push(written);
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Channel(number, _) => drop(self.channels.insert(number, true)),
            Step::ChannelGone(number) => {
                self.channels.remove(&number);
                self.leave(number);
            }
            Step::Passed(id) => {
                let channels = self.channels.keys().map(|&number| (number, (0, 0)));
                self.now.insert(id, channels.collect());
            }
            Step::Discarded(id) => drop(self.now.remove(&id)),
            Step::Delivered {
                channel,
                id,
                attempts,
            } => {
                self.standing(channel, id).0 = attempts;
            }
            Step::Deferred {
                channel,
                id,
                attempts,
                due_ns,
            } => {
                *self.standing(channel, id) = (attempts, due_ns);
            }
            Step::Finished { channel, id } => {
                self.now.get_mut(&id).expect("it is there").remove(&channel);
            }
            Step::Emptied(queue) => {
                self.leave(queue);
            }
            Step::Whole | Step::Begins(_) | Step::Channels(_) => {}
        }
    }

    fn leave(&mut self, queue: u32) {
        for queues in self.now.values_mut() {
            queues.remove(&queue);
        }
    }

    fn standing(&mut self, channel: u32, id: u64) -> &mut (u16, i64) {
        let queues = self.now.get_mut(&id).expect("it is there");
        queues.get_mut(&channel).expect("it is there")
    }

    fn new_message(&mut self, bytes: usize) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.bodies.insert(id, vec![id as u8; bytes]);
        id
    }

    fn channel(&self, number: usize) -> Option<u32> {
        let count = self.channels.len().max(1);
        self.channels.keys().nth(number % count).copied()
    }

    fn in_queue(&self, queue: u32) -> Vec<u64> {
        let all = self.now.iter();
        let ours = all.filter(|(_, queues)| queues.contains_key(&queue));
        ours.map(|(&id, _)| id).collect()
    }

    fn of_channel(&self, channel: usize, number: usize) -> Option<(u32, u64)> {
        let channel = self.channel(channel)?;
        let ids = self.in_queue(channel);
        let id = ids.get(number % ids.len().max(1))?;
        Some((channel, *id))
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each act")]
    fn act(&mut self, act: Act) {
        match act {
            Act::Publish(count, bytes, passes) => {
                let ids: Vec<u64> = (0..count).map(|_| self.new_message(bytes)).collect();
                let steps = ids.iter().filter(|_| passes).map(|&id| Step::Passed(id));
                let steps = steps.collect();
                let own = |id| (id, vec![Standing::OWN]);
                self.put(ids.into_iter().map(own).collect(), steps);
            }
            Act::Pass => {
                let ids = self.in_queue(OWN_QUEUE).into_iter();
                self.put(vec![], ids.map(Step::Passed).collect());
            }
            Act::Discard => {
                let first = self.in_queue(OWN_QUEUE).into_iter().take(1);
                self.put(vec![], first.map(Step::Discarded).collect());
            }
            Act::AddChannel if self.channels.len() < 4 => {
                self.next_channel += 1;
                let number = self.next_channel;
                self.put(vec![], vec![Step::Channel(number, name(number))]);
            }
            Act::AddChannel => {}
            Act::RemoveChannel(number) => {
                let gone = self.channel(number).into_iter().map(Step::ChannelGone);
                self.put(vec![], gone.collect());
            }
            Act::Deliver(channel, number) => {
                if let Some((channel, id)) = self.of_channel(channel, number) {
                    let attempts = self.standing(channel, id).0 + 1;
                    self.put(
                        vec![],
                        vec![Step::Delivered {
                            channel,
                            id,
                            attempts,
                        }],
                    );
                }
            }
            Act::Defer(channel, number, due_ns) => {
                if let Some((channel, id)) = self.of_channel(channel, number) {
                    let attempts = self.standing(channel, id).0;
                    let step = Step::Deferred {
                        channel,
                        id,
                        attempts,
                        due_ns,
                    };
                    self.put(vec![], vec![step]);
                }
            }
            Act::Finish(channel, number) => {
                if let Some((channel, id)) = self.of_channel(channel, number) {
                    self.put(vec![], vec![Step::Finished { channel, id }]);
                }
            }
            Act::FinishAll(channel) => {
                if let Some(channel) = self.channel(channel) {
                    let ids = self.in_queue(channel).into_iter();
                    let steps = ids.map(|id| Step::Finished { channel, id });
                    self.put(vec![], steps.collect());
                }
            }
            Act::Empty(number) => {
                let queue = self.channel(number).filter(|_| number > 0);
                self.put(vec![], vec![Step::Emptied(queue.unwrap_or(OWN_QUEUE))]);
            }
            Act::TakeOver(channel) => {
                if let Some(queue) = self.channel(channel) {
                    let id = self.new_message(10);
                    let standing = Standing {
                        queue,
                        attempts: 3,
                        due_ns: 7,
                    };
                    self.put(vec![(id, vec![standing])], vec![]);
                }
            }
            Act::Reclaim => {
                let topic = self.topic.clone();
                let _ = self.logs().reclaim(&topic);
            }
            Act::Sync => self.sync(),
            Act::Restart => self.restart(|_| {}, false),
            Act::Crash(seed) => {
                let mut random = clock::stream(seed, "crash");
                let crash = |disk: &mut Simulated| {
                    disk.crash(|bound| u64::from(clock::below(&mut random, bound as u32)));
                };
                self.restart(crash, true);
            }
            Act::Full(more) => {
                let disk = self.logs().volume_mut();
                disk.faults.full_at = more.map(|more| disk.used() + u64::from(more));
            }
            Act::Fails(writes, syncs) => {
                let faults = &mut self.logs().volume_mut().faults;
                (faults.writes_fail, faults.syncs_fail) = (writes, syncs);
            }
        }
    }

    fn sync(&mut self) {
        let topic = self.topic.clone();
        if self.logs().sync(&topic).is_err() {
            // What was not synced is written again.
            self.logs().volume_mut().faults = Faults::default();
            for mut written in std::mem::take(&mut self.unsynced) {
                written
                    .messages
                    .retain(|(id, _)| self.logs().knows(&topic, *id));
                for (id, standings) in &mut written.messages {
                    *standings = self.logs().standings(&topic, *id).to_vec();
                }
                let before = written.steps.len();
                written.steps.retain(Step::may_be_repeated);
                self.may_return |= written.steps.len() < before;
                // What was passed on about then may be in the new channel, or not.
                let is_new = |step: &Step| matches!(step, Step::Channel(..));
                self.may_return |= written.steps.iter().any(is_new);
                self.may_lack
                    .extend(written.steps.iter().filter_map(|step| match step {
                        Step::Channel(number, _) => Some(*number),
                        _ => None,
                    }));
                assert!(self.write(&written), "nothing fails now");
            }
            self.logs().sync(&topic).expect("nothing fails now");
        }
        self.unsynced.clear();
        self.note_synced();
    }

    /// Ends the process, has `meanwhile` happen to the disk, and looks at what is there.
    fn restart(&mut self, meanwhile: impl FnOnce(&mut Simulated), is_crash: bool) {
        let mut disk = self.logs.take().expect("they are open").into_volume();
        meanwhile(&mut disk);
        disk.faults = Faults::default();
        self.lives += 1;
        let (logs, opened) = Logs::open(disk, CONFIG, self.lives).expect("they open");
        self.logs = Some(logs);
        let mut found = Queues::new();
        self.channels.clear();
        for logged in opened.topics {
            let numbers: BTreeMap<_, _> = logged
                .channels
                .iter()
                .map(|(n, c)| (c.clone(), *n))
                .collect();
            self.channels
                .extend(numbers.values().map(|&number| (number, true)));
            for (channel, waiting) in logged.queues {
                let ids: Vec<u64> = waiting.iter().map(|each| each.id).collect();
                let logs = self.logs.as_mut().expect("open");
                let (read, damaged) = logs
                    .read(&self.topic, channel.as_ref(), &ids)
                    .expect("readable");
                assert_eq!((read.len(), damaged), (ids.len(), 0));
                for each in read {
                    let message = each.message().expect("whole");
                    assert_eq!(
                        Some(message.body),
                        self.bodies.get(&message.id).map(Vec::as_slice)
                    );
                    let queue = channel.as_ref().map_or(OWN_QUEUE, |name| numbers[name]);
                    let standing = (each.standing.attempts, each.standing.due_ns);
                    found.entry(message.id).or_default().insert(queue, standing);
                }
            }
        }
        match is_crash {
            false => assert_eq!(found, self.now, "the process ended, and nothing else"),
            true => self.check(&found),
        }
        self.next_channel = self
            .next_channel
            .max(self.channels.keys().max().copied().unwrap_or(0));
        self.now = found;
        if is_crash {
            self.note_synced();
            self.unsynced.clear();
        }
    }

    fn note_synced(&mut self) {
        self.synced = self.now.clone();
        self.synced_channels = self.channels.keys().copied().collect();
    }

    fn check(&self, found: &Queues) {
        let nothing = BTreeMap::new();
        for (id, queues) in &self.now {
            let Some(synced) = self.synced.get(id) else {
                continue;
            };
            let here = found.get(id).unwrap_or(&nothing);
            for (queue, (attempts, _)) in queues {
                match here.get(queue) {
                    Some((counted, _)) => {
                        let before = synced.get(queue).map_or(0, |(before, _)| *before);
                        assert!((before..=*attempts).contains(counted), "{id}: {counted}");
                    }
                    // The channel itself is lost, or had been when that was passed on.
                    None if *queue != OWN_QUEUE
                        && (!self.synced_channels.contains(queue)
                            || self.may_lack.contains(queue)) => {}
                    // It had not been passed on when that was synced.
                    None => assert!(here.contains_key(&OWN_QUEUE), "{id} of {queue} is lost"),
                }
            }
        }
        for (id, queues) in found.iter().filter(|_| !self.may_return) {
            let was_finished = !self.synced.contains_key(id) && !self.is_unsynced(*id);
            assert!(!was_finished, "{id} is back");
            if let Some(synced) = self
                .synced
                .get(id)
                .filter(|synced| !synced.contains_key(&OWN_QUEUE))
            {
                for queue in queues.keys() {
                    assert!(synced.contains_key(queue), "{id} is back in {queue}");
                }
            }
        }
    }

    fn is_unsynced(&self, id: u64) -> bool {
        let mut all = self.unsynced.iter().flat_map(|written| &written.messages);
        all.any(|(unsynced, _)| *unsynced == id)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn what_was_synced_is_there_and_nothing_that_was_finished(history in acts()) {
        let mut world = World::new();
        world.act(Act::AddChannel);
        world.act(Act::AddChannel);
        for act in history {
            world.act(act);
        }
        world.restart(|_| {}, false);
    }

    /// A flipped bit costs a record: messages are lost one at a time, and steps bring back what they had ended.
    #[test]
    fn a_flipped_bit_costs_one_message_and_never_shows_another(
        at in any::<prop::sample::Index>(), bit in 0..8u8, waits in any::<bool>(),
    ) {
        let mut world = World::new();
        world.act(Act::AddChannel);
        for _ in 0..5 {
            world.act(Act::Publish(2, 100, !waits));
        }
        world.act(Act::Finish(0, 3));
        let before = world.now.len();
        let mut disk = world.logs.take().expect("open").into_volume();
        let names = disk::Volume::list(&mut disk).expect("listed");
        let lengths: Vec<usize> = names.iter().map(|name| disk.bytes_mut(name).expect("there").len()).collect();
        let mut byte = at.index(lengths.iter().sum());
        for (name, length) in names.iter().zip(lengths) {
            if byte < length {
                disk.bytes_mut(name).expect("there")[byte] ^= 1 << bit;
                break;
            }
            byte -= length;
        }
        let (mut logs, opened) = Logs::open(disk, CONFIG, 2).expect("they open");
        let mut ids = std::collections::BTreeSet::new();
        for logged in opened.topics {
            for (channel, waiting) in logged.queues {
                let wanted: Vec<u64> = waiting.iter().map(|each| each.id).collect();
                let (read, _) = logs.read(&world.topic, channel.as_ref(), &wanted).expect("readable");
                for each in read {
                    let message = each.message().expect("whole");
                    prop_assert_eq!(message.body, &world.bodies[&message.id][..]);
                    ids.insert(message.id);
                }
            }
        }
        // One is lost, or one that was finished is back.
        prop_assert!(ids.len() + 1 >= before, "{} of {before}", ids.len());
    }
}

#[test]
fn an_old_message_does_not_keep_what_came_after_it() {
    let mut world = World::new();
    world.act(Act::AddChannel);
    world.act(Act::Publish(1, 100, true));
    let topic = world.topic.clone();
    for _ in 0..300 {
        world.act(Act::Publish(3, 300, true));
        let ids = world.in_queue(1).into_iter().skip(1);
        let steps = ids.map(|id| Step::Finished { channel: 1, id }).collect();
        world.put(vec![], steps);
        while world.logs().reclaim(&topic).expect("nothing fails") {}
        world.sync();
        let bytes = world.logs().bytes();
        assert!(
            bytes < 5 * CONFIG.file_bytes_max,
            "{bytes} bytes for one message"
        );
    }
    assert_eq!(world.in_queue(1), [1]);
    world.restart(|_| {}, false);
    assert_eq!(world.in_queue(1), [1]);
}

#[test]
fn at_the_budget_messages_are_refused_and_steps_are_not() {
    let config = LogsConfig {
        bytes_max: 4000,
        ..CONFIG
    };
    let (mut logs, _) = Logs::open(Simulated::default(), config, 1).expect("they open");
    let topics: [TopicName; 2] = ["a", "b"].map(|name| name.parse().expect("a name"));
    let body = [7; 400];
    let put = |logs: &mut Logs<Simulated>, topic: usize, id: u64| {
        let messages = [(message(id, &body), &[Standing::OWN][..])].into_iter();
        let entry = Entry {
            before: &[],
            messages,
            after: &[],
        };
        logs.write(&topics[topic], entry).is_ok()
    };
    let taken = (1..10).filter(|&id| put(&mut logs, 0, id)).count();
    assert_eq!(taken, 3, "half of the budget");
    assert!(put(&mut logs, 1, 11), "another topic has its part");
    let after: Vec<Step> = (1..10).map(Step::Passed).collect();
    let entry = Entry {
        before: &[],
        messages: std::iter::empty(),
        after: &after,
    };
    logs.write(&topics[0], entry).expect("steps are taken");
    assert_eq!(logs.live(&topics[0]), 0);
}
