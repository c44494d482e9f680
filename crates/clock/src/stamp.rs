//! Wall-clock packet stamps brought onto the monotonic clock.
//!
//! The kernel stamps packets with `CLOCK_REALTIME`; limits are decided on the monotonic clock. The
//! map keeps the offset between the two from pairs of readings that its owner takes now and then,
//! and it must never let a moving wall clock move an arrival into the future, out of its
//! connection's order, or far into the past, where it would earn tokens.
//!
//! The rule. Let *offset* be wall minus monotonic reading of an observation.
//!
//! 1. Two successive observations whose offsets differ by at most [`STEP_THRESHOLD`] are *steady*:
//!    the clock is slewed or untouched, and the newer offset is adopted. At the kernel's 500 ppm
//!    limit of slewing, observations may lie up to two seconds apart.
//! 2. A greater difference is a *step* (settimeofday, a leap second, a resumed machine). It happened
//!    somewhere between the two observations; the newer offset is adopted, and until one more
//!    observation is steady, that is for one full observation interval, every stamp maps to `now`.
//! 3. From then on a stamp that maps before the observation which found the step still maps to
//!    `now`: it may have been taken under the old offset. The same holds for stamps from before the
//!    first observation. After a step back, an old stamp may map to a later instant than the true
//!    one, but never to an earlier one.
//! 4. Whatever the offset says, a mapped stamp lies in `[floor, now]`.
//!
//! What it does not do: it cannot see a step before the next observation. Until then stamps taken
//! after a step forward map to `now`, and stamps taken after a step back map too early, down to
//! `floor`. Observe at least once per turn of the loop that reads the packets, before mapping.

use std::time::Duration;

use crate::{Instant, WallTime};

/// The greatest change of offset between two observations that still counts as slewing.
pub const STEP_THRESHOLD: Duration = Duration::from_millis(1);

/// What an observation said about the wall clock since the observation before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// The offset moved by at most [`STEP_THRESHOLD`].
    Steady,
    /// The wall clock was stepped; stamps are not trusted until an observation is steady again.
    Stepped,
}

/// Maps wall-clock stamps to the monotonic clock, whatever the wall clock does.
///
/// Feed it pairs of readings taken back to back ([`StampMap::observe`]). A pause between the two
/// readings of a pair is an error of the offset, and one beyond [`STEP_THRESHOLD`] reads as a step:
/// that costs accuracy for an interval, never safety.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampMap {
    /// Wall minus monotonic reading, nanoseconds. `i128`, because each may be any `u64`.
    offset_ns: i128,
    /// Stamps that map before this instant say nothing.
    trusted_from: Instant,
    /// A step was found and no steady observation has followed yet.
    settling: bool,
}

impl StampMap {
    /// A map that begins with one pair of readings, taken back to back.
    pub fn new(mono: Instant, wall: WallTime) -> Self {
        StampMap {
            offset_ns: offset(mono, wall),
            trusted_from: mono,
            settling: false,
        }
    }

    /// Takes a further pair of readings, taken back to back, and says whether the wall clock was
    /// stepped since the pair before.
    pub fn observe(&mut self, mono: Instant, wall: WallTime) -> Observed {
        let newer_ns = offset(mono, wall);
        let change_ns = (newer_ns - self.offset_ns).unsigned_abs();
        self.offset_ns = newer_ns;
        self.settling = change_ns > STEP_THRESHOLD.as_nanos();
        if self.settling {
            self.trusted_from = mono;
            Observed::Stepped
        } else {
            Observed::Steady
        }
    }

    /// The instant at which a packet with this `stamp` arrived, in `[floor, now]`.
    ///
    /// `floor` is the last mapped stamp of the same connection, `now` the present reading; should
    /// `floor` be the later of the two, the answer is `now`. A stamp that cannot be trusted (see the
    /// module's rule) arrived `now`.
    pub fn map(&self, stamp: WallTime, floor: Instant, now: Instant) -> Instant {
        if self.settling {
            return now;
        }
        let mapped_ns = i128::from(stamp.as_nanos()) - self.offset_ns;
        if mapped_ns < i128::from(self.trusted_from.as_nanos()) {
            return now;
        }
        saturate(mapped_ns).max(floor).min(now)
    }

    /// Whether a packet with this `stamp` may have arrived after the reading `now`. While stamps are not trusted after a
    /// step, each may have.
    pub fn may_be_after(&self, stamp: WallTime, now: Instant) -> bool {
        let mapped_ns = i128::from(stamp.as_nanos()) - self.offset_ns;
        self.settling || mapped_ns > i128::from(now.as_nanos())
    }

    /// The wall time of `mono` by the present offset, for people and logs.
    pub fn to_wall(&self, mono: Instant) -> WallTime {
        WallTime::from_nanos(saturate(i128::from(mono.as_nanos()) + self.offset_ns).as_nanos())
    }
}

fn offset(mono: Instant, wall: WallTime) -> i128 {
    i128::from(wall.as_nanos()) - i128::from(mono.as_nanos())
}

fn saturate(nanos: i128) -> Instant {
    let clamped = nanos.clamp(0, i128::from(u64::MAX));
    Instant::from_nanos(u64::try_from(clamped).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
