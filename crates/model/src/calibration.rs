//! The result of a calibration, as a value and as the text of its file.

use serde::{Deserialize, Serialize};

use crate::{Machine, ServiceModel};

/// The version of the text's format that is written and read.
const VERSION: u32 = 1;
/// Part of the broker's core used by others above which a run is called disturbed.
const MAX_OTHERS: f64 = 0.05;

/// What a broker on one machine carries under a promise, and what a message costs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Version of the format.
    pub version: u32,
    /// When it was measured, in seconds since the Unix epoch.
    pub at_s: u64,
    /// What it was measured on.
    pub machine: Machine,
    /// The promise: p99 end to end at most this, in microseconds.
    pub slo_p99_us: f64,
    /// Messages per second that the broker carries under the promise (SRTM-long, section 4.2, step 1).
    pub mcap: f64,
    /// The lowest rate that missed the promise, in messages per second; mcap is a lower bound without it.
    pub missed: Option<f64>,
    /// Service times and the latency outside the queue.
    pub model: ServiceModel,
    /// How well the model explains what was measured.
    pub fit: Fit,
    /// Every run, in its order.
    pub runs: Vec<Run>,
}

/// How well a service model explains the CPU times that it was fitted to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// CPU time of a turn of the broker's loop beside its messages, in nanoseconds. Not part of the model: under load
    /// turns are shared by many messages.
    pub per_turn_ns: f64,
    /// Root of the mean squared residual, as a part of the measured CPU time.
    pub residual: f64,
    /// The largest residual, as a part of the measured CPU time.
    pub residual_max: f64,
    /// p99 that the model gives when the load at mcap is replayed, in microseconds.
    pub replayed_p99_us: Option<f64>,
}

/// One run of the generator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What it was for.
    pub purpose: Purpose,
    /// Publisher connections.
    pub publishers: u32,
    /// Messages per publish command.
    pub batch_messages: u32,
    /// Publishers that send at the same instant.
    pub group_publishers: u32,
    /// Messages per second that were due.
    pub offered_per_second: f64,
    /// Messages per second that the subscriber read.
    pub achieved_per_second: f64,
    /// CPU time of the broker per message, in nanoseconds.
    pub broker_ns_per_message: f64,
    /// Half of the latencies are at most this, in microseconds.
    pub p50_us: f64,
    /// 99 of 100 latencies are, in microseconds.
    pub p99_us: f64,
    /// The generator's own delay in `p99_us`: p99 of its lateness, in microseconds.
    pub generator_late_p99_us: f64,
    /// Part of the time that something else had the broker's core, 0 to 1.
    pub core_used_by_others: f64,
    /// Messages that never arrived or could not be sent.
    pub lost: u64,
}

/// What a run was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// The service model.
    Model,
    /// The highest rate under the promise.
    Mcap,
}

/// Why a text is no calibration that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CalibrationError {
    /// It is of another version of the format.
    #[error("version {found} instead of {VERSION}; run `srtm calibrate` again")]
    Version {
        /// The version that it names.
        found: u32,
    },
    /// It is none, or holds numbers that no measurement gives.
    #[error("no calibration ({0}); delete it or run `srtm calibrate` again")]
    Broken(String),
}

impl Calibration {
    /// The present version of the format.
    pub const VERSION: u32 = VERSION;

    /// The calibration that `text` keeps.
    ///
    /// # Errors
    /// When it is no calibration, is of another version, or holds numbers that no measurement gives.
    pub fn parse(text: &str) -> Result<Self, CalibrationError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let no_json = |error: serde_json::Error| CalibrationError::Broken(error.to_string());
        // The version first: what follows it may differ.
        let versioned: Versioned = serde_json::from_str(text).map_err(no_json)?;
        if versioned.version != VERSION {
            let found = versioned.version;
            return Err(CalibrationError::Version { found });
        }
        let calibration: Self = serde_json::from_str(text).map_err(no_json)?;
        let broken = |reason: &str| Err(CalibrationError::Broken(reason.to_owned()));
        let positive = |number: f64| number > 0.0 && number <= 1e12;
        if !positive(calibration.mcap) {
            return broken("mcap is not a rate");
        }
        if !positive(calibration.slo_p99_us) {
            return broken("slo_p99_us is not a latency");
        }
        if !calibration.model.is_sane() {
            return broken("the model's costs are out of range");
        }
        Ok(calibration)
    }

    /// The text that keeps it: JSON that people can read, with a line feed at its end.
    #[must_use]
    pub fn text(&self) -> String {
        // Only maps with keys that are no strings fail, and there are none.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Why figures of this calibration may not hold on `machine`; `None` when processor and cores are the same.
    /// Another kernel is no reason.
    pub fn stranger_on(&self, machine: &Machine) -> Option<String> {
        let there = &self.machine;
        (there.cpu != machine.cpu || there.cores != machine.cores).then(|| {
            format!(
                "the calibration is of {} with {} cores, this machine is {} with {}: run `srtm calibrate` here",
                there.cpu, there.cores, machine.cpu, machine.cores
            )
        })
    }

    /// Why the figures are doubtful wherever they are used: other work took the broker's core while they were measured.
    pub fn doubt(&self) -> Option<String> {
        let others = || self.runs.iter().map(|run| run.core_used_by_others);
        let disturbed = others().filter(|others| *others > MAX_OTHERS).count();
        (disturbed > 0).then(|| {
            format!(
                "in {disturbed} of {} runs other work used the broker's core, up to {:.0} % of it: calibrate again when the machine is idle",
                self.runs.len(),
                100.0 * others().fold(0.0, f64::max)
            )
        })
    }
}

#[cfg(test)]
mod tests;
