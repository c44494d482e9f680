//! Central token bucket and 1/N: a part of the limit that depends on nothing.

use clock::Instant;

use super::estimate::Traffic;
use super::{Figures, Limiter, Policy, Remote, Sharing, SharingError, Update, Verdict, counted};
use crate::{Burst, Rate, Share, TokenBucket};

/// A token bucket of the whole limit (`ctb`) or of 1/N of it (`static`). It uses nothing that it
/// hears; it tells its demand for those who want to see it.
#[derive(Debug)]
pub(super) struct FixedPart {
    sharing: Sharing,
    bucket: TokenBucket,
    traffic: Traffic,
}

impl FixedPart {
    pub(super) fn new(sharing: &Sharing, now: Instant) -> Self {
        let Share { rate, burst } = part_of(sharing);
        FixedPart {
            sharing: *sharing,
            bucket: TokenBucket::empty(rate, burst, now),
            traffic: Traffic::new(sharing.config().ewma_1s, now),
        }
    }
}

fn part_of(sharing: &Sharing) -> Share {
    let config = sharing.config();
    let parts = match config.policy {
        Policy::Ctb => 1.0,
        _ => f64::from(config.limiters),
    };
    Share {
        rate: sharing.rate(config.rate.get() / parts),
        burst: sharing.depth(1.0 / parts),
    }
}

impl Limiter for FixedPart {
    fn handle(&mut self, now: Instant, _flow: u64, units: f64) -> Verdict {
        let units = counted(units);
        self.traffic.arrived(units);
        if self.bucket.try_take(now, units) {
            self.traffic.passed(units);
            Verdict::Forward
        } else {
            Verdict::Drop
        }
    }

    fn observe(&mut self, _now: Instant, _flow: u64, units: f64, _waits: bool) {
        self.traffic.served(counted(units));
    }

    fn estimate(&mut self, now: Instant, _remote: Remote) -> Update {
        self.traffic.end(now);
        self.traffic.update()
    }

    fn part(&self) -> Share {
        self.bucket.share()
    }

    fn set_limit(&mut self, now: Instant, rate: Rate, burst: Burst) -> Result<(), SharingError> {
        self.sharing = self.sharing.with_limit(rate, burst)?;
        let Share { rate, burst } = part_of(&self.sharing);
        self.bucket.resize(now, rate, burst);
        Ok(())
    }

    fn figures(&self) -> Figures {
        let (local_limit, limit) = (self.bucket.rate().get(), self.sharing.config().rate.get());
        self.traffic.figures(local_limit, limit)
    }
}
