//! Tempo's messaging kernel: every task a queueing system of its own, with its own share of the server.
//!
//! A [`Scheduler`] knows tasks (a publication, a subscription, a periodic timer; in the broker: a topic), counts their
//! events and says whose turn it is. A task is entitled to a [`Share`] of every period T; what it is served for is
//! taken from its credits, the task with the most credits that has work goes first, and when no task with work has
//! credits left, all get theirs anew. Turns are not interrupted. The source is "Toward scalable real-time messaging"
//! (Tempo).
//!
//! Nothing here reads a clock, and no thread is started: time is an argument, and threads are those of the callers.
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

mod account;
mod error;
mod schedulable;
mod scheduler;
mod share;
mod sync;
pub mod theory;

pub use account::{OnOverrun, TaskStats, UNSTABLE_PERIODS};
pub use error::KernelError;
pub use scheduler::{Scheduler, SchedulerConfig, SchedulerStats, TaskId, Turn};
pub use share::{Share, Shares};

#[cfg(all(test, not(loom)))]
mod tests;
