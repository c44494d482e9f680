//! What a window reports for known latencies.

use super::super::{Probe, TopicKey};
use super::*;

const START: Instant = Instant::from_nanos(5_000_000_000);

fn window() -> Window {
    Window::new(99.0, START)
}

/// A message that needed `total_us` to the output and `beyond_us` from there.
fn landed(total_us: u64, beyond_us: u64, weight: u32) -> Landed {
    let arrived = START + Duration::from_millis(1);
    Landed {
        probe: Probe {
            topic: TopicKey::from_bits(0),
            arrived,
            copied: arrived + Duration::from_micros(total_us),
            half_rtt_us: 0,
            weight,
        },
        weight,
        end_to_end: Duration::from_micros(total_us + beyond_us),
    }
}

fn assert_near(value: Option<f64>, expected_us: f64) {
    let value = value.expect("enough samples");
    let error = (value - expected_us).abs();
    // Three digits, and nothing finer than 512 ns.
    assert!(
        error <= expected_us / 500.0 + 0.6,
        "{value} µs instead of {expected_us}"
    );
}

#[test]
fn few_samples_lend_their_median_to_all_messages() {
    let mut window = window();
    window.release(600);
    for number in 1..=600_u64 {
        window.record_total(Duration::from_micros(number));
    }
    for number in 0..50 {
        window.record_landed(&landed(number, 30 + number % 3, 1));
    }
    let result = window.result();
    assert_eq!((result.messages, result.samples), (600, 600));
    assert_near(result.latency_us, 594.0 + 31.0);
    assert_near(result.p50_us, 300.0 + 31.0);
}

#[test]
fn many_samples_speak_for_themselves_with_their_weights() {
    let mut window = window();
    window.record_total(Duration::from_micros(1));
    for _ in 0..990 {
        window.record_landed(&landed(100, 50, 1));
    }
    // Ten writes of eleven messages each: a tenth of all deliveries.
    for _ in 0..10 {
        window.record_landed(&landed(2000, 500, 11));
    }
    let result = window.result();
    assert_eq!(result.samples, 1000);
    assert_near(result.p50_us, 150.0);
    assert_near(result.latency_us, 2500.0);
}

#[test]
fn too_few_messages_tell_nothing() {
    let mut window = window();
    for _ in 0..SAMPLES_MIN - 1 {
        window.record_total(Duration::from_micros(5));
    }
    assert_eq!(window.result().latency_us, None);
    window.record_total(Duration::from_micros(5));
    assert_near(window.result().latency_us, 5.0);
    assert_near(window.result().p50_us, 5.0);
}

#[test]
fn what_was_copied_before_the_window_is_not_of_it() {
    let mut window = window();
    let mut early = landed(10, 10, 1);
    early.probe.copied = START - Duration::from_nanos(1);
    window.record_landed(&early);
    assert_eq!(window.samples, 0);
}

#[test]
fn a_window_that_nobody_ends_is_thrown_away() {
    let window = window();
    assert!(!window.is_stale(START + OPEN_MAX - Duration::from_nanos(1)));
    assert!(window.is_stale(START + OPEN_MAX));
}

#[test]
fn a_minute_is_the_longest() {
    let mut window = window();
    for _ in 0..100 {
        window.record_total(Duration::from_secs(3600));
    }
    let latency_us = window.result().latency_us.expect("enough");
    assert!((latency_us - 60e6).abs() < 60e6 / 500.0, "{latency_us}");
}
