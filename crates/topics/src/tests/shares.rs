//! A share of a limit, granted as a lease: what passes under it, and what its end changes.

use limit::{Grant, OnExceed, Prolongation, Share, Unit};
use proptest::prelude::*;

use super::*;

const ROOMY: Bounds = Bounds {
    mem_queue_size: 100_000,
    ..BOUNDS
};

fn share(rate: f64, burst: f64) -> Share {
    Share::whole(&Limit::messages(rate, burst).expect("valid"))
}

/// A broker under a controller, with a limit of 10,000/s and 1,000 on its topic.
struct Controlled {
    world: World,
    topic: TopicKey,
    reports: u64,
    grants: u64,
}

impl Controlled {
    fn new(on_exceed: OnExceed, unit: Unit) -> Controlled {
        let mut world = World::of(ROOMY, TopicTable::controlled);
        world.subscribe("t", "c", 1, u32::MAX);
        let (topic, now) = (world.topic("t"), world.now());
        let limit = Limit {
            on_exceed,
            unit,
            ..Limit::messages(10_000.0, 1000.0).expect("valid")
        };
        world.table.set_limit(topic, Some(limit), now);
        world.table.hear(Teller::Answering);
        Controlled {
            world,
            topic,
            reports: 0,
            grants: 0,
        }
    }

    fn report(&mut self) -> u64 {
        self.reports += 1;
        let now = self.world.now();
        self.world.table.report(self.reports, usize::MAX, now);
        self.reports
    }

    /// A grant that answers a report made now.
    fn grant(&mut self, share: Option<Share>, floor: Option<Share>, ttl_ms: u64) {
        let answers_report = self.report();
        self.grants += 1;
        let grant = Grant {
            epoch: 1,
            seq: self.grants,
            share,
            floor,
            ttl_ms,
            answers_report,
            round: 0,
        };
        self.receive(&grant);
    }

    fn receive(&mut self, grant: &Grant) {
        let now = self.world.now();
        assert!(self.world.table.grant(self.topic, grant, now));
        self.world.run();
    }

    fn held(&self) -> Option<Share> {
        let now = self.world.now();
        let topic = self.world.table.topic(self.topic).expect("it is there");
        let limiter = topic.limiter.as_ref().expect("limited");
        limiter.share_once_heard(self.world.table.said(), now)
    }

    /// Milliseconds of the deliveries since the last call, counted from `from`.
    fn released_ms(&mut self, from: Instant) -> Vec<u64> {
        let released = self.world.released();
        let ms = |at: Instant| (at - from).as_millis() as u64;
        released.into_iter().map(ms).collect()
    }
}

#[test]
fn nothing_passes_before_the_first_share_and_its_bucket_begins_empty() {
    let mut broker = Controlled::new(OnExceed::Delay, Unit::Messages);
    broker.world.publish("t", &["m"; 8]);
    broker.world.advance_us(60_000_000);
    assert!(broker.world.bodies().is_empty());
    assert_eq!(broker.world.table.next_wakeup(), None, "it just sleeps");
    let from = broker.world.now();
    broker.grant(Some(share(100.0, 5.0)), None, 10_000);
    broker.world.advance_us(1_000_000);
    assert_eq!(broker.released_ms(from), [10, 20, 30, 40, 50, 60, 70, 80]);
}

#[test]
fn drop_and_reject_find_no_tokens_without_a_share() {
    let mut broker = Controlled::new(OnExceed::Drop, Unit::Messages);
    assert_eq!(broker.world.publish("t", &["m"; 3]), Published::Accepted);
    let topic = broker.world.table.topic(broker.topic).expect("there");
    assert_eq!((topic.counts.dropped, topic.counts.passed), (3, 0));

    let mut broker = Controlled::new(OnExceed::Reject, Unit::Messages);
    let outcome = broker.world.publish("t", &["m"]);
    assert!(
        matches!(&outcome, Published::Refused(text) if text.contains("no share of the limit yet")),
        "{outcome:?}"
    );
    broker.grant(Some(share(100.0, 5.0)), None, 10_000);
    broker.world.advance_us(20_000);
    assert_eq!(broker.world.publish("t", &["m"; 2]), Published::Accepted);
    let outcome = broker.world.publish("t", &["m"]);
    assert!(
        matches!(&outcome, Published::Refused(text) if text.contains("100 messages/s, burst 5")),
        "{outcome:?}"
    );
}

