//! Topics beside the one that is fitted: on every broker that a fit touches, all promises count (SRTM, section IV-B,
//! step 3), and what is sent without a promise takes service from the others.

use std::collections::BTreeSet;

use placement::{BrokerIndex, Neighbour, Publisher, Trace};

use super::window::Part;
use super::{BrokerNumber, Core};
use crate::view::Slo;
use limit::Limit;

/// Topics beside the fitted one that a window covers at most, half of the windows that a broker opens at once: those with the
/// tightest promises. The rest is load.
const BESIDE_MAX: usize = 32;

/// A topic beside the one that is fitted, as a window showed it.
#[derive(Debug)]
pub(super) struct Beside {
    name: String,
    slo: Option<Slo>,
    limit: Option<Limit>,
    publishers: Vec<Publisher>,
    placed: Vec<Option<BrokerIndex>>,
    /// By broker number.
    latency_us: Vec<Option<f64>>,
    trace: Option<Trace>,
}

impl Beside {
    /// In the words of the search.
    pub(super) fn as_neighbour(&self) -> Neighbour<'_> {
        Neighbour {
            name: &self.name,
            percentile: self.slo.map_or(99.0, |slo| slo.percentile),
            promise_us: self.slo.map_or(f64::INFINITY, |slo| slo.latency_us),
            limit: self.limit.map(|limit| (limit.rate, limit.burst)),
            publishers: &self.publishers,
            placed: &self.placed,
            latency_us: &self.latency_us,
            trace: self.trace.as_ref(),
        }
    }
}

impl Core {
    /// Topics on the brokers that a search of `name` touches, with those brokers. A search by replay may touch all of
    /// them.
    pub(super) fn beside(&self, name: &str, with_all: bool) -> Vec<(String, Vec<BrokerNumber>)> {
        let Some(topic) = self.topics.get(name) else {
            return Vec::new();
        };
        let touched: BTreeSet<BrokerNumber> = if with_all {
            (0..self.brokers.len() as BrokerNumber).collect()
        } else {
            topic.publishers.places().collect()
        };
        let others = self.topics.iter().filter(|(other, _)| *other != name);
        let mut found: Vec<(f64, String, Vec<BrokerNumber>)> = others
            .filter_map(|(other, topic)| {
                let present = topic.publishers.tallies();
                let present = present.filter(|(_, tally)| tally.present.number() > 0);
                let at: Vec<BrokerNumber> = present
                    .map(|(at, _)| at)
                    .filter(|at| touched.contains(at) && self.broker(*at).link.is_some())
                    .collect();
                let promise_us = topic.spec.slo.map_or(f64::INFINITY, |slo| slo.latency_us);
                (!at.is_empty()).then(|| (promise_us, other.clone(), at))
            })
            .collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        found.truncate(BESIDE_MAX);
        found
            .into_iter()
            .map(|(_, other, at)| (other, at))
            .collect()
    }

    /// Whether a search of one of these topics has a window open: another one waits for its end.
    pub(super) fn is_searched_beside(&self, beside: &[(String, Vec<BrokerNumber>)]) -> bool {
        beside.iter().any(|(other, _)| {
            let topic = self.topics.get(other);
            topic.is_some_and(|topic| topic.fit.is_searching())
        })
    }

    /// Takes what a window showed of a topic beside.
    pub(super) fn beside_answered(&mut self, name: &str, part: Part) -> Option<Beside> {
        let (answers, parts) = part.into_answers();
        self.guest_answered(name, &answers);
        let brokers = self.brokers.len();
        let topic = self.topics.get_mut(name)?;
        let mut latency_us = vec![None; brokers];
        for &(broker, latency, _) in &answers {
            latency_us[broker as usize] = latency;
        }
        let trace = parts.into_trace(&topic.publishers);
        Some(Beside {
            name: name.to_owned(),
            slo: topic.spec.slo,
            limit: topic.spec.limit,
            publishers: topic.as_publishers(),
            placed: topic.placed(),
            latency_us,
            trace,
        })
    }
}
