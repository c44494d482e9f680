//! Fitted bursts compared with token buckets: known loads, random ones, and refusals.

use std::time::Duration;

use clock::Instant;
use proptest::prelude::*;
use rand::Rng;

use super::*;

/// Name, arrivals, percentile, target in microseconds, the burst expected.
type Fitted = (&'static str, Vec<(u64, u32)>, f64, u64, f64);
/// Arrivals, question, what the refusal says.
type Refused<'a> = (&'a [(u64, u32)], FitQuestion, &'static str);

const SECOND: u64 = 1_000_000_000;

fn question(percentile: f64) -> FitQuestion {
    FitQuestion {
        percentile,
        ..FitQuestion::default()
    }
}

fn fit(arrivals: &[(u64, u32)], question: &FitQuestion) -> Result<Profile, ProfileError> {
    fit_bucket(arrivals.iter().copied(), question)
}

/// How many messages leave a bucket within the target.
fn in_time(arrivals: &[(u64, u32)], rate: Rate, burst: f64, target: Duration) -> u64 {
    let burst = Burst::new(burst).expect("at least 1");
    let mut bucket = TokenBucket::full(rate, burst, Instant::from_nanos(arrivals[0].0));
    let mut count = 0;
    for &(at_ns, messages) in arrivals {
        let at = Instant::from_nanos(at_ns);
        count += (0..messages)
            .filter(|_| bucket.take(at, 1.0) - at <= target)
            .count() as u64;
    }
    count
}

fn assert_fits(arrivals: &[(u64, u32)], question: &FitQuestion) -> Profile {
    let profile = fit(arrivals, question).expect("a fit");
    let enough = nearest_rank(profile.messages, question.percentile);
    let burst = profile.burst.get();
    let served = |burst| in_time(arrivals, profile.rate, burst, question.target);
    assert!(served(burst) >= enough, "{profile:?} {question:?}");
    if burst > 1.0 {
        assert!(
            served(burst - 1.0) < enough,
            "{profile:?} {question:?}: one less would do"
        );
    }
    profile
}

#[test]
fn known_loads() {
    let every_ms = |messages: u32| (0..1000u64).map(move |ms| (ms * 1_000_000, messages));
    let spikes = (0..10u64).map(|spike| (spike * SECOND, if spike == 5 { 91 } else { 1 }));
    let rows: [Fitted; 6] = [
        ("even", every_ms(1).collect(), 100.0, 0, 1.0),
        ("even batches", every_ms(10).collect(), 100.0, 0, 10.0),
        // Nine of ten messages leave with nine tokens.
        ("all but a tenth", every_ms(10).collect(), 90.0, 0, 9.0),
        // At 11,000 per second 200 µs are the time of 2.2 tokens.
        ("patience", every_ms(10).collect(), 100.0, 200, 8.0),
        // 100 messages in ten seconds, 91 of them at once; at 11 per second four more find that work.
        ("a spike", spikes.clone().collect(), 100.0, 0, 91.0),
        ("half a spike", spikes.collect(), 50.0, 0, 45.0),
    ];
    for (name, arrivals, percentile, target_us, burst) in rows {
        let last_ns = arrivals[arrivals.len() - 1].0;
        let question = FitQuestion {
            target: Duration::from_micros(target_us),
            span: Some((0, last_ns + last_ns / (arrivals.len() as u64 - 1))),
            ..question(percentile)
        };
        let profile = assert_fits(&arrivals, &question);
        assert_eq!(profile.burst.get(), burst, "{name}: {profile:?}");
        let mean_rate = profile.messages as f64 / profile.seconds;
        assert!(
            (profile.mean_rate / mean_rate - 1.0).abs() < 1e-12,
            "{name}"
        );
        assert_eq!(profile.rate.get(), profile.mean_rate * 1.1, "{name}");
    }
}

/// Coincidences to the nanosecond: arrivals exactly as fast as tokens.
#[test]
fn a_rate_that_is_just_enough_needs_no_burst() {
    for every_ns in [1_000u64, 1_000_000, 2_500_000, 125_000_000] {
        let begin_ns = 1_700_000_000 * SECOND;
        let arrivals: Vec<_> = (0..500).map(|n| (begin_ns + n * every_ns, 1)).collect();
        let question = FitQuestion {
            headroom: 1.0,
            span: Some((begin_ns, begin_ns + 500 * every_ns)),
            ..question(100.0)
        };
        let profile = assert_fits(&arrivals, &question);
        assert_eq!(profile.rate.get(), 1e9 / every_ns as f64);
        assert_eq!(profile.burst.get(), 1.0);
    }
}

#[test]
fn poisson_traffic_of_a_day() {
    let mut random = clock::stream(11, "profile");
    let mut at_ns = 1_763_000_000 * SECOND;
    let arrivals: Vec<_> = (0..20_000)
        .map(|_| {
            let uniform = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            at_ns += (-(1.0 - uniform).ln() * 1e6) as u64;
            (at_ns, 1 + (random.next_u64() % 20 / 19) as u32 * 30)
        })
        .collect();
    for (percentile, target_us) in [(50.0, 0), (99.0, 0), (99.9, 0), (99.0, 5_000), (100.0, 0)] {
        let target = Duration::from_micros(target_us);
        let question = FitQuestion {
            target,
            ..question(percentile)
        };
        let profile = assert_fits(&arrivals, &question);
        let delays = AccessDelays::measure(arrivals.iter().copied(), profile.rate, profile.burst);
        let delays = delays.expect("few wait");
        assert!(delays.percentile(percentile) <= target);
        assert_eq!(delays.messages(), profile.messages);
    }
}

#[test]
fn a_given_rate_is_kept() {
    let arrivals = [(0, 4), (SECOND, 4), (2 * SECOND, 4)];
    let question = FitQuestion {
        rate: Some(Rate::new(8.0).expect("in range")),
        headroom: f64::NAN,
        ..question(100.0)
    };
    let profile = assert_fits(&arrivals, &question);
    assert_eq!((profile.rate.get(), profile.burst.get()), (8.0, 4.0));
    assert_eq!((profile.mean_rate, profile.seconds), (6.0, 2.0));
}

#[test]
fn what_cannot_be_fitted_is_refused() {
    let two = [(10, 1), (20, 1)];
    let with = |change: fn(&mut FitQuestion)| {
        let mut question = question(99.0);
        change(&mut question);
        question
    };
    let rows: [Refused<'_>; 12] = [
        (&[], with(|_| ()), "no message"),
        (&[(10, 0), (20, 0)], with(|_| ()), "no message"),
        (&[(10, 5)], with(|_| ()), "has no duration"),
        (
            &[(20, 1), (10, 1)],
            with(|_| ()),
            "arrival 2 at 10 ns comes after",
        ),
        (
            &two,
            with(|q| q.span = Some((15, 30))),
            "arrival 1 at 10 ns lies outside",
        ),
        (
            &two,
            with(|q| q.span = Some((0, 15))),
            "arrival 2 at 20 ns lies outside",
        ),
        (
            &two,
            with(|q| q.span = Some((30, 0))),
            "ends at 0 ns, before",
        ),
        (&two, with(|q| q.headroom = 0.9), "headroom 0.9"),
        (&two, with(|q| q.headroom = f64::NAN), "headroom NaN"),
        (&two, with(|q| q.percentile = 0.0), "percentile 0"),
        (&two, with(|q| q.percentile = 100.1), "percentile 100.1"),
        (
            &two,
            with(|q| q.rate = Rate::new(1.0).ok()),
            "below the recording's mean",
        ),
    ];
    for (arrivals, question, text) in rows {
        let error = fit(arrivals, &question).expect_err(text).to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn a_burst_is_bounded() {
    let most = BURST_MAX as u32;
    let fits = fit(&[(0, most), (SECOND, 1)], &question(100.0)).expect("just within");
    assert_eq!(fits.burst.get(), f64::from(most));
    for batch in [most + 1, u32::MAX] {
        let error = fit(&[(0, batch), (SECOND, 1)], &question(100.0));
        assert_eq!(error, Err(ProfileError::BurstTooLarge));
    }
    // What lies beyond the percentile may need whatever it likes.
    let fits = fit(&[(0, 4 * most), (SECOND, 1)], &question(20.0)).expect("a fifth");
    assert_eq!(
        fits.burst.get() as u64,
        nearest_rank(fits.messages, 20.0) - 1
    );
}

#[test]
fn delays_under_a_given_limit() {
    // The worked example of docs/limits.md: 60 messages at once, (1000/s, 50).
    let limit = (
        Rate::new(1000.0).expect("in range"),
        Burst::new(50.0).expect("in range"),
    );
    let delays = AccessDelays::measure([(5 * SECOND, 60)].into_iter(), limit.0, limit.1);
    let delays = delays.expect("sorted");
    assert_eq!((delays.messages(), delays.delayed()), (60, 10));
    assert!((delays.mean_s() - 0.055 / 60.0).abs() < 1e-12);
    let rows = [
        (0.0, 0),
        (83.3, 0),
        (83.4, 1),
        (90.0, 4),
        (99.0, 10),
        (100.0, 10),
        (200.0, 10),
    ];
    for (percentile, ms) in rows {
        let delay = delays.percentile(percentile);
        assert_eq!(delay, Duration::from_millis(ms), "{percentile}");
    }
    let none = AccessDelays::measure(std::iter::empty(), limit.0, limit.1).expect("empty");
    assert_eq!(
        (none.percentile(99.0), none.mean_s()),
        (Duration::ZERO, 0.0)
    );
    let unsorted = AccessDelays::measure([(2, 1), (1, 1)].into_iter(), limit.0, limit.1);
    assert!(matches!(
        unsorted,
        Err(ProfileError::Unsorted { position: 2, .. })
    ));
}

proptest! {
    /// Whatever arrives: the burst meets the target and one less misses it.
    #[test]
    fn the_burst_is_the_smallest(
        gaps in prop::collection::vec((0u64..3_000_000, 0u32..12), 2..200),
        percentile in 1.0f64..=100.0,
        headroom in 1.0f64..3.0,
        target_us in prop_oneof![Just(0u64), 1u64..20_000],
    ) {
        let mut at_ns = 0;
        let arrivals: Vec<_> = gaps
            .into_iter()
            .map(|(gap_ns, messages)| {
                at_ns += gap_ns;
                (at_ns, messages)
            })
            .collect();
        let question = FitQuestion {
            headroom,
            percentile,
            target: Duration::from_micros(target_us),
            ..FitQuestion::default()
        };
        let total: u32 = arrivals.iter().map(|&(_, messages)| messages).sum();
        prop_assume!(total > 0 && arrivals[arrivals.len() - 1].0 > arrivals[0].0);
        assert_fits(&arrivals, &question);
    }
}
