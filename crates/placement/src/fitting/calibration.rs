//! How much slower or faster brokers are than their service models say, learnt from windows.

use crate::BrokerIndex;
use crate::replay::Judge;
use model::ServiceModel;

/// A factor outside of these bounds means that something else than service is at work.
const FACTORS: (f64, f64) = (1.0 / 8.0, 8.0);

/// Halvings of the interval between them, in logarithms: leaves 0.1 %.
const HALVINGS: u32 = 12;

/// Latencies below this fraction of the SLO say little about service: what does not scale dominates.
const TELLING_PART: f64 = 0.5;

/// Service times by broker, relative to the models that were given.
#[derive(Clone, Debug)]
pub(super) struct Calibration {
    pub(super) models: Vec<ServiceModel>,
    factors: Vec<Option<f64>>,
}

impl Calibration {
    pub(super) fn new(models: Vec<ServiceModel>) -> Self {
        let factors = vec![None; models.len()];
        Calibration { models, factors }
    }

    pub(super) fn add(&mut self, model: ServiceModel) {
        self.models.push(model);
        self.factors.push(None);
    }

    /// The models as they are believed now. A broker of which nothing was learnt is taken to be off by as
    /// much as the others are in the median: what the models missed is mostly common to all.
    pub(super) fn believed(&self) -> Vec<ServiceModel> {
        let mut known: Vec<f64> = self.factors.iter().flatten().copied().collect();
        known.sort_by(f64::total_cmp);
        let median = known.get(known.len() / 2).copied().unwrap_or(1.0);
        let models = self.models.iter().zip(&self.factors);
        models
            .map(|(model, factor)| model.slower(factor.unwrap_or(median)))
            .collect()
    }

    /// Learns from a window: for each broker that was measured, the factor under which its replay gives
    /// what was measured. `judge` holds the window's arrivals and the models as they were given.
    ///
    /// Returns what no factor explains, in words.
    pub(super) fn learn(
        &mut self,
        judge: &mut Judge<'_>,
        broker_of: &[Option<BrokerIndex>],
        measured_us: &[Option<f64>],
        slo_us: f64,
    ) -> Vec<String> {
        let mut unexplained = Vec::new();
        for (broker, measured) in (0u32..).zip(measured_us) {
            let Some(measured) = measured.filter(|&latency| latency >= TELLING_PART * slo_us)
            else {
                continue;
            };
            let mut predict = |factor| {
                judge
                    .predict_at(BrokerIndex(broker), broker_of, factor)
                    .own_us
            };
            match factor_for(measured, &mut predict) {
                Found::Factor(factor) => self.factors[broker as usize] = Some(factor),
                Found::NoTraffic => {}
                Found::OutOfBounds => unexplained.push(format!(
                    "broker {broker}: no service time explains the {measured:.0} us that were measured; \
                     its service model stays"
                )),
            }
        }
        unexplained
    }
}

enum Found {
    Factor(f64),
    NoTraffic,
    OutOfBounds,
}

fn factor_for(measured_us: f64, predict: &mut impl FnMut(f64) -> Option<f64>) -> Found {
    let (mut low, mut high) = FACTORS;
    let (Some(least), Some(most)) = (predict(low), predict(high)) else {
        return Found::NoTraffic;
    };
    if !(least..=most).contains(&measured_us) {
        return Found::OutOfBounds;
    }
    for _ in 0..HALVINGS {
        let middle = (low * high).sqrt();
        if predict(middle).is_some_and(|latency| latency < measured_us) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Found::Factor((low * high).sqrt())
}
