//! Which runs count, and the message when no rate meets the promise.

use super::*;
use crate::measurement::{Counts, Percentiles};

fn outcome(offered: f64, achieved: f64, p99_us: f64) -> Outcome {
    Outcome {
        offered_per_second: offered,
        achieved_per_second: achieved,
        latency: Percentiles {
            p99_us,
            ..Percentiles::default()
        },
        lateness: Percentiles::default(),
        counts: Counts::default(),
        broker_us_per_message: Some(10.0),
        broker_cpu: None,
        generator_us_per_message: 5.0,
        generator_busy: 0.3,
        stalls: 0,
        samples: Vec::new(),
    }
}

#[test]
fn a_rate_is_made_by_publishers_and_exactly() {
    let one = Workload {
        publishers: 1,
        rate_per_publisher: 10.0,
        ..Workload::default()
    };
    for (rate, publishers) in [(34_641.0, 3464), (10.0, 1), (4.0, 1), (200_000.0, 20_000)] {
        let load = at_rate(&one, rate);
        assert_eq!(load.publishers, publishers, "{rate}");
        assert!(
            (load.offered_per_second() / rate - 1.0).abs() < 1e-12,
            "{rate}"
        );
    }
}

#[test]
fn a_run_that_loses_or_lags_did_not_keep_up() {
    let fine = outcome(1000.0, 990.0, 500.0);
    assert!(trial(1000.0, &fine, 1000.0).meets(1000.0));
    assert!(!trial(1000.0, &outcome(1000.0, 990.0, 1001.0), 1000.0).meets(1000.0));
    let lags = outcome(1000.0, 900.0, 500.0);
    let mut loses = fine.clone();
    loses.counts.missing = 1;
    let mut refuses = fine;
    refuses.counts.refused = 1;
    for bad in [lags, loses, refuses] {
        let trial = trial(1000.0, &bad, 1000.0);
        assert!(!trial.kept_up && !trial.meets(1000.0) && !trial.generator_limited);
    }
}

#[test]
fn a_late_or_busy_generator_is_seen() {
    let mut late = outcome(1000.0, 990.0, 5000.0);
    late.lateness.p99_us = 600.0;
    let mut busy = outcome(1000.0, 990.0, 5000.0);
    busy.generator_busy = 1.0;
    for run in [late, busy] {
        assert!(trial(1000.0, &run, 1000.0).generator_limited);
        assert!(!trial(1000.0, &run, 1_000_000.0).generator_limited || run.generator_busy >= 1.0);
    }
}

#[test]
fn no_rate_under_the_promise_is_an_error_that_says_what_was_seen() {
    let knee = Knee {
        missed: Some(200.0),
        is_generator_limited: true,
        trials: vec![
            trial(400.0, &outcome(400.0, 400.0, 3000.0), 10.0),
            trial(200.0, &outcome(200.0, 200.0, 2000.0), 10.0),
        ],
        ..Knee::default()
    };
    let text = no_rate(&knee, 10.0).to_string();
    assert!(
        text.contains("no rate meets p99 <= 10 us: at 200 msg/s p99 was 2000 us"),
        "{text}"
    );
    assert!(text.contains("generator"), "{text}");
}