#[test]
fn at_the_end_of_a_lease_its_floor_is_in_force_as_of_that_instant() {
    for is_stopped in [false, true] {
        let mut broker = Controlled::new(OnExceed::Delay, Unit::Messages);
        broker.grant(Some(share(1000.0, 100.0)), Some(share(10.0, 4.0)), 1_000);
        let end = broker.world.now() + Duration::from_secs(1);
        broker.world.advance_us(500_000);
        broker.world.publish("t", &["m"; 100]);
        assert_eq!(broker.world.bodies().len(), 100, "the bucket was full");
        // 80 tokens more by the end; then the floor keeps 4 of them.
        broker.world.advance_us(80_000);
        match is_stopped {
            false => broker.world.advance_us(10_000_000),
            true => broker.world.stall_us(10_000_000),
        }
        assert_eq!(broker.held(), Some(share(10.0, 4.0)));
        broker.world.publish("t", &["m"; 20]);
        assert_eq!(broker.world.bodies().len(), 4, "stopped: {is_stopped}");
        assert!(broker.world.now() > end);
    }
}

#[test]
fn a_wake_up_under_a_share_that_has_ended_is_armed_again() {
    let mut broker = Controlled::new(OnExceed::Delay, Unit::Messages);
    let from = broker.world.now();
    broker.world.publish("t", &["m"; 3]);
    broker.grant(Some(share(10.0, 5.0)), Some(share(1.0, 2.0)), 150);
    // At 100 ms the first; the second would be due at 200 ms, but from 150 ms on half of its token is missing at 1/s.
    broker.world.advance_us(3_000_000);
    assert_eq!(broker.released_ms(from), [100, 650, 1650]);

    broker.world.publish("t", &["m"; 5]);
    broker.world.advance_us(60_000);
    let from = broker.world.now();
    broker.world.bodies();
    broker.grant(Some(share(100.0, 5.0)), None, 40);
    broker.world.advance_us(60_000_000);
    let released = broker.released_ms(from);
    assert!(
        released.len() <= 5 && released.iter().all(|&ms| ms <= 40),
        "nothing after the end: {released:?}"
    );
    assert_eq!(
        broker
            .world
            .table
            .next_wakeup()
            .filter(|&at| at <= broker.world.now()),
        None
    );
    broker.grant(Some(share(1000.0, 5.0)), None, 10_000);
    broker.world.advance_us(100_000);
    let topic = broker.world.table.topic(broker.topic).expect("there");
    assert_eq!(topic.depth(), 0, "the next grant wakes it");
}

#[test]
fn a_smaller_share_drops_tokens_and_a_greater_one_gifts_none() {
    let mut broker = Controlled::new(OnExceed::Delay, Unit::Messages);
    broker.grant(Some(share(100.0, 50.0)), None, 60_000);
    broker.world.advance_us(1_000_000);
    broker.grant(Some(share(100.0, 5.0)), None, 60_000);
    broker.grant(Some(share(100.0, 50.0)), None, 60_000);
    broker.world.publish("t", &["m"; 30]);
    assert_eq!(broker.world.bodies().len(), 5);
    broker.world.advance_us(100_000);
    assert_eq!(broker.world.bodies().len(), 10, "at the rate");
}

#[test]
fn a_withdrawn_share_comes_back_empty() {
    let mut broker = Controlled::new(OnExceed::Delay, Unit::Messages);
    broker.grant(Some(share(100.0, 50.0)), None, 60_000);
    broker.world.advance_us(1_000_000);
    broker.grant(None, None, 60_000);
    assert_eq!(broker.held(), None);
    broker.world.publish("t", &["m"; 30]);
    broker.world.advance_us(5_000_000);
    assert!(broker.world.bodies().is_empty());
    broker.grant(Some(share(100.0, 50.0)), None, 60_000);
    broker.world.advance_us(100_000);
    assert_eq!(broker.world.bodies().len(), 10);
}

#[test]
fn renewals_change_nothing_and_old_grants_are_void() {
    let mut broker = Controlled::new(OnExceed::Delay, Unit::Messages);
    let from = broker.world.now();
    broker.world.publish("t", &["m"; 10]);
    for _ in 0..10 {
        broker.grant(Some(share(10.0, 5.0)), None, 3_000);
        broker.world.advance_us(100_000);
    }
    assert_eq!(
        broker.released_ms(from),
        (1..=10).map(|number| number * 100).collect::<Vec<_>>()
    );
    let late = Grant {
        epoch: 1,
        seq: 2,
        share: Some(share(1000.0, 500.0)),
        floor: None,
        ttl_ms: 60_000,
        answers_report: broker.reports,
        round: 0,
    };
    broker.receive(&late);
    assert_eq!(broker.held(), Some(share(10.0, 5.0)));
    let unasked = Grant {
        seq: 99,
        answers_report: 77,
        ..late
    };
    broker.receive(&unasked);
    assert_eq!(broker.held(), Some(share(10.0, 5.0)), "no such report");
}

