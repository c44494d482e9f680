//! Work that arrives within any window of a given length.
//!
//! It decides what the paper's "conformant and stable" is meant to decide: where the work of all
//! tasks together that arrives in any window of length T is at most T, no event waits longer than
//! T. The reason: a busy period begins with an empty system, and while there is work at least one
//! thread serves; so when T has passed, all that arrived in that time has been served, and no busy
//! period is longer than T. That each task keeps to its part, at most S_i · T in every window of
//! length T, implies it. It holds on any number of threads that always run, and for every order of
//! service.
//!
//! Shares add a guarantee for when others do not keep to theirs. While those leave the server no
//! pause, a period of credits is never longer than L = Σ (A_j + C_j), all allotments and one event
//! of each task; a task that keeps to A_i − C_i in every window of length L then never runs out of
//! credits, and waits at most L. After a pause it may wait as long as [`super::wait_bound`] says:
//! credits that were used before the pause are still used after it.

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;

/// The most work that arrived within any window of one length, half open: work that arrives exactly a window's length after
/// other work is not in one with it. Keeps the arrivals of one window.
#[derive(Clone, Debug)]
pub struct Demand {
    window: Duration,
    recent: VecDeque<(Instant, Duration)>,
    recent_work: Duration,
    largest: Duration,
}

impl Demand {
    /// Of windows that are `window` long; nothing has arrived.
    #[must_use]
    pub fn new(window: Duration) -> Demand {
        Demand {
            window,
            recent: VecDeque::new(),
            recent_work: Duration::ZERO,
            largest: Duration::ZERO,
        }
    }

    /// Notes that `work` arrived at `at`, at or after everything before it.
    pub fn add(&mut self, at: Instant, work: Duration) {
        while let Some(&(first, gone)) = self.recent.front()
            && at.saturating_since(first) >= self.window
        {
            self.recent.pop_front();
            self.recent_work -= gone;
        }
        self.recent.push_back((at, work));
        self.recent_work += work;
        self.largest = self.largest.max(self.recent_work);
    }

    /// What would be in the window that ends with work that arrives at `at`.
    #[must_use]
    pub fn at(&self, at: Instant) -> Duration {
        let is_in = |&&(since, _): &&(Instant, Duration)| at.saturating_since(since) < self.window;
        let recent = self.recent.iter().rev().take_while(is_in);
        recent.map(|&(_, work)| work).sum()
    }

    /// The most work of any window so far.
    #[must_use]
    pub fn largest(&self) -> Duration {
        self.largest
    }
}
