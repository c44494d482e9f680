//! The kernel's refusals.

use std::time::Duration;

/// Why a kernel, a task or a share is refused. Nothing has changed where one of these is returned.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum KernelError {
    /// The period is zero, or longer than a minute.
    #[error("a period of {0:?} is out of range: give more than zero and at most a minute")]
    Period(Duration),
    /// The number of buckets is out of range.
    #[error("{0} buckets are out of range: give 1 to 10000")]
    Buckets(usize),
    /// The number of tasks that fit is out of range.
    #[error("room for {0} tasks is out of range: give 1 to 1048576")]
    Capacity(usize),
    /// A share is not above zero and at most one.
    #[error(
        "a share of {0} is out of range: give more than 0 and at most 1, in steps of a millionth"
    )]
    Share(f64),
    /// The declared shares would exceed the whole.
    #[error("a share of {wanted} does not fit: others have declared {declared} of 1")]
    Oversubscribed {
        /// The share that was asked for.
        wanted: f64,
        /// The sum of all others.
        declared: f64,
    },
    /// As many tasks as the kernel has room for.
    #[error("there is room for {0} tasks, and all of them exist already")]
    Full(usize),
    /// The task has been removed, or never was.
    #[error("there is no such task")]
    NoSuchTask,
}
