//! Whole questions: examples that can be checked by hand, and laws with brute force as the oracle.

use limit::Rate;
use proptest::prelude::*;

use super::*;
use crate::GroupIndex;

mod work;

fn publisher(rate: f64, group: Option<u32>) -> Publisher {
    Publisher {
        rate: Rate::new(rate).unwrap(),
        batch_messages: 1,
        group: group.map(GroupIndex),
    }
}

fn broker(mcap: f64, load: f64) -> BrokerState {
    BrokerState {
        mcap,
        load,
        is_available: true,
    }
}

/// A question that owns what it asks about.
#[derive(Clone, Debug)]
struct Asked {
    policy: Policy,
    publishers: Vec<Publisher>,
    placed: Vec<Option<BrokerIndex>>,
    brokers: Vec<BrokerState>,
    full: Vec<bool>,
    k_min: usize,
}

impl Asked {
    fn new(policy: Policy, publishers: Vec<Publisher>, brokers: Vec<BrokerState>) -> Self {
        Asked {
            policy,
            placed: vec![None; publishers.len()],
            full: vec![false; brokers.len()],
            publishers,
            brokers,
            k_min: 0,
        }
    }

    fn answer(&self) -> Result<Distribution, OutOfBrokers> {
        distribute(&Question {
            policy: self.policy,
            publishers: &self.publishers,
            placed: &self.placed,
            brokers: &self.brokers,
            full: &self.full,
            k_min: self.k_min,
        })
    }

    /// The rate of all publishers that `places` puts at a broker.
    fn rate_at(&self, places: &[Option<BrokerIndex>], at: usize) -> f64 {
        let here = |place: &Option<BrokerIndex>| *place == Some(BrokerIndex(at as u32));
        let rates = self
            .publishers
            .iter()
            .zip(places)
            .filter(|(_, place)| here(place));
        rates.map(|(publisher, _)| publisher.rate.get()).sum()
    }

    /// What is left at a broker for this topic; 0 where it may not be used.
    fn room_at(&self, at: usize) -> f64 {
        let is_usable = self.brokers[at].is_available && !self.full[at];
        let left = self.brokers[at].rcap() - self.rate_at(&self.placed, at);
        if is_usable { left.max(0.0) } else { 0.0 }
    }

    fn carries(&self, at: usize) -> bool {
        self.placed.contains(&Some(BrokerIndex(at as u32)))
    }
}

fn rates_per_broker(asked: &Asked, distribution: &Distribution) -> Vec<f64> {
    let places: Vec<_> = distribution.broker_of.iter().copied().map(Some).collect();
    (0..asked.brokers.len())
        .map(|at| asked.rate_at(&places, at))
        .collect()
}

/// The examples of SRTM-long, section 6.3: brokers loaded with 10, 40, 50, 60, 70, 80 thousand messages/s
/// under a capacity of 100 thousand.
#[test]
fn the_policies_differ_as_the_paper_says() {
    let loads = [10e3, 40e3, 50e3, 60e3, 70e3, 80e3];
    let brokers: Vec<_> = loads.into_iter().map(|load| broker(100e3, load)).collect();
    let publishers = |count: usize| vec![publisher(10.0, None); count];
    let cases = [
        // What the emptiest broker holds stays there.
        (Policy::Conc, 4_000, vec![40e3, 0.0, 0.0, 0.0, 0.0, 0.0]),
        (Policy::MaxMin, 4_000, vec![40e3, 0.0, 0.0, 0.0, 0.0, 0.0]),
        // Two brokers: conc ends at a total of 90 thousand on both, max-min gives each half.
        (Policy::Conc, 13_000, vec![80e3, 50e3, 0.0, 0.0, 0.0, 0.0]),
        (Policy::MaxMin, 13_000, vec![70e3, 60e3, 0.0, 0.0, 0.0, 0.0]),
        (Policy::MaxMin, 12_000, vec![60e3, 60e3, 0.0, 0.0, 0.0, 0.0]),
        (Policy::Lb, 6_000, vec![10e3; 6]),
        // Evenly over all, as far as they have room.
        (Policy::Lb, 13_000, vec![22e3, 22e3, 22e3, 22e3, 22e3, 20e3]),
    ];
    for (policy, count, expected) in cases {
        let asked = Asked::new(policy, publishers(count), brokers.clone());
        let distribution = asked.answer().unwrap();
        assert_eq!(
            rates_per_broker(&asked, &distribution),
            expected,
            "{policy} {count}"
        );
        let k = expected.iter().filter(|&&rate| rate > 0.0).count();
        assert_eq!(distribution.k, k);
    }
}

