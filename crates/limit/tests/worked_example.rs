//! The figures of docs/limits.md, "Worked example".

use std::time::Duration;

use clock::Instant;
use limit::oracle::sum_of_delays;
use limit::{Burst, Rate, Refused, TokenBucket};

fn ms(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn rate(tokens_per_second: f64) -> Rate {
    Rate::new(tokens_per_second).expect("in range")
}

fn burst(tokens: f64) -> Burst {
    Burst::new(tokens).expect("in range")
}

fn full(r: f64, b: f64) -> TokenBucket {
    TokenBucket::full(rate(r), burst(b), ms(0))
}

/// The departures of a burst at t = 0 that is dealt to the buckets in the given numbers.
fn burst_into(parts: &mut [(TokenBucket, usize)]) -> Vec<Instant> {
    let mut departures = Vec::new();
    for (bucket, messages) in parts {
        departures.extend((0..*messages).map(|_| bucket.take(ms(0), 1.0)));
    }
    departures
}

#[test]
fn the_figures_of_docs_limits_md() {
    let half = full(500.0, 25.0);
    let table = [
        (vec![(full(1000.0, 50.0), 60)], 50, 10, 55),
        (vec![(half, 30), (half, 30)], 50, 10, 60),
        (vec![(half, 60), (half, 0)], 25, 70, 1260),
    ];
    for (mut parts, at_once, last_ms, sum_ms) in table {
        let departures = burst_into(&mut parts);
        assert_eq!(
            departures
                .iter()
                .filter(|&&departure| departure == ms(0))
                .count(),
            at_once
        );
        assert_eq!(departures.iter().max(), Some(&ms(last_ms)));
        assert_eq!(
            sum_of_delays(&[ms(0); 60], &departures),
            Duration::from_millis(sum_ms)
        );
    }

    let mut bucket = full(1000.0, 50.0);
    let departures = burst_into(std::slice::from_mut(&mut (bucket, 60)));
    assert_eq!(departures[50..52], [ms(1), ms(2)]);
    bucket.take(ms(0), 60.0);
    for (milli, tokens) in [(10, 0.0), (35, 25.0), (60, 50.0), (61, 50.0)] {
        assert_eq!(bucket.tokens_at(ms(milli)), tokens);
    }

    let mut raised = bucket;
    raised.resize(ms(35), rate(1000.0), burst(80.0));
    assert_eq!(
        [35, 89, 90, 91].map(|milli| raised.tokens_at(ms(milli))),
        [25.0, 79.0, 80.0, 80.0]
    );
    let mut cut = bucket;
    cut.resize(ms(35), rate(1000.0), burst(20.0));
    assert_eq!(cut.tokens_at(ms(35)), 20.0);

    let mut rejecting = bucket;
    assert_eq!(rejecting.try_take_batch(ms(60), 80.0), Ok(()));
    assert_eq!(rejecting.tokens_at(ms(60)), -30.0);
    assert_eq!(
        rejecting.try_take_batch(ms(60), 80.0),
        Err(Refused::Retry {
            after: Duration::from_millis(80)
        })
    );
    assert!(matches!(
        rejecting.try_take_batch(ms(60), 101.0),
        Err(Refused::NeverFits { .. })
    ));
    assert!(!rejecting.try_take(ms(90), 1.0));
    assert!(rejecting.try_take(ms(91), 1.0));

    let restarted = TokenBucket::empty(rate(1000.0), burst(50.0), ms(100));
    assert_eq!(
        [100, 149, 150, 151].map(|milli| restarted.tokens_at(ms(milli))),
        [0.0, 49.0, 50.0, 50.0]
    );

    let mut bytes = full(1e6, 1500.0);
    assert_eq!(bytes.take(ms(0), 4500.0), ms(3));
    assert_eq!(bytes.take(ms(0), 1000.0), ms(4));
}
