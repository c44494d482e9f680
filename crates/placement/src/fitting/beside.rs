//! Promised topics beside the one that is fitted: what windows said of them.

use limit::{Burst, Rate};

use super::status::Deciding;
use super::{Fitting, Window};
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

impl Fitting {
    /// Takes in what neighbours measured on the brokers that carry the topic.
    pub(super) fn read_beside(&mut self, window: &Window<'_>) {
        let counts = self.places.counts();
        self.pressed_us.fill(None);
        for neighbour in window.neighbours {
            let brokers = (0u32..).zip(neighbour.latency_us).zip(&counts);
            for ((at, latency), _) in brokers.filter(|(_, count)| **count > 0) {
                let sane = latency.filter(|us| (0.0..1e15).contains(us));
                let Some(latency_us) = sane.filter(|_| neighbour.promise_us > 0.0) else {
                    continue;
                };
                let pressed = latency_us / neighbour.promise_us * self.config.slo_us;
                let worst = &mut self.pressed_us[at as usize];
                if worst.is_none_or(|worst| pressed > worst) {
                    *worst = Some(pressed);
                }
                let own = self.measured_us[at as usize].unwrap_or(0.0);
                if pressed > self.config.slo_us && pressed > own {
                    let beside = Beside::of(&Neighbour {
                        trace: None,
                        publishers: &[],
                        placed: &[],
                        ..*neighbour
                    });
                    self.status.decided_by = Some(beside.deciding(BrokerIndex(at), latency_us));
                }
            }
        }
    }

    /// What a broker is judged by: its latency, or that under which the topic's promise would be as strained as the most
    /// strained neighbour's.
    pub(super) fn judged_us(&self, at: usize) -> Option<f64> {
        let measured = self.measured_us[at];
        match (measured, self.pressed_us[at]) {
            (Some(own), Some(pressed)) => Some(own.max(pressed)),
            (own, pressed) => own.or(pressed),
        }
    }
}
