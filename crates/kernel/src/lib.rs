//! Tempo's messaging kernel: every task is a queueing system of its own, with its own share of the
//! server.
//!
//! A [`Scheduler`] knows tasks (a publication, a subscription, a periodic timer; in the broker: a
//! topic), counts their events and says whose turn it is. A task is entitled to a [`CpuShare`] of
//! every period T. The time it is served is taken from its credits, the task with the most credits
//! that has work goes first, and when no task with work has credits left, all get theirs anew.
//! Turns are not interrupted; work for another task that comes up in one is
//! [charged](Scheduler::charge) to that task. The source is "Toward scalable real-time messaging"
//! (Tempo).
//!
//! A [`Kernel`] is a scheduler whose tasks have handlers: threads lend themselves to it, and those
//! that find no work rest at a [`Rest`], as a rule a [`Bell`]. A task's events wait wherever they
//! are best kept; the kernel has only their number.
//!
//! Nothing here reads a clock or starts a thread: time is an argument, and threads are those of the
//! callers. `docs/kernel.md` is the page for users.
//!
//! ```
//! use std::time::Duration;
//! use clock::Instant;
//! use kernel::{CpuShare, Scheduler, SchedulerConfig};
//!
//! let scheduler = Scheduler::new(SchedulerConfig::default())?;
//! let task = scheduler.add(Some(CpuShare::new(0.2)?))?;
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
//! use kernel::{Bell, Kernel, SchedulerConfig, Serve, Turn};
//!
//! /// Its events are in a channel.
//! struct Thermometer {
//!     degrees: mpsc::Receiver<i32>,
//!     told: mpsc::Sender<i32>,
//! }
//!
//! impl Serve for Thermometer {
//!     fn serve(&mut self, _turn: &Turn) -> usize {
//!         let degrees = self.degrees.try_recv().expect("it was there before it was told of");
//!         self.told.send(degrees).expect("somebody listens");
//!         1
//!     }
//! }
//!
//! let kernel = Arc::new(Kernel::new(SchedulerConfig::default(), Arc::new(Bell::new()))?);
//! let ((reading, degrees), (told, heard)) = (mpsc::channel(), mpsc::channel());
//! let task = kernel.add(None, Box::new(Thermometer { degrees, told }))?;
//! // A program reads its clock here.
//! let clock = || Instant::ZERO;
//! std::thread::scope(|scope| {
//!     scope.spawn(|| kernel.work(&clock));
//!     reading.send(21).expect("the kernel has the other end");
//!     kernel.post(task, 1, clock());
//!     assert_eq!(heard.recv(), Ok(21));
//!     kernel.stop();
//! });
//! # Ok::<(), kernel::KernelError>(())
//! ```

mod account;
mod bell;
mod error;
mod fifo;
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
pub use scheduler::{Scheduler, SchedulerConfig, SchedulerStats, TaskId, Turn};
pub use share::{CpuShare, Shares};
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
