//! Leases that are all prolonged at once: each ends where it would if it had heard every
//! announcement when it was made.

use limit::{Grant, LeaseHolder, OnExceed, Prolongation, Share};
use proptest::prelude::*;

use super::*;

/// Two topics with the same share: `awake` is looked at after everything that happens, `rests` when something happens with it.
struct Pair {
    world: World,
    awake: TopicKey,
    rests: TopicKey,
    /// What each topic should know, told of everything at once.
    told: LeaseHolder,
    reports: u64,
    grants: u64,
}

const ROUND: u64 = 7;

fn share(rate: f64, burst: f64) -> Share {
    Share::whole(&Limit::messages(rate, burst).expect("valid"))
}

impl Pair {
    fn new() -> Pair {
        let mut world = World::of(BOUNDS, TopicTable::controlled);
        world.table.hear(Teller::Answering);
        let (awake, rests, now) = (world.topic("awake"), world.topic("rests"), world.now());
        let limit = Limit {
            on_exceed: OnExceed::Drop,
            ..Limit::messages(1000.0, 100.0).expect("valid")
        };
        for topic in [awake, rests] {
            world.table.set_limit(topic, Some(limit), now);
        }
        let mut pair = Pair {
            world,
            awake,
            rests,
            told: LeaseHolder::new(),
            reports: 0,
            grants: 0,
        };
        pair.report();
        pair
    }

    fn report(&mut self) -> u64 {
        self.reports += 1;
        let now = self.world.now();
        self.told.report_sent(self.reports, now);
        self.world.table.report(self.reports, usize::MAX, now);
        self.reports
    }

    fn grant(&mut self, answers_report: u64, ttl_ms: u64, round: u64) {
        self.grants += 1;
        let grant = Grant {
            epoch: 1,
            seq: self.grants,
            share: Some(share(1000.0, 100.0)),
            floor: Some(share(10.0, 5.0)),
            ttl_ms,
            answers_report,
            round,
        };
        let now = self.world.now();
        self.told.receive(&grant, now);
        for topic in [self.awake, self.rests] {
            self.world.table.grant(topic, &grant, now);
        }
    }

    /// Whether all leases are to be looked at.
    fn prolong(&mut self, by: Prolongation) -> bool {
        let now = self.world.now();
        self.told.prolong(by, now);
        self.world.table.prolong_leases(by, now);
        self.world.table.is_settling()
    }

    fn renew(&mut self, report: u64) -> bool {
        self.prolong(Prolongation::Renewed { report })
    }

    fn wait_ms(&mut self, ms: u64) {
        self.world.out.now += Duration::from_millis(ms);
    }

    fn look_at(&mut self, topic: TopicKey) {
        let now = self.world.now();
        self.world.table.settle_topic(topic, now);
    }

    fn held(&self, topic: TopicKey) -> Option<Share> {
        let limiter = self.world.table.topic(topic)?.limiter.as_ref()?;
        limiter.share_once_heard(self.world.table.said(), self.world.now())
    }

    fn tokens(&self, topic: TopicKey) -> f64 {
        let topic = self.world.table.topic(topic).expect("it is there");
        let limiter = topic.limiter.as_ref().expect("limited");
        limiter.tokens_once_heard(self.world.table.said(), self.world.now())
    }

    /// Holds both topics against what should be.
    fn check(&self) {
        let expected = self.told.in_force(self.world.now());
        assert_eq!(self.held(self.awake), expected);
        assert_eq!(self.held(self.rests), expected, "where it rests");
        let (awake, rests) = (self.tokens(self.awake), self.tokens(self.rests));
        assert!((awake - rests).abs() < 1e-6, "{awake} and {rests} tokens");
    }

    fn is_whole(&self) -> bool {
        self.check();
        self.held(self.rests) == Some(share(1000.0, 100.0))
    }
}

#[test]
fn a_topic_that_rests_through_many_renewals_wakes_with_its_share() {
    let mut pair = Pair::new();
    pair.grant(1, 3000, 0);
    for _ in 0..50 {
        pair.wait_ms(1000);
        let report = pair.report();
        pair.renew(report);
    }
    assert!(pair.is_whole());
    assert_eq!(pair.tokens(pair.rests), 100.0);
}

#[test]
fn a_renewal_that_is_lost_or_late_leaves_the_end_where_it_was() {
    let mut pair = Pair::new();
    pair.grant(1, 3000, 0);
    pair.wait_ms(2000);
    let kept = pair.report();
    pair.renew(kept);
    pair.wait_ms(2500);
    assert!(pair.is_whole(), "until 5 s");
    let late = pair.report();
    pair.wait_ms(500);
    pair.renew(late);
    assert!(!pair.is_whole(), "it ended in the instant of the renewal");
    pair.wait_ms(1000);
    let later = pair.report();
    pair.renew(later);
    assert!(!pair.is_whole(), "and stays ended");
    pair.grant(later, 3000, 0);
    assert!(pair.is_whole());
}

