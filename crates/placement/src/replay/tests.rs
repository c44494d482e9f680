//! The replay against an event simulation and the bucket's oracle; the fit against exhaustive
//! search.

use clock::Instant;
use limit::oracle::{Held, gd1_departures};
use limit::{Burst, Rate};
use model::ServiceModel;
use proptest::prelude::*;

use super::trace::with_seen_rates;
use super::*;
use crate::{BrokerIndex, BrokerState, Policy, Publisher, PublisherIndex, Question, distribute};

fn model(per_message_ns: f64, servers: u32) -> ServiceModel {
    ServiceModel {
        per_message_ns,
        per_batch_ns: 0.0,
        per_active_connection_ns: 0.0,
        base_ns: 0.0,
        servers,
    }
}

fn limit(rate: f64, burst: f64) -> (Rate, Burst) {
    (Rate::new(rate).unwrap(), Burst::new(burst).unwrap())
}

fn trace(arrivals: &[(u64, u32, u16)]) -> Trace {
    let arrival = |&(at_ns, publisher, messages): &(u64, u32, u16)| Arrival {
        at_ns,
        publisher: PublisherIndex(publisher),
        messages,
    };
    Trace::new(arrivals.iter().map(arrival).collect(), 0, 1_000_000_000)
}

/// Latencies in order of the messages, in whole nanoseconds: servers as a list of jobs in integers, tokens
/// by equation (2).
fn oracle(
    trace: &Trace,
    share: Option<(Rate, Burst)>,
    (per_message_ns, per_batch_ns, base_ns): (u64, u64, u64),
    servers: usize,
) -> Vec<u64> {
    let mut messages: Vec<(u64, u64)> = Vec::new();
    for arrival in &trace.arrivals {
        for place in 0..arrival.messages {
            let extra = if place == 0 { per_batch_ns } else { 0 };
            messages.push((arrival.at_ns, per_message_ns + extra));
        }
    }
    let arrivals: Vec<Instant> = messages
        .iter()
        .map(|(at, _)| Instant::from_nanos(*at))
        .collect();
    let tokens: Vec<u64> = match share {
        None => vec![0; messages.len()],
        Some((rate, burst)) => {
            let full = Held {
                tokens: burst.get(),
                at: Instant::ZERO,
            };
            let departures = gd1_departures(&arrivals, &vec![1; arrivals.len()], rate, burst, full);
            departures.into_iter().map(Instant::as_nanos).collect()
        }
    };
    let mut busy_until: Vec<u64> = vec![0; servers];
    let mut left = 0;
    let leave = messages.iter().zip(tokens).map(|(&(at, cost), token)| {
        busy_until.sort_unstable();
        busy_until[0] = busy_until[0].max(at) + cost;
        left = left.max(busy_until[0]).max(token);
        left - at + base_ns
    });
    leave.collect()
}

fn arrivals() -> impl Strategy<Value = Vec<(u64, u32, u16)>> {
    prop::collection::vec((0u64..50_000_000, 0u32..9, 0u16..12), 0..150)
}

