//! One run for the search for the highest rate: whether the promise was kept, and whether the
//! broker was the cause.

use crate::generator::Outcome;

/// Part of the offered rate that has to come out for a broker to have kept up.
const KEPT_UP: f64 = 0.95;
/// Part of the time at work above which the generator is what was measured.
const GENERATOR_BUSY: f64 = 0.95;
/// Part of the promise above which the generator's own lateness may have broken it.
const LATE: f64 = 0.5;
/// Part of the latency below which the generator's lateness does not explain it.
const EXPLAINS: f64 = 0.1;

/// One run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Messages per second that were to be sent.
    pub rate: f64,
    /// The latency at the promise's percentile, in microseconds.
    pub latency_us: f64,
    /// Nothing was lost or refused, and as much came out as went in.
    pub kept_up: bool,
    /// The generator itself was too late or too busy to blame the broker.
    pub generator_limited: bool,
}

impl Trial {
    /// The run at `rate` that gave `outcome`, in which the promise's percentile of the latency was `latency_us` and
    /// that of the generator's lateness `lateness_us`; the promise is `slo_us`.
    pub fn of(
        rate: f64,
        outcome: &Outcome,
        latency_us: f64,
        lateness_us: f64,
        slo_us: f64,
    ) -> Self {
        let counts = outcome.counts;
        Self {
            rate,
            latency_us,
            kept_up: counts.missing == 0
                && counts.refused == 0
                && outcome.achieved_per_second >= KEPT_UP * outcome.offered_per_second,
            // A broker that has fallen behind by seconds also holds up the generator by milliseconds.
            generator_limited: outcome.generator_busy > GENERATOR_BUSY
                || (lateness_us > LATE * slo_us && lateness_us > EXPLAINS * latency_us),
        }
    }

    /// Whether the promise held.
    pub fn meets(&self, slo_us: f64) -> bool {
        self.kept_up && self.latency_us <= slo_us
    }
}
