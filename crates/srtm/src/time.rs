//! Reading the clock and waiting, for the commands that work in real time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Now, on the clock that never steps.
pub(crate) fn now() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "rates and summaries of a tool are in real time"
    )]
    Instant::now()
}

/// Now, since the Unix epoch.
pub(crate) fn unix_time() -> Duration {
    #[expect(
        clippy::disallowed_methods,
        reason = "message stamps and log lines carry wall time"
    )]
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// Waits until `deadline`; returns at once when it has passed.
pub(crate) fn sleep_until(deadline: Instant) {
    #[expect(
        clippy::disallowed_methods,
        reason = "pacing by real time is what is asked for"
    )]
    std::thread::sleep(deadline.saturating_duration_since(now()));
}
