//! Shares that brokers keep while the controller is away or cannot reach one of them.

use std::time::Duration;

use limit::{Prolongation, Share, Vouches};
use link::Round;

use super::cluster::{Cluster, TOPIC, settings};
use crate::core::Core;

/// What a virtual broker vouches for, and whom it asks.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) vouches: Vouches,
    pub(super) others: Vec<String>,
}

impl Held {
    pub(super) fn told(&mut self, round: Round, now: clock::Instant) {
        assert!(round.number >= self.vouches.round(), "rounds only grow");
        self.vouches.told(round.number, round.others.len(), now);
        self.others = round.others;
    }
}

impl Cluster {
    /// All that run ask all others of their rounds, and hold on to what they may.
    pub(super) fn vouch_all(&mut self) {
        let now = self.now;
        let answering: Vec<(String, u64)> = self
            .brokers
            .iter()
            .filter(|broker| broker.is_running && !broker.is_stopped)
            .filter_map(|broker| {
                let address = broker.gossip_address.clone()?;
                Some((address, broker.held.vouches.round()))
            })
            .collect();
        for broker in &mut self.brokers {
            if !broker.is_running || broker.is_stopped {
                continue;
            }
            let round = broker.held.vouches.round();
            for (place, other) in broker.held.others.iter().enumerate() {
                let answers = |each: &(String, u64)| each.0 == *other && each.1 == round;
                if answering.iter().any(answers) {
                    broker.held.vouches.answered(round, place, now);
                }
            }
            if let Some(until) = broker.held.vouches.held_until() {
                broker
                    .holder
                    .prolong(Prolongation::Held { round, until }, now);
            }
        }
    }

    fn run_without_controller(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.now += Duration::from_millis(100);
            self.vouch_all();
            self.check_shares();
        }
    }

    fn share(&self, index: usize) -> Option<Share> {
        self.brokers[index].holder.in_force(self.now)
    }
}

#[test]
fn brokers_that_hear_each_other_keep_their_shares_without_the_controller() {
    let mut cluster = Cluster::carrying(3);
    let carrier = cluster.carrier();
    let before = cluster.share(carrier).expect("a share");
    cluster.run_without_controller(Duration::from_secs(60));
    assert_eq!(cluster.share(carrier), Some(before));
    // One of them goes: nobody can say any more that no other division was heard of.
    let other = (carrier + 1) % 3;
    cluster.brokers[other].is_running = false;
    cluster.run_without_controller(Duration::from_secs(3));
    let floor = cluster.brokers[carrier].holder.floor();
    assert!(floor.is_some_and(|floor| floor.rate < before.rate));
    assert_eq!(cluster.share(carrier), floor);
    cluster.start(other);
    cluster.run_without_controller(Duration::from_secs(3));
    assert_eq!(cluster.share(carrier), floor, "it does not grow by that");
}

#[test]
fn a_controller_that_comes_back_goes_on_with_what_was_held() {
    let mut cluster = Cluster::carrying(3);
    let carrier = cluster.carrier();
    let before = cluster.share(carrier).expect("a share");
    cluster.run_without_controller(Duration::from_secs(60));
    cluster.core = Core::restore(settings(), &cluster.kept.clone(), cluster.now).expect("kept");
    // The one that carries the topic is cut off from it, and hears the others, which are told of another round.
    cluster.brokers[carrier].is_cut = true;
    for index in (0..3).filter(|&index| index != carrier) {
        cluster.dial(index);
    }
    cluster.run(Duration::from_secs(12));
    assert_eq!(
        cluster.share(carrier),
        cluster.brokers[carrier].holder.floor()
    );
    cluster.brokers[carrier].is_cut = false;
    cluster.dial(carrier);
    cluster.run(Duration::from_secs(12));
    let after = cluster.share(carrier).expect("a share");
    assert!(after.rate.get() >= 0.99 * before.rate.get(), "{after:?}");
}

#[test]
fn who_is_cut_off_from_the_controller_alone_gives_up_what_others_may_get() {
    let mut cluster = Cluster::carrying(3);
    let carrier = cluster.carrier();
    cluster.brokers[carrier].is_cut = true;
    cluster.run(Duration::from_secs(2));
    let held = cluster.share(carrier).expect("a share");
    cluster.run(Duration::from_secs(30));
    let floor = cluster.share(carrier).expect("a floor");
    assert!(floor.rate < held.rate);
    assert_eq!(cluster.brokers[carrier].holder.floor(), Some(floor));
    // Its publishers were given to others, which have the rest of the limit.
    let view = cluster.core.topic_view(TOPIC).expect("declared");
    let rates = view.brokers.iter().filter_map(|broker| broker.share);
    let rest: f64 = rates.map(|share| share.rate.get()).sum();
    assert!(rest > 1000.0, "{rest}");
}
