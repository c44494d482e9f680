//! Simulated messages per second of one core.
//!
//! ```text
//! cargo run --release -p sim --example speed
//! ```

#![allow(clippy::print_stdout, reason = "it prints what it measured")]
#![allow(clippy::disallowed_methods, reason = "it measures its own speed")]

use std::time::{Duration, Instant};

use sim::{Scene, SimError, measure, spread};
use workload::Spec;

fn main() -> Result<(), SimError> {
    for (name, arrivals, batch, brokers) in [
        ("Poisson, batch 1, 1 broker", "poisson", 1, 1),
        ("Poisson, batch 1, 6 brokers", "poisson", 1, 6),
        ("Poisson, batch 10, 6 brokers", "poisson", 10, 6),
        ("periodic, batch 1, 6 brokers", "periodic", 1, 6),
        ("periodic, batch 10, 6 brokers", "periodic", 10, 6),
    ] {
        let mut spec = Spec::parse(&format!(
            "duration = \"100s\"\n[[publishers]]\ncount = 5000\nrate = 10\narrivals = \"{arrivals}\"\nbatch = {batch}\n\
             [topic]\nwindow = \"10s\"\n[cluster]\nbrokers = {brokers}\n"
        ))?;
        spec.topic.burst = Some(500.0);
        let scene = Scene::new(&spec)?;
        let broker_of = spread(&scene, brokers);
        let mut best = Duration::MAX;
        let mut messages = 0;
        for _ in 0..3 {
            let begin = Instant::now();
            messages = measure(&scene, &broker_of)?.sent;
            best = best.min(begin.elapsed());
        }
        println!(
            "{name:<30} {:>6.1} million messages/s",
            messages as f64 / best.as_secs_f64() / 1e6
        );
    }
    Ok(())
}
