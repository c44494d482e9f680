//! One broker's replay.

use limit::{Burst, Rate};

use super::{Gate, Latencies, Left, Station, Trace};
use crate::PublisherIndex;
use model::ServiceModel;

/// A broker that is busy with other topics all the time is counted as this busy: it never stands still.
const MOST_BACKGROUND: f64 = 0.99;

/// Replays again and again with the same memory.
#[derive(Clone, Debug, Default)]
pub struct Replayer {
    latencies: Latencies,
    station: Station,
}

/// What a broker would have done with the arrivals of the publishers that are assigned to it.
///
/// The law is that of a [`Station`] whose bucket is full at the beginning; `base_ns` is included in the latency.
/// `background` is the part of the servers' time that other topics take, 0 to 1: service slows down by
/// 1 / (1 − background).
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
        let Replayer { latencies, station } = self;
        latencies.clear();
        station.begin(model.slower(slowdown(background)), Gate::full(share));
        let mut gone = |left: Left| {
            let latency_ns = left.left_ns - left.due_ns as f64 + model.base_ns;
            latencies.push(latency_ns, left.waited_ns > 0.0);
        };
        for arrival in &trace.arrivals {
            if on_broker(arrival.publisher) {
                let at_ns = arrival.at_ns.saturating_sub(trace.begin_ns);
                // With four million waiting, what is refused makes the percentiles no worse.
                let _ =
                    station.arrive(at_ns, at_ns, arrival.publisher, arrival.messages, &mut gone);
            }
        }
        station.advance(u64::MAX, &mut gone);
        latencies
    }
}

pub(super) fn slowdown(background: f64) -> f64 {
    let busy = if background.is_nan() { 0.0 } else { background };
    1.0 / (1.0 - busy.clamp(0.0, MOST_BACKGROUND))
}
