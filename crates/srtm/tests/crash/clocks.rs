//! The clocks of the machine, and pauses.

use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime};

#[expect(
    clippy::disallowed_methods,
    reason = "a broker is killed at an instant of real time"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Nanoseconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "deferred messages are due at a time of day"
)]
pub(crate) fn wall_ns() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.expect("after 1970").as_nanos() as i64
}

/// The word that a life is over, and pauses until it is given.
#[derive(Debug, Default)]
pub(crate) struct End {
    is_over: Mutex<bool>,
    told: Condvar,
}

impl End {
    pub(crate) fn tell(&self) {
        *self.is_over.lock().expect("no panic") = true;
        self.told.notify_all();
    }

    pub(crate) fn is_told(&self) -> bool {
        *self.is_over.lock().expect("no panic")
    }

    /// Pauses for so long, or until the end is told. Whether it was.
    pub(crate) fn told_within(&self, pause: Duration) -> bool {
        let over = self.is_over.lock().expect("no panic");
        let waited = self.told.wait_timeout_while(over, pause, |over| !*over);
        *waited.expect("no panic").0
    }
}
