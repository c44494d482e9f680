//! How long a turn may last, and how often to look at the clock meanwhile. Pure: readings are
//! arguments.
//!
//! Turns are not interrupted, so a busy task ends its turn itself and takes another: after its
//! credits, and after [`TURN_MAX`] even where it has more. Reading the clock after every message
//! would cost a fast callback a noticeable part of its time, reading it rarely would make a slow
//! one overrun; so the stride doubles while steps are short and falls back to one when they are
//! not.

use std::time::Duration;

use clock::Instant;

/// No turn goes on longer than this by its own will.
pub(super) const TURN_MAX: Duration = Duration::from_micros(200);

/// Steps between two looks at the clock at most.
const STRIDE_MAX: u32 = 32;

/// A stride that took longer than this is too long.
const STRIDE_TIME: Duration = Duration::from_micros(5);

/// Watches over the length of one turn.
#[derive(Debug)]
pub(super) struct Pace {
    ends: Instant,
    looked: Instant,
    stride: u32,
    left: u32,
}

impl Pace {
    /// A turn that began at `began` with `credits`.
    pub(super) fn new(began: Instant, credits: Duration) -> Self {
        Pace {
            ends: began + credits.min(TURN_MAX),
            looked: began,
            stride: 1,
            left: 1,
        }
    }

    /// Counts a step. Says whether the turn is over by the clock, which is read only now and then.
    pub(super) fn is_over(&mut self, clock: impl FnOnce() -> Instant) -> bool {
        self.left -= 1;
        if self.left > 0 {
            return false;
        }
        let now = clock();
        let is_short = now.saturating_since(self.looked) <= STRIDE_TIME;
        self.stride = if is_short {
            (self.stride * 2).min(STRIDE_MAX)
        } else {
            1
        };
        self.left = self.stride;
        self.looked = now;
        now >= self.ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps until the turn is over, and clock readings meanwhile, where each step takes `step_ns`.
    fn turn(credits_us: u64, step_ns: u64) -> (u64, u64) {
        let mut pace = Pace::new(Instant::ZERO, Duration::from_micros(credits_us));
        let (mut steps, mut readings) = (0, 0);
        loop {
            steps += 1;
            let is_over = pace.is_over(|| {
                readings += 1;
                Instant::from_nanos(steps * step_ns)
            });
            if is_over {
                return (steps, readings);
            }
        }
    }

    #[test]
    fn short_steps_are_hardly_timed_and_long_ones_always() {
        for (credits_us, step_ns, steps_max, readings_max) in [
            // A thousand steps of 100 ns fit 100 µs.
            (100, 100, 1_032, 40),
            // Credits beyond the longest turn count as that.
            (10_000, 100, 2_032, 72),
            // Each step is longer than what is left.
            (1, 2_000_000, 1, 1),
            (100, 30_000, 4, 4),
        ] {
            let (steps, readings) = turn(credits_us, step_ns);
            assert!(steps <= steps_max, "{steps} steps of {step_ns} ns");
            assert!(readings <= readings_max, "{readings} readings in {steps}");
            let least = (credits_us.min(200) * 1000).div_ceil(step_ns);
            assert!(steps >= least, "{steps} steps of {step_ns} ns are too few");
        }
    }
}
