//! Estimates: mean rates per interval, smoothed.
//!
//! DRL, section 3.1 and footnote 4: "mean rate per estimate interval", then an EWMA whose 1-second
//! parameter is 0.1. We read that as: one second later 0.1 of an old estimate is left, so an
//! interval of t seconds keeps 0.1^t of it, 0.891 for 50 ms, and estimates of different intervals
//! forget alike.
//!
//! The average covers only what was measured ([`Smoothed`] divides by the weights that it has
//! seen): the first interval's value is the estimate after it; there is no initial 0 to be
//! forgotten.

use std::time::Duration;

use clock::Instant;

use super::{Figures, Update};

/// How fast the past is forgotten.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Memory {
    ewma_1s: f64,
}

impl Memory {
    pub(super) fn new(ewma_1s: f64) -> Self {
        Memory { ewma_1s }
    }

    /// The part of an estimate that is kept over `seconds`.
    pub(super) fn kept(self, seconds: f64) -> f64 {
        self.ewma_1s.powf(seconds)
    }

    /// The time in which an estimate falls to 1/e, seconds.
    pub(super) fn time_constant_s(self) -> f64 {
        if self.ewma_1s > 0.0 {
            -1.0 / self.ewma_1s.ln()
        } else {
            0.0
        }
    }
}

/// An exponentially weighted average of what was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Smoothed {
    sum: f64,
    seen: f64,
}

impl Smoothed {
    /// Takes in a value, of which and of the past `kept` is the past's part.
    pub(super) fn take(&mut self, value: f64, kept: f64) {
        self.sum = self.sum * kept + value * (1.0 - kept);
        self.seen = self.seen * kept + (1.0 - kept);
    }

    /// The average; 0 before the first value.
    pub(super) fn get(self) -> f64 {
        if self.seen > 0.0 {
            self.sum / self.seen
        } else {
            0.0
        }
    }

    /// How much of an average over all time this is, from 0 to 1.
    pub(super) fn seen(self) -> f64 {
        self.seen
    }
}

/// Units that arrive and that pass, and their rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Traffic {
    memory: Memory,
    since: Instant,
    arrived_units: f64,
    passed_units: f64,
    arriving: Smoothed,
    passing: Smoothed,
}

/// An estimate interval that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ended {
    /// Its length.
    pub(super) seconds: f64,
    /// Units per second that arrived and passed in it.
    pub(super) arrived: f64,
    passed: f64,
}

impl Traffic {
    pub(super) fn new(ewma_1s: f64, now: Instant) -> Self {
        Traffic {
            memory: Memory::new(ewma_1s),
            since: now,
            arrived_units: 0.0,
            passed_units: 0.0,
            arriving: Smoothed::default(),
            passing: Smoothed::default(),
        }
    }

    pub(super) fn arrived(&mut self, units: f64) {
        self.arrived_units += units;
    }

    pub(super) fn passed(&mut self, units: f64) {
        self.passed_units += units;
    }

    /// Notes what arrived and passes, or will, as somebody else decided.
    pub(super) fn served(&mut self, units: f64) {
        self.arrived(units);
        self.passed(units);
    }

    /// Ends the interval at `now`; `None` if it has no length.
    pub(super) fn end(&mut self, now: Instant) -> Option<Ended> {
        let length = now - self.since;
        if length == Duration::ZERO {
            return None;
        }
        let seconds = length.as_secs_f64();
        let ended = Ended {
            seconds,
            arrived: self.arrived_units / seconds,
            passed: self.passed_units / seconds,
        };
        self.take(ended);
        self.arrived_units = 0.0;
        self.passed_units = 0.0;
        self.since = now;
        Some(ended)
    }

    /// The smoothed rate of arrivals as of the last interval's end.
    pub(super) fn arriving(&self) -> f64 {
        self.arriving.get()
    }

    /// The smoothed rate of what passed as of the last interval's end.
    pub(super) fn passing(&self) -> f64 {
        self.passing.get()
    }

    /// The update of a limiter that divides the limit by what arrives.
    pub(super) fn update(&self) -> Update {
        Update::measured(self.arriving(), self.passing())
    }

    /// The figures of a limiter that lets `local_limit` of `limit` through.
    pub(super) fn figures(&self, local_limit: f64, limit: f64) -> Figures {
        Figures {
            arriving: self.arriving(),
            passing: self.passing(),
            weight: 0.0,
            local_limit,
            limit,
        }
    }

    /// Forgets what arrived before the interval that has just ended, and after a `long` silence what passed, too. After
    /// a short one that stays: only intervals with traffic end a silence, and their rates alone would be too much.
    pub(super) fn begin_anew(&mut self, ended: Ended, long: bool) {
        let kept = self.memory.kept(ended.seconds);
        self.arriving = Smoothed::default();
        self.arriving.take(ended.arrived, kept);
        if long {
            self.passing = Smoothed::default();
            self.passing.take(ended.passed, kept);
        }
    }

    fn take(&mut self, ended: Ended) {
        let kept = self.memory.kept(ended.seconds);
        self.arriving.take(ended.arrived, kept);
        self.passing.take(ended.passed, kept);
    }
}
