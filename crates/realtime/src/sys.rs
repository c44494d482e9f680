//! The system calls.

#![allow(unsafe_code)]

use std::io;

use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::RealtimeError;
use crate::priority::Priority;

/// Numbers that a set of CPUs has room for.
pub(crate) const CPUS_MAX: usize = CpuSet::MAX_CPU;

/// Binds the calling thread to one CPU. Gives those that it could run on before.
pub(crate) fn move_to_cpu(cpu: usize) -> Result<CpuSet, RealtimeError> {
    let system = |error: Errno| RealtimeError::system("setting the CPU affinity")(error.into());
    let former = sched_getaffinity(None).map_err(system)?;
    let mut one = CpuSet::new();
    one.set(cpu);
    match sched_setaffinity(None, &one) {
        Ok(()) => Ok(former),
        Err(Errno::INVAL) => Err(no_such_cpu(cpu)),
        Err(error) => Err(system(error)),
    }
}

/// Lets the calling thread run where it could before.
pub(crate) fn restore_cpus(former: &CpuSet) {
    // It was permitted a moment ago; where it is not any more, the caller's error says enough.
    let _ = sched_setaffinity(None, former);
}

/// Puts the calling thread under SCHED_FIFO.
pub(crate) fn set_fifo(priority: Priority) -> io::Result<()> {
    let parameter = libc::sched_param {
        sched_priority: libc::c_int::from(priority.get()),
    };
    // A thread that one of these starts did not ask for the priority.
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: `parameter` is a valid sched_param that outlives the call, which only reads it; 0 names the calling thread.
    let set = unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) };
    if set == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Locks all pages, present and future.
pub(crate) fn lock_memory() -> Result<(), RealtimeError> {
    let locked = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE);
    locked.map_err(|error| RealtimeError::system("locking the memory")(error.into()))
}

/// The refusal, with the CPUs that there are.
pub(crate) fn no_such_cpu(cpu: usize) -> RealtimeError {
    let usable = sched_getaffinity(None).map_or_else(|_| String::from("unknown"), |set| list(&set));
    RealtimeError::NoSuchCpu { cpu, usable }
}

/// As the system writes it: `0-3,8`.
fn list(set: &CpuSet) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for cpu in (0..CPUS_MAX).filter(|&cpu| set.is_set(cpu)) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let texts: Vec<String> = ranges
        .iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_cpus_read_as_ranges() {
        for (cpus, expected) in [
            (&[][..], ""),
            (&[0], "0"),
            (&[0, 1, 2], "0-2"),
            (&[0, 2, 3, 9], "0,2-3,9"),
        ] {
            let mut set = CpuSet::new();
            cpus.iter().for_each(|&cpu| set.set(cpu));
            assert_eq!(list(&set), expected);
        }
    }
}
