//! Laws of the token bucket over random arrivals: against the oracle, and in every window.

use std::time::Duration;

use clock::Instant;
use limit::oracle::{Held, gd1_departures, window_excess, window_excess_in_tokens};
use limit::{Burst, Rate, Refused, TokenBucket};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// Rates from 10⁻³ to 10¹² tokens per second, evenly over the decades, with at most six decimals.
fn rates() -> impl Strategy<Value = Rate> {
    (1000u64..10_000, 0u32..15).prop_map(|(digits, decade)| {
        let micro = digits * 10u64.pow(decade);
        Rate::new(micro as f64 / 1e6).expect("in range")
    })
}

fn bursts() -> impl Strategy<Value = Burst> {
    let tokens = prop_oneof![
        Just(1.0),
        (4u32..200).prop_map(|quarters| f64::from(quarters) / 4.0)
    ];
    tokens.prop_map(|tokens| Burst::new(tokens).expect("in range"))
}

/// Gaps in token times: bursts, a load near the rate, and rests in which the bucket fills.
fn gaps() -> impl Strategy<Value = Vec<f64>> {
    let gap = prop_oneof![4 => Just(0.0), 4 => 0.0..2.5, 1 => 0.0..60.0];
    prop::collection::vec(gap, 1..150)
}

fn arrivals(gaps: &[f64], rate: Rate, start: Instant) -> Vec<Instant> {
    let mut now = start;
    let arrival = |gap: &f64| {
        now += Duration::from_nanos((gap / rate.get() * 1e9) as u64);
        now
    };
    gaps.iter().map(arrival).collect()
}

/// What rounding departures up to whole nanoseconds may add to a window.
fn rounding(rate: Rate) -> f64 {
    rate.get() * 1e-9 + 1e-6
}

fn one_each(count: usize) -> Vec<u64> {
    vec![1; count]
}