#[test]
fn brokers_that_carry_the_topic_come_first() {
    let brokers = vec![broker(100.0, 0.0), broker(60.0, 0.0), broker(100.0, 0.0)];
    let mut asked = Asked::new(Policy::Srtm, vec![publisher(10.0, None); 5], brokers);
    asked.placed[0] = Some(BrokerIndex(1));
    let distribution = asked.answer().unwrap();
    assert_eq!(distribution.broker_of, [BrokerIndex(1); 5]);
    assert_eq!(distribution.quotas, [0.0, 40.0, 0.0]);
    // Found full, it keeps what it has and gets no more; the emptiest other is next, of equals the first.
    asked.full[1] = true;
    let distribution = asked.answer().unwrap();
    assert_eq!(rates_per_broker(&asked, &distribution), [40.0, 10.0, 0.0]);
    assert_eq!(distribution.k, 2);
}

#[test]
fn more_brokers_are_used_on_demand_and_no_more_than_there_are() {
    let brokers = vec![broker(100.0, 0.0); 3];
    let mut asked = Asked::new(Policy::Srtm, vec![publisher(1.0, None); 12], brokers);
    for (k_min, expected) in [
        (0, [12.0, 0.0, 0.0]),
        (1, [12.0, 0.0, 0.0]),
        (2, [6.0, 6.0, 0.0]),
        (3, [4.0, 4.0, 4.0]),
        (9, [4.0, 4.0, 4.0]),
    ] {
        asked.k_min = k_min;
        let distribution = asked.answer().unwrap();
        assert_eq!(
            rates_per_broker(&asked, &distribution),
            expected,
            "k_min {k_min}"
        );
    }
}

#[test]
fn what_does_not_fit_is_named_and_the_rest_is_placed() {
    let brokers = vec![broker(25.0, 0.0), broker(15.0, 0.0)];
    let asked = Asked::new(Policy::MaxMin, vec![publisher(10.0, None); 5], brokers);
    let error = asked.answer().unwrap_err();
    assert_eq!(
        (error.asked, error.residual, error.missing),
        (50.0, 40.0, 20.0)
    );
    assert_eq!(asked.rate_at(&error.best, 0), 20.0);
    assert_eq!(asked.rate_at(&error.best, 1), 10.0);
    assert_eq!(
        error.to_string(),
        "no broker has room for 20 messages/s of publishers: 50 messages/s are to be placed, brokers have 40 \
         messages/s left"
    );
}

#[test]
fn nobody_to_place_and_nowhere_to_place() {
    let nobody = Asked::new(Policy::Srtm, Vec::new(), vec![broker(10.0, 0.0)]);
    let distribution = nobody.answer().unwrap();
    assert_eq!((distribution.k, distribution.quotas), (0, vec![0.0]));
    let nowhere = Asked::new(Policy::Srtm, vec![publisher(1.0, None)], Vec::new());
    assert_eq!(nowhere.answer().unwrap_err().best, [None]);
    let no_number = Asked::new(
        Policy::Lb,
        vec![publisher(1.0, None)],
        vec![broker(f64::NAN, 0.0)],
    );
    assert_eq!(no_number.answer().unwrap_err().missing, 1.0);
}

/// Rates alone say that two brokers suffice; no two hold three publishers of 60 under capacities of 100.
#[test]
fn indivisible_publishers_take_another_broker() {
    let asked = |brokers| {
        let publishers = [60.0, 60.0, 60.0, 1.0].map(|rate| publisher(rate, None));
        Asked::new(
            Policy::Srtm,
            publishers.to_vec(),
            vec![broker(100.0, 0.0); brokers],
        )
    };
    assert_eq!(asked(5).answer().unwrap().k, 3);
    assert_eq!(asked(2).answer().unwrap_err().missing, 60.0);
}

#[test]
fn strides_find_the_least_count_that_succeeds() {
    for first in 0..5 {
        for least in 0..70 {
            let mut attempts = 0;
            let found = least_that_succeeds(first, 60, |count| {
                attempts += 1;
                (count >= least).then_some(count)
            });
            assert_eq!(found, (least <= 60).then_some(least.max(first)));
            assert!(attempts <= 14, "{attempts} attempts");
        }
    }
}

