//! Rosters that tell each other, in virtual time.

use proptest::prelude::*;
use wire::gossip::{Datagram, LimitId, decode};

use super::*;

fn address(index: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, index as u8 + 1], 4000))
}

fn at_ms(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn roster(index: usize, incarnation: u64, now: Instant) -> Roster {
    let config = RosterConfig {
        me: address(index),
        incarnation,
        key: Key::from_passphrase("sesame").expect("not empty"),
    };
    Roster::new(config, now)
}

fn limit(number: u16, rate: f64) -> NoticedLimit {
    NoticedLimit {
        number: LimitId(number),
        topic: 9,
        rate,
        burst: 10.0,
        ewma_1s: 0.1,
        interval_ms: 50,
        branches: 3,
        policy: 3,
        unit: 0,
    }
}

/// Some rosters and a network that may be cut in two.
struct World {
    now_ms: u64,
    rosters: Vec<Option<Roster>>,
    limits: Vec<Vec<NoticedLimit>>,
    cut_at: Option<usize>,
    lost: fn(u64) -> bool,
    sent: u64,
}

impl World {
    fn new(count: usize) -> World {
        World {
            now_ms: 0,
            rosters: (0..count).map(|_| None).collect(),
            limits: vec![Vec::new(); count],
            cut_at: None,
            lost: |_| false,
            sent: 0,
        }
    }

    fn start(&mut self, index: usize, named: &[usize]) {
        let now = at_ms(self.now_ms);
        let mut new = roster(index, self.now_ms + 1, now);
        named.iter().for_each(|at| new.add(address(*at), now));
        self.rosters[index] = Some(new);
    }

    fn deliver(&mut self, from: usize, notices: Vec<(SocketAddr, Vec<u8>)>) {
        for (to, bytes) in notices {
            self.sent += 1;
            let Some(to) = (0..self.rosters.len()).find(|at| address(*at) == to) else {
                continue;
            };
            let is_cut = self.cut_at.is_some_and(|cut| (from < cut) != (to < cut));
            let Ok(Datagram::Notice(sealed)) = decode(&bytes) else {
                panic!("not a notice");
            };
            if let Some(roster) = self.rosters[to].as_mut().filter(|_| !is_cut)
                && !(self.lost)(self.sent)
            {
                roster.receive(at_ms(self.now_ms), address(from), sealed);
            }
        }
    }

    fn run_ms(&mut self, ms: u64) {
        for _ in 0..ms / 50 {
            self.now_ms += 50;
            for from in 0..self.rosters.len() {
                let limits = self.limits[from].clone();
                let now = at_ms(self.now_ms);
                let Some(roster) = &mut self.rosters[from] else {
                    continue;
                };
                let notices = roster.notices(now, &limits);
                let _ = roster.list(now);
                self.deliver(from, notices);
            }
        }
    }

    fn list(&mut self, index: usize) -> Option<Vec<usize>> {
        let now = at_ms(self.now_ms);
        let list = self.rosters[index].as_mut()?.list(now)?;
        let place = |of: &SocketAddr| (0..200).find(|at| address(*at) == *of);
        list.iter().map(place).collect()
    }
}

#[test]
fn all_find_each_other_from_one_address_that_each_was_told() {
    let mut world = World::new(5);
    world.lost = |sent| sent % 3 == 0;
    world.start(0, &[]);
    (1..5).for_each(|index| world.start(index, &[index - 1]));
    world.run_ms(5000);
    for index in 0..5 {
        assert_eq!(world.list(index), Some(vec![0, 1, 2, 3, 4]), "{index}");
    }
}

#[test]
fn who_begins_waits_for_an_answer_and_then_takes_the_part_that_it_was_told_of() {
    let mut world = World::new(3);
    world.start(0, &[1, 2]);
    world.run_ms(2000);
    assert_eq!(world.list(0), None, "it may be that they are there");
    world.run_ms(1500);
    assert_eq!(world.list(0), Some(vec![0, 1, 2]), "absent ones count");
    world.start(1, &[0]);
    world.run_ms(500);
    assert_eq!(world.list(1), None, "the others have only just heard");
    world.run_ms(1000);
    assert_eq!(world.list(1), Some(vec![0, 1, 2]));
    // On its own for good.
    let mut alone = World::new(1);
    alone.start(0, &[]);
    alone.run_ms(1000);
    assert_eq!(alone.list(0), Some(vec![0]));
}

#[test]
fn who_crashes_stays_who_leaves_goes_and_who_comes_back_counts() {
    let mut world = World::new(3);
    (0..3).for_each(|index| world.start(index, &[0, 1, 2]));
    world.run_ms(3000);
    world.rosters[2] = None;
    world.run_ms(60_000);
    assert_eq!(world.list(0), Some(vec![0, 1, 2]), "it may be cut off");
    world.start(2, &[0]);
    world.run_ms(3000);
    assert_eq!(world.list(2), Some(vec![0, 1, 2]));
    let farewell = world.rosters[2].as_mut().map(Roster::leave);
    world.deliver(2, farewell.expect("it runs"));
    world.rosters[2] = None;
    world.run_ms(500);
    assert_eq!(world.list(1), Some(vec![0, 1]));
    world.start(2, &[1]);
    world.run_ms(3000);
    assert_eq!(world.list(0), Some(vec![0, 1, 2]));
}

#[test]
fn who_left_and_is_there_again_is_found() {
    let mut world = World::new(3);
    world.start(0, &[]);
    world.start(1, &[0]);
    world.start(2, &[0]);
    world.run_ms(3000);
    // All but one end, and those that are there again name nobody.
    for index in [0, 1] {
        let farewell = world.rosters[index].as_mut().map(Roster::leave);
        world.deliver(index, farewell.expect("it runs"));
        world.rosters[index] = None;
    }
    world.run_ms(3000);
    assert_eq!(world.list(2), Some(vec![2]));
    world.start(0, &[]);
    world.run_ms(8000);
    for index in [0, 2] {
        assert_eq!(world.list(index), Some(vec![0, 2]));
    }
}

#[test]
fn who_is_forgotten_comes_back_if_it_is_there() {
    let mut world = World::new(3);
    (0..3).for_each(|index| world.start(index, &[0, 1, 2]));
    world.run_ms(3000);
    let now = at_ms(world.now_ms);
    let roster = |world: &mut World| world.rosters[0].take().expect("it runs");
    let mut first = roster(&mut world);
    assert!(first.forget(address(1), now));
    assert!(!first.forget(address(1), now) && !first.forget(address(9), now));
    world.rosters[0] = Some(first);
    world.run_ms(2000);
    assert_eq!(world.list(2), Some(vec![0, 1, 2]), "it is there");
    world.rosters[1] = None;
    let mut first = roster(&mut world);
    assert!(first.forget(address(1), at_ms(world.now_ms)));
    world.rosters[0] = Some(first);
    world.run_ms(2000);
    assert_eq!(world.list(2), Some(vec![0, 2]));
    assert_eq!(world.list(0), Some(vec![0, 2]));
}

#[test]
fn limits_are_known_for_as_long_as_they_are_told() {
    let mut world = World::new(2);
    (0..2).for_each(|index| world.start(index, &[0, 1]));
    world.limits[0] = (0..100).map(|number| limit(number, 5.0)).collect();
    world.run_ms(8000);
    let known = |world: &World| {
        let roster = world.rosters[1].as_ref().expect("it runs");
        roster.limits(at_ms(world.now_ms)).count()
    };
    assert_eq!(known(&world), 100);
    world.limits[0] = vec![limit(3, 7.0)];
    world.run_ms(10_500);
    assert_eq!(known(&world), 1);
    let roster = world.rosters[1].as_ref().expect("it runs");
    let now = at_ms(world.now_ms);
    let said: Vec<_> = roster.limits(now).collect();
    assert_eq!(said, [(address(0), &limit(3, 7.0))]);
}

#[test]
fn another_key_and_an_old_notice_change_nothing() {
    let now = at_ms(0);
    let stranger = RosterConfig {
        me: address(1),
        incarnation: 5,
        key: Key::from_passphrase("other").expect("not empty"),
    };
    let mut first = roster(0, 1, now);
    let mut forger = Roster::new(stranger, now);
    forger.add(address(0), now);
    let mut peer = roster(2, 6, now);
    peer.add(address(0), now);
    let hear = |first: &mut Roster, from: usize, notices: &[(SocketAddr, Vec<u8>)]| {
        let Ok(Datagram::Notice(sealed)) = decode(&notices[0].1) else {
            panic!("not a notice");
        };
        first.receive(now, address(from), sealed);
    };
    hear(&mut first, 1, &forger.notices(now, &[]));
    assert_eq!((first.others().count(), first.refused()), (0, 1));
    let old = peer.notices(now, &[limit(1, 1.0)]);
    let new = peer.notices(at_ms(600), &[limit(1, 2.0)]);
    hear(&mut first, 2, &new);
    hear(&mut first, 2, &old);
    let said: Vec<f64> = first.limits(now).map(|(_, limit)| limit.rate).collect();
    assert_eq!(said, [2.0]);
    // It came from elsewhere.
    hear(&mut first, 3, &new);
    assert_eq!((first.others().count(), first.refused()), (1, 2));
}

#[test]
fn a_roster_is_bounded() {
    let now = at_ms(0);
    let mut first = roster(0, 1, now);
    for port in 1..3000 {
        first.add(SocketAddr::from(([10, 1, 0, 1], port)), now);
    }
    assert_eq!(first.others().count(), MAX_MEMBERS - 1);
    for (_, bytes) in first.notices(now, &[limit(1, 1.0); 200]) {
        assert!(bytes.len() <= wire::gossip::MAX_MEMBERSHIP_BYTES);
    }
}

proptest! {
    /// Rosters agree once they hear each other, whatever happened before.
    #[test]
    fn rosters_agree_in_the_end(
        happenings in prop::collection::vec((0..4usize, 0..4u8, 1..40u64), 1..20),
    ) {
        let mut world = World::new(4);
        world.lost = |sent| sent % 4 == 1;
        (0..4).for_each(|index| world.start(index, &[0]));
        for (index, what, tens) in happenings {
            match what {
                0 => world.rosters[index] = None,
                1 => world.start(index, &[(index + 1) % 4]),
                2 => world.cut_at = Some(index),
                _ => world.cut_at = None,
            }
            world.run_ms(tens * 50);
        }
        world.cut_at = None;
        (0..4).filter(|at| world.rosters[*at].is_none()).collect::<Vec<_>>()
            .into_iter().for_each(|index| world.start(index, &[0, 1, 2, 3]));
        world.run_ms(8000);
        let all: Vec<usize> = (0..4).collect();
        for index in 0..4 {
            prop_assert_eq!(world.list(index), Some(all.clone()));
        }
    }
}
