//! Worlds with hidden groups, of which the inference sees only the arrivals.

use clock::{Xoshiro256PlusPlus, stream, uniform};
use limit::Rate;
use proptest::prelude::*;
use rand::Rng;

use super::*;
use crate::{BrokerIndex, BrokerState, Policy, Publisher, Question, distribute};

const SECOND_NS: f64 = 1e9;
const MS_NS: f64 = 1e6;

/// How the senders of a hidden world behave.
#[derive(Clone, Copy, Debug)]
struct World {
    is_periodic: bool,
    publishers: usize,
    /// The first so many groups are hidden; everybody else is independent.
    groups: usize,
    group_size: usize,
    /// Sends per second of each publisher.
    rate: f64,
    seconds: f64,
    /// Each send is late by a random part of this.
    jitter_ns: f64,
}

const SMALL_BATCHES: World = World {
    is_periodic: true,
    publishers: 1_000,
    groups: 24,
    group_size: 25,
    rate: 1.0,
    seconds: 60.0,
    jitter_ns: 0.0,
};

/// What happened in a world, and the truth about it.
struct Happened {
    arrivals: Vec<(u64, PublisherIndex)>,
    /// The hidden group of each publisher.
    group_of: Vec<Option<GroupIndex>>,
    /// When each group or independent publisher sends first.
    phase_ns: Vec<f64>,
}

impl World {
    fn happen(&self, seed: u64) -> Happened {
        let mut random = stream(seed, "world");
        let mut order: Vec<u32> = (0..self.publishers as u32).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, random.next_u64() as usize % (at + 1));
        }
        let mut happened = Happened {
            arrivals: Vec::new(),
            group_of: vec![None; self.publishers],
            phase_ns: vec![0.0; self.publishers],
        };
        let (grouped, independent) = order.split_at(self.groups * self.group_size);
        for (number, members) in grouped.chunks(self.group_size.max(1)).enumerate() {
            self.send(members, &mut happened, &mut random);
            for &member in members {
                happened.group_of[member as usize] = Some(GroupIndex(number as u32));
            }
        }
        for publisher in independent.chunks(1) {
            self.send(publisher, &mut happened, &mut random);
        }
        happened.arrivals.sort_unstable();
        happened
    }

    fn send(&self, members: &[u32], happened: &mut Happened, random: &mut Xoshiro256PlusPlus) {
        let period_ns = SECOND_NS / self.rate;
        let mut pause_ns = |is_first: bool| match self.is_periodic {
            true if is_first => uniform(random) * period_ns,
            true => period_ns,
            false => -(1.0 - uniform(random)).ln() * period_ns,
        };
        let mut instants = Vec::new();
        let mut at_ns = pause_ns(true);
        while at_ns < self.seconds * SECOND_NS {
            instants.push(at_ns);
            at_ns += pause_ns(false);
        }
        for &member in members {
            happened.phase_ns[member as usize] = instants.first().copied().unwrap_or_default();
            for instant in &instants {
                let late_ns = uniform(random) * self.jitter_ns;
                happened
                    .arrivals
                    .push(((instant + late_ns) as u64, PublisherIndex(member)));
            }
        }
    }
}

/// Pairs found among the true ones and true ones among those found.
#[derive(Debug)]
struct Score {
    precision: f64,
    recall: f64,
}

/// A pair is true if it is of one hidden group, or periodic with phases that differ by less than `near_ns`.
fn score(world: &World, happened: &Happened, found: &[Option<GroupIndex>], near_ns: f64) -> Score {
    let period_ns = SECOND_NS / world.rate;
    let (mut hidden, mut hidden_found, mut all_found, mut true_found) = (0, 0, 0, 0);
    for a in 0..found.len() {
        for b in 0..a {
            let is_hidden =
                happened.group_of[a].is_some() && happened.group_of[a] == happened.group_of[b];
            let apart_ns = (happened.phase_ns[a] - happened.phase_ns[b]).abs();
            let is_near = world.is_periodic && apart_ns.min(period_ns - apart_ns) <= near_ns;
            let is_found = found[a].is_some() && found[a] == found[b];
            hidden += u32::from(is_hidden);
            hidden_found += u32::from(is_hidden && is_found);
            all_found += u32::from(is_found);
            true_found += u32::from(is_found && (is_hidden || is_near));
        }
    }
    let part = |of: u32, all: u32| {
        if all == 0 {
            1.0
        } else {
            f64::from(of) / f64::from(all)
        }
    };
    Score {
        precision: part(true_found, all_found),
        recall: part(hidden_found, hidden),
    }
}