fn any_policy() -> impl Strategy<Value = Policy> {
    prop::sample::select(Policy::ALL.to_vec())
}

/// Brokers in every state, publishers equal or not, some placed.
fn any_question() -> impl Strategy<Value = Asked> {
    let one_broker = (0.0..400.0f64, 0.0..200.0f64, prop::bool::weighted(0.9));
    let brokers = prop::collection::vec((one_broker, prop::bool::weighted(0.15)), 1..8);
    let one_publisher = (
        0.0..1.5f64,
        prop::option::of(0u32..6),
        prop::option::weighted(0.3, 0u32..8),
    );
    let publishers = prop::collection::vec(one_publisher, 0..80);
    (any_policy(), brokers, publishers, any::<bool>(), 0usize..4).prop_map(
        |(policy, brokers, publishers, is_equal, k_min)| {
            let count = brokers.len() as u32;
            let rate = |power: f64| if is_equal { 7.0 } else { 10f64.powf(power) };
            Asked {
                policy,
                placed: publishers
                    .iter()
                    .map(|(_, _, place)| place.map(|place| BrokerIndex(place % count)))
                    .collect(),
                publishers: publishers
                    .iter()
                    .map(|(power, group, _)| publisher(rate(*power), *group))
                    .collect(),
                full: brokers.iter().map(|(_, is_full)| *is_full).collect(),
                brokers: brokers
                    .iter()
                    .map(|((mcap, load, is_available), _)| BrokerState {
                        mcap: *mcap,
                        load: *load,
                        is_available: *is_available,
                    })
                    .collect(),
                k_min,
            }
        },
    )
}

