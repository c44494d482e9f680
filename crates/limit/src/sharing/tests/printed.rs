//! Figure 2 to the letter, as a reference for the policy: rates of arrival, w = local limit /
//! fastest flow, an average of weights, no floors, the whole depth at every limiter, and unlimited
//! bursts while the local limit is zero.

use std::collections::BTreeMap;

use clock::Instant;

use super::super::estimate::{Memory, Smoothed, Traffic};
use super::super::{Figures, Limiter, Remote, Sharing, SharingError, Update, Verdict};
use crate::{Burst, Rate, Share, TokenBucket};

#[derive(Debug)]
pub struct Printed {
    sharing: Sharing,
    memory: Memory,
    traffic: Traffic,
    bucket: TokenBucket,
    flows: BTreeMap<u64, (f64, Smoothed)>,
    weight: f64,
    local_limit: f64,
}

impl Printed {
    pub fn limiters(sharing: &Sharing) -> Vec<Box<dyn Limiter>> {
        let one = || -> Box<dyn Limiter> {
            let config = sharing.config();
            Box::new(Printed {
                sharing: *sharing,
                memory: Memory::new(config.ewma_1s),
                traffic: Traffic::new(config.ewma_1s, Instant::ZERO),
                bucket: TokenBucket::empty(config.rate, config.burst, Instant::ZERO),
                flows: BTreeMap::new(),
                weight: 0.0,
                local_limit: 0.0,
            })
        };
        (0..sharing.config().limiters).map(|_| one()).collect()
    }

    /// Less than a unit per second counts as zero.
    fn is_zero(&self) -> bool {
        self.local_limit < 1.0
    }
}

impl Limiter for Printed {
    fn handle(&mut self, now: Instant, flow: u64, units: f64) -> Verdict {
        self.traffic.arrived(units);
        self.flows.entry(flow).or_default().0 += units;
        if self.is_zero() || self.bucket.try_take(now, units) {
            self.traffic.passed(units);
            Verdict::Forward
        } else {
            Verdict::Drop
        }
    }

    fn observe(&mut self, _now: Instant, _flow: u64, _units: f64, _waits: bool) {}

    fn estimate(&mut self, now: Instant, remote: Remote) -> Update {
        let Some(ended) = self.traffic.end(now) else {
            return Update::measured(self.weight, self.traffic.passing());
        };
        let kept = self.memory.kept(ended.seconds);
        for (units, rate) in self.flows.values_mut() {
            rate.take(*units / ended.seconds, kept);
            *units = 0.0;
        }
        let limit = self.sharing.limit_of(remote.connected);
        let demand = self.traffic.arriving();
        let others = remote.others.demand();
        let ideal = if self.is_zero() && demand > 0.0 && others == 0.0 {
            1.0
        } else if demand >= self.local_limit && !self.is_zero() {
            let rates = self.flows.values().map(|(_, rate)| rate.get());
            self.local_limit / rates.fold(0.0, f64::max)
        } else {
            demand.min(0.99 * limit) * others / (limit - demand.min(0.99 * limit))
        };
        self.weight = self.weight * kept + ideal * (1.0 - kept);
        self.local_limit = match others + self.weight {
            0.0 => 0.0,
            all => limit * self.weight / all,
        };
        let rate = Rate::new(self.local_limit.max(1e-3)).expect("in range");
        self.bucket.resize(now, rate, self.sharing.config().burst);
        Update::measured(self.weight, self.traffic.passing())
    }

    fn part(&self) -> Share {
        self.bucket.share()
    }

    fn set_limit(&mut self, _now: Instant, rate: Rate, burst: Burst) -> Result<(), SharingError> {
        self.sharing = self.sharing.with_limit(rate, burst)?;
        Ok(())
    }

    fn figures(&self) -> Figures {
        let limit = self.sharing.config().rate.get();
        Figures {
            weight: self.weight,
            ..self.traffic.figures(self.local_limit, limit)
        }
    }
}
