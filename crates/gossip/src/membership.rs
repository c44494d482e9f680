//! Who is connected: SWIM, as `foca` implements it, over the fixed list of peers (DRL, section
//! 5.6).
//!
//! A member is probed at random, by way of others if it does not answer, then suspected, and taken
//! for gone if it does not object. Limiters that are not connected are asked to join again and
//! again, some at a time: those that have not started yet, those that crashed, and those on the
//! other side of a cut.

mod life;

use std::collections::BTreeMap;
use std::num::{NonZeroU8, NonZeroUsize};
use std::time::Duration;

use bytes::Bytes;
use clock::{Instant, Xoshiro256PlusPlus};
use foca::{AccumulatingRuntime, Config, Foca, NoCustomBroadcast, PeriodicParams, Timer};
use rand::Rng;
use wire::gossip::{MAX_MEMBERSHIP_BYTES, MEMBERSHIP_HEADER_BYTES, MEMBERSHIP_TAG_BYTES};

use life::{Life, LifeCodec};

/// One limiter's view of who is connected.
pub(crate) struct Membership {
    foca: Foca<Life, LifeCodec, Xoshiro256PlusPlus, NoCustomBroadcast>,
    effects: AccumulatingRuntime<Life>,
    timers: BTreeMap<(Instant, u64), Timer<Life>>,
    /// Tells timers of one instant apart.
    timers_set: u64,
    next_join: Instant,
    random: Xoshiro256PlusPlus,
    limiters: u32,
}

/// A message of another limiter that cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotAMessage;

/// The number of limiters up to which times are as they are here. With more of them every one has more to say, and where
/// many share a processor, late answers would be taken for failures, of which there is then more to say still.
const UNHURRIED: f64 = 64.0;

const PROBE_PERIOD: Duration = Duration::from_millis(400);

/// How long an answer to a probe may take before others are asked to probe.
const PROBE_RTT: Duration = Duration::from_millis(150);

/// How long a suspected member may object, among up to ten.
const SUSPICION: Duration = Duration::from_millis(1000);

/// How often news of members are told beside probes, and to how many.
const NEWS_INTERVAL: Duration = Duration::from_millis(200);
const NEWS_TO: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// How often those that are not connected are asked to join, and how many at a time.
const JOIN_INTERVAL: Duration = Duration::from_millis(500);
const JOIN_AT_A_TIME: usize = 2;

impl Membership {
    /// Of limiter `me` of `limiters`, which begins at `now`.
    pub(crate) fn new(
        limiters: u32,
        me: u16,
        incarnation: u64,
        mut random: Xoshiro256PlusPlus,
        now: Instant,
    ) -> Self {
        let life = Life {
            index: me,
            incarnation,
            generation: 0,
        };
        let foca_random = {
            let seed = random.next_u64();
            clock::stream(seed, "foca")
        };
        Membership {
            foca: Foca::new(life, config(limiters), foca_random, LifeCodec { limiters }),
            effects: AccumulatingRuntime::new(),
            timers: BTreeMap::new(),
            timers_set: 0,
            next_join: now,
            random,
            limiters,
        }
    }

