//! Promised topics beside the one that is fitted: their results in windows.

use limit::{Burst, Rate};

use super::status::Deciding;
use crate::{BrokerIndex, Neighbour, Publisher, Trace};

/// A [`Neighbour`] as the last window showed it, kept for replays.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    name: String,
    percentile: f64,
    promise_us: f64,
    limit: Option<(Rate, Burst)>,
    publishers: Vec<Publisher>,
    placed: Vec<Option<BrokerIndex>>,
    trace: Option<Trace>,
}

impl Beside {
    pub(super) fn of(neighbour: &Neighbour<'_>) -> Beside {
        Beside {
            name: neighbour.name.to_owned(),
            percentile: neighbour.percentile,
            promise_us: neighbour.promise_us,
            limit: neighbour.limit,
            publishers: neighbour.publishers.to_vec(),
            placed: neighbour.placed.to_vec(),
            trace: neighbour.trace.cloned(),
        }
    }

    pub(super) fn as_neighbour(&self) -> Neighbour<'_> {
        Neighbour {
            name: &self.name,
            percentile: self.percentile,
            promise_us: self.promise_us,
            limit: self.limit,
            publishers: &self.publishers,
            placed: &self.placed,
            latency_us: &[],
            trace: self.trace.as_ref(),
        }
    }

    /// Messages per second of it at a broker that a replay sees one by one.
    pub(super) fn traced_rate(&self, broker: BrokerIndex) -> f64 {
        let publishers = self.publishers.iter().zip(&self.placed);
        let here = publishers.filter(|(_, place)| self.trace.is_some() && **place == Some(broker));
        here.map(|(publisher, _)| publisher.rate.get()).sum()
    }

    /// That this topic decided what a broker holds.
    pub(super) fn deciding(&self, broker: BrokerIndex, latency_us: f64) -> Deciding {
        Deciding {
            topic: self.name.clone(),
            broker,
            latency_us,
            promise_us: self.promise_us,
        }
    }
}
