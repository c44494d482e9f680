//! The clock of an endpoint, read here and nowhere else below this folder.

use clock::Instant;
use rustix::time::{ClockId, clock_gettime};

/// Now on the clock that never steps: the one that the poller's alarm goes by.
pub(super) fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Instant::from_nanos(seconds * 1_000_000_000 + nanos)
}
