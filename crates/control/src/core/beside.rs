//! The topics beside the one that is being fitted. On every broker that a fit touches all promises
//! count (SRTM, section IV-B, step 3), and traffic without a promise takes service time from the
//! others.

use std::collections::{BTreeMap, BTreeSet};

use placement::{BrokerIndex, Neighbour, Publisher, Trace};

use super::fit::Answers;
use super::place::as_publishers;
use super::registry::Brokers;
use super::tally::Promised;
use super::topics::Topics;
use super::trace::TraceParts;
use super::{BrokerNumber, Topic};
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
    /// The result of a window for a topic beside.
    pub(super) fn of(
        name: &str,
        topic: &Topic,
        answers: &Answers,
        parts: TraceParts,
        brokers: usize,
    ) -> Beside {
        let mut latency_us = vec![None; brokers];
        for &(broker, latency, _) in answers {
            latency_us[broker as usize] = latency;
        }
        Beside {
            name: name.to_owned(),
            slo: topic.spec.slo,
            limit: topic.spec.contract.limit,
            publishers: as_publishers(&topic.publishers),
            placed: topic.placed(),
            latency_us,
            trace: parts.into_trace(&topic.publishers),
        }
    }

    /// As the search needs it.
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

/// Topics on the brokers that a search of `name` touches, with those brokers. A search by replay may touch all of
/// them.
pub(super) fn beside(
    topics: &Topics,
    brokers: &Brokers,
    name: &str,
    with_all: bool,
) -> Vec<(String, Vec<BrokerNumber>)> {
    let Some(topic) = topics.get(name) else {
        return Vec::new();
    };
    let touched: BTreeSet<BrokerNumber> = if with_all {
        brokers.numbers().collect()
    } else {
        topic.publishers.places().collect()
    };
    let linked = touched.into_iter();
    let linked = linked.filter(|&at| brokers[at].link.is_some());
    // The tightest of all are among the tightest of each.
    let mut found: BTreeMap<&Promised, Vec<BrokerNumber>> = BTreeMap::new();
    for at in linked {
        let others = topics.loads.at(at).topics.iter();
        let others = others.filter(|promised| *promised.topic != *name);
        for promised in others.take(BESIDE_MAX) {
            found.entry(promised).or_default().push(at);
        }
    }
    let found = found.into_iter().take(BESIDE_MAX);
    found
        .map(|(promised, at)| (promised.topic.as_ref().to_owned(), at))
        .collect()
}

/// Whether a search of one of these topics has a window open: another one waits for its end.
pub(super) fn is_searched_beside(topics: &Topics, beside: &[(String, Vec<BrokerNumber>)]) -> bool {
    beside.iter().any(|(other, _)| {
        let topic = topics.get(other);
        topic.is_some_and(|topic| topic.fit.is_searching())
    })
}
