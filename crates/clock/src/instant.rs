//! Points in time: the monotonic clock and the wall clock as two types that do not mix.
//!
//! Both count nanoseconds in a `u64`, which lasts 584 years from the clock's zero. All arithmetic
//! saturates: a deadline beyond the end of time is the end of time, not a panic and not a wrap.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A reading of the monotonic clock, in nanoseconds since that clock's zero.
///
/// Only readings of one clock may be compared; which clock it is, its reader decides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

/// A reading of the wall clock (`CLOCK_REALTIME`), in nanoseconds since the Unix epoch.
///
/// The wall clock may be stepped and slewed; take durations from [`Instant`]s.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WallTime(u64);

impl Instant {
    /// The clock's zero: before or at every other instant.
    pub const ZERO: Instant = Instant(0);

    /// The last instant there is. As a deadline it means "never".
    pub const MAX: Instant = Instant(u64::MAX);

    /// The instant `nanos` nanoseconds after the clock's zero.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// Nanoseconds since the clock's zero.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this instant; zero when `earlier` is the later one.
    pub const fn saturating_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl WallTime {
    /// The wall time `nanos` nanoseconds after the Unix epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        WallTime(nanos)
    }

    /// Nanoseconds since the Unix epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    /// The instant `rhs` later, at most [`Instant::MAX`].
    fn add(self, rhs: Duration) -> Instant {
        Instant(self.0.saturating_add(nanos(rhs)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    /// The instant `rhs` earlier, at least [`Instant::ZERO`].
    fn sub(self, rhs: Duration) -> Instant {
        Instant(self.0.saturating_sub(nanos(rhs)))
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    /// The time from `rhs` to this instant; zero when `rhs` is the later one.
    fn sub(self, rhs: Instant) -> Duration {
        self.saturating_since(rhs)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instant({} ns)", self.0)
    }
}

impl fmt::Debug for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WallTime({} ns)", self.0)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let at = Instant::from_nanos;
        let ns = Duration::from_nanos;
        assert_eq!(at(5) + ns(7), at(12));
        assert_eq!(at(5) - ns(7), Instant::ZERO);
        assert_eq!(at(u64::MAX - 1) + ns(7), Instant::MAX);
        assert_eq!(at(5) + Duration::MAX, Instant::MAX);
        assert_eq!(Instant::MAX - Duration::MAX, Instant::ZERO);
        assert_eq!(at(12) - at(5), ns(7));
        assert_eq!(at(5) - at(12), Duration::ZERO);
        assert_eq!(at(5).saturating_since(at(12)), Duration::ZERO);
        let mut moving = at(1);
        moving += ns(2);
        assert_eq!(moving, at(3));
    }

    #[test]
    fn order_is_time_order() {
        assert!(Instant::ZERO < Instant::from_nanos(1));
        assert!(Instant::from_nanos(1) < Instant::MAX);
        assert!(WallTime::from_nanos(1) < WallTime::from_nanos(2));
        assert_eq!(WallTime::from_nanos(9).as_nanos(), 9);
    }
}