#[test]
fn a_message_larger_than_the_burst_pays_at_the_rates_in_force() {
    let mut broker = Controlled::new(OnExceed::Delay, Unit::Bytes);
    let from = broker.world.now();
    broker.grant(Some(share(100.0, 10.0)), Some(share(10.0, 10.0)), 200);
    broker
        .world
        .publish("t", &["a body of thirty bytes exactly"]);
    // 20 bytes within 200 ms, the other 10 at 10 a second.
    broker.world.advance_us(5_000_000);
    assert_eq!(broker.released_ms(from), [1200]);

    let from = broker.world.now();
    broker.grant(Some(share(100.0, 10.0)), None, 100);
    broker
        .world
        .publish("t", &["another body of 30 bytes or so"]);
    broker.world.advance_us(5_000_000);
    assert!(broker.released_ms(from).is_empty(), "nothing is in force");
    broker.grant(Some(share(100.0, 10.0)), None, 10_000);
    broker.world.advance_us(1_000_000);
    assert_eq!(broker.world.bodies().len(), 1);
}

#[test]
fn another_unit_makes_the_share_void() {
    let mut broker = Controlled::new(OnExceed::Delay, Unit::Messages);
    broker.grant(Some(share(1000.0, 50.0)), None, 60_000);
    broker.world.advance_us(1_000_000);
    let (key, now) = (broker.topic, broker.world.now());
    let mut limit = Limit::messages(1e6, 1e4).expect("valid");
    limit.unit = Unit::Bytes;
    broker.world.table.set_limit(key, Some(limit), now);
    broker.world.publish("t", &["m"]);
    broker.world.advance_us(1_000_000);
    assert!(broker.world.bodies().is_empty() && broker.held().is_none());
    broker.grant(Some(share(1e6, 1e4)), None, 60_000);
    broker.world.advance_us(1_000);
    assert_eq!(broker.world.bodies(), ["m"]);
}

#[test]
fn a_contract_outlives_its_topics_deletion() {
    for (name, delete) in [("t", true), ("t#ephemeral", true), ("t#ephemeral", false)] {
        let mut world = World::of(ROOMY, TopicTable::controlled);
        world.subscribe(name, "c", 1, 100);
        world.limit(name, 10.0, 5.0);
        world.table.hear(Teller::Answering);
        world.publish(name, &["m"; 3]);
        let key = world.topic(name);
        if delete {
            world.table.delete(key);
        } else {
            let channel = world
                .table
                .find_channel(key, &"c".parse().expect("valid"))
                .expect("there");
            world.table.delete_channel(channel);
        }
        world.run();
        assert_eq!(world.table.find(name), Some(key), "{name}");
        world.subscribe(name, "c", 2, 100);
        world.publish(name, &["m"]);
        world.advance_us(1_000_000);
        assert!(world.bodies().is_empty(), "{name}: still without a share");
        let now = world.now();
        world.table.set_limit(key, None, now);
        world.table.delete(key);
        assert_eq!(world.table.find(name), None, "{name}");
        assert_eq!(world.table.memory.store.len(), 0);
    }
}

#[test]
fn a_topic_without_a_share_asks_for_one() {
    let mut broker = Controlled::new(OnExceed::Delay, Unit::Messages);
    let wanted =
        |broker: &mut Controlled| std::mem::take(&mut broker.world.table.effects.report_wanted);
    assert!(wanted(&mut broker), "a contract came");
    broker.report();
    assert!(!wanted(&mut broker), "nobody waits");
    broker.world.publish("t", &["m"]);
    assert!(wanted(&mut broker));
    broker.grant(Some(share(10.0, 5.0)), None, 1_000);
    wanted(&mut broker);
    broker.world.publish("t", &["m"]);
    assert!(!wanted(&mut broker), "it has one");
    let mut alone = World::new();
    alone.limit("t", 10.0, 5.0);
    alone.publish("t", &["m"]);
    assert!(!alone.table.effects.report_wanted, "nobody to ask");
}

