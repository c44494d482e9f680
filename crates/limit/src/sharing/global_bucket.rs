//! Global token bucket: each limiter plays the one bucket, with the others' traffic as heard (DRL, section 3.2).
//!
//! The bucket fills at L. Tokens leave with what passes here and, continuously, at the rate that arrived at the others
//! in their last interval. That rate stays until the next update, however old it is: the paper's own finding is that
//! this makes the policy unfair at all but the shortest intervals.

use clock::Instant;

use super::estimate::Traffic;
use super::{Figures, Limiter, Remote, Sharing, SharingError, Update, Verdict, counted};
use crate::{Burst, Rate, Share};

#[derive(Debug)]
pub(super) struct GlobalBucket {
    sharing: Sharing,
    traffic: Traffic,
    /// Tokens held at `as_of`.
    level: f64,
    as_of: Instant,
    connected: u32,
    /// Units per second that the others take.
    drain: f64,
}

impl GlobalBucket {
    pub(super) fn new(sharing: &Sharing, now: Instant) -> Self {
        GlobalBucket {
            sharing: *sharing,
            traffic: Traffic::new(sharing.config().ewma_1s, now),
            level: 0.0,
            as_of: now,
            connected: 1,
            drain: 0.0,
        }
    }

    fn advance(&mut self, now: Instant) {
        let seconds = (now - self.as_of).as_secs_f64();
        let gained = (self.limit() - self.drain) * seconds;
        let depth = self.sharing.config().burst.get();
        self.level = (self.level + gained).clamp(0.0, depth);
        self.as_of = self.as_of.max(now);
    }

    fn limit(&self) -> f64 {
        self.sharing.limit_of(self.connected)
    }
}

impl Limiter for GlobalBucket {
    fn handle(&mut self, now: Instant, _flow: u64, units: f64) -> Verdict {
        let units = counted(units);
        self.traffic.arrived(units);
        self.advance(now);
        if units > self.level {
            return Verdict::Drop;
        }
        self.level -= units;
        self.traffic.passed(units);
        Verdict::Forward
    }

    fn observe(&mut self, _now: Instant, _flow: u64, units: f64, _waits: bool) {
        self.traffic.served(counted(units));
    }

    fn estimate(&mut self, now: Instant, remote: Remote) -> Update {
        self.advance(now);
        self.connected = remote.connected;
        self.drain = remote.others.demand();
        self.traffic.end(now);
        self.traffic.update()
    }

    fn part(&self) -> Share {
        Share {
            rate: self.sharing.rate(self.limit() - self.drain),
            burst: self.sharing.config().burst,
        }
    }

    fn set_limit(&mut self, now: Instant, rate: Rate, burst: Burst) -> Result<(), SharingError> {
        let changed = self.sharing.with_limit(rate, burst)?;
        self.advance(now);
        self.sharing = changed;
        self.level = self.level.min(burst.get());
        Ok(())
    }

    fn figures(&self) -> Figures {
        let (local_limit, limit) = (self.part().rate.get(), self.limit());
        self.traffic.figures(local_limit, limit)
    }
}
