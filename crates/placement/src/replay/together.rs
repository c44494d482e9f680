//! All topics of a broker in one replay: one queue, a bucket each.

use limit::{Burst, Rate};

use super::judge::Loads;
use super::lane::{Gate, Lane, Left};
use super::run::slowdown;
use super::servers::Servers;
use super::trace::with_seen_rates;
use super::{Latencies, Neighbour, ReplayProblem, shares};
use crate::{BrokerIndex, PublisherIndex};
use model::ServiceModel;

/// The arrivals of a topic and its neighbours, and what lets those of the neighbours pass.
#[derive(Debug, Default)]
pub(super) struct Together {
    /// In order of time.
    arrivals: Vec<Arrival>,
    begin_ns: u64,
    /// By neighbour and broker: its share of its limit there.
    shares: Vec<Vec<Option<(Rate, Burst)>>>,
    /// By neighbour: the number that its first publisher has among all of them.
    first: Vec<u32>,
    servers: Servers,
    lanes: Vec<(Lane, Latencies)>,
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    at_ns: u64,
    /// 0 for the topic itself, then its neighbours.
    lane: u16,
    publisher: PublisherIndex,
    messages: u16,
}

impl Together {
    /// The recordings of all of them. Neighbours without a trace, and those beyond 65,534, are left
    /// out.
    pub(super) fn new(problem: &ReplayProblem<'_>) -> Together {
        let mut together = Together::default();
        let neighbours = problem.neighbours.iter().map(|neighbour| neighbour.trace);
        let traces = std::iter::once(Some(problem.trace)).chain(neighbours);
        for (lane, trace) in (0..u16::MAX).zip(traces) {
            let arrivals = trace.into_iter().flat_map(|trace| &trace.arrivals);
            together.arrivals.extend(arrivals.map(|arrival| Arrival {
                at_ns: arrival.at_ns,
                lane,
                publisher: arrival.publisher,
                messages: arrival.messages,
            }));
        }
        together.arrivals.sort_by_key(|arrival| arrival.at_ns);
        together.begin_ns = together.arrivals.first().map_or(0, |first| first.at_ns);
        let mut first = problem.publishers.len() as u32;
        for neighbour in problem.neighbours {
            together.first.push(first);
            first += neighbour.publishers.len() as u32;
            together.shares.push(shares_of(neighbour, problem));
        }
        together
            .lanes
            .resize_with(problem.neighbours.len() + 1, Default::default);
        together
    }

    /// The latencies of the topic's publishers that are `here` and of all neighbours at a broker.
    pub(super) fn run(
        &mut self,
        problem: &ReplayProblem<'_>,
        broker: BrokerIndex,
        here: impl Fn(PublisherIndex) -> bool,
        share: Option<(Rate, Burst)>,
        (model, background): (&ServiceModel, f64),
    ) -> &mut [(Lane, Latencies)] {
        self.servers.begin(model.slower(slowdown(background)));
        let others = self.shares.iter().map(|shares| shares[broker.0 as usize]);
        let shares = std::iter::once(share).chain(others);
        for ((lane, latencies), share) in self.lanes.iter_mut().zip(shares) {
            lane.begin(Gate::full(share));
            latencies.clear();
        }
        let note = |latencies: &mut Latencies, left: Left| {
            let latency_ns = left.left_ns - left.due_ns as f64 + model.base_ns;
            latencies.push(latency_ns, left.waited_ns > 0.0);
        };
        for arrival in &self.arrivals {
            let place = arrival.publisher.0 as usize;
            let (is_here, publisher) = match usize::from(arrival.lane).checked_sub(1) {
                None => (here(arrival.publisher), arrival.publisher),
                Some(neighbour) => (
                    problem.neighbours[neighbour].placed.get(place) == Some(&Some(broker)),
                    PublisherIndex(self.first[neighbour] + arrival.publisher.0),
                ),
            };
            if !is_here {
                continue;
            }
            let at_ns = arrival.at_ns - self.begin_ns;
            let (lane, latencies) = &mut self.lanes[usize::from(arrival.lane)];
            // With four million waiting, what is refused makes the percentiles no worse.
            let _ = lane.arrive(
                &mut self.servers,
                (at_ns, at_ns),
                publisher,
                arrival.messages,
                |left| note(latencies, left),
            );
        }
        for (lane, latencies) in &mut self.lanes {
            lane.advance(u64::MAX, |left| note(latencies, left));
        }
        &mut self.lanes
    }
}

/// A neighbour's share of its limit at each broker.
fn shares_of(neighbour: &Neighbour<'_>, problem: &ReplayProblem<'_>) -> Vec<Option<(Rate, Burst)>> {
    let open = || vec![None; problem.brokers.len()];
    let Some(limit) = neighbour.limit else {
        return open();
    };
    let seen = neighbour
        .trace
        .map(|trace| with_seen_rates(neighbour.publishers, trace));
    let publishers = seen.as_deref().unwrap_or(neighbour.publishers);
    let loads = Loads::of(publishers, problem.brokers, neighbour.placed);
    if loads.rates.iter().sum::<f64>() <= 0.0 {
        return open();
    }
    shares::divide(limit, &loads.rates, &loads.largest_batches)
}
