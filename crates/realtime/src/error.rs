//! Why threads are not scheduled as asked.

use std::io;

use crate::privilege::{Privilege, how_to_grant};

/// What is refused, or missing. Nothing has changed where one of these is returned.
#[derive(Debug, thiserror::Error)]
pub enum RealtimeError {
    /// Not a priority of SCHED_FIFO.
    #[error("a real-time priority of {0} is out of range: give 1 to 99")]
    Priority(String),
    /// A CPU is named for two threads.
    #[error(
        "CPU {0} is named twice: of two real-time threads on one CPU the second waits until the first sleeps"
    )]
    CpuTwice(usize),
    /// The process may not run there.
    #[error("CPU {cpu} is not among those that this process may use ({usable})")]
    NoSuchCpu {
        /// The CPU asked for.
        cpu: usize,
        /// Those that there are, such as `0-3,8`.
        usable: String,
    },
    /// A thread beyond the list of CPUs.
    #[error(
        "{cpus} CPUs are named, so thread {number}, counted from 0, has none: name one for each thread that serves"
    )]
    CpuMissing {
        /// Number of the thread.
        number: usize,
        /// CPUs named.
        cpus: usize,
    },
    /// Privileges are missing.
    #[error("real-time scheduling is not permitted: {}; {}", list(.0), how_to_grant(.0))]
    NotPermitted(Vec<Privilege>),
    /// A system call failed for another reason.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl RealtimeError {
    /// For `map_err`: a system call that was meant to do `what`.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> RealtimeError {
        move |source| RealtimeError::System { what, source }
    }
}

fn list(missing: &[Privilege]) -> String {
    let texts: Vec<String> = missing.iter().map(Privilege::to_string).collect();
    texts.join("; ")
}
