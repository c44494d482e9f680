//! The goal of a fit, and why it may be refused.

use limit::{Burst, Rate};
use thiserror::Error;

use super::Mode;
use crate::{BrokerIndex, BrokerState, Policy};
use model::ServiceModel;

/// What a fit is asked to reach, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitConfig {
    /// How publishers are distributed.
    pub policy: Policy,
    /// How it is found out what fits.
    pub mode: Mode,
    /// The percentile of the end-to-end latency that is promised, above 0 and below 100.
    pub percentile: f64,
    /// The latency that is promised, in microseconds.
    pub slo_us: f64,
    /// A binary search stops when the latency lies within [slo · (1 − band), slo]; the paper has 0.2.
    pub band: f64,
    /// The topic's limit, as replays see it.
    pub limit: Option<(Rate, Burst)>,
}

/// Why a fit cannot begin.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FitError {
    /// Not above 0 and below 100.
    #[error("percentile {0} is out of range: it must be above 0 and below 100")]
    Percentile(f64),
    /// Not a latency.
    #[error("an SLO of {0} us is not a positive number")]
    Slo(f64),
    /// Not a fraction.
    #[error("band {0} is out of range: it must be at least 0 and below 1")]
    Band(f64),
    /// Every broker needs its model.
    #[error("{models} service models for {brokers} brokers")]
    Models {
        /// Models given.
        models: usize,
        /// Brokers given.
        brokers: usize,
    },
    /// A model that cannot be computed with.
    #[error("the service model of broker {} has a negative or unusable cost: {model:?}", broker.0)]
    Model {
        /// Whose.
        broker: BrokerIndex,
        /// What was given.
        model: ServiceModel,
    },
    /// A present placement that does not go with the publishers and brokers.
    #[error(
        "the present placement does not fit: it places {places} of {publishers} publishers, or names unknown brokers"
    )]
    Placement {
        /// Places given.
        places: usize,
        /// Publishers given.
        publishers: usize,
    },
}

impl FitConfig {
    /// Whether this and the brokers make sense.
    pub(super) fn check(
        &self,
        brokers: &[BrokerState],
        models: &[ServiceModel],
    ) -> Result<(), FitError> {
        if !(self.percentile > 0.0 && self.percentile < 100.0) {
            return Err(FitError::Percentile(self.percentile));
        }
        if !(self.slo_us > 0.0 && self.slo_us.is_finite()) {
            return Err(FitError::Slo(self.slo_us));
        }
        if !(0.0..1.0).contains(&self.band) {
            return Err(FitError::Band(self.band));
        }
        if models.len() != brokers.len() {
            return Err(FitError::Models {
                models: models.len(),
                brokers: brokers.len(),
            });
        }
        match (0u32..).zip(models).find(|(_, model)| !model.is_sane()) {
            Some((broker, &model)) => Err(FitError::Model {
                broker: BrokerIndex(broker),
                model,
            }),
            None => Ok(()),
        }
    }
}