#[derive(Clone, Debug)]
enum Step {
    Publish(usize),
    Advance(u64),
    Stall(u64),
    /// Rate, burst, divisor of the floor (0: none), ttl.
    Grant(u32, u32, u32, u64),
    Withdraw,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..60usize).prop_map(Step::Publish),
        4 => (1..200_000u64).prop_map(Step::Advance),
        1 => (1_000..3_000_000u64).prop_map(Step::Stall),
        3 => (50..2_000u32, 2..40u32, 0..3u32, 1..2_000u64)
            .prop_map(|(rate, burst, floor, ttl)| Step::Grant(rate, burst, floor, ttl)),
        1 => Just(Step::Withdraw),
    ];
    prop::collection::vec(step, 1..40)
}

/// What was in force from when on.
#[derive(Default)]
struct InForce(Vec<(Instant, f64, f64)>);

impl InForce {
    fn from(&mut self, at: Instant, share: Option<Share>) {
        self.0.retain(|&(since, ..)| since < at);
        let (rate, burst) = share.map_or((0.0, 0.0), |share| (share.rate.get(), share.burst.get()));
        self.0.push((at, rate, burst));
    }

    /// The most that may leave within [begin, end]: the integral of the rate and the greatest burst.
    fn allows(&self, begin: Instant, end: Instant) -> f64 {
        let (mut tokens, mut burst) = (0.0, 0.0f64);
        for (number, &(since, rate, most)) in self.0.iter().enumerate() {
            let until = self.0.get(number + 1).map_or(Instant::MAX, |next| next.0);
            if until < begin || since > end {
                continue;
            }
            tokens += rate * (until.min(end) - since.max(begin)).as_secs_f64();
            burst = burst.max(most);
        }
        tokens + burst
    }
}

proptest! {
    #[test]
    fn releases_stay_within_what_was_in_force(steps in steps()) {
        let mut broker = Controlled::new(OnExceed::Delay, Unit::Messages);
        let mut in_force = InForce::default();
        let mut fastest = 0.0f64;
        for step in steps {
            match step {
                Step::Publish(messages) => {
                    broker.world.publish("t", &vec!["m"; messages]);
                }
                Step::Advance(us) => broker.world.advance_us(us),
                Step::Stall(us) => {
                    broker.world.stall_us(us);
                    broker.world.run();
                }
                Step::Grant(rate, burst, floor, ttl_ms) => {
                    let granted = share(f64::from(rate), f64::from(burst));
                    let floor = (floor > 0).then(|| share(f64::from(rate / floor), f64::from(burst / floor).max(1.0)));
                    let now = broker.world.now();
                    broker.grant(Some(granted), floor, ttl_ms);
                    in_force.from(now, Some(granted));
                    in_force.from(now + Duration::from_millis(ttl_ms), floor);
                    fastest = fastest.max(f64::from(rate));
                }
                Step::Withdraw => {
                    let now = broker.world.now();
                    broker.grant(None, None, 60_000);
                    in_force.from(now, None);
                }
            }
        }
        broker.world.advance_us(2_000_000);
        let released = broker.world.released();
        // 20 ms of a stall, and the Recorder's microseconds.
        let slack = fastest * 0.020_002 + 1e-6;
        for (number, &begin) in released.iter().enumerate() {
            for (later, &end) in released.iter().enumerate().skip(number) {
                let count = (later - number + 1) as f64;
                let allowed = in_force.allows(begin - Duration::from_millis(20), end);
                prop_assert!(count <= allowed + slack, "{} within {:?}..{:?}: {} allowed", count, begin, end, allowed);
            }
        }
    }
}

#[test]
fn a_share_that_all_vouch_for_is_held_and_one_that_has_ended_stays_ended() {
    let mut broker = Controlled::new(OnExceed::Delay, Unit::Messages);
    let (whole, floor) = (share(1000.0, 10.0), share(100.0, 5.0));
    let answers_report = broker.report();
    broker.receive(&Grant {
        epoch: 1,
        seq: 1,
        share: Some(whole),
        floor: Some(floor),
        ttl_ms: 1000,
        answers_report,
        round: 7,
    });
    let mut vouch = |round: u64, for_ms: u64| {
        broker.world.advance_us(500_000);
        let now = broker.world.now();
        let until = now + Duration::from_millis(for_ms);
        let by = Prolongation::Held { round, until };
        broker.world.table.prolong_leases(by, now);
        broker.held()
    };
    for _ in 0..20 {
        assert_eq!(vouch(7, 1500), Some(whole));
    }
    for _ in 0..2 {
        assert_eq!(vouch(6, 1500), Some(whole), "of another round");
    }
    assert_eq!(vouch(8, 1500), Some(floor));
    assert_eq!(vouch(7, 1500), Some(floor), "it does not grow back");
}
