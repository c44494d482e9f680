//! The world by itself, the paper's experiments in it, and failures between limiters.

mod bound;
mod failures;
mod paper;
mod scale;
mod scenarios;

use super::{Outcome, Scenario, run};

fn outcome(scenario: &Scenario) -> Outcome {
    run(scenario).expect("a scenario that can be")
}

fn greatest(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(f64::MIN, f64::max)
}

/// Whether `value` is within a `part` of `wanted`.
fn near(value: f64, wanted: f64, part: f64) -> bool {
    (value - wanted).abs() <= part * wanted
}
