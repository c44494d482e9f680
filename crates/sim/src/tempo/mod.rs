//! Tempo's messaging kernel in virtual time: tasks with arrivals and service times, scheduler
//! threads, bounded queues.
//!
//! The scheduler is [`kernel::Scheduler`] itself, which is told instants instead of reading them.
//! Simulated is the world around it: when events arrive, how long a turn takes, when the operating
//! system lets a scheduler thread run. A [`Spec`] describes that, as TOML or built by hand;
//! [`simulate`] says what each task obtained and how long its events waited; [`calibrate`] compares
//! that with queueing theory and finds the CPU share that a wanted wait needs.
//!
//! Equal specs give equal results, down to the hash of all events. Overheads of a real machine are
//! not modelled: taking a turn, waking a thread and moving a task between processors take no time.
//!
//! ```
//! use sim::tempo::{Spec, simulate};
//!
//! let spec = Spec::parse(
//!     r#"
//!     duration = "2s"
//!     [[task]]
//!     name = "alarms"
//!     share = 0.2
//!     arrivals = { poisson = 1000 }
//!     service = { exponential = "100us" }
//!     "#,
//! )?;
//! let measured = simulate(&spec)?;
//! assert!((measured.tasks[0].arrival_rate / 1000.0 - 1.0).abs() < 0.1);
//! # Ok::<(), workload::SpecError>(())
//! ```

mod arrivals;
mod calibration;
mod check;
mod document;
mod engine;
mod measured;
mod spec;
mod task;
#[cfg(test)]
mod tests;
mod text;
mod thread;

pub use calibration::{Calibration, Needed, TaskCalibration, calibrate};
pub use engine::{simulate, simulate_with};
pub use measured::{Measured, Served, TaskMeasured, Times};
pub use spec::{Arrivals, KernelSpec, LosesProcessor, OnFull, ServedBy, Service, Spec, TaskSpec};
