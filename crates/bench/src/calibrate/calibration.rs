//! What a calibration found, and the file that keeps it.
//!
//! `srtm.calibration.json` lies in a broker's data folder; the broker tells the controller of it. It is replaced
//! whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use placement::ServiceModel;
use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::report::Machine;

/// Name of the file in the data folder.
pub const FILE_NAME: &str = "srtm.calibration.json";
/// The version of the file's format that is written and read.
const VERSION: u32 = 1;
/// A file larger than this is none of ours.
const MAX_FILE_BYTES: u64 = 1 << 20;
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
    pub machine: MeasuredOn,
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

/// The processor and system of a calibration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredOn {
    /// Model name of the processor.
    pub cpu: String,
    /// Cores that the system saw.
    pub cores: usize,
    /// Version of the kernel.
    pub kernel: String,
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

impl Calibration {
    /// The present version of the format.
    pub const VERSION: u32 = VERSION;

    /// The file in the data folder `folder`.
    pub fn path(folder: &Path) -> PathBuf {
        folder.join(FILE_NAME)
    }

    /// Reads the file in the data folder `folder`; `None` when there is none.
    ///
    /// # Errors
    /// When there is a file that cannot be read, is no calibration, is of another version, or holds numbers that no
    /// measurement gives. The text names the file and says what to do.
    pub fn read(folder: &Path) -> Result<Option<Self>, BenchError> {
        let path = Self::path(folder);
        let failed = |source| BenchError::Io {
            what: format!("read {}", path.display()),
            source,
        };
        let text = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Ok(file) if file.len() > MAX_FILE_BYTES => return Err(failed(broken("too large"))),
            Ok(_) | Err(_) => fs::read_to_string(&path).map_err(failed)?,
        };
        Self::parse(&text).map(Some).map_err(failed)
    }

    /// Replaces the file in the data folder `folder`, which is made when it is not there. A crash leaves the old
    /// file or the new one.
    ///
    /// # Errors
    /// When a step fails; it is named.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, BenchError> {
        let path = Self::path(folder);
        let temporary = path.with_extension("json.new");
        let step = |what: &str, path: &Path| BenchError::io(format!("{what} {}", path.display()));
        let mut text = serde_json::to_string_pretty(self)
            .map_err(|error| step("render", &path)(io::Error::other(error)))?;
        text.push('\n');
        fs::create_dir_all(folder).map_err(step("make the folder", folder))?;
        let mut file = File::create(&temporary).map_err(step("make", &temporary))?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(step("write", &temporary))?;
        fs::rename(&temporary, &path).map_err(step("replace", &path))?;
        // The new name is safe only when the folder is.
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(step("sync the folder", folder))?;
        Ok(path)
    }

    /// Why figures of this calibration may not hold on `machine`; `None` when processor and cores are the same.
    /// Another kernel is no reason.
    pub fn stranger_on(&self, machine: &Machine) -> Option<String> {
        let there = &self.machine;
        (there.cpu != machine.cpu || there.cores != machine.cores).then(|| {
            format!(
                "calibrated on {} with {} cores, this is {} with {}: run `srtm calibrate` here",
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
                "in {disturbed} of {} runs other work took the broker's core, up to {:.0} % of it: calibrate again when idle",
                self.runs.len(),
                100.0 * others().fold(0.0, f64::max)
            )
        })
    }

    fn parse(text: &str) -> Result<Self, io::Error> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        // The version first: what follows it may differ.
        let versioned: Versioned =
            serde_json::from_str(text).map_err(|error| broken(&error.to_string()))?;
        if versioned.version != VERSION {
            let text = format!(
                "version {} instead of {VERSION}; run `srtm calibrate` again",
                versioned.version
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let calibration: Self =
            serde_json::from_str(text).map_err(|error| broken(&error.to_string()))?;
        let positive = |number: f64| number > 0.0 && number <= 1e12;
        if !positive(calibration.mcap) {
            return Err(broken("mcap is no rate"));
        }
        if !positive(calibration.slo_p99_us) {
            return Err(broken("slo_p99_us is no latency"));
        }
        if !calibration.model.is_sane() {
            return Err(broken("the model's costs are out of range"));
        }
        Ok(calibration)
    }
}

impl From<Machine> for MeasuredOn {
    fn from(machine: Machine) -> Self {
        Self {
            cpu: machine.cpu,
            cores: machine.cores,
            kernel: machine.kernel,
        }
    }
}

fn broken(reason: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("no calibration ({reason}); delete it or run `srtm calibrate` again"),
    )
}

#[cfg(test)]
mod tests;
