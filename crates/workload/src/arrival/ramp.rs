//! A ramp as a stretching of time.

use super::turns::END_NS;
use crate::Ramp;

/// Maps a class's own time, in which its rate is constant, to real time. Nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    from: f64,
    to: f64,
    over_ns: f64,
}

impl Stretch {
    /// The identity without a ramp.
    pub(super) fn new(ramp: Option<Ramp>) -> Self {
        match ramp {
            Some(ramp) => Stretch {
                from: ramp.from,
                to: ramp.to,
                over_ns: ramp.over.as_nanos() as f64,
            },
            None => Stretch {
                from: 1.0,
                to: 1.0,
                over_ns: 0.0,
            },
        }
    }

    /// The real time at which `own_ns` of the class's own time have passed; `None`: never.
    #[inline]
    pub(super) fn real_ns(&self, own_ns: f64) -> Option<u64> {
        let at_end = self.own_at_end_ns();
        let real_ns = if own_ns < at_end {
            // from·t + slope/2·t² = own, in the form that does not cancel.
            let root = (self.from * self.from + 2.0 * self.slope() * own_ns)
                .max(0.0)
                .sqrt();
            // Only at the very beginning of a ramp from nothing is the divisor nothing.
            let sum = self.from + root;
            if sum > 0.0 { 2.0 * own_ns / sum } else { 0.0 }
        } else if self.to > 0.0 {
            self.over_ns + (own_ns - at_end) / self.to
        } else {
            return None;
        };
        (real_ns < END_NS).then_some(real_ns as u64)
    }

    /// How much of the class's own time has passed at `real_ns`: the inverse of [`Stretch::real_ns`].
    pub(super) fn own_ns(&self, real_ns: u64) -> f64 {
        let real_ns = real_ns as f64;
        if real_ns >= self.over_ns {
            return self.own_at_end_ns() + (real_ns - self.over_ns) * self.to;
        }
        (self.from + self.slope() / 2.0 * real_ns) * real_ns
    }

    /// Whether the rate does not change any more from `real_ns` on.
    pub(super) fn constant_from(&self, real_ns: u64) -> bool {
        real_ns as f64 >= self.over_ns
    }

    /// Own time passed when the ramp ends: the area of a trapezium.
    fn own_at_end_ns(&self) -> f64 {
        f64::midpoint(self.from, self.to) * self.over_ns
    }

    fn slope(&self) -> f64 {
        (self.to - self.from) / self.over_ns
    }
}
