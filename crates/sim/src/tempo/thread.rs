//! A scheduler thread, which runs when the operating system lets it.

use std::time::Duration;

use clock::Xoshiro256PlusPlus;
use kernel::Turn;

use super::task::Event;
use crate::gap;

/// A turn that a thread serves.
pub(super) struct Serving {
    /// The scheduler's; `None` where events are served in the order of arrival.
    pub(super) turn: Option<Turn>,
    pub(super) task: usize,
    pub(super) event: Event,
    pub(super) began_ns: u64,
    /// When it ends if the thread keeps its processor.
    pub(super) ends_ns: u64,
}

/// A thread with a processor of its own, on which others run too.
pub(super) struct Thread {
    pub(super) serving: Option<Serving>,
    has_processor: bool,
    /// It loses its processor when its turn ends.
    is_leaving: bool,
    since_ns: u64,
    ran_ns: u64,
    random: Xoshiro256PlusPlus,
    on_mean_ns: f64,
    off_mean_ns: f64,
}

impl Thread {
    /// A thread that has its processor for `slice` in the mean, and `availability` of the time; at the beginning too.
    pub(super) fn new(availability: f64, slice: Duration, mut random: Xoshiro256PlusPlus) -> Self {
        let on_mean_ns = slice.as_nanos() as f64;
        // e to the power of minus an exponential draw is anything in (0, 1], equally likely.
        let uniform = (-gap::exponential_ns(&mut random, 1.0)).exp();
        Thread {
            serving: None,
            has_processor: availability >= 1.0 || uniform <= availability,
            is_leaving: false,
            since_ns: 0,
            ran_ns: 0,
            random,
            on_mean_ns,
            off_mean_ns: on_mean_ns * (1.0 - availability) / availability,
        }
    }

    pub(super) fn has_processor(&self) -> bool {
        self.has_processor
    }

    /// How long it is until it has its processor, or loses it.
    pub(super) fn until_change_ns(&mut self) -> u64 {
        let mean_ns = if self.has_processor {
            self.on_mean_ns
        } else {
            self.off_mean_ns
        };
        gap::exponential_ns(&mut self.random, mean_ns).round() as u64
    }

    /// It has its processor again.
    pub(super) fn gain_processor(&mut self, now_ns: u64) {
        let away_ns = now_ns - self.since_ns;
        self.has_processor = true;
        self.since_ns = now_ns;
        if let Some(serving) = &mut self.serving {
            serving.ends_ns += away_ns;
            if let Some(turn) = &mut serving.turn {
                // A task is charged for what its thread has run, not for what it was away.
                turn.began += Duration::from_nanos(away_ns);
            }
        }
    }

    /// It has no processor from now on.
    pub(super) fn lose_processor(&mut self, now_ns: u64) {
        self.ran_ns += now_ns - self.since_ns;
        self.has_processor = false;
        self.is_leaving = false;
        self.since_ns = now_ns;
    }

    /// It is to lose its processor when its turn ends.
    pub(super) fn leave_after_turn(&mut self) {
        self.is_leaving = true;
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// How long it has had its processor up to `now_ns`.
    pub(super) fn ran_ns(&self, now_ns: u64) -> u64 {
        if self.has_processor {
            self.ran_ns + (now_ns - self.since_ns)
        } else {
            self.ran_ns
        }
    }
}
