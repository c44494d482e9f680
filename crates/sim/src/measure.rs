//! Latencies of a placement, and whole simulations.

use placement::BrokerIndex;
use serde::Serialize;

use crate::engine::{Counts, Engine, Recorded, Recording};
use crate::{Scene, SimError};

/// Traffic before the warm-up: buckets that begin empty fill.
const SETTLE_NS: u64 = 3_000_000_000;

/// Profiling windows that are skipped, so that nothing is measured on arrivals that a fit has seen.
const WINDOWS_SKIPPED: u64 = 3;

/// What messages saw, end to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Messages that left.
    pub messages: u64,
    /// Mean latency in microseconds.
    pub mean_us: f64,
    /// Half of them took no longer.
    pub p50_us: f64,
    /// 95 % took no longer.
    pub p95_us: f64,
    /// 99 % took no longer.
    pub p99_us: f64,
    /// At the percentile of the topic's promise.
    pub slo_us: f64,
    /// Mean time that messages waited for tokens after they had been served.
    pub access_delay_us: f64,
    /// Messages that the limit, not the broker, held.
    pub delayed: u64,
}

/// The measurements at one broker.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BrokerMeasured {
    /// Publishers placed there.
    pub publishers: usize,
    /// `None`: nothing left it.
    pub latency: Option<Percentiles>,
}

/// One second of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Second {
    /// Messages that left.
    pub messages: u64,
    /// 99th percentile of their latency in microseconds; `None` without messages.
    pub p99_us: Option<f64>,
}

/// The measurements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Of all brokers together.
    pub all: Percentiles,
    /// By broker.
    pub brokers: Vec<BrokerMeasured>,
    /// Second by second, where it was asked for.
    pub seconds: Vec<Second>,
    /// Messages sent, the settling and the warm-up included.
    pub sent: u64,
    /// Messages that died with their broker.
    pub lost: u64,
    /// Messages that waited for tokens at the end, or that no room was left for.
    pub waiting: u64,
    /// Of every departure that was measured: equal seeds have equal hashes.
    pub hash: u64,
}

impl Measured {
    /// The highest 99th percentile of any broker, in microseconds.
    #[must_use]
    pub fn worst_p99_us(&self) -> f64 {
        self.worst(|latency| latency.p99_us)
    }

    /// The highest latency of any broker at the percentile of the promise, in microseconds.
    #[must_use]
    pub fn worst_us(&self) -> f64 {
        self.worst(|latency| latency.slo_us)
    }

    fn worst(&self, of: impl Fn(&Percentiles) -> f64) -> f64 {
        let latencies = self
            .brokers
            .iter()
            .filter_map(|broker| broker.latency.as_ref());
        latencies.map(of).fold(0.0, f64::max)
    }

    /// Brokers that carry publishers.
    #[must_use]
    pub fn k(&self) -> usize {
        let carries = |broker: &&BrokerMeasured| broker.publishers > 0;
        self.brokers.iter().filter(carries).count()
    }
}

/// Measures a placement for the spec's duration after its warm-up, on arrivals that no fit has seen.
///
/// # Errors
/// [`SimError::Placement`] for a placement of another scene.
pub fn measure(scene: &Scene, broker_of: &[Option<BrokerIndex>]) -> Result<Measured, SimError> {
    run(scene, broker_of, false)
}

/// As [`measure`], with the spec's failures, and second by second.
///
/// # Errors
/// As [`measure`].
pub fn simulate(scene: &Scene, broker_of: &[Option<BrokerIndex>]) -> Result<Measured, SimError> {
    run(scene, broker_of, true)
}

fn run(
    scene: &Scene,
    broker_of: &[Option<BrokerIndex>],
    is_whole: bool,
) -> Result<Measured, SimError> {
    if broker_of.len() != scene.publishers.len() {
        return Err(SimError::Placement {
            places: broker_of.len(),
            publishers: scene.publishers.len(),
        });
    }
    let nanos = |span: std::time::Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let skipped_ns = nanos(scene.spec.topic.window).saturating_mul(WINDOWS_SKIPPED);
    let mut engine = Engine::new(scene, scene.begin_ns.saturating_add(skipped_ns));
    engine.place(broker_of);
    engine.run_for(SETTLE_NS);
    engine.run_for(nanos(scene.spec.warmup));
    if is_whole {
        engine.keep_seconds();
        engine.arm_failures();
    }
    engine.begin_recording(false);
    engine.run_for(nanos(scene.spec.duration));
    let publishers = engine.publishers();
    let recording = engine.end_recording();
    Ok(measured(
        recording,
        &publishers,
        engine.counts(),
        engine.waiting(),
        scene.spec.topic.percentile,
    ))
}

fn measured(
    recording: Recording,
    publishers: &[usize],
    counts: Counts,
    waiting: u64,
    percentile: f64,
) -> Measured {
    let mut all = Recorded::new();
    for broker in &recording.brokers {
        all.add(broker);
    }
    let brokers = recording.brokers.iter().zip(publishers);
    Measured {
        all: percentiles(&all, percentile).unwrap_or_default(),
        brokers: brokers
            .map(|(recorded, &publishers)| BrokerMeasured {
                publishers,
                latency: percentiles(recorded, percentile),
            })
            .collect(),
        seconds: recording.seconds,
        sent: counts.sent,
        lost: counts.lost,
        waiting: waiting + counts.refused,
        hash: recording.hash,
    }
}

fn percentiles(recorded: &Recorded, percentile: f64) -> Option<Percentiles> {
    Some(Percentiles {
        messages: recorded.messages(),
        mean_us: recorded.mean_us(),
        p50_us: recorded.percentile_us(50.0)?,
        p95_us: recorded.percentile_us(95.0)?,
        p99_us: recorded.percentile_us(99.0)?,
        slo_us: recorded.percentile_us(percentile)?,
        access_delay_us: recorded.access_delay_us(),
        delayed: recorded.waited(),
    })
}
