//! Tempo's messaging kernel: every task a queueing system of its own, with its own share of the server.
//!
//! A [`Scheduler`] knows tasks (a publication, a subscription, a periodic timer; in the broker: a topic), counts their
//! events and says whose turn it is. A task is entitled to a [`Share`] of every period T; what it is served for is
//! taken from its credits, the task with the most credits that has work goes first, and when no task with work has
//! credits left, all get theirs anew. Turns are not interrupted. The source is "Toward scalable real-time messaging"
//! (Tempo).
//!
//! A [`Kernel`] is a scheduler whose tasks have handlers: threads lend themselves to it, and those that find no work rest at a
//! [`Rest`], as a rule a [`Bell`]. An [`EventQueue`] is what a task's events wait in, if they have no better place.
//!
//! Nothing here reads a clock, and no thread is started: time is an argument, and threads are those of the callers.
//! `docs/kernel.md` is the page for users.
//!
//! ```
//! use std::time::Duration;
//! use clock::Instant;
//! use kernel::{Scheduler, SchedulerConfig, Share};
//!
//! let scheduler = Scheduler::new(SchedulerConfig::default())?;
//! let task = scheduler.add(Some(Share::new(0.2)?))?;
//! let now = Instant::ZERO;
//! assert!(scheduler.post(task, 1, now), "it became schedulable");
//! let turn = scheduler.take(now).expect("it has work");
//! assert_eq!(turn.credits, Duration::from_millis(2));
//! // … serve one event …
//! assert!(!scheduler.finish(turn, 1, now + Duration::from_micros(50)), "nothing is left");
//! # Ok::<(), kernel::KernelError>(())
//! ```
//!
//! The same with threads:
//!
//! ```
//! use std::sync::{Arc, mpsc};
//! use clock::Instant;
//! use kernel::{Bell, EventQueue, EventWriter, Kernel, OnFull, Put, SchedulerConfig};
//!
//! let kernel = Arc::new(Kernel::new(SchedulerConfig::default(), Arc::new(Bell::new()))?);
//! let (told, heard) = mpsc::channel();
//! let queue = EventQueue::new(64, OnFull::Block)?;
//! let writer = EventWriter::new(&kernel, None, queue, move |degrees: i32| {
//!     told.send(degrees).expect("somebody listens");
//! })?;
//! // A program reads its clock here.
//! let clock = || Instant::ZERO;
//! std::thread::scope(|scope| {
//!     scope.spawn(|| kernel.work(&clock));
//!     assert_eq!(writer.put(21, clock()), Put::Queued);
//!     assert_eq!(heard.recv(), Ok(21));
//!     kernel.stop();
//! });
//! # Ok::<(), kernel::KernelError>(())
//! ```

mod account;
mod bell;
mod error;
mod fifo;
mod queue;
mod schedulable;
mod scheduler;
mod share;
mod slot;
mod spin;
mod sync;
pub mod theory;
mod worker;

pub use account::{OnOverrun, TaskStats, UNSTABLE_PERIODS};
pub use bell::{Bell, Rest};
pub use error::KernelError;
pub use queue::{EventQueue, EventWriter, OnFull, Put};
pub use scheduler::{Scheduler, SchedulerConfig, SchedulerStats, TaskId, Turn};
pub use share::{Share, Shares};
pub use worker::{Kernel, KernelStats, Panic, Serve};

/// What model checks look at; no part of the interface.
#[cfg(feature = "loom")]
pub mod internals {
    pub use crate::fifo::{Fifo, Nodes};
    pub use crate::schedulable::SchedulableTasks;
    pub use crate::sync::model::let_loads_collide;
}

#[cfg(all(test, not(feature = "loom")))]
mod tests;
