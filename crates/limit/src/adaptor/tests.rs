//! Histories step by step, and the laws of a division.

use std::time::Duration;

use clock::Instant;
use proptest::prelude::*;

use super::*;
use crate::{Burst, Limit, Rate, Share, TokenBucket};

const MS: u64 = 1_000_000;

fn at_ms(ms: u64) -> Instant {
    Instant::from_nanos(ms * MS)
}

fn limit(rate: f64, burst: f64) -> Limit {
    Limit::messages(rate, burst).expect("valid")
}

fn share(rate: f64, burst: f64) -> Share {
    Share {
        rate: Rate::new(rate).expect("in range"),
        burst: Burst::new(burst).expect("in range"),
    }
}

fn traffic(mean_rate: f64, max_backlog: f64) -> Traffic {
    Traffic::new(mean_rate, max_backlog).expect("sane")
}

fn claim(mean_rate: f64, max_backlog: f64) -> Claim {
    Claim {
        traffic: traffic(mean_rate, max_backlog),
        ..Claim::default()
    }
}

#[test]
fn absurd_traffic_is_refused_by_name() {
    for absurd in [-1.0, f64::NAN, f64::INFINITY, 1.1e15, -1e-300] {
        let text = Traffic::new(absurd, 0.0).expect_err("absurd").to_string();
        assert!(text.starts_with("mean_rate ") && text.contains("is out of range"));
        let text = Traffic::new(0.0, absurd).expect_err("absurd").to_string();
        assert!(text.starts_with("max_backlog "), "{text}");
    }
    let read = serde_json::from_str::<Traffic>(r#"{"mean_rate":2.5,"max_backlog":7}"#);
    assert_eq!(read.ok(), Some(traffic(2.5, 7.0)));
    assert!(serde_json::from_str::<Traffic>(r#"{"mean_rate":-1,"max_backlog":7}"#).is_err());
}

#[test]
fn windows_are_bounded() {
    for (steps, step_ms) in [(0, 1000), (601, 1000), (10, 9), (10, 60_001)] {
        let text = HistoryLength::new(steps, step_ms).expect_err("out of range");
        assert!(text.to_string().contains("1 to 600 steps"), "{text}");
    }
    assert_eq!(HistoryLength::new(10, 1000), Ok(HistoryLength::default()));
    assert_eq!(HistoryLength::default().duration(), Duration::from_secs(10));
}

#[test]
fn a_history_slides_in_steps_and_forgets_after_its_window() {
    let mut history = History::new(HistoryLength::default(), at_ms(0));
    assert_eq!(history.traffic(at_ms(0)), traffic(0.0, 0.0));
    // 30 tokens in the first step: all there is to go by until it closes.
    history.arrived(at_ms(100), 10.0, 4.0);
    history.arrived(at_ms(900), 20.0, 8.0);
    assert_eq!(history.traffic(at_ms(950)), traffic(30.0, 8.0));
    // Steps close on the grid, not when something happens.
    assert_eq!(history.traffic(at_ms(1000)), traffic(30.0, 8.0));
    assert_eq!(history.traffic(at_ms(1999)), traffic(30.0, 8.0));
    assert_eq!(history.traffic(at_ms(2000)), traffic(15.0, 8.0));
    // A backlog counts while its step is open, tokens when it has closed.
    history.arrived(at_ms(2500), 60.0, 50.0);
    assert_eq!(history.traffic(at_ms(2600)), traffic(15.0, 50.0));
    assert_eq!(history.traffic(at_ms(3000)), traffic(30.0, 50.0));
    assert_eq!(history.traffic(at_ms(10_999)), traffic(9.0, 50.0));
    // The first step leaves the window of ten, then the third.
    assert_eq!(history.traffic(at_ms(11_000)), traffic(6.0, 50.0));
    assert_eq!(history.traffic(at_ms(12_999)), traffic(6.0, 50.0));
    assert_eq!(history.traffic(at_ms(13_000)), traffic(0.0, 0.0));
}

#[test]
fn a_long_silence_a_backward_clock_and_absurd_sums_are_harmless() {
    let mut history = History::new(HistoryLength::new(3, 10).expect("in range"), at_ms(50));
    history.arrived(at_ms(50), 7.0, 7.0);
    history.arrived(at_ms(1), 7.0, 1.0);
    assert_eq!(history.traffic(at_ms(60)), traffic(1400.0, 7.0));
    assert_eq!(history.traffic(Instant::MAX), traffic(0.0, 0.0));
    let mut history = History::new(HistoryLength::default(), at_ms(0));
    history.arrived(at_ms(0), f64::MAX, f64::INFINITY);
    assert_eq!(
        history.traffic(at_ms(0)),
        traffic(Traffic::MAX, Traffic::MAX)
    );
    let mut history = History::new(HistoryLength::default(), at_ms(0));
    history.arrived(at_ms(0), f64::NAN, f64::NAN);
    assert_eq!(history.traffic(at_ms(0)), traffic(0.0, 0.0));
}

#[test]
fn a_burst_of_the_backlog_would_have_delayed_nobody() {
    let (rate, arrivals) = (share(100.0, 1.0).rate, 40u32);
    let mut bucket = TokenBucket::full(rate, Burst::MAX, at_ms(0));
    let mut history = History::new(HistoryLength::default(), at_ms(0));
    for number in 0..arrivals {
        let at = at_ms(u64::from(number / 8) * 30);
        bucket.take(at, 1.0);
        history.arrived(at, 1.0, bucket.unfinished_at(at));
    }
    // 8 every 30 ms, served at 100/s: 8, 13, 18, 23, 28.
    let backlog = history.traffic(at_ms(500)).max_backlog();
    assert!((backlog - 28.0).abs() < 1e-9, "{backlog}");
    for (burst, waits) in [(backlog + 1e-6, false), (backlog - 1e-6, true)] {
        let burst = Burst::new(burst).expect("in range");
        let mut bucket = TokenBucket::full(rate, burst, at_ms(0));
        let waited = (0..arrivals).any(|number| {
            let at = at_ms(u64::from(number / 8) * 30);
            bucket.take(at, 1.0) > at
        });
        assert_eq!(waited, waits);
    }
}

#[test]
fn shares_follow_rates_and_backlogs_apart() {
    let got = split(
        &limit(1000.0, 50.0),
        &[claim(300.0, 5.0), claim(100.0, 15.0)],
        1.0,
    );
    assert_eq!(got, [Some(share(750.0, 12.5)), Some(share(250.0, 37.5))]);
    // One broker gets the limit to the last digit, idle ones even parts.
    assert_eq!(
        split(&limit(0.1, 3.3), &[claim(7.0, 0.0)], 1.0),
        [Some(share(0.1, 3.3))]
    );
    let even = split(&limit(1000.0, 50.0), &[Claim::default(); 4], 1.0);
    assert_eq!(even, [Some(share(250.0, 12.5)); 4]);
    assert_eq!(split(&limit(1000.0, 50.0), &[], 1.0), []);
}

#[test]
fn an_idle_broker_keeps_one_batch_and_a_hundredth_of_the_even_rate() {
    let got = split(
        &limit(1000.0, 50.0),
        &[claim(800.0, 90.0), claim(0.0, 0.0)],
        4.0,
    );
    assert_eq!(got, [Some(share(995.0, 46.0)), Some(share(5.0, 4.0))]);
    let floor = Some(share(200.0, 20.0));
    let idle = Claim {
        floor,
        ..Claim::default()
    };
    let got = split(&limit(1000.0, 50.0), &[claim(800.0, 90.0), idle], 4.0);
    assert_eq!(got, [Some(share(800.0, 30.0)), floor]);
}

#[test]
fn a_small_burst_serves_the_busiest_and_prefers_those_who_have_it() {
    let busy = [claim(5.0, 1.0), claim(9.0, 1.0), claim(8.0, 1.0)];
    let got = split(&limit(100.0, 5.0), &busy, 2.0);
    assert!(
        got[0].is_none() && got[1].is_some() && got[2].is_some(),
        "{got:?}"
    );
    let mut holding = busy;
    holding[0].is_holder = true;
    let got = split(&limit(100.0, 5.0), &holding, 2.0);
    assert!(
        got[0].is_some() && got[1].is_some() && got[2].is_none(),
        "{got:?}"
    );
    // A batch above the whole burst: one broker gets what there is.
    let got = split(&limit(100.0, 5.0), &busy, 6.0);
    assert_eq!(got, [None, Some(share(100.0, 5.0)), None]);
}

#[test]
fn five_percent_are_not_worth_moving() {
    let present = Some(share(100.0, 10.0));
    for (wanted, worth) in [
        (present, false),
        (Some(share(105.0, 9.5)), false),
        (Some(share(95.0, 10.5)), false),
        (Some(share(105.1, 10.0)), true),
        (Some(share(100.0, 9.4)), true),
        (None, true),
    ] {
        assert_eq!(is_worth_moving(present, wanted), worth, "{wanted:?}");
        assert!(!is_worth_moving(wanted, wanted), "{wanted:?}");
    }
    assert!(is_worth_moving(None, present));
}

fn claims() -> impl Strategy<Value = Vec<Claim>> {
    let quantity = prop_oneof![
        2 => Just(0.0),
        4 => 0.0..1000.0f64,
        1 => 0.0..1e-9f64,
        1 => Just(Traffic::MAX),
    ];
    let floor = prop_oneof![
        3 => Just(None),
        1 => (1e-3..100.0f64, 1.0..20.0f64).prop_map(|(rate, burst)| Some(share(rate, burst))),
    ];
    let claim = (quantity.clone(), quantity, floor, any::<bool>()).prop_map(
        |(mean_rate, max_backlog, floor, is_holder)| Claim {
            traffic: traffic(mean_rate, max_backlog),
            floor,
            is_holder,
        },
    );
    prop::collection::vec(claim, 1..40)
}

fn limits() -> impl Strategy<Value = Limit> {
    let rate = prop_oneof![1e-3..1.0f64, 1.0..10_000.0f64, Just(1e12), Just(0.1)];
    let burst = prop_oneof![1.0..3.0f64, 1.0..1000.0f64, Just(1e12), Just(1.0)];
    (rate, burst).prop_map(|(rate, burst)| limit(rate, burst))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// In whatever order they are added, in floating point, shares add up to exactly the limit.
    #[test]
    fn shares_add_up_to_the_limit(limit in limits(), claims in claims(), batch in 0.0..30.0f64) {
        let shares = split(&limit, &claims, batch);
        prop_assert_eq!(shares.len(), claims.len());
        let (mut rate, mut burst) = (0.0, 0.0);
        for share in shares.iter().flatten() {
            rate += share.rate.get();
            burst += share.burst.get();
        }
        prop_assert_eq!(rate, limit.rate.get());
        prop_assert_eq!(burst, limit.burst.get());
        let (mut rate, mut burst) = (0.0, 0.0);
        for share in shares.iter().rev().flatten() {
            rate += share.rate.get();
            burst += share.burst.get();
        }
        prop_assert_eq!(rate, limit.rate.get());
        prop_assert_eq!(burst, limit.burst.get());
    }

    /// As many as fit are served, nobody gets less than one batch and the least rate, and floors
    /// hold where they fit.
    #[test]
    fn nobody_gets_less_than_the_least(limit in limits(), claims in claims(), batch in 0.0..30.0f64) {
        const ROUNDING: f64 = 1.0 - 1e-9;
        // Parts are multiples of the whole's last digit.
        let digits = |whole: f64| 64.0 * (whole.next_up() - whole);
        let (rate_digits, burst_digits) = (digits(limit.rate.get()), digits(limit.burst.get()));
        let shares = split(&limit, &claims, batch);
        let least = batch.max(1.0).min(limit.burst.get());
        let fit = ((limit.burst.get() / least) as usize).min(claims.len());
        prop_assert_eq!(shares.iter().flatten().count(), fit);
        let chosen = || shares.iter().zip(&claims).filter_map(|(share, claim)| Some(((*share)?, claim)));
        let asks = |of: fn(&Share) -> f64, least: f64| -> f64 {
            chosen().map(|(_, claim)| claim.floor.map_or(least, |floor| of(&floor).max(least))).sum()
        };
        let least_rate = 0.01 * limit.rate.get() / fit as f64;
        let rates_fit = asks(|floor| floor.rate.get(), least_rate) <= limit.rate.get();
        let bursts_fit = asks(|floor| floor.burst.get(), least) <= limit.burst.get();
        for (share, claim) in chosen() {
            prop_assert!(share.burst.get() >= least * ROUNDING - burst_digits);
            prop_assert!(share.rate.get() >= least_rate * ROUNDING - rate_digits);
            if let Some(floor) = claim.floor {
                prop_assert!(!rates_fit || share.rate.get() >= floor.rate.get() * ROUNDING - rate_digits);
                prop_assert!(!bursts_fit || share.burst.get() >= floor.burst.get() * ROUNDING - burst_digits);
            }
        }
    }

    /// Whoever has more than the least is served in proportion, and more traffic never means less.
    #[test]
    fn shares_are_in_proportion(limit in limits(), rates in prop::collection::vec(0.1..1000.0f64, 2..20)) {
        let claims: Vec<Claim> = rates.iter().map(|&rate| claim(rate, rate)).collect();
        let shares = split(&limit, &claims, 1.0);
        let least = 0.0101 * limit.rate.get() / shares.iter().flatten().count() as f64;
        let served: Vec<(f64, f64)> = shares.iter().zip(&rates)
            .filter_map(|(share, &rate)| Some(((*share)?.rate.get(), rate)))
            .collect();
        for &(a, a_rate) in &served {
            for &(b, b_rate) in &served {
                if a > least && b > least {
                    prop_assert!((a * b_rate - b * a_rate).abs() <= 1e-9 * (a * b_rate));
                }
                prop_assert!(a_rate < b_rate || a >= b * (1.0 - 1e-9));
            }
        }
    }

    /// A history says what a plain list of everything that arrived says.
    #[test]
    fn a_history_equals_a_list(
        arrivals in prop::collection::vec((0u64..700, 0u32..9, 0u32..100), 1..120),
        steps in 1usize..12,
    ) {
        let mut history = History::new(HistoryLength::new(steps, 100).expect("in range"), at_ms(0));
        let mut list = Vec::new();
        let mut now = 0;
        for (gap, tokens, backlog) in arrivals {
            now += gap;
            history.arrived(at_ms(now), f64::from(tokens), f64::from(backlog));
            list.push((now / 100, f64::from(tokens), f64::from(backlog)));
            let open = now / 100;
            let oldest = open.saturating_sub(steps as u64);
            let in_window = || list.iter().filter(|&&(step, ..)| step >= oldest);
            let closed = open - oldest;
            let tokens: f64 = in_window()
                .filter(|&&(step, ..)| closed == 0 || step < open)
                .map(|&(_, tokens, _)| tokens)
                .sum();
            let backlog = in_window().map(|&(.., backlog)| backlog).fold(0.0, f64::max);
            let got = history.traffic(at_ms(now));
            prop_assert!((got.mean_rate() - tokens / (0.1 * closed.max(1) as f64)).abs() < 1e-6);
            prop_assert_eq!(got.max_backlog(), backlog);
        }
    }
}
