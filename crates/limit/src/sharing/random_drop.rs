//! Global random drop: as many drops as the one bucket would have, but at random (DRL, section
//! 3.2.1, figure 1).
//!
//! With a demand Σ r_j above L, each packet is dropped with probability (Σ r_j − L)/Σ r_j. The
//! demand is that at the end of the last interval, the local part included.
//!
//! By itself that forgets what has passed: growing demand exceeds the limit until the averages have
//! followed, chance adds to it, and nothing is ever paid back. So each limiter keeps an account of
//! its part of the limit, as of a bucket (L · r_i/Σ r_j, B · r_i/Σ r_j): credit lets more through,
//! debt holds back. The debt is at most the part of one interval. All parts together are L,
//! whatever the demand is.

use clock::{Instant, Xoshiro256PlusPlus, uniform};

use super::estimate::Traffic;
use super::{Figures, Limiter, Remote, Sharing, SharingError, Update, Verdict, counted};
use crate::{Burst, Rate, Share};

/// The most that is owed, as intervals of the part.
const OWED_INTERVALS: f64 = 1.0;

/// In how many intervals an account comes back to its middle. In fewer, a packet more or less than expected changes the
/// probability much; in more, accounts are often full or owe the most, and what does not fit is lost.
const SETTLED_INTERVALS: f64 = 2.0;

/// For how long after limiters came or went a part above L/N grows by a factor of e in a second at most, seconds: demand that
/// was held down meanwhile comes back everywhere at once, and nobody has heard yet how much the others have.
const UNSETTLED_S: f64 = 3.0;

#[derive(Debug)]
pub(super) struct RandomDrop {
    sharing: Sharing,
    traffic: Traffic,
    random: Xoshiro256PlusPlus,
    /// The last word of the others.
    remote: Remote,
    /// The part of what arrives that passes, as the account is even.
    passing_part: f64,
    /// Units per second that are let through here at the present demand.
    local_limit: f64,
    /// Growth of the account per second.
    part: f64,
    /// Length of the last interval.
    interval_s: f64,
    /// How long the limit has been what it is.
    unchanged_s: f64,
    /// What may pass beyond the part, as of `as_of`; owed, if less than 0.
    account: f64,
    as_of: Instant,
}

impl RandomDrop {
    pub(super) fn new(sharing: &Sharing, now: Instant, random: Xoshiro256PlusPlus) -> Self {
        let alone = sharing.limit_of(1);
        RandomDrop {
            sharing: *sharing,
            traffic: Traffic::new(sharing.config().ewma_1s, now),
            random,
            remote: Remote {
                others: Update::default(),
                connected: 1,
            },
            passing_part: 1.0,
            local_limit: alone,
            part: alone,
            interval_s: sharing.config().estimate_interval.as_secs_f64(),
            unchanged_s: f64::INFINITY,
            account: 0.0,
            as_of: now,
        }
    }

    /// Figure 1 at the demand that is known.
    fn decide(&mut self) {
        let limit = self.sharing.limit_of(self.remote.connected);
        let connected = f64::from(self.remote.connected.max(1));
        let local = self.traffic.arriving();
        let others = self.remote.others.demand();
        let demand = local + others;
        let part = if demand > limit {
            self.passing_part = limit / demand;
            self.local_limit = local * self.passing_part;
            self.local_limit
        } else {
            self.passing_part = 1.0;
            self.local_limit = limit - others;
            // Each may use all that the others leave, but not all of them at once.
            local + (limit - demand) / connected
        };
        self.part = match self.unchanged_s < UNSETTLED_S {
            true => part.min((self.part * self.interval_s.exp()).max(limit / connected)),
            false => part,
        };
    }

    fn advance(&mut self, now: Instant) {
        let seconds = (now - self.as_of).as_secs_f64();
        self.account = (self.account + self.part * seconds).min(self.depth());
        self.as_of = self.as_of.max(now);
    }

    /// The most that the account holds.
    fn depth(&self) -> f64 {
        // Of the whole limit, as FPS has it: so all depths together stay what they were when limiters are gone.
        let whole = self.sharing.config().rate.get();
        self.sharing.depth(self.part / whole).get()
    }

    /// Whether this many units pass.
    fn admits(&mut self, units: f64) -> bool {
        let interval = self.part * self.interval_s;
        let owed_max = OWED_INTERVALS * interval;
        if self.account + owed_max < units {
            return false;
        }
        // Around half of what may be owed: a full account forgets what it is given, and less than the limit would pass.
        let spare = self.account + 0.5 * owed_max;
        let settled = (SETTLED_INTERVALS * interval).max(f64::MIN_POSITIVE);
        let chance = self.passing_part * (1.0 + spare / settled);
        // Without an excess nothing is drawn, so that runs with and without it stay comparable.
        chance >= 1.0 || uniform(&mut self.random) < chance
    }
}

impl Limiter for RandomDrop {
    fn handle(&mut self, now: Instant, _flow: u64, units: f64) -> Verdict {
        let units = counted(units);
        self.traffic.arrived(units);
        self.advance(now);
        if !self.admits(units) {
            return Verdict::Drop;
        }
        self.account -= units;
        self.traffic.passed(units);
        Verdict::Forward
    }

    fn observe(&mut self, _now: Instant, _flow: u64, units: f64, _waits: bool) {
        self.traffic.served(counted(units));
    }

    fn estimate(&mut self, now: Instant, remote: Remote) -> Update {
        self.advance(now);
        if let Some(ended) = self.traffic.end(now) {
            self.interval_s = ended.seconds;
            self.unchanged_s += ended.seconds;
        }
        if remote.connected != self.remote.connected {
            self.unchanged_s = 0.0;
        }
        self.remote = remote;
        self.decide();
        self.account = self.account.min(self.depth());
        self.traffic.update()
    }

    fn part(&self) -> Share {
        Share {
            rate: self.sharing.rate(self.local_limit),
            burst: self.sharing.config().burst,
        }
    }

    fn set_limit(&mut self, now: Instant, rate: Rate, burst: Burst) -> Result<(), SharingError> {
        let changed = self.sharing.with_limit(rate, burst)?;
        self.advance(now);
        self.sharing = changed;
        self.decide();
        self.account = self.account.min(self.depth());
        Ok(())
    }

    fn figures(&self) -> Figures {
        let (local_limit, limit) = (
            self.part().rate.get(),
            self.sharing.limit_of(self.remote.connected),
        );
        self.traffic.figures(local_limit, limit)
    }
}
