//! Placement in virtual time: steps 1 to 3 of the Load Distributor, with profiling windows.

use placement::{
    BrokerIndex, BrokerWindow, FitState, FitStatus, Fitting, Question, Step, Window, distribute,
};

use crate::engine::Engine;
use crate::{Scene, SimError};

/// Traffic between a move and the window that judges it, as in the control plane.
const SETTLE_NS: u64 = 3_000_000_000;

/// How a topic was fitted to its promise.
#[derive(Clone, Debug)]
pub struct Fit {
    /// By publisher.
    pub broker_of: Vec<Option<BrokerIndex>>,
    /// Windows, iterations, rounds.
    pub status: FitStatus,
    /// Whether everybody is placed and the promise kept.
    pub met: bool,
    /// If not: messages per second that fit nowhere.
    pub missing: f64,
}

/// Distributes the publishers and fits the distribution to the promise by profiling windows (SRTM-long, section 4.2).
///
/// # Errors
/// [`SimError`] where the scene cannot be fitted at all; an unmet promise is no error.
pub fn fit(scene: &Scene) -> Result<Fit, SimError> {
    let (mut fitting, mut step) = Fitting::begin(
        scene.fit_config(),
        scene.publishers.clone(),
        scene.brokers.clone(),
        scene.models.clone(),
    )?;
    let mut engine = Engine::new(scene, scene.begin_ns);
    loop {
        step = match step {
            Step::Measure(broker_of) => window(scene, &mut engine, &mut fitting, &broker_of),
            Step::Done(broker_of) => {
                return Ok(Fit {
                    broker_of: broker_of.into_iter().map(Some).collect(),
                    met: fitting.status().state == FitState::Fitted,
                    status: fitting.status().clone(),
                    missing: 0.0,
                });
            }
            Step::OutOfBrokers { best, missing, .. } => {
                return Ok(Fit {
                    broker_of: best,
                    met: false,
                    status: fitting.status().clone(),
                    missing,
                });
            }
        };
    }
}

/// Steps 1 and 2 over at least `k` brokers, as the scene's policy does them; nothing is measured. Where capacities do not
/// hold everybody, the rest is spread as the distributor spreads it.
#[must_use]
pub fn spread(scene: &Scene, k: usize) -> Vec<Option<BrokerIndex>> {
    answer(&Question {
        policy: scene.policy,
        publishers: &scene.publishers,
        placed: &vec![None; scene.publishers.len()],
        brokers: &scene.brokers,
        full: &vec![false; scene.brokers.len()],
        k_min: k,
    })
}

/// Those without a place are placed by steps 1 and 2 at brokers that are `available`; nobody else moves.
pub(crate) fn place_again(
    scene: &Scene,
    placed: &[Option<BrokerIndex>],
    available: impl Fn(u32) -> bool,
) -> Vec<Option<BrokerIndex>> {
    let mut brokers = scene.brokers.clone();
    for (number, broker) in (0u32..).zip(&mut brokers) {
        broker.is_available = available(number);
    }
    let question = Question {
        policy: scene.policy,
        publishers: &scene.publishers,
        placed,
        brokers: &brokers,
        full: &vec![false; scene.brokers.len()],
        k_min: 1,
    };
    answer(&question)
}

/// Who goes where; where capacities do not hold everybody, the distributor's best.
fn answer(question: &Question<'_>) -> Vec<Option<BrokerIndex>> {
    match distribute(question) {
        Ok(distribution) => distribution.broker_of.into_iter().map(Some).collect(),
        Err(out) => out.best,
    }
}

/// One profiling window of this assignment.
fn window(
    scene: &Scene,
    engine: &mut Engine<'_>,
    fitting: &mut Fitting,
    broker_of: &[Option<BrokerIndex>],
) -> Step {
    engine.place(broker_of);
    engine.run_for(SETTLE_NS);
    let length_ns = u64::try_from(scene.spec.topic.window.as_nanos()).unwrap_or(u64::MAX);
    engine.begin_recording(scene.mode == placement::Mode::Replay);
    engine.run_for(length_ns);
    let recording = engine.end_recording();
    let brokers: Vec<BrokerWindow> = recording
        .brokers
        .iter()
        .map(|recorded| BrokerWindow {
            p99_us: recorded.percentile_us(scene.spec.topic.percentile),
            messages: recorded.messages(),
        })
        .collect();
    fitting.measured(&Window {
        brokers: &brokers,
        trace: recording.trace.as_ref(),
        seconds: length_ns as f64 / 1e9,
        neighbours: &[],
    })
}