proptest! {
    #[test]
    fn a_replay_is_the_queue_and_the_bucket_together(
        arrivals in arrivals(),
        costs in (0u64..40_000, 0u64..20_000, 0u64..100_000),
        servers in 1u32..4,
        bucket in prop::option::of((100.0f64..50_000.0, 1.0f64..80.0)),
    ) {
        let trace = trace(&arrivals);
        // The oracle takes rates and bursts to the nearest 10⁻⁶.
        let share = bucket.map(|(rate, burst)| limit(rate.round(), burst.round()));
        let expected = oracle(&trace, share, costs, servers as usize);
        let model = ServiceModel {
            per_message_ns: costs.0 as f64,
            per_batch_ns: costs.1 as f64,
            per_active_connection_ns: 0.0,
            base_ns: costs.2 as f64,
            servers,
        };
        let got = replay(&trace, |_| true, share, &model, 0.0);
        prop_assert_eq!(got.messages(), expected.len() as u64);
        for (got_us, expected_ns) in got.us.iter().zip(&expected) {
            let expected_us = *expected_ns as f64 / 1e3;
            // Half a nanosecond per token of the rate's rounding, and an f32.
            let tolerance_us = 0.002 + expected_us * 1e-6;
            prop_assert!((f64::from(*got_us) - expected_us).abs() <= tolerance_us, "{} {}", got_us, expected_us);
        }
    }

    #[test]
    fn topics_of_a_broker_wait_for_one_another_as_one_topic_would(
        arrivals in arrivals(), own in 1u32..9, servers in 1u32..3,
    ) {
        // Without limits, whose message it is makes no difference to when it is served.
        let of = |keep: &dyn Fn(u32) -> bool| {
            let kept: Vec<_> = arrivals.iter().copied().filter(|arrival| keep(arrival.1)).collect();
            trace(&kept)
        };
        let (mine, others) = (of(&|publisher| publisher < own), of(&|publisher| publisher >= own));
        let placed = vec![Some(BrokerIndex(0)); 9];
        let publishers = vec![Publisher { rate: Rate::new(1.0).unwrap(), batch_messages: 1, group: None }; 9];
        let (brokers, model) = (
            [BrokerState { mcap: 1e4, load: 0.0, is_available: true }],
            model(9_000.0, servers),
        );
        let neighbour = Neighbour {
            name: "beside",
            percentile: 99.0,
            promise_us: 1_000.0,
            limit: None,
            publishers: &publishers,
            placed: &placed,
            latency_us: &[],
            trace: Some(&others),
        };
        let problem = ReplayProblem {
            trace: &mine,
            publishers: &publishers,
            brokers: &brokers,
            models: &[model],
            backgrounds: &[],
            limit: None,
            slo_us: 1_000.0,
            percentile: 99.0,
            policy: Policy::Srtm,
            margin: 0.0,
            neighbours: &[neighbour],
        };
        let mut together = together::Together::new(&problem);
        let lanes = together.run(&problem, BrokerIndex(0), |_| true, None, (&model, 0.0));
        let mut apart: Vec<f32> = lanes.iter().flat_map(|(_, latencies)| latencies.us.clone()).collect();
        let mut as_one = replay(&of(&|_| true), |_| true, None, &model, 0.0).us;
        // A message may leave before one of another topic that was served by the other server before it.
        if servers == 1 {
            apart.sort_by(f32::total_cmp);
            as_one.sort_by(f32::total_cmp);
            prop_assert_eq!(apart, as_one);
        } else {
            prop_assert_eq!(apart.len(), as_one.len());
        }
    }

    #[test]
    fn others_on_other_brokers_do_not_exist(arrivals in arrivals(), here in 0u32..9) {
        let all = trace(&arrivals);
        let own: Vec<_> = arrivals.iter().copied().filter(|arrival| arrival.1 <= here).collect();
        let share = Some(limit(1_000.0, 20.0));
        let some = replay(&all, |publisher| publisher.0 <= here, share, &model(9_000.0, 1), 0.0);
        let alone = replay(&trace(&own), |_| true, share, &model(9_000.0, 1), 0.0);
        prop_assert_eq!(some, alone);
    }

    #[test]
    fn sub_buckets_never_add_up_to_more_than_the_limit(
        loads in prop::collection::vec((prop_oneof![Just(0.0), 0.1f64..1e5], 1.0f64..64.0), 1..12),
        rate in 1.0f64..1e6, burst in 1.0f64..5_000.0,
    ) {
        let (rates, floors): (Vec<f64>, Vec<f64>) = loads.into_iter().unzip();
        let shares = shares::divide(limit(rate, burst), &rates, &floors);
        let carrying = rates.iter().filter(|&&rate| rate > 0.0).count();
        let sums = shares.iter().flatten().fold((0.0, 0.0), |sums, (rate, burst)| {
            (sums.0 + rate.get(), sums.1 + burst.get())
        });
        prop_assert!(sums.0 <= rate * (1.0 + 1e-9));
        // At least a token each, whatever the burst is.
        prop_assert!(sums.1 <= burst.max(2.0 * carrying as f64) * (1.0 + 1e-9) + carrying as f64);
        let floor_sum: f64 = rates.iter().zip(&floors).filter(|(rate, _)| **rate > 0.0).map(|(_, floor)| floor).sum();
        for ((share, rate), floor) in shares.iter().zip(&rates).zip(&floors) {
            prop_assert_eq!(share.is_some(), *rate > 0.0);
            if let Some((_, burst)) = share && floor_sum <= sums.1 {
                prop_assert!(burst.get() >= floor * (1.0 - 1e-9), "a batch of {floor} in {burst}");
            }
        }
    }
}

