//! The servers that topics of a broker share, first come first served.

use crate::PublisherIndex;
use model::ServiceModel;

/// Publishers that share this span count as active together.
const ACTIVE_SPAN_NS: u64 = 1_000_000;

/// One broker's servers.
#[derive(Clone, Debug, Default)]
pub(super) struct Servers {
    pub(super) model: ServiceModel,
    /// When each server is free, in nanoseconds.
    free_at_ns: Vec<f64>,
    active: Active,
}

/// Counts the publishers of the present span.
#[derive(Clone, Debug, Default)]
struct Active {
    span: u64,
    count: u32,
    /// The span in which each publisher was seen last.
    seen_in: Vec<u64>,
}

impl Servers {
    /// Begins anew, idle, with the same memory.
    pub(super) fn begin(&mut self, model: ServiceModel) {
        self.free_at_ns.clear();
        self.free_at_ns.resize(model.servers.max(1) as usize, 0.0);
        self.active.span = 0;
        self.active.count = 0;
        self.active.seen_in.clear();
        self.model = model;
    }

    /// Server time of a command's first message.
    #[inline]
    pub(super) fn first_cost_ns(&mut self, at_ns: u64, publisher: PublisherIndex) -> f64 {
        let mut cost_ns = self.model.per_message_ns + self.model.per_batch_ns;
        if self.model.per_active_connection_ns > 0.0 {
            let together = self.active.count(at_ns, publisher);
            cost_ns += self.model.per_active_connection_ns * f64::from(together);
        }
        cost_ns
    }

    /// A command of whom nobody knows the publisher takes its time.
    #[inline]
    pub(super) fn occupy(&mut self, at_ns: u64, messages: u16) {
        let mut cost_ns = self.model.per_message_ns * f64::from(messages) + self.model.per_batch_ns;
        if self.model.per_active_connection_ns > 0.0 {
            self.active.enter(at_ns);
            self.active.count += 1;
            cost_ns += self.model.per_active_connection_ns * f64::from(self.active.count);
        }
        self.serve(at_ns as f64, cost_ns);
    }

    /// When work that arrived at `arrived_ns` is done on the server that is free first.
    #[inline]
    pub(super) fn serve(&mut self, arrived_ns: f64, cost_ns: f64) -> f64 {
        let mut first = 0;
        for server in 1..self.free_at_ns.len() {
            if self.free_at_ns[server] < self.free_at_ns[first] {
                first = server;
            }
        }
        let done_ns = self.free_at_ns[first].max(arrived_ns) + cost_ns;
        self.free_at_ns[first] = done_ns;
        done_ns
    }
}

impl Active {
    #[inline]
    fn enter(&mut self, at_ns: u64) {
        let span = at_ns / ACTIVE_SPAN_NS + 1;
        if span != self.span {
            self.span = span;
            self.count = 0;
        }
    }

    /// Publishers seen in the span of `at_ns` so far, `publisher` included.
    fn count(&mut self, at_ns: u64, publisher: PublisherIndex) -> u32 {
        self.enter(at_ns);
        let place = publisher.0 as usize;
        if self.seen_in.len() <= place {
            self.seen_in.resize(place + 1, 0);
        }
        if self.seen_in[place] != self.span {
            self.seen_in[place] = self.span;
            self.count += 1;
        }
        self.count
    }
}
