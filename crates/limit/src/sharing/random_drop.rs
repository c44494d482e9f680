//! Global random drop: as many drops as the one bucket would have, but at random (DRL, section 3.2.1, figure 1).
//!
//! With a demand Σ r_j above L, each packet is dropped with probability (Σ r_j − L)/Σ r_j. The demand is that of the
//! end of the last interval, the local part included. There is no bucket: bursts within an interval pass.

use clock::{Instant, Xoshiro256PlusPlus, uniform};

use super::estimate::Traffic;
use super::{Figures, Limiter, Remote, Sharing, SharingError, Update, Verdict, counted};
use crate::{Burst, Rate, Share};

#[derive(Debug)]
pub(super) struct RandomDrop {
    sharing: Sharing,
    traffic: Traffic,
    random: Xoshiro256PlusPlus,
    /// What was heard last.
    remote: Remote,
    drop_probability: f64,
    /// Units per second that are let through here at the present demand.
    local_limit: f64,
}

impl RandomDrop {
    pub(super) fn new(sharing: &Sharing, now: Instant, random: Xoshiro256PlusPlus) -> Self {
        RandomDrop {
            sharing: *sharing,
            traffic: Traffic::new(sharing.config().ewma_1s, now),
            random,
            remote: Remote {
                others: Update::default(),
                connected: 1,
            },
            drop_probability: 0.0,
            local_limit: sharing.limit_of(1),
        }
    }

    /// Figure 1 at the demand that is known.
    fn decide(&mut self) {
        let limit = self.sharing.limit_of(self.remote.connected);
        let local = self.traffic.arriving();
        let others = self.remote.others.demand();
        let demand = local + others;
        if demand > limit {
            self.drop_probability = (demand - limit) / demand;
            self.local_limit = local * (limit / demand);
        } else {
            self.drop_probability = 0.0;
            self.local_limit = limit - others;
        }
    }
}

impl Limiter for RandomDrop {
    fn handle(&mut self, _now: Instant, _flow: u64, units: f64) -> Verdict {
        let units = counted(units);
        self.traffic.arrived(units);
        // Without an excess nothing is drawn, so that runs with and without it stay comparable.
        if self.drop_probability > 0.0 && uniform(&mut self.random) < self.drop_probability {
            Verdict::Drop
        } else {
            self.traffic.passed(units);
            Verdict::Forward
        }
    }

    fn observe(&mut self, _now: Instant, _flow: u64, units: f64, _waits: bool) {
        self.traffic.served(counted(units));
    }

    fn estimate(&mut self, now: Instant, remote: Remote) -> Update {
        self.traffic.end(now);
        self.remote = remote;
        self.decide();
        self.traffic.update()
    }

    fn share(&self) -> Share {
        Share {
            rate: self.sharing.rate(self.local_limit),
            burst: self.sharing.config().burst,
        }
    }

    fn set_limit(&mut self, _now: Instant, rate: Rate, burst: Burst) -> Result<(), SharingError> {
        self.sharing = self.sharing.with_limit(rate, burst)?;
        self.decide();
        Ok(())
    }

    fn figures(&self) -> Figures {
        let (local_limit, limit) = (
            self.share().rate.get(),
            self.sharing.limit_of(self.remote.connected),
        );
        self.traffic.figures(local_limit, limit)
    }
}
