//! A reactor's clock: when its turn began, which time it takes for now, and what the kernel's
//! stamps mean.

use std::time::Duration;

use clock::{Instant, StampMap, WallTime};
use topics::{Arrival, ConsumerOrder};

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
    /// Something may have come after `now`: bytes were received, or post was taken, without a look since.
    is_now_early: bool,
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
            is_now_early: false,
            stamps: StampMap::new(now, wall),
            observed_at: now,
            resting: Resting::new(now),
        }
    }

    /// Looks at the clock.
    #[inline]
    pub(super) fn look(&mut self) {
        self.now = sys::monotonic_now();
        self.is_now_early = false;
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
    /// Where the `stamp` of what was received is later than that look, it looks again.
    #[inline]
    pub(super) fn receive(&mut self, stamp: Option<WallTime>) {
        let is_fresh = std::mem::take(&mut self.is_now_fresh);
        let may_be_after = |stamp| self.stamps.may_be_after(stamp, self.now);
        match is_fresh && !stamp.is_some_and(may_be_after) {
            true => self.is_now_early = true,
            false => self.look(),
        }
    }

    /// Post was taken, and may have been sent since the clock was looked at.
    pub(super) fn note_post(&mut self) {
        self.is_now_early = true;
    }

    /// An instant that no command read or taken from the post so far was sent after. A time that a peer asks for counts
    /// from there, so that by the peer's clock, too, it never ends early. The clock is looked at only where it
    /// was not since the command came.
    #[inline]
    pub(super) fn after_command(&mut self) -> Instant {
        if self.is_now_early {
            self.look();
        }
        self.now
    }

    /// The instant at which an order of a consumer is carried out.
    #[inline]
    pub(super) fn of_order(&mut self, order: ConsumerOrder) -> Instant {
        match order.starts_a_time() {
            true => self.after_command(),
            false => self.now,
        }
    }

    /// What a delay, which counts from when a command's bytes were `read`, must be to count from [`Time::after_command`].
    #[inline]
    pub(super) fn delay_from(&mut self, read: Instant, delay: Duration) -> Duration {
        match delay.is_zero() {
            true => delay,
            false => delay + self.after_command().saturating_since(read),
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

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(3);

    /// A turn has begun; then something came, and was received without a stamp. Gives when it came, too.
    fn received_after_a_look() -> (Time, Instant) {
        let mut time = Time::new(sys::monotonic_now(), sys::wall_now());
        time.begin_turn();
        let came = sys::monotonic_now();
        time.receive(None);
        (time, came)
    }

    #[test]
    fn a_time_that_a_peer_asks_for_counts_from_after_its_command() {
        let (mut time, came) = received_after_a_look();
        let read = time.now;
        assert!(read + time.delay_from(read, DELAY) >= came + DELAY);
        for order in [ConsumerOrder::Requeue(1, DELAY), ConsumerOrder::Touch(1)] {
            let (mut time, came) = received_after_a_look();
            assert!(time.of_order(order) >= came, "{order:?}");
            let posted = sys::monotonic_now();
            time.note_post();
            assert!(time.of_order(order) >= posted, "{order:?} from the post");
        }
    }

    #[test]
    fn other_commands_need_no_further_look() {
        let (mut time, _) = received_after_a_look();
        let began = time.turn_began;
        for order in [
            ConsumerOrder::Finish(1),
            ConsumerOrder::Ready(1),
            ConsumerOrder::Requeue(1, Duration::ZERO),
        ] {
            assert_eq!(time.of_order(order), began, "{order:?}");
        }
        assert_eq!(time.delay_from(began, Duration::ZERO), Duration::ZERO);
        assert_eq!(time.now, began);
    }

    #[test]
    fn one_look_serves_all_commands_of_a_receive() {
        let (mut time, _) = received_after_a_look();
        let first = time.after_command();
        let order = ConsumerOrder::Touch(1);
        assert_eq!((time.after_command(), time.of_order(order)), (first, first));
        assert_eq!(time.delay_from(first, DELAY), DELAY);
    }

    #[test]
    fn a_stamp_after_the_look_has_the_clock_looked_at() {
        let mut time = Time::new(sys::monotonic_now(), sys::wall_now());
        time.begin_turn();
        let (began, later) = (time.now, Duration::from_secs(60));
        let stamp = time.stamps.to_wall(began + later);
        while sys::monotonic_now() == began {}
        time.receive(Some(stamp));
        assert!(time.now > began);
    }
}
