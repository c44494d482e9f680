//! What a run's figures mean for the search.

use super::*;
use crate::measurement::{Counts, Percentiles};

fn outcome(p99_us: f64, late_us: f64, busy: f64, missing: u64) -> Outcome {
    let at = |p99_us| Percentiles {
        p99_us,
        ..Percentiles::default()
    };
    Outcome {
        offered_per_second: 1000.0,
        achieved_per_second: 1000.0,
        latency: at(p99_us),
        lateness: at(late_us),
        counts: Counts {
            missing,
            ..Counts::default()
        },
        broker_us_per_message: None,
        broker_cpu: None,
        generator_us_per_message: 5.0,
        generator_busy: busy,
        stalls: 0,
        samples: Vec::new(),
    }
}

#[test]
fn who_is_to_blame_for_a_miss() {
    for (p99_us, late_us, busy, missing, expected) in [
        (900.0, 10.0, 0.3, 0, Verdict::Met),
        // Met in spite of a late generator.
        (900.0, 700.0, 0.99, 0, Verdict::Met),
        (1100.0, 10.0, 0.3, 0, Verdict::Missed),
        (900.0, 10.0, 0.3, 1, Verdict::Missed),
        (1100.0, 600.0, 0.3, 0, Verdict::Vain),
        (1100.0, 10.0, 0.99, 0, Verdict::Vain),
        // Too much for the generator to explain.
        (400_000.0, 600.0, 0.3, 0, Verdict::Missed),
        (400_000.0, 300_000.0, 0.3, 0, Verdict::Vain),
    ] {
        let outcome = outcome(p99_us, late_us, busy, missing);
        let trial = Trial::of(1000.0, &outcome, p99_us, late_us, 1000.0);
        assert_eq!(
            verdict(&trial, 1000.0),
            expected,
            "{p99_us} {late_us} {busy} {missing}"
        );
    }
}