#[test]
fn percentiles_are_nearest_ranks() {
    let mut latencies = Latencies::default();
    assert_eq!(latencies.percentile_us(99.0), None);
    for latency_us in (1..=200).rev() {
        latencies.push(f64::from(latency_us) * 1e3, false);
    }
    for (percentile, expected) in [
        (0.1, 1.0),
        (0.5, 1.0),
        (50.0, 100.0),
        (99.0, 198.0),
        (99.1, 199.0),
        (100.0, 200.0),
    ] {
        assert_eq!(
            latencies.percentile_us(percentile),
            Some(expected),
            "p{percentile}"
        );
    }
}

#[test]
fn background_and_active_connections_slow_service_down() {
    let two = trace(&[(10, 0, 1), (20, 1, 1), (30, 1, 1), (1_000_010, 0, 1)]);
    let latencies =
        |model: &ServiceModel, background| replay(&two, |_| true, None, model, background).us;
    assert_eq!(latencies(&model(1_000.0, 4), 0.0), [1.0; 4]);
    assert_eq!(latencies(&model(1_000.0, 4), 0.75), [4.0; 4]);
    assert_eq!(latencies(&model(1_000.0, 4), f64::NAN), [1.0; 4]);
    // Beyond full is as good as full.
    assert!(latencies(&model(1_000.0, 4), 7.0)[0] > 99.0);
    let crowded = ServiceModel {
        per_active_connection_ns: 500.0,
        ..model(1_000.0, 4)
    };
    assert_eq!(latencies(&crowded, 0.0), [1.5, 2.0, 2.0, 1.5]);
}

#[test]
fn messages_that_the_limit_held_are_counted() {
    let burst = trace(&[(0, 0, 10)]);
    let held = replay(
        &burst,
        |_| true,
        Some(limit(1_000.0, 4.0)),
        &model(0.0, 1),
        0.0,
    );
    assert_eq!((held.messages(), held.waited_for_token()), (10, 6));
    let slow = replay(
        &burst,
        |_| true,
        Some(limit(1_000.0, 4.0)),
        &model(1e8, 1),
        0.0,
    );
    assert_eq!(
        slow.waited_for_token(),
        0,
        "tokens came while they were served"
    );
}

#[test]
fn a_trace_is_in_order_within_its_span_and_continues_another() {
    let arrival = |at_ns| Arrival {
        at_ns,
        publisher: PublisherIndex(0),
        messages: 1,
    };
    let first = Trace::new([30, 10, 99, 100, 5].map(arrival).to_vec(), 10, 100);
    assert_eq!(first.arrivals, [10, 30, 99].map(arrival));
    let second = Trace::new(vec![arrival(507)], 500, 600);
    let both = first.followed_by(&second);
    assert_eq!(both.arrivals, [10, 30, 99, 107].map(arrival));
    assert_eq!((both.begin_ns, both.end_ns), (10, 200));
    assert!((both.seconds() - 190e-9).abs() < 1e-15);
}

#[test]
fn declared_rates_stand_unless_the_trace_contradicts_them() {
    let publisher = |rate| Publisher {
        rate: Rate::new(rate).unwrap(),
        batch_messages: 1,
        group: None,
    };
    let arrivals: Vec<_> = (0..100).map(|at| (at * 10_000_000, 0, 1)).collect();
    let trace = trace(&arrivals);
    for (declared, seen) in [
        (100.0, 100.0),
        (90.0, 90.0),
        (130.0, 130.0),
        (30.0, 100.0),
        (400.0, 100.0),
    ] {
        let believed = with_seen_rates(&[publisher(declared), publisher(7.0)], &trace);
        assert_eq!(believed[0].rate.get(), seen, "declared {declared}");
        assert_eq!(believed[1].rate.get(), 7.0, "silent ones keep theirs");
    }
}