/// The tolerance that suits a jitter: 1 ms, or as much as two members can be apart.
fn config_for(world: &World) -> InferConfig {
    InferConfig {
        tolerance_ns: world.jitter_ns.max(MS_NS) as u64,
        ..InferConfig::default()
    }
}

#[test]
fn hidden_groups_are_found() {
    let poisson = World {
        is_periodic: false,
        ..SMALL_BATCHES
    };
    let unbatched = World {
        rate: 10.0,
        seconds: 20.0,
        ..poisson
    };
    for (world, least) in [(SMALL_BATCHES, 0.99), (poisson, 0.999), (unbatched, 0.999)] {
        for jitter_ms in [0.0, 1.0, 4.0] {
            let world = World {
                jitter_ns: jitter_ms * MS_NS,
                ..world
            };
            let happened = world.happen(7);
            let config = config_for(&world);
            let found = infer_groups(&happened.arrivals, world.publishers, config);
            let near_ns = config.tolerance_ns as f64 + world.jitter_ns;
            let score = score(&world, &happened, &found, near_ns);
            assert!(score.precision >= least, "{world:?}: {score:?}");
            assert!(score.recall >= least, "{world:?}: {score:?}");
        }
    }
}

/// Without jitter even periodic groups with phases within the tolerance are mostly told apart.
#[test]
fn near_phases_are_told_apart() {
    let (mut precision, seeds) = (0.0, 5);
    for seed in 0..seeds {
        let happened = SMALL_BATCHES.happen(seed);
        let config = InferConfig::default();
        let found = infer_groups(&happened.arrivals, SMALL_BATCHES.publishers, config);
        let score = score(&SMALL_BATCHES, &happened, &found, 0.0);
        assert!(score.recall > 0.99, "seed {seed}: {score:?}");
        precision += score.precision / seeds as f64;
    }
    assert!(precision > 0.95, "{precision}");
}

#[test]
fn independent_publishers_stay_alone() {
    for (rate, seconds) in [(1.0, 60.0), (10.0, 20.0)] {
        for seed in 0..3 {
            let world = World {
                is_periodic: false,
                groups: 0,
                rate,
                seconds,
                ..SMALL_BATCHES
            };
            let happened = world.happen(seed);
            let found = infer_groups(&happened.arrivals, world.publishers, InferConfig::default());
            assert_eq!(found.iter().flatten().count(), 0, "rate {rate} seed {seed}");
        }
    }
}

/// Independent periodic publishers are together only if their phases are.
#[test]
fn periodic_publishers_are_grouped_by_phase() {
    let world = World {
        groups: 0,
        ..SMALL_BATCHES
    };
    let happened = world.happen(3);
    let found = infer_groups(&happened.arrivals, world.publishers, InferConfig::default());
    // A group is a star: all are within the tolerance of one of them.
    assert_eq!(score(&world, &happened, &found, 2.0 * MS_NS).precision, 1.0);
}

#[test]
fn one_group_of_all_is_one_group() {
    let world = World {
        groups: 1,
        group_size: 1_000,
        ..SMALL_BATCHES
    };
    let happened = world.happen(5);
    let found = infer_groups(&happened.arrivals, world.publishers, InferConfig::default());
    assert_eq!(found, vec![Some(GroupIndex(0)); 1_000]);
}

#[test]
fn nothing_is_concluded_from_nothing() {
    assert!(infer_groups(&[], 0, InferConfig::default()).is_empty());
    assert_eq!(infer_groups(&[], 2, InferConfig::default()), [None, None]);
    // Two coincidences can be chance.
    let both = |at_ns| [(at_ns, PublisherIndex(0)), (at_ns, PublisherIndex(1))];
    let twice = [both(1_000_000_000), both(2_500_000_000)].concat();
    assert_eq!(
        infer_groups(&twice, 1_000, InferConfig::default())[..2],
        [None, None]
    );
    // A publisher that is not to be placed is none of ours.
    assert_eq!(
        infer_groups(&[(5, PublisherIndex(9))], 2, InferConfig::default()),
        [None, None]
    );
}

#[test]
fn a_batch_is_one_send() {
    let mut arrivals = Vec::new();
    for second in 0..30u64 {
        for message in 0..10 {
            let at_ns = second * 1_000_000_000 + message * 20_000;
            arrivals.push((at_ns, PublisherIndex(0)));
            arrivals.push((at_ns + 400_000_000 + second * 7_000_000, PublisherIndex(1)));
            arrivals.push((at_ns + 5_000, PublisherIndex(2)));
        }
    }
    let found = infer_groups(&arrivals, 3, InferConfig::default());
    assert_eq!(found, [Some(GroupIndex(0)), None, Some(GroupIndex(0))]);
}

