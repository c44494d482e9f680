//! What goes wrong, and when.

use std::time::Duration;

use clock::{Instant, Xoshiro256PlusPlus};
use limit::Limit;
use rand::RngExt;

/// Something that happens from outside.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    Start(u32),
    /// With proof of it after so long, or none.
    Crash(u32, Option<Duration>),
    Stop(u32),
    Resume(u32),
    Cut(u32),
    Mend(u32),
    /// From the other brokers.
    Part(u32),
    Rejoin(u32),
    Leave(u32),
    Return(u32),
    BreakLink(u32),
    Traffic(u32, f64),
    ControllerCrash,
    ControllerStart,
    SetLimit(Limit),
}

/// For each broker one thing after the other, for the controller too, until `end`.
pub fn draw(
    brokers: u32,
    end: Duration,
    limit: &Limit,
    changes_limit: bool,
    random: &mut Xoshiro256PlusPlus,
) -> Vec<(Instant, Fault)> {
    let mut faults = Vec::new();
    for broker in 0..brokers {
        let mut at = span(random, 0.0, 8.0);
        faults.push((Instant::ZERO + at, Fault::Start(broker)));
        loop {
            at += span(random, 1.0, 15.0);
            let recovers = at + span(random, 0.1, 12.0);
            if recovers >= end {
                break;
            }
            let (begins, ends) = trouble(broker, random);
            faults.push((Instant::ZERO + at, begins));
            if let Some(ends) = ends {
                faults.push((Instant::ZERO + recovers, ends));
                at = recovers;
            }
        }
    }
    let mut at = Duration::ZERO;
    loop {
        at += span(random, 5.0, 60.0);
        let recovers = at + span(random, 0.0, 9.0);
        if recovers >= end {
            break;
        }
        faults.push((Instant::ZERO + at, Fault::ControllerCrash));
        faults.push((Instant::ZERO + recovers, Fault::ControllerStart));
        at = recovers;
    }
    if changes_limit {
        faults.extend(limits(end, limit, random));
    }
    faults
}

/// Other limits, one after the other.
fn limits(end: Duration, limit: &Limit, random: &mut Xoshiro256PlusPlus) -> Vec<(Instant, Fault)> {
    let mut faults = Vec::new();
    let mut at = span(random, 2.0, 20.0);
    while at < end {
        let changed = Limit::messages(
            (limit.rate.get() * random.random_range(0.2..2.0)).ceil(),
            (limit.burst.get() * random.random_range(0.2..2.0)).ceil(),
        );
        let changed = Fault::SetLimit(changed.expect("in range"));
        faults.push((Instant::ZERO + at, changed));
        at += span(random, 2.0, 20.0);
    }
    faults
}

/// What befalls a broker, and what ends it.
fn trouble(broker: u32, random: &mut Xoshiro256PlusPlus) -> (Fault, Option<Fault>) {
    match random.random_range(0..9) {
        0 | 1 => {
            let proof = random.random_bool(0.5).then(|| span(random, 0.0, 5.0));
            (Fault::Crash(broker, proof), Some(Fault::Start(broker)))
        }
        2 => (Fault::Stop(broker), Some(Fault::Resume(broker))),
        3 => (Fault::Cut(broker), Some(Fault::Mend(broker))),
        8 => (Fault::Part(broker), Some(Fault::Rejoin(broker))),
        4 => (Fault::Leave(broker), Some(Fault::Return(broker))),
        5 => (Fault::BreakLink(broker), None),
        _ => {
            let is_idle = random.random_bool(0.2);
            let weight = if is_idle {
                0.0
            } else {
                random.random_range(0.1..10.0)
            };
            (Fault::Traffic(broker, weight), None)
        }
    }
}

pub fn span(random: &mut Xoshiro256PlusPlus, from_s: f64, to_s: f64) -> Duration {
    Duration::from_secs_f64(random.random_range(from_s..to_s))
}
