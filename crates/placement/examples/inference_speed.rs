//! Seconds to find the correlation groups of 1,000 publishers in a minute of arrivals, best of three, and how
//! much of what was hidden is found.
//!
//! `cargo run --release -p placement --example inference_speed`. Precision counts pairs of one hidden group
//! only; periodic groups with near phases, which do send together, lower it.
#![allow(clippy::disallowed_methods)] // A stopwatch reads the clock.

use std::time::{Duration, Instant};

use clock::{stream, uniform};
use placement::{GroupIndex, InferConfig, PublisherIndex, infer_groups};

const PUBLISHERS: u32 = 1_000;
const GROUP_SIZE: u32 = 25;
const SECONDS: f64 = 60.0;

fn main() {
    println!("{PUBLISHERS} publishers in groups of {GROUP_SIZE}, {SECONDS} s of arrivals");
    println!("process   sends/s  jitter ms   arrivals   seconds  precision  recall");
    for is_periodic in [true, false] {
        for rate in [1.0, 10.0] {
            for jitter_ms in [0.0, 1.0, 4.0] {
                report(is_periodic, rate, jitter_ms);
            }
        }
    }
}

fn report(is_periodic: bool, rate: f64, jitter_ms: f64) {
    let arrivals = arrivals(is_periodic, rate, jitter_ms * 1e6);
    let config = InferConfig {
        tolerance_ns: (jitter_ms.max(1.0) * 1e6) as u64,
        ..InferConfig::default()
    };
    let mut found = Vec::new();
    let mut once = || {
        let begin = Instant::now();
        found = infer_groups(&arrivals, PUBLISHERS as usize, config);
        begin.elapsed()
    };
    let best: Duration = (0..3).map(|_| once()).min().unwrap_or_default();
    let (precision, recall) = score(&found);
    println!(
        "{:9} {rate:>7} {jitter_ms:>10} {:>10} {:>9.4} {precision:>10.3} {recall:>7.3}",
        if is_periodic { "periodic" } else { "poisson" },
        arrivals.len(),
        best.as_secs_f64(),
    );
}

fn arrivals(is_periodic: bool, rate: f64, jitter_ns: f64) -> Vec<(u64, PublisherIndex)> {
    let mut random = stream(7, "arrivals");
    let mut arrivals = Vec::new();
    for group in 0..PUBLISHERS / GROUP_SIZE {
        let period_ns = 1e9 / rate;
        let mut at_ns = uniform(&mut random) * period_ns;
        while at_ns < SECONDS * 1e9 {
            for member in 0..GROUP_SIZE {
                let stamp_ns = (at_ns + uniform(&mut random) * jitter_ns) as u64;
                arrivals.push((stamp_ns, PublisherIndex(group * GROUP_SIZE + member)));
            }
            let pause = if is_periodic {
                1.0
            } else {
                -(1.0 - uniform(&mut random)).ln()
            };
            at_ns += pause * period_ns;
        }
    }
    arrivals.sort_unstable();
    arrivals
}

fn score(found: &[Option<GroupIndex>]) -> (f64, f64) {
    let (mut hidden, mut together, mut both) = (0u32, 0u32, 0u32);
    for a in 0..found.len() {
        for b in 0..a {
            let is_hidden = a as u32 / GROUP_SIZE == b as u32 / GROUP_SIZE;
            let is_together = found[a].is_some() && found[a] == found[b];
            hidden += u32::from(is_hidden);
            together += u32::from(is_together);
            both += u32::from(is_hidden && is_together);
        }
    }
    let part = |of: u32, all: u32| f64::from(of) / f64::from(all.max(1));
    (part(both, together), part(both, hidden))
}
