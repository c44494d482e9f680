//! Runs seeds for as long as it is asked to, and says how it goes: `soak [SECONDS [FIRST_SEED]]`; `soak until-broken SECONDS` ends with the
//! first that breaks a law; `soak replay SEED` runs one and prints every event. Of each seed there is a cluster with a controller; with
//! `durable` behind the seed, one whose brokers keep messages on disks; and, with `roster`, brokers that find each other.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use soak::{Outcome, roster, run, run_durable};

/// Between two lines about how it goes.
const TOLD_EVERY: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse().ok());
    match arguments.first().map(String::as_str) {
        Some("replay") => match (number(1), arguments.get(2).map(String::as_str)) {
            (Some(seed), None) => exit_code(&run(seed, true)),
            (Some(seed), Some("durable")) => exit_code(&run_durable(seed, true)),
            (Some(seed), Some("roster")) => exit_code(&roster::run(seed, true)),
            _ => usage(),
        },
        Some("until-broken") => soak(number(1).unwrap_or(60), 0, true),
        Some(_) if number(0).is_none() => usage(),
        _ => soak(number(0).unwrap_or(60), number(1).unwrap_or(0), false),
    }
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: soak [SECONDS [FIRST_SEED]] | soak until-broken SECONDS | soak replay SEED [durable | roster]"
    );
    ExitCode::FAILURE
}

fn exit_code(outcome: &Outcome) -> ExitCode {
    println!("{outcome:#?}");
    match outcome.violation {
        None => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "only this loop needs to know how long it runs; a run itself never does"
)]
fn soak(seconds: u64, first: u64, is_until_broken: bool) -> ExitCode {
    let began = Instant::now();
    let (mut told_at, mut runs, mut events, mut messages) = (began, 0, 0, 0);
    let mut simulated = Duration::ZERO;
    let mut failed = Vec::new();
    for seed in first.. {
        runs += 1;
        for (outcome, kind) in [
            (run(seed, false), ""),
            (run_durable(seed, false), " durable"),
            (roster::run(seed, false), " roster"),
        ] {
            events += outcome.events;
            messages += outcome.messages;
            simulated += outcome.simulated;
            if let Some(violation) = outcome.violation {
                println!(
                    "seed {seed}{kind}: {} broken after {:?}: {}",
                    violation.law, outcome.simulated, violation.what
                );
                failed.push(format!("{seed}{kind}"));
            }
        }
        let is_over = began.elapsed() >= Duration::from_secs(seconds)
            || is_until_broken && !failed.is_empty();
        if is_over || told_at.elapsed() >= TOLD_EVERY {
            told_at = Instant::now();
            let hours = simulated.as_secs_f64() / 3600.0;
            println!(
                "{runs} seeds from {first}, {hours:.1} simulated hours, {events} events, {messages} messages, {} failed",
                failed.len()
            );
        }
        if is_over {
            break;
        }
    }
    match failed.as_slice() {
        [] => ExitCode::SUCCESS,
        seeds => {
            println!("replay with: soak replay {}", seeds[0]);
            ExitCode::FAILURE
        }
    }
}