    /// Takes in a message that limiter `from` sent in `incarnation`.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        from: u16,
        incarnation: u64,
        message: &[u8],
    ) -> Result<(), NotAMessage> {
        // Who knows the key may still have another list of peers.
        if life::sender(message) != Some((from, incarnation)) {
            return Err(NotAMessage);
        }
        let taken = self.foca.handle_data(message, &mut self.effects);
        self.go_on(now);
        taken.map_err(|_| NotAMessage)
    }

    /// Does what is due.
    pub(crate) fn wake(&mut self, now: Instant) {
        while let Some(due) = self.timers.first_entry().filter(|due| due.key().0 <= now) {
            let timer = due.remove();
            // What can go wrong is a probe that was cut short, by a wake-up that came late; the next one mends it.
            let _ = self.foca.handle_timer(timer, &mut self.effects);
            self.go_on(now);
        }
        if now >= self.next_join {
            self.join();
            self.next_join = now + JOIN_INTERVAL;
        }
    }

    /// When [`Membership::wake`] is due next.
    pub(crate) fn next_wake(&self) -> Instant {
        let timer = self.timers.first_key_value().map(|((at, _), _)| *at);
        timer.map_or(self.next_join, |at| at.min(self.next_join))
    }

    /// Tells some others that this one goes.
    pub(crate) fn leave(&mut self) {
        let _ = self.foca.leave_cluster(&mut self.effects);
        self.next_join = Instant::MAX;
        self.timers.clear();
    }

    /// The next message to send, and to whom.
    pub(crate) fn poll_send(&mut self) -> Option<(u16, Bytes)> {
        self.effects.to_send().map(|(to, bytes)| (to.index, bytes))
    }

    /// Whether anything changed since the last call.
    pub(crate) fn has_changed(&mut self) -> bool {
        let mut changed = false;
        while self.effects.to_notify().is_some() {
            changed = true;
        }
        changed
    }

    /// Who is connected, and in which incarnation.
    pub(crate) fn connected(&self) -> impl Iterator<Item = (u16, u64)> {
        let lives = self.foca.iter_members().map(|member| *member.id());
        lives.map(|life| (life.index, life.incarnation))
    }

    /// Probes those on the list again, if probing has ended, and sets the timers that are wanted.
    ///
    /// Behind a new life of its own `foca` probes nobody until it is sent something. Where all on a list have
    /// begun a new life at once, and what they said of it was lost, each would wait for the others, and never
    /// find out who is gone.
    fn go_on(&mut self, now: Instant) {
        // News of nobody change nothing but that.
        let _ = self
            .foca
            .apply_many(std::iter::empty(), true, &mut self.effects);
        while let Some((after, timer)) = self.effects.to_schedule() {
            self.timers_set += 1;
            self.timers.insert((now + after, self.timers_set), timer);
        }
    }

    fn join(&mut self) {
        let me = self.foca.identity().index;
        let mut absent: Vec<u16> = {
            let mut present = vec![false; self.limiters as usize];
            present[usize::from(me)] = true;
            for (index, _) in self.connected() {
                present[usize::from(index)] = true;
            }
            let indices = (0..self.limiters).map(|index| index as u16);
            indices
                .filter(|index| !present[usize::from(*index)])
                .collect()
        };
        for _ in 0..JOIN_AT_A_TIME.min(absent.len()) {
            let at = (self.random.next_u64() % absent.len() as u64) as usize;
            let anybody = Life {
                index: absent.swap_remove(at),
                incarnation: 0,
                generation: 0,
            };
            let _ = self.foca.announce(anybody, &mut self.effects);
        }
    }
}

impl std::fmt::Debug for Membership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Membership")
            .field("me", self.foca.identity())
            .field("connected", &self.foca.num_members())
            .finish_non_exhaustive()
    }
}

/// News take longer to get around, and to be objected to, among many.
fn config(limiters: u32) -> Config {
    let slower = f64::from(limiters) / UNHURRIED;
    let slower = slower.clamp(1.0, 4.0);
    let decades = f64::from(limiters).log10().max(1.0);
    let times = (5.0 * decades).ceil() as u8;
    let room = MAX_MEMBERSHIP_BYTES - MEMBERSHIP_HEADER_BYTES - MEMBERSHIP_TAG_BYTES;
    Config {
        probe_period: PROBE_PERIOD.mul_f64(slower),
        probe_rtt: PROBE_RTT.mul_f64(slower),
        max_transmissions: NonZeroU8::new(times).unwrap_or(NonZeroU8::MAX),
        suspect_to_down_after: SUSPICION.mul_f64(decades),
        // Lives are as many as peers, so none needs to be forgotten.
        remove_down_after: None,
        max_packet_size: NonZeroUsize::new(room).unwrap_or(NonZeroUsize::MIN),
        notify_down_members: true,
        periodic_gossip: Some(PeriodicParams {
            // Beside probes most news are told already: among many they are the first to be told less often.
            frequency: NEWS_INTERVAL.mul_f64(2.0 * slower - 1.0),
            num_members: NEWS_TO,
        }),
        ..Config::simple()
    }
}

#[cfg(test)]
mod tests;
