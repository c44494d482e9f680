//! Reads the clocks: the only place in the data plane that does.

use std::time::Duration;

use clock::{Instant, WallTime};

/// Now on `CLOCK_MONOTONIC`, which never steps.
#[must_use]
pub fn monotonic_now() -> Instant {
    Instant::from_nanos(read(libc::CLOCK_MONOTONIC))
}

/// Now on `CLOCK_REALTIME`, the clock of the kernel's packet stamps.
#[must_use]
pub fn wall_now() -> WallTime {
    WallTime::from_nanos(read(libc::CLOCK_REALTIME))
}

/// Time that the calling thread has had of a core (`CLOCK_THREAD_CPUTIME_ID`).
#[must_use]
pub fn thread_time() -> Duration {
    Duration::from_nanos(read(libc::CLOCK_THREAD_CPUTIME_ID))
}

/// Sets the calling thread's timer slack; the default of 50 µs would delay every release by as much.
pub fn thread_timer_slack_ns(slack_ns: u64) {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and touches no memory of ours.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns as libc::c_ulong) };
}

/// Puts the calling thread to sleep. For spacing loop turns under load, never for waiting on a condition.
pub fn rest(time: Duration) {
    let time = libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(time.subsec_nanos()),
    };
    // SAFETY: `time` is a valid timespec that outlives the call; what remains after an interruption is not wanted.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
}

fn read(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec that the call fills; the clock ids always exist on Linux.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
