//! The arrival traces of one window, joined over brokers.

use std::collections::BTreeMap;

use link::Traced;
use placement::{Arrival, InferConfig, PublisherIndex, Trace, infer_groups};

use super::BrokerNumber;
use super::publisher::Publishers;

/// Arrivals kept of one window, all brokers together; later ones are left out.
const ARRIVALS_MAX: usize = 4 << 20;

/// The parts that have come.
#[derive(Debug, Default)]
pub(super) struct TraceParts {
    names: BTreeMap<BrokerNumber, Vec<String>>,
    arrivals: Vec<(u64, BrokerNumber, u32, u32)>,
}

impl TraceParts {
    /// Takes a part.
    pub(super) fn add(&mut self, broker: BrokerNumber, part: Traced) {
        let room = ARRIVALS_MAX.saturating_sub(self.arrivals.len());
        let arrivals = part.arrivals.into_iter().take(room);
        self.arrivals.extend(
            arrivals.map(|(at_ns, publisher, messages)| (at_ns, broker, publisher, messages)),
        );
        self.names
            .entry(broker)
            .or_default()
            .extend(part.publishers);
    }

    /// The arrivals of known publishers in order of time; `None` if there are none.
    pub(super) fn into_trace(self, publishers: &Publishers) -> Option<Trace> {
        let known: BTreeMap<BrokerNumber, Vec<Option<usize>>> = self
            .names
            .iter()
            .map(|(&broker, names)| {
                (
                    broker,
                    names.iter().map(|name| publishers.find(name)).collect(),
                )
            })
            .collect();
        let arrivals = self
            .arrivals
            .iter()
            .filter_map(|&(at_ns, broker, publisher, messages)| {
                let index = (*known.get(&broker)?.get(publisher as usize)?)?;
                Some(Arrival {
                    at_ns,
                    publisher: PublisherIndex(index as u32),
                    messages: u16::try_from(messages).unwrap_or(u16::MAX),
                })
            });
        let mut arrivals: Vec<Arrival> = arrivals.collect();
        arrivals.sort_unstable_by_key(|arrival| arrival.at_ns);
        let (begin_ns, end_ns) = (arrivals.first()?.at_ns, arrivals.last()?.at_ns);
        Some(Trace {
            arrivals,
            begin_ns,
            end_ns,
        })
    }
}

/// Finds the correlation groups of publishers that name none.
pub(super) fn infer(publishers: &mut Publishers, trace: &Trace) {
    let rows = publishers.rows();
    if rows.iter().all(|row| row.spec.group.is_some()) {
        return;
    }
    let arrivals: Vec<(u64, PublisherIndex)> = trace
        .arrivals
        .iter()
        .map(|arrival| (arrival.at_ns, arrival.publisher))
        .collect();
    let groups = infer_groups(&arrivals, rows.len(), InferConfig::default());
    let groups = groups.into_iter().map(|group| group.map(|group| group.0));
    publishers.infer(groups);
}
