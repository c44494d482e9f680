//! What a process must be permitted, whether it is, and how an operator permits it.

use std::fmt;

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use crate::priority::Priority;

/// Something that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// SCHED_FIFO at a priority.
    Scheduling {
        /// Which.
        priority: Priority,
        /// The highest that RLIMIT_RTPRIO allows; 0: none.
        most: u64,
    },
    /// SCHED_FIFO, where the process has CAP_SYS_NICE: its control group is given no time for it.
    GroupTime,
    /// All memory locked, that of later too.
    MemoryLock {
        /// RLIMIT_MEMLOCK in bytes.
        most_bytes: u64,
    },
}

impl fmt::Display for Privilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Privilege::Scheduling { priority, most } => write!(
                f,
                "SCHED_FIFO needs CAP_SYS_NICE, or an RLIMIT_RTPRIO of {priority} or more, which is {most}"
            ),
            Privilege::GroupTime => write!(
                f,
                "SCHED_FIFO is refused although the process has CAP_SYS_NICE: its control group has no real-time budget"
            ),
            Privilege::MemoryLock { most_bytes } => write!(
                f,
                "locking memory needs CAP_IPC_LOCK, or an unlimited RLIMIT_MEMLOCK, which is {most_bytes} bytes: \
                 beyond it every later allocation would fail"
            ),
        }
    }
}

/// What an operator does about it.
pub(crate) fn how_to_grant(missing: &[Privilege]) -> String {
    if missing == [Privilege::GroupTime] {
        return String::from(
            "give the group some: cpu.rt_runtime_us, or move the process to the root group",
        );
    }
    let (mut capabilities, mut limits) = (Vec::new(), Vec::new());
    for privilege in missing {
        match privilege {
            Privilege::Scheduling { priority, .. } => {
                capabilities.push("cap_sys_nice");
                limits.push(format!("LimitRTPRIO={priority}"));
            }
            Privilege::MemoryLock { .. } => {
                capabilities.push("cap_ipc_lock");
                limits.push(String::from("LimitMEMLOCK=infinity"));
            }
            Privilege::GroupTime => {}
        }
    }
    format!(
        "grant it to the program (setcap {}=ep PROGRAM) or to the service (systemd: {}), or go without real-time scheduling",
        capabilities.join(","),
        limits.join(" ")
    )
}

/// What the refusal of SCHED_FIFO means.
pub(crate) fn scheduling(priority: Priority) -> Privilege {
    let most = getrlimit(Resource::Rtprio).current.unwrap_or(u64::MAX);
    if has(CapabilitySet::SYS_NICE) || most >= u64::from(priority.get()) {
        Privilege::GroupTime
    } else {
        Privilege::Scheduling { priority, most }
    }
}

/// What is missing to lock all memory. A limit that is not infinite does not do: with memory of later locked as well, a
/// process at its limit gets no more.
pub(crate) fn memory_lock() -> Option<Privilege> {
    let most_bytes = getrlimit(Resource::Memlock).current?;
    (!has(CapabilitySet::IPC_LOCK)).then_some(Privilege::MemoryLock { most_bytes })
}

fn has(capability: CapabilitySet) -> bool {
    // A system that does not say has none; the call that needs it says what else is wrong.
    capabilities(None).is_ok_and(|sets| sets.effective.contains(capability))
}
