//! One broker's replay.

use clock::Instant;
use limit::{Burst, Rate, TokenBucket};

use super::{Latencies, ServiceModel, Trace};
use crate::PublisherIndex;

/// Publishers that share this span count as active together.
const ACTIVE_SPAN_NS: u64 = 1_000_000;

/// A broker that is busy with other topics all the time is counted as this busy: it never stands still.
const MOST_BACKGROUND: f64 = 0.99;

/// Replays again and again with the same memory.
#[derive(Clone, Debug, Default)]
pub struct Replayer {
    latencies: Latencies,
    /// When each server is free, in nanoseconds since the trace's beginning.
    free_at: Vec<f64>,
    /// The span in which each publisher was seen last, plus one.
    seen_in: Vec<u64>,
}

/// What a broker would have done with the arrivals of the publishers that are assigned to it.
///
/// Message m of a command that arrived at a: a server takes it at max(a, S), S being when the first
/// server is free, and is done at c after its share of the `model`'s costs; the bucket (r, b), full at the
/// beginning, releases it at d. It leaves at max(c, d), never before its predecessor, and its latency
/// counts from a, `base_ns` included. `background` is the part of the servers' time that other topics
/// take, 0 to 1: service slows down by 1 / (1 − background).
pub fn replay(
    trace: &Trace,
    on_broker: impl Fn(PublisherIndex) -> bool,
    share: Option<(Rate, Burst)>,
    model: &ServiceModel,
    background: f64,
) -> Latencies {
    let mut replayer = Replayer::default();
    replayer.run(trace, on_broker, share, model, background);
    replayer.latencies
}

impl Replayer {
    /// [`replay`]; the result stays valid until the next run.
    pub fn run(
        &mut self,
        trace: &Trace,
        on_broker: impl Fn(PublisherIndex) -> bool,
        share: Option<(Rate, Burst)>,
        model: &ServiceModel,
        background: f64,
    ) -> &mut Latencies {
        let model = &model.slower(slowdown(background));
        let mut bucket = share.map(|(rate, burst)| TokenBucket::full(rate, burst, Instant::ZERO));
        self.begin(model.servers);
        let mut active = Active::default();
        let mut left_ns = 0.0f64;
        for arrival in &trace.arrivals {
            if !on_broker(arrival.publisher) {
                continue;
            }
            let since_begin_ns = arrival.at_ns.saturating_sub(trace.begin_ns);
            let arrived_ns = since_begin_ns as f64;
            let mut cost_ns = model.per_message_ns + model.per_batch_ns;
            if model.per_active_connection_ns > 0.0 {
                let together = active.count(arrival.at_ns, arrival.publisher, &mut self.seen_in);
                cost_ns += model.per_active_connection_ns * f64::from(together);
            }
            for _ in 0..arrival.messages {
                let served_ns = self.serve(arrived_ns, cost_ns);
                cost_ns = model.per_message_ns;
                let token_ns = bucket.as_mut().map_or(0.0, |bucket| {
                    bucket
                        .take(Instant::from_nanos(since_begin_ns), 1.0)
                        .as_nanos() as f64
                });
                left_ns = left_ns.max(served_ns).max(token_ns);
                self.latencies
                    .push(left_ns - arrived_ns + model.base_ns, token_ns > served_ns);
            }
        }
        &mut self.latencies
    }

    fn begin(&mut self, servers: u32) {
        self.latencies.clear();
        self.free_at.clear();
        self.free_at.resize(servers.max(1) as usize, 0.0);
        self.seen_in.clear();
    }

    /// When a message that arrived at `arrived_ns` is done on the server that is free first.
    #[inline]
    fn serve(&mut self, arrived_ns: f64, cost_ns: f64) -> f64 {
        let mut first = 0;
        for server in 1..self.free_at.len() {
            if self.free_at[server] < self.free_at[first] {
                first = server;
            }
        }
        let done_ns = self.free_at[first].max(arrived_ns) + cost_ns;
        self.free_at[first] = done_ns;
        done_ns
    }
}

/// Counts the publishers of the present span.
#[derive(Default)]
struct Active {
    span: u64,
    count: u32,
}

impl Active {
    /// Publishers seen in the span of `at_ns` so far, `publisher` included.
    fn count(&mut self, at_ns: u64, publisher: PublisherIndex, seen_in: &mut Vec<u64>) -> u32 {
        let span = at_ns / ACTIVE_SPAN_NS + 1;
        if span != self.span {
            *self = Active { span, count: 0 };
        }
        let place = publisher.0 as usize;
        if seen_in.len() <= place {
            seen_in.resize(place + 1, 0);
        }
        if seen_in[place] != span {
            seen_in[place] = span;
            self.count += 1;
        }
        self.count
    }
}

fn slowdown(background: f64) -> f64 {
    let busy = if background.is_nan() { 0.0 } else { background };
    1.0 / (1.0 - busy.clamp(0.0, MOST_BACKGROUND))
}
