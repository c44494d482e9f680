//! Brokers that are away, and what their publishers hold back meanwhile.

use std::collections::BTreeSet;

use workload::{Arrival, Failure};

/// Time from a broker's death until its publishers send elsewhere: about the 99th percentile that `bench cluster
/// kills` measured live (docs/load-distributor.md).
const TAKEOVER_NS: u64 = 600_000_000;

/// Something that happens to a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// It dies, with what waits in it.
    Dies(u32),
    /// Its publishers have found others.
    TakenOver(u32),
    /// It is there again, empty; nobody is moved back for that.
    Returns(u32),
}

/// What is to happen, and who is away.
#[derive(Default)]
pub(super) struct Outages {
    events: BTreeSet<(u64, Event)>,
    is_away: Vec<bool>,
    /// By broker, what its publishers could not send.
    held: Vec<Vec<Arrival>>,
}

impl Outages {
    pub(super) fn new(brokers: usize) -> Self {
        Outages {
            events: BTreeSet::new(),
            is_away: vec![false; brokers],
            held: vec![Vec::new(); brokers],
        }
    }

    pub(super) fn arm(&mut self, failures: &[Failure], now_ns: u64) {
        let nanos = |span: std::time::Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        for failure in failures {
            let broker = failure.broker - 1;
            let at_ns = now_ns.saturating_add(nanos(failure.at));
            self.events.insert((at_ns, Event::Dies(broker)));
            let taken_over_ns = at_ns.saturating_add(TAKEOVER_NS);
            self.events
                .insert((taken_over_ns, Event::TakenOver(broker)));
            if !failure.away.is_zero() {
                // One that is back sooner is a stranger to its former publishers all the same.
                let back_ns = at_ns
                    .saturating_add(nanos(failure.away))
                    .max(taken_over_ns + 1);
                self.events.insert((back_ns, Event::Returns(broker)));
            }
        }
    }

    /// When something happens next; the end of time if nothing does.
    pub(super) fn next_ns(&self) -> u64 {
        self.events.first().map_or(u64::MAX, |&(at_ns, _)| at_ns)
    }

    /// The next event that is due, with its effect on who is away.
    pub(super) fn due(&mut self, now_ns: u64) -> Option<Event> {
        let &(at_ns, event) = self.events.first()?;
        if at_ns > now_ns {
            return None;
        }
        self.events.pop_first();
        match event {
            Event::Dies(broker) => self.is_away[broker as usize] = true,
            Event::Returns(broker) => self.is_away[broker as usize] = false,
            Event::TakenOver(_) => {}
        }
        Some(event)
    }

    #[inline]
    pub(super) fn is_away(&self, broker: u32) -> bool {
        self.is_away[broker as usize]
    }

    pub(super) fn hold(&mut self, broker: u32, arrival: Arrival) {
        self.held[broker as usize].push(arrival);
    }

    pub(super) fn take_held(&mut self, broker: u32) -> Vec<Arrival> {
        std::mem::take(&mut self.held[broker as usize])
    }
}