/// 60 publishers in 6 groups, each group at its own instant of every 100 ms.
struct Scene {
    trace: Trace,
    publishers: Vec<Publisher>,
    brokers: Vec<BrokerState>,
    models: Vec<ServiceModel>,
}

impl Scene {
    fn new(per_message_us: &[f64]) -> Self {
        let arrival = |at: u32| {
            let (publisher, turn) = (at % 60, u64::from(at / 60));
            (
                turn * 100_000_000 + u64::from(publisher % 6) * 15_000_000,
                publisher,
                1,
            )
        };
        let arrivals: Vec<_> = (0..600).map(arrival).collect();
        let publisher = |at: u32| Publisher {
            rate: Rate::new(10.0).unwrap(),
            batch_messages: 1,
            group: Some(crate::GroupIndex(at % 6)),
        };
        let brokers = vec![
            BrokerState {
                mcap: 1e4,
                load: 0.0,
                is_available: true
            };
            per_message_us.len()
        ];
        Scene {
            trace: trace(&arrivals),
            publishers: (0..60).map(publisher).collect(),
            brokers,
            models: per_message_us
                .iter()
                .map(|&us| model(us * 1e3, 1))
                .collect(),
        }
    }

    fn fit(&self, slo_us: f64) -> ReplayFit {
        fit_by_replay(&self.problem(slo_us, &[]))
    }

    fn problem<'a>(&'a self, slo_us: f64, backgrounds: &'a [f64]) -> ReplayProblem<'a> {
        ReplayProblem {
            trace: &self.trace,
            publishers: &self.publishers,
            brokers: &self.brokers,
            models: &self.models,
            backgrounds,
            limit: None,
            slo_us,
            percentile: 99.0,
            policy: Policy::Srtm,
            margin: 0.0,
            neighbours: &[],
        }
    }

    /// The least k whose even distribution holds, by trying all.
    fn least_k(&self, slo_us: f64) -> Option<usize> {
        let nobody = vec![None; self.publishers.len()];
        (1..=self.brokers.len()).find(|&k_min| {
            let distribution = distribute(&Question {
                policy: Policy::Srtm,
                publishers: &self.publishers,
                placed: &nobody,
                brokers: &self.brokers,
                full: &vec![false; self.brokers.len()],
                k_min,
            });
            let broker_of = distribution.unwrap().broker_of;
            (0u32..).zip(&self.models).all(|(broker, model)| {
                let here = |publisher: PublisherIndex| {
                    broker_of[publisher.0 as usize] == BrokerIndex(broker)
                };
                let p99 = replay(&self.trace, here, None, model, 0.0).percentile_us(99.0);
                p99.is_none_or(|p99| p99 <= slo_us)
            })
        })
    }
}

#[test]
fn equal_brokers_get_the_least_k() {
    // A group of 10 sends at once; 100 us per message: 10 / k of them in a row on each broker.
    let scene = Scene::new(&[100.0; 6]);
    for (slo_us, k) in [
        (1_000.0, 1),
        (999.0, 2),
        (500.0, 2),
        (499.0, 3),
        (400.0, 3),
        (200.0, 5),
    ] {
        let fit = scene.fit(slo_us);
        assert!(fit.met && fit.worst_us() <= slo_us, "{slo_us}: {fit:?}");
        assert_eq!((fit.k, scene.least_k(slo_us)), (k, Some(k)), "SLO {slo_us}");
        assert_eq!(fit.missing, 0.0);
    }
}

