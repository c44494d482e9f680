//! The whole cluster in virtual time, under one seed.
//!
//! The real cores run together: the controller's service with its state machine and store, topics
//! with their limits and leases, placed publishers, the NSQ decoder. Between them is a simulated
//! network with disks and clocks that fail as real ones do. One seed determines everything that
//! happens; the [`laws`] watch. After a while the faults end, and everything must come right by
//! itself.
//!
//! `docs/simulation.md` says what is real and what is simulated.

mod agenda;
mod broker;
mod chance;
mod consumer;
mod controller;
mod disk;
mod event;
mod faults;
mod folder;
pub mod laws;
mod medium;
mod network;
mod operator;
mod outside;
mod plan;
mod publisher;
pub mod roster;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use laws::Books;
pub use laws::Violation;
use plan::Plan;
use world::World;

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which run.
    pub seed: u64,
    /// Events that happened.
    pub events: u64,
    /// Messages that were published.
    pub messages: usize,
    /// Simulated time.
    pub simulated: Duration,
    /// The same for two runs only if the same happened.
    pub hash: u64,
    /// The law that was broken, if one was.
    pub violation: Option<Violation>,
}

/// Events of a run at most; more is a cluster that does not come to rest.
const EVENTS_MAX: u64 = 5_000_000;

/// A world in which one thing happens after the other.
trait Simulated {
    /// Lets the next thing happen; false once the run is over.
    fn step(&mut self) -> bool;
    /// Events so far.
    fn events(&self) -> u64;
    /// The books.
    fn books(&self) -> &Books;
    /// Messages that were published.
    fn messages(&self) -> usize;
    /// Simulated time since the beginning.
    fn age(&self) -> Duration;
    /// A number that two runs share only if the same happened in both.
    fn hash(&self) -> u64;
}

/// Runs a seed of the cluster to its end; `is_traced` prints every event.
#[must_use]
pub fn run(seed: u64, is_traced: bool) -> Outcome {
    run_to_end(World::new(Plan::of(seed), is_traced), seed)
}

/// The same with brokers that keep messages on disks, and with durable topics.
#[must_use]
pub fn run_durable(seed: u64, is_traced: bool) -> Outcome {
    run_to_end(World::new(Plan::durable(seed), is_traced), seed)
}

fn run_to_end(mut world: impl Simulated, seed: u64) -> Outcome {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        while world.events() < EVENTS_MAX && world.step() {}
    }));
    let mut violation = world.books().violation().cloned();
    if let Err(panic) = ran {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        violation = Some(Violation {
            at: world.books().now,
            law: "assertions",
            what: text.unwrap_or_default(),
        });
    }
    if violation.is_none() && world.events() >= EVENTS_MAX {
        violation = Some(Violation {
            at: world.books().now,
            law: "liveness",
            what: format!("more than {EVENTS_MAX} events"),
        });
    }
    Outcome {
        seed,
        events: world.events(),
        messages: world.messages(),
        simulated: world.age(),
        hash: world.hash(),
        violation,
    }
}