/// The fewest brokers without the topic that hold `count` publishers of `rate` together with those that
/// carry it, found by trying every set.
fn fewest_new(asked: &Asked, rate: f64, count: usize) -> Option<u32> {
    let holds = |at: usize| (asked.room_at(at) / rate + 1e-9).floor() as usize;
    let sets = 0u32..1 << asked.brokers.len();
    let is_new = |set: u32, at: usize| set & (1 << at) != 0 && !asked.carries(at);
    let enough = sets.filter(|&set| {
        let brokers = 0..asked.brokers.len();
        let used = brokers.filter(|&at| is_new(set, at) || asked.carries(at));
        used.map(holds).sum::<usize>() >= count
    });
    enough.map(u32::count_ones).min()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_publisher_is_placed_once_within_the_capacities(asked in any_question()) {
        let answer = asked.answer();
        let (places, missing) = match &answer {
            Ok(found) => (found.broker_of.iter().copied().map(Some).collect(), 0.0),
            Err(error) => (error.best.clone(), error.missing),
        };
        prop_assert_eq!(places.len(), asked.publishers.len());
        let mut left_out = 0.0;
        for (at, place) in places.iter().enumerate() {
            if asked.placed[at].is_some() {
                prop_assert_eq!(*place, asked.placed[at], "a placed publisher stays");
            } else if place.is_none() {
                left_out += asked.publishers[at].rate.get();
            }
        }
        prop_assert!((left_out - missing).abs() < 1e-6);
        prop_assert_eq!(answer.is_err(), missing > 0.0);
        for at in 0..asked.brokers.len() {
            let gained = asked.rate_at(&places, at) - asked.rate_at(&asked.placed, at);
            prop_assert!(gained <= asked.room_at(at) * (1.0 + 1e-6) + 1e-6);
        }
        // Whoever is left out fits nowhere.
        for at in (0..places.len()).filter(|&at| places[at].is_none()) {
            for at_broker in 0..asked.brokers.len() {
                let gained = asked.rate_at(&places, at_broker) - asked.rate_at(&asked.placed, at_broker);
                let left = asked.room_at(at_broker) - gained;
                prop_assert!(asked.publishers[at].rate.get() > left * (1.0 - 1e-6) - 1e-6);
            }
        }
    }

    #[test]
    fn quotas_sum_to_what_was_asked_and_k_counts_who_carries(asked in any_question()) {
        let Ok(found) = asked.answer() else { return Ok(()) };
        let waiting = asked.placed.iter().zip(&asked.publishers).filter(|(place, _)| place.is_none());
        let rate: f64 = waiting.map(|(_, publisher)| publisher.rate.get()).sum();
        prop_assert!((found.quotas.iter().sum::<f64>() - rate).abs() < 1e-6);
        for (at, quota) in found.quotas.iter().enumerate() {
            prop_assert!(*quota <= asked.room_at(at) + 1e-6);
        }
        let carrying = rates_per_broker(&asked, &found).into_iter().filter(|&rate| rate > 0.0);
        prop_assert_eq!(found.k, carrying.count());
    }

    /// For equal publishers everything is exact: an answer whenever there is one, with the fewest brokers.
    #[test]
    fn equal_publishers_get_the_fewest_brokers_there_are(
        policy in prop::sample::select(vec![Policy::Conc, Policy::MaxMin, Policy::Srtm]),
        asked in any_question(),
    ) {
        let rate = 7.0;
        let mut asked = Asked { policy, k_min: 0, ..asked };
        for publisher in &mut asked.publishers {
            publisher.rate = Rate::new(rate).unwrap();
        }
        let count = asked.placed.iter().filter(|place| place.is_none()).count();
        let expected = fewest_new(&asked, rate, count);
        match asked.answer() {
            Err(_) => prop_assert_eq!(expected, None),
            Ok(found) => {
                let is_new = |at: &usize| !asked.carries(*at);
                let used: Vec<usize> = (0..asked.brokers.len())
                    .filter(is_new)
                    .filter(|&at| found.quotas[at] > 0.0)
                    .collect();
                prop_assert_eq!(Some(used.len() as u32), expected);
                for (at, total) in rates_per_broker(&asked, &found).into_iter().enumerate() {
                    let gained = total - asked.rate_at(&asked.placed, at);
                    prop_assert!((gained - found.quotas[at]).abs() < rate + 1e-6);
                }
            }
        }
    }

    /// Whole publishers cannot be divided better: no move from one broker to another that is used and has room
    /// for it leaves both better off than the worse of them was.
    #[test]
    fn equal_publishers_are_divided_max_min(
        policy in prop::sample::select(vec![Policy::MaxMin, Policy::Srtm]),
        asked in any_question(),
    ) {
        let rate = 7.0;
        let mut asked = Asked { policy, ..asked };
        for publisher in &mut asked.publishers {
            publisher.rate = Rate::new(rate).unwrap();
        }
        let Ok(found) = asked.answer() else { return Ok(()) };
        let totals = rates_per_broker(&asked, &found);
        let gained = |at: usize| totals[at] - asked.rate_at(&asked.placed, at);
        let is_used = |at: &usize| found.quotas[*at] > 0.0 || asked.carries(*at);
        for taker in (0..totals.len()).filter(is_used) {
            for giver in (0..totals.len()).filter(|&giver| gained(giver) > rate / 2.0) {
                let has_room = asked.room_at(taker) - gained(taker) >= rate;
                prop_assert!(!has_room || totals[giver] <= totals[taker] + rate + 1e-6);
            }
        }
    }

    /// Of brokers with ample room every group and every sum is within one publisher of its share.
    #[test]
    fn groups_are_split_in_the_proportion_of_the_topic(asked in any_question(), k_min in 1usize..8) {
        let brokers = vec![broker(1e6, 0.0); asked.brokers.len()];
        let count = brokers.len();
        let asked = Asked {
            policy: Policy::Srtm,
            placed: vec![None; asked.publishers.len()],
            full: vec![false; count],
            brokers,
            k_min,
            ..asked
        };
        let found = asked.answer().unwrap();
        let k = k_min.min(count) as f64;
        for group in (0..6).map(|group| Some(GroupIndex(group))) {
            let members: Vec<usize> =
                (0..asked.publishers.len()).filter(|&at| asked.publishers[at].group == group).collect();
            let rate_of = |at: &usize| asked.publishers[*at].rate.get();
            let all: f64 = members.iter().map(rate_of).sum();
            let largest = members.iter().map(rate_of).fold(0.0, f64::max);
            for at in 0..count {
                let here = |member: &&usize| found.broker_of[**member].0 as usize == at;
                let share: f64 = members.iter().filter(here).map(rate_of).sum();
                let expected = if (at as f64) < k { all / k } else { 0.0 };
                prop_assert!((share - expected).abs() <= largest + 1e-6);
            }
        }
    }
}
