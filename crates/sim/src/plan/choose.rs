//! The fewest brokers that keep the promise, on arrivals beyond those of a fit's windows too.

use placement::BrokerIndex;

use super::{PlanOptions, runs, used, worst};
use crate::{Measured, Scene, SimError, fit};

/// A placement and what it gave.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) broker_of: Vec<Option<BrokerIndex>>,
    /// Independent runs of it.
    pub(super) runs: Vec<Measured>,
    /// Whether everybody has a place and the promise holds in the mean of the runs.
    pub(super) met: bool,
    /// Messages per second that fit nowhere.
    pub(super) missing: f64,
    /// Brokers that the fit used.
    pub(super) k_fitted: usize,
    /// Windows that it took.
    pub(super) windows: u32,
}

/// The fit, or the even distribution over the fewest brokers more that keeps the promise; if none does, the best.
pub(super) fn choose(
    scene: &Scene,
    repeats: &[Scene],
    options: &PlanOptions,
    done: &(impl Fn() + Sync),
) -> Result<Chosen, SimError> {
    let fitted = fit(scene)?;
    let k_fitted = used(&fitted.broker_of);
    let mut best = Chosen {
        runs: runs(repeats, &fitted.broker_of, options, done)?,
        met: false,
        missing: fitted.missing,
        k_fitted,
        windows: fitted.status.windows,
        broker_of: fitted.broker_of,
    };
    best.met = best.missing == 0.0 && best.keeps(scene);
    if best.met || best.missing > 0.0 {
        return Ok(best);
    }
    for k in k_fitted + 1..=scene.brokers().len() {
        let broker_of = scene.only(k);
        let mut next = Chosen {
            runs: runs(repeats, &broker_of, options, done)?,
            broker_of,
            ..best.clone()
        };
        next.met = next.keeps(scene);
        if next.met {
            return Ok(next);
        }
        if worst(&next.runs).mean < worst(&best.runs).mean {
            best = next;
        }
    }
    Ok(best)
}

impl Chosen {
    /// Whether the promise holds in the mean of the runs.
    pub(super) fn keeps(&self, scene: &Scene) -> bool {
        worst(&self.runs).mean <= scene.slo_us()
    }
}
