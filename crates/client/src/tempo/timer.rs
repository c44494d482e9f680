//! A task that is called at even intervals, without a thread of the program's own.
//!
//! Calls are due at multiples of the interval since the timer was made, however late one of them was. A call that falls
//! due while an earlier one still waits for its turn, or runs, is skipped and counted: a timer never has a backlog.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clock::Instant;
use kernel::{Serve, Turn};

use super::inbox::Inbox;
use super::monotonic::now;
use super::poller::{Poller, Signal};

/// A timer's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerCounts {
    /// Calls made.
    pub calls: u64,
    /// Calls that were due while an earlier one was not through.
    pub skipped: u64,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    calls: AtomicU64,
    skipped: AtomicU64,
}

/// A call is due.
pub(super) struct Due;

impl From<Signal> for Due {
    fn from(_: Signal) -> Self {
        Due
    }
}

/// The handler of the task.
pub(super) struct Ticks {
    interval: Duration,
    next: Instant,
    callback: Box<dyn FnMut() + Send>,
    inbox: Arc<Inbox<Due>>,
    poller: Arc<Poller>,
    tally: Arc<Tally>,
}

impl Ticks {
    /// The first call is due one interval after `start`.
    pub(super) fn new(
        interval: Duration,
        start: Instant,
        callback: Box<dyn FnMut() + Send>,
        inbox: Arc<Inbox<Due>>,
        poller: Arc<Poller>,
        tally: Arc<Tally>,
    ) -> Self {
        let ticks = Ticks {
            interval,
            next: start + interval,
            callback,
            inbox,
            poller,
            tally,
        };
        ticks.set_alarm();
        ticks
    }

    fn set_alarm(&self) {
        let target: Arc<Inbox<Due>> = Arc::clone(&self.inbox);
        self.poller.set_alarm(self.next, target, 0);
    }
}

impl Serve for Ticks {
    fn serve(&mut self, _: &Turn) -> usize {
        if self.inbox.take().is_none() {
            return 0;
        }
        self.tally.calls.fetch_add(1, Ordering::Relaxed);
        (self.callback)();
        let (next, skipped) = following(self.next, self.interval, now());
        self.tally.skipped.fetch_add(skipped, Ordering::Relaxed);
        self.next = next;
        self.set_alarm();
        1
    }
}

/// The first instant of the grid through `due` that is after `now`, if it is not the next one anyway, and the number
/// left out.
fn following(due: Instant, interval: Duration, now: Instant) -> (Instant, u64) {
    let next = due + interval;
    let late_ns = now.saturating_since(next).as_nanos();
    let skipped = u64::try_from(late_ns / interval.as_nanos().max(1)).unwrap_or(u64::MAX);
    let steps = interval.saturating_mul(u32::try_from(skipped).unwrap_or(u32::MAX));
    (next + steps, skipped)
}

impl Tally {
    pub(super) fn counts(&self) -> TimerCounts {
        TimerCounts {
            calls: self.calls.load(Ordering::Relaxed),
            skipped: self.skipped.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_stay_on_their_grid() {
        let ms = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let interval = Duration::from_millis(10);
        for (now_ms, next_ms, skipped) in [
            (50, 60, 0),
            (59, 60, 0),
            // A little late: the call is made at once.
            (60, 60, 0),
            (69, 60, 0),
            (70, 70, 1),
            (149, 140, 8),
        ] {
            let found = following(ms(50), interval, ms(now_ms));
            assert_eq!(found, (ms(next_ms), skipped), "at {now_ms} ms");
        }
    }
}