#[test]
fn a_topic_that_wakes_between_has_what_was_said_before() {
    let mut pair = Pair::new();
    pair.grant(1, 3000, 0);
    for _ in 0..5 {
        pair.wait_ms(2000);
        let report = pair.report();
        pair.renew(report);
        pair.wait_ms(500);
        // No report, no sweep: only the message finds out.
        let before = pair.tokens(pair.rests);
        pair.world.publish("rests", &["m"]);
        assert_eq!(pair.tokens(pair.rests), before - 1.0);
        pair.world.publish("awake", &["m"]);
        assert!(pair.is_whole());
    }
}

#[test]
fn a_grant_that_crosses_a_renewal_ends_by_its_own_report() {
    let mut pair = Pair::new();
    pair.grant(1, 3000, 0);
    let early = pair.report();
    pair.wait_ms(1000);
    let late = pair.report();
    pair.renew(late);
    // It was sent before the renewal and comes after it.
    pair.grant(early, 2000, 0);
    pair.wait_ms(999);
    assert!(pair.is_whole());
    pair.wait_ms(1);
    assert!(!pair.is_whole(), "the renewal meant the lease before");
}

#[test]
fn a_lease_that_missed_words_ends_early_and_never_late() {
    let mut pair = Pair::new();
    pair.grant(1, 3000, ROUND);
    let hold = |pair: &mut Pair| {
        pair.wait_ms(1000);
        let until = pair.world.now() + Duration::from_millis(2000);
        pair.prolong(Prolongation::Held {
            round: ROUND,
            until,
        })
    };
    let looks: Vec<bool> = (0..64).map(|_| hold(&mut pair)).collect();
    assert_eq!(looks.iter().position(|look| *look), Some(15));
    assert!(pair.is_whole(), "all is kept that was said");
    // Nobody looked at it: what is forgotten now it never heard.
    for _ in 0..3 {
        hold(&mut pair);
    }
    let now = pair.world.now();
    assert_eq!(pair.told.in_force(now), Some(share(1000.0, 100.0)));
    assert_eq!(pair.held(pair.rests), Some(share(10.0, 5.0)));
}

#[test]
fn a_look_at_all_is_asked_for_before_anything_is_forgotten() {
    let mut pair = Pair::new();
    pair.grant(1, 3000, ROUND);
    for _ in 0..1000 {
        pair.wait_ms(1000);
        let until = pair.world.now() + Duration::from_millis(2000);
        let round = ROUND;
        if pair.prolong(Prolongation::Held { round, until }) {
            let now = pair.world.now();
            pair.world.table.settle_all(now);
        }
    }
    assert!(pair.is_whole());
}

#[derive(Clone, Debug)]
enum Step {
    Report,
    /// A grant that answers the report so many before the last.
    Grant {
        before: u64,
        ttl_ms: u64,
        round: u64,
    },
    Renew {
        before: u64,
    },
    Hold {
        round: u64,
        for_ms: u64,
    },
    Wait {
        ms: u64,
    },
    Publish,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        Just(Step::Report),
        (0..4u64, 0..3000u64, 6..8u64).prop_map(|(before, ttl_ms, round)| Step::Grant {
            before,
            ttl_ms,
            round
        }),
        (0..4u64).prop_map(|before| Step::Renew { before }),
        (6..8u64, 0..2000u64).prop_map(|(round, for_ms)| Step::Hold { round, for_ms }),
        (0..1500u64).prop_map(|ms| Step::Wait { ms }),
        Just(Step::Publish),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #[test]
    fn whoever_rests_has_what_whoever_is_awake_has(steps in steps()) {
        let mut pair = Pair::new();
        for step in steps {
            match step {
                Step::Report => drop(pair.report()),
                Step::Grant { before, ttl_ms, round } => {
                    pair.grant(pair.reports.saturating_sub(before), ttl_ms, round);
                }
                Step::Renew { before } => drop(pair.renew(pair.reports.saturating_sub(before))),
                Step::Hold { round, for_ms } => {
                    let until = pair.world.now() + Duration::from_millis(for_ms);
                    pair.prolong(Prolongation::Held { round, until });
                }
                Step::Wait { ms } => pair.wait_ms(ms),
                Step::Publish => {
                    pair.world.publish("rests", &["m"]);
                    pair.world.publish("awake", &["m"]);
                }
            }
            pair.look_at(pair.awake);
            pair.check();
        }
    }
}