proptest! {
    #[test]
    fn departures_are_those_of_equation_2(
        rate in rates(),
        burst in bursts(),
        gaps in gaps(),
        costs in prop::collection::vec(prop_oneof![3 => Just(1u64), 1 => 0u64..80], 150),
        stamped_early in prop::collection::vec(prop_oneof![3 => Just(0.0), 1 => 0.0..5.0], 150),
        held in 0.0..=1.0f64,
    ) {
        let start = at(3 * SECOND);
        let mut arrivals = arrivals(&gaps, rate, start);
        for (arrival, early) in arrivals.iter_mut().zip(stamped_early) {
            *arrival = *arrival - Duration::from_nanos((early / rate.get() * 1e9) as u64);
        }
        let costs = &costs[..arrivals.len()];
        // Both begin with the same tokens, in millionths: b - tokens are taken from a full bucket.
        let tokens = (held * burst.get() * 1e6).floor() / 1e6;
        let mut bucket = TokenBucket::full(rate, burst, start);
        bucket.take(start, burst.get() - tokens);
        let expected = gd1_departures(&arrivals, costs, rate, burst, Held { tokens, at: start });

        let mut previous = Instant::ZERO;
        for ((&arrival, &cost), &expected) in arrivals.iter().zip(costs).zip(&expected) {
            let peeked = bucket.departure(arrival, cost as f64);
            let departure = bucket.take(arrival, cost as f64);
            prop_assert_eq!(peeked, departure);
            prop_assert!(departure >= arrival && departure >= previous);
            // The oracle's first departure follows arrivals before `start` down; the bucket was
            // told of `start` and stays behind it.
            let expected = expected.max(start);
            prop_assert!(
                departure.as_nanos().abs_diff(expected.as_nanos()) <= 1,
                "{departure:?} instead of {expected:?}"
            );
            previous = departure;
        }
    }

    #[test]
    fn delay_holds_every_window(
        rate in rates(),
        burst in bursts(),
        gaps in gaps(),
        costs in prop::collection::vec(1u64..80, 150),
    ) {
        let arrivals = arrivals(&gaps, rate, at(0));
        let mut bucket = TokenBucket::full(rate, burst, at(0));
        let single: Vec<_> = arrivals.iter().map(|&arrival| bucket.take(arrival, 1.0)).collect();
        prop_assert!(window_excess(&single, rate, burst) <= rounding(rate));

        let costs = &costs[..arrivals.len()];
        let mut bucket = TokenBucket::empty(rate, burst, at(0));
        let departures: Vec<_> =
            arrivals.iter().zip(costs).map(|(&arrival, &cost)| bucket.take(arrival, cost as f64)).collect();
        let largest = costs.iter().max().map_or(0.0, |&cost| cost as f64);
        let oversize = (largest - burst.get()).max(0.0);
        let excess = window_excess_in_tokens(&departures, costs, rate, burst);
        prop_assert!(excess <= oversize + rounding(rate), "{excess} over, {oversize} oversize");
    }

    #[test]
    fn drop_holds_every_window_and_recovers(rate in rates(), burst in bursts(), gaps in gaps(), cost in 1u64..4) {
        let mut bucket = TokenBucket::full(rate, burst, at(0));
        let mut conforming = arrivals(&gaps, rate, at(0));
        let last = *conforming.last().expect("at least one");
        conforming.retain(|&arrival| bucket.try_take(arrival, cost as f64));
        let costs = vec![cost; conforming.len()];
        prop_assert!(window_excess_in_tokens(&conforming, &costs, rate, burst) <= 1e-6);

        let recovery_ns = (burst.get() + cost as f64) / rate.get() * 1e9;
        let recovered = last + Duration::from_nanos(recovery_ns.ceil() as u64 + 1);
        prop_assert_eq!(bucket.try_take(recovered, cost as f64), cost as f64 <= burst.get());
    }

    #[test]
    fn reject_holds_every_window_but_for_one_debt_and_tells_when_to_retry(
        rate in rates(),
        burst in bursts(),
        gaps in gaps(),
        totals in prop::collection::vec(1u64..110, 150),
    ) {
        let mut bucket = TokenBucket::full(rate, burst, at(0));
        let (mut admitted, mut costs) = (Vec::new(), Vec::new());
        for (arrival, total) in arrivals(&gaps, rate, at(0)).into_iter().zip(totals) {
            let before = bucket;
            match bucket.try_take_batch(arrival, total as f64) {
                Ok(()) => {
                    prop_assert!(bucket.tokens_at(arrival) >= -burst.get() - 1e-6);
                    admitted.push(arrival);
                    costs.push(total);
                }
                Err(Refused::NeverFits { .. }) => {
                    prop_assert!(total as f64 > 2.0 * burst.get());
                    prop_assert_eq!(bucket, before);
                }
                Err(Refused::Retry { after }) => {
                    prop_assert_eq!(bucket, before);
                    let just_too_early = arrival + after - Duration::from_nanos(1);
                    prop_assert!(bucket.try_take_batch(just_too_early, total as f64).is_err());
                    let mut later = before;
                    prop_assert!(later.try_take_batch(arrival + after, total as f64).is_ok());
                }
            }
        }
        let excess = window_excess_in_tokens(&admitted, &costs, rate, burst);
        prop_assert!(excess <= burst.get() + 1e-6, "{excess} over");
    }

    #[test]
    fn a_restart_never_admits_earlier_than_an_uninterrupted_run(
        rate in rates(),
        burst in bursts(),
        gaps in gaps(),
        restart in 0.0..=1.0f64,
    ) {
        let arrivals = arrivals(&gaps, rate, at(0));
        let costs = one_each(arrivals.len());
        let start = Held { tokens: burst.get(), at: at(0) };
        let uninterrupted = gd1_departures(&arrivals, &costs, rate, burst, start);
        let restarted_from = (restart * (arrivals.len() - 1) as f64) as usize;
        let now = arrivals[restarted_from];
        let mut bucket = TokenBucket::empty(rate, burst, now);
        let mut departures: Vec<_> =
            uninterrupted[..restarted_from].iter().copied().filter(|&departure| departure <= now).collect();
        departures.extend(arrivals[restarted_from..].iter().map(|&arrival| bucket.take(arrival, 1.0)));
        prop_assert!(window_excess(&departures, rate, burst) <= rounding(rate));
    }
}

/// 10⁷ messages from one backlog: the last must leave when exact arithmetic says, to 10⁻⁹ of the run
/// and the one nanosecond by which it is rounded up.
#[test]
fn ten_million_messages_leave_at_the_declared_rate() {
    const MESSAGES: u64 = 10_000_000;
    for (tokens_per_second, cost) in [
        (1e-3, 1.0),
        (7.0, 1.0),
        (999_983.0, 1.0),
        (3e9, 137.0),
        (1e12, 1e6),
    ] {
        let rate = Rate::new(tokens_per_second).expect("in range");
        let mut bucket = TokenBucket::empty(rate, Burst::new(1e6).expect("in range"), at(0));
        let mut last = at(0);
        for _ in 0..MESSAGES {
            last = bucket.take(at(0), cost);
        }
        let expected_ns = MESSAGES as f64 * cost / tokens_per_second * 1e9;
        let error_ns = (last.as_nanos() as f64 - expected_ns).abs() - 1.0;
        assert!(
            error_ns / expected_ns < 1e-9,
            "{tokens_per_second}/s: {error_ns} ns of {expected_ns}"
        );
    }
}
