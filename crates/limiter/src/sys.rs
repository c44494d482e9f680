//! System calls that no safe wrapper has, and every `unsafe` block of the crate.

#![allow(unsafe_code)]

pub(crate) mod carrier;
pub(crate) mod netlink;
pub(crate) mod netns;
mod ring;
pub(crate) mod tun;

use std::io;

use clock::Instant;
use rustix::time::{ClockId, clock_gettime};

/// Now, on the clock that never steps.
pub(crate) fn now() -> Instant {
    nanos(ClockId::Monotonic)
}

/// Now, since the Unix epoch, ns.
pub(crate) fn unix_ns() -> u64 {
    nanos(ClockId::Realtime).as_nanos()
}

/// Processor time that this thread has used, ns.
pub(crate) fn thread_cpu_ns() -> u64 {
    nanos(ClockId::ThreadCPUTime).as_nanos()
}

/// Wakes this thread when it asked to be woken; the default would add 50 µs to every wait.
pub(crate) fn wake_in_time() {
    let least = std::num::NonZeroU64::MIN;
    if let Err(error) = rustix::thread::set_current_timer_slack(Some(least)) {
        tracing::warn!("the thread will wake up to 50 µs late: {error}");
    }
}

/// What a system call that gave `result` says.
fn outcome(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn nanos(clock: ClockId) -> Instant {
    let time = clock_gettime(clock);
    let nanos = time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned();
    Instant::from_nanos(nanos)
}