#[test]
fn unequal_brokers_are_repaired_before_one_more_is_taken() {
    // Evenly over two, the slow one takes 5 × 150 us.
    let scene = Scene::new(&[50.0, 150.0, 50.0]);
    let fit = scene.fit(500.0);
    assert_eq!(
        (fit.k, fit.met, scene.least_k(400.0)),
        (1, true, None),
        "the first holds all"
    );
    let fit = scene.fit(400.0);
    assert!(fit.met && fit.k == 2, "{fit:?}");
    let on = |broker| {
        fit.broker_of
            .iter()
            .filter(|place| **place == Some(BrokerIndex(broker)))
            .count()
    };
    assert_eq!(on(0) + on(1), 60);
    assert!(on(0) > 36 && on(1) <= 12 + 5, "{} and {}", on(0), on(1));
}

#[test]
fn what_fits_nowhere_is_told_and_the_best_is_kept() {
    let scene = Scene::new(&[100.0; 3]);
    let fit = scene.fit(200.0);
    assert!(!fit.met && fit.k == 3 && fit.broker_of.iter().all(Option::is_some));
    assert_eq!(fit.worst_us(), 400.0);
    // Two of each group may stay at each broker: 36 of 60 publishers, or a few less by the prefixes.
    assert!((240.0..=300.0).contains(&fit.missing), "{}", fit.missing);
    let mut small = Scene::new(&[100.0; 3]);
    small.brokers.fill(BrokerState {
        mcap: 150.0,
        load: 0.0,
        is_available: true,
    });
    let fit = small.fit(1_000.0);
    assert!(!fit.met && (fit.missing - 150.0).abs() < 1e-6, "{fit:?}");
    assert_eq!(
        fit.broker_of.iter().filter(|place| place.is_none()).count(),
        15
    );
    small.brokers.clear();
    small.models.clear();
    let fit = small.fit(1_000.0);
    assert!(!fit.met && fit.broker_of == vec![None; 60]);
}

#[test]
fn other_topics_and_silent_publishers_count() {
    let mut scene = Scene::new(&[100.0; 6]);
    let busy = fit_by_replay(&scene.problem(1_000.0, &[0.5; 6]));
    assert_eq!((busy.k, busy.met), (2, true));
    // One who has not sent within the window but declares half of the servers' time.
    scene.publishers.push(Publisher {
        rate: Rate::new(5_000.0).unwrap(),
        ..scene.publishers[0]
    });
    let fit = scene.fit(1_000.0);
    assert!(fit.met && fit.k == 2, "{fit:?}");
}

#[test]
fn a_tight_neighbour_is_left_alone_while_others_have_room() {
    // Groups of 10 sent at once take 1,000 us; somebody at the first broker is promised 300 us and sends with them.
    let scene = Scene::new(&[100.0; 3]);
    let beside: Vec<_> = (0..10).map(|turn| (turn * 100_000_000 + 1, 0, 1)).collect();
    let (beside, placed) = (trace(&beside), [Some(BrokerIndex(0))]);
    let neighbour = |promise_us| Neighbour {
        name: "quiet",
        percentile: 99.0,
        promise_us,
        limit: None,
        publishers: &scene.publishers[..1],
        placed: &placed,
        latency_us: &[],
        trace: Some(&beside),
    };
    let fit = |slo_us, promise_us| {
        fit_by_replay(&ReplayProblem {
            neighbours: &[neighbour(promise_us)],
            ..scene.problem(slo_us, &[])
        })
    };
    let on = |fit: &ReplayFit, broker| {
        let places = fit.broker_of.iter();
        places
            .filter(|place| **place == Some(BrokerIndex(broker)))
            .count()
    };
    let loose = fit(1_000.0, 5_000.0);
    assert!(
        loose.met && loose.k == 1 && loose.decided_by.is_none(),
        "{loose:?}"
    );
    let tight = fit(1_000.0, 300.0);
    assert!(tight.met && tight.k == 1 && on(&tight, 0) == 0, "{tight:?}");
    assert_eq!(
        tight
            .decided_by
            .map(|(neighbour, broker, _)| (neighbour, broker)),
        Some((0, BrokerIndex(0)))
    );
    // Promised less, one broker does not do: two others do, or some go to the first, as many as its neighbour bears.
    let full = fit(600.0, 300.0);
    assert!(full.met, "{full:?}");
    assert!(on(&full, 0) < on(&full, 1), "{full:?}");
}
