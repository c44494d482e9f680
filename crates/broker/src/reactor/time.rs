//! A reactor's clock: when its turn began, which time it takes for now, and what the kernel's
//! stamps mean.

use std::time::Duration;

use clock::{Instant, StampMap, WallTime};
use topics::Arrival;

use super::resting::Resting;
use crate::connection::ArrivalStamp;
use crate::sys;

/// The interval at which the wall clock is compared with the monotonic one: it drifts by less than
/// a microsecond meanwhile; a step in between makes stamps late, or is cut off by earlier stamps.
const OBSERVE_INTERVAL: Duration = Duration::from_millis(1);

/// Turns that begin within this many spacings of each other count as load.
const LOAD_FACTOR: u32 = 2;

/// A shorter rest costs more than it gathers.
const SHORTEST_REST: Duration = Duration::from_micros(10);

/// The clocks of a reactor.
#[derive(Debug)]
pub(super) struct Time {
    /// When the clock was last looked at.
    pub(super) now: Instant,
    /// When the wait before this turn ended.
    pub(super) turn_began: Instant,
    turn_before_began: Instant,
    is_now_fresh: bool,
    /// Maps the kernel's stamps onto the monotonic clock.
    pub(super) stamps: StampMap,
    observed_at: Instant,
    /// Whether rests between turns pay.
    pub(super) resting: Resting,
}

impl Time {
    /// No turn has begun.
    pub(super) fn new(now: Instant, wall: WallTime) -> Time {
        Time {
            now,
            turn_began: now,
            turn_before_began: Instant::ZERO,
            is_now_fresh: false,
            stamps: StampMap::new(now, wall),
            observed_at: now,
            resting: Resting::new(now),
        }
    }

    /// Looks at the clock.
    #[inline]
    pub(super) fn look(&mut self) {
        self.now = sys::monotonic_now();
    }

    /// Looks at the clock, and the next receive need not.
    #[inline]
    pub(super) fn look_for_receive(&mut self) {
        self.look();
        self.is_now_fresh = true;
    }

    /// A wait is over.
    pub(super) fn begin_turn(&mut self) {
        self.look_for_receive();
        self.turn_before_began = std::mem::replace(&mut self.turn_began, self.now);
        if self.now - self.observed_at >= OBSERVE_INTERVAL {
            self.observed_at = self.now;
            self.stamps.observe(self.now, sys::wall_now());
        }
        if self.resting.is_due(self.now) {
            self.resting.go_on(self.now, sys::thread_time());
        }
    }

    /// Under load, and where that pays, rests until `spacing` after the last turn began, so that what arrives meanwhile
    /// shares one turn. Load is a turn that had something to read and came soon after the one before;
    /// a reactor that is woken now and then answers at once. Gives the instant after it.
    pub(super) fn space_turns(
        &self,
        spacing: Duration,
        had_events: bool,
        until: Option<Instant>,
        now: Instant,
    ) -> Instant {
        let was_soon = self.turn_began - self.turn_before_began < spacing * LOAD_FACTOR;
        if spacing.is_zero() || !had_events || !was_soon || !self.resting.is_allowed() {
            return now;
        }
        let spaced = self.turn_began + spacing;
        let end = until.map_or(spaced, |until| until.min(spaced));
        let rest = end.saturating_since(now);
        if rest < SHORTEST_REST {
            return now;
        }
        sys::rest(rest);
        sys::monotonic_now()
    }

    /// Looks at the clock after a receive, unless it has just been looked at: the first receive of a turn follows the wait at once.
    #[inline]
    pub(super) fn receive(&mut self) {
        if !std::mem::take(&mut self.is_now_fresh) {
            self.look();
        }
    }

    /// When bytes arrived that were read now, and came after `earliest`.
    #[inline]
    pub(super) fn arrival_of(&self, stamp: Option<WallTime>, earliest: Instant) -> ArrivalStamp {
        let (at, wall) = match stamp {
            Some(stamp) => (self.stamps.map(stamp, earliest, self.now), stamp),
            None => (self.now, self.stamps.to_wall(self.now)),
        };
        ArrivalStamp {
            at,
            wall_ns: wall.as_nanos().cast_signed(),
            read: self.now,
        }
    }

    /// The arrival of something that came through the handle: now.
    pub(super) fn arrival_now(&mut self) -> Arrival {
        self.look();
        let stamp = self.arrival_of(None, self.now);
        Arrival {
            at: stamp.at,
            wall_ns: stamp.wall_ns,
            read: stamp.read,
            half_rtt_us: 0,
            flow: 0,
        }
    }

    /// Seconds of the wall clock.
    pub(super) fn wall_s(&self) -> u64 {
        self.stamps.to_wall(self.now).as_nanos() / 1_000_000_000
    }
}