/// The most arrivals at one broker within 1 ms.
fn worst_burst(happened: &Happened, broker_of: &[BrokerIndex], brokers: u32) -> usize {
    let at_broker = |broker: u32| -> usize {
        let here = |arrival: &&(u64, PublisherIndex)| broker_of[arrival.1.0 as usize].0 == broker;
        let instants: Vec<u64> = happened
            .arrivals
            .iter()
            .filter(here)
            .map(|arrival| arrival.0)
            .collect();
        let mut begin = 0;
        let burst_at = |end: usize| {
            while instants[end] - instants[begin] > 1_000_000 {
                begin += 1;
            }
            end + 1 - begin
        };
        (0..instants.len()).map(burst_at).max().unwrap_or(0)
    };
    (0..brokers).map(at_broker).max().unwrap_or(0)
}

fn placed_by(policy: Policy, group_of: &[Option<GroupIndex>]) -> Vec<BrokerIndex> {
    let rate = Rate::new(10.0).unwrap();
    let publisher = |group: &Option<GroupIndex>| Publisher {
        rate,
        batch_messages: 1,
        group: *group,
    };
    let publishers: Vec<Publisher> = group_of.iter().map(publisher).collect();
    let broker = BrokerState {
        mcap: 1e6,
        load: 0.0,
        is_available: true,
    };
    let question = Question {
        policy,
        publishers: &publishers,
        placed: &vec![None; publishers.len()],
        brokers: &[broker; 4],
        full: &[false; 4],
        k_min: 4,
    };
    distribute(&question).unwrap().broker_of
}

/// By how many publishers a hidden group is off a quarter at any of four brokers.
fn worst_deviation(happened: &Happened, broker_of: &[BrokerIndex], world: &World) -> f64 {
    let mut counts = vec![[0.0; 4]; world.groups];
    for (group, broker) in happened.group_of.iter().zip(broker_of) {
        if let Some(group) = group {
            counts[group.0 as usize][broker.0 as usize] += 1.0;
        }
    }
    let proportional = world.group_size as f64 / 4.0;
    counts
        .iter()
        .flatten()
        .map(|count: &f64| (count - proportional).abs())
        .fold(0.0, f64::max)
}

#[test]
fn placing_by_groups_found_is_as_good_as_by_groups_told() {
    for jitter_ms in [0.0, 1.0, 4.0] {
        let jitter_ns = jitter_ms * MS_NS;
        let poisson = World {
            is_periodic: false,
            jitter_ns,
            ..SMALL_BATCHES
        };
        let happened = poisson.happen(11);
        let found = infer_groups(&happened.arrivals, poisson.publishers, config_for(&poisson));
        let told = placed_by(Policy::Srtm, &happened.group_of);
        assert!(worst_deviation(&happened, &told, &poisson) < 1.0);
        let inferred = placed_by(Policy::Srtm, &found);
        assert!(
            worst_deviation(&happened, &inferred, &poisson) < 1.0,
            "jitter {jitter_ms} ms"
        );
    }
    // Groups with near phases are found as one; what counts of them is the burst they make together.
    let happened = SMALL_BATCHES.happen(11);
    let found = infer_groups(
        &happened.arrivals,
        SMALL_BATCHES.publishers,
        InferConfig::default(),
    );
    let burst_of = |broker_of: &[BrokerIndex]| worst_burst(&happened, broker_of, 4);
    let told = burst_of(&placed_by(Policy::Srtm, &happened.group_of));
    let inferred = burst_of(&placed_by(Policy::Srtm, &found));
    let blind = burst_of(&placed_by(Policy::MaxMin, &happened.group_of));
    assert!(inferred <= told + 1, "told {told}, inferred {inferred}");
    assert!(inferred + 3 <= blind, "inferred {inferred}, blind {blind}");
}

proptest! {
    #[test]
    fn groups_are_numbered_densely_and_have_company(
        arrivals in prop::collection::vec((0u64..20_000_000, 0u32..12), 0..300),
        tolerance_ns in 0u64..3_000_000,
    ) {
        let arrivals: Vec<_> =
            arrivals.into_iter().map(|(at_ns, publisher)| (at_ns, PublisherIndex(publisher))).collect();
        let config = InferConfig { tolerance_ns, false_pairs: 1e3, ..InferConfig::default() };
        let found = infer_groups(&arrivals, 10, config);
        prop_assert_eq!(found.len(), 10);
        let mut next = 0;
        for group in found.iter().flatten() {
            prop_assert!(group.0 <= next);
            next = next.max(group.0 + 1);
            prop_assert!(found.iter().filter(|other| **other == Some(*group)).count() >= 2);
        }
    }
}
