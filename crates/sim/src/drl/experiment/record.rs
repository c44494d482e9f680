//! One run's record: a line of JSON in the form that live results have, without anything that depends on the machine or
//! the hour. `experiments/testbed/README.md` has the form.

use serde::{Deserialize, Serialize};

use super::traffic::Part;
use crate::drl::scenario::Cut;
use crate::experiment::Spread;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The experiment.
    pub kind: String,
    /// The policy; `crd` is one limiter for all traffic that drops at random.
    pub peer: String,
    /// The series, which is more than the policy where one policy is run with several settings.
    pub series: String,
    /// The key of the scenario that is varied.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub varied: Option<String>,
    /// What it was set to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub value: Option<f64>,
    /// Which repeat, from 1.
    pub round: u32,
    /// Seconds of Unix time: 0, for a virtual run is of no hour.
    pub at_s: u64,
    /// What runs it again.
    pub command: String,
    /// What was run.
    pub workload: Workload,
    /// What came of it.
    pub result: Measured,
}

/// What was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The limiters' policy.
    pub policy: String,
    /// Places with traffic of their own.
    pub sites: u32,
    /// Limiters; 1 where one serves all sites.
    pub limiters: u32,
    /// L, IP megabits per second.
    pub limit_mbps: f64,
    /// Depth of the one bucket that the limiters stand for.
    pub depth_bytes: f64,
    /// Length of the run.
    pub seconds: f64,
    /// Seconds at its beginning that do not count.
    pub warmup_s: f64,
    /// Time between two updates.
    pub interval_ms: f64,
    /// What is left of an old estimate after one second.
    pub ewma: f64,
    /// Whom a limiter tells per interval; all others in a mesh.
    pub branching: u32,
    /// `memory` where all know exact sums at once; absent where limiters send each other messages.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gossip: Option<String>,
    /// How long an update takes.
    pub gossip_delay_ms: f64,
    /// Part of the updates that is lost.
    pub gossip_loss: f64,
    /// Part of the updates that is overtaken by later ones.
    pub gossip_reordered: f64,
    /// When limiters could not hear each other.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub cuts: Vec<Cut>,
    /// Rate of a limiter's access link.
    pub link_mbps: f64,
    /// Flows of the same start begin so far apart.
    pub stagger_s: f64,
    /// The run's seed.
    pub seed: u64,
    /// The traffic.
    pub traffic: Vec<Part>,
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// IP bytes forwarded: a series per site up to 16 sites, else one series of their sum.
    pub forwarded: Steps,
    /// Rates of the sum over windows of 1 s, after warm-up.
    pub forwarded_mbps_1s: Rates,
    /// Rates of the sum over windows of 100 ms, after warm-up.
    pub forwarded_mbps_100ms: Rates,
    /// Mean rate of each site, after warm-up; left out beyond 16 sites.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub limiter_mbps: Vec<f64>,
    /// Local limits at the beginning of every second, a series per limiter; left out beyond 16.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub local_limits: Option<LocalLimits>,
    /// Packets dropped by limiters, in the whole run.
    pub dropped_packets: u64,
    /// Payload at the receivers, a series per part of the traffic.
    pub goodput: Steps,
    /// All payload after warm-up.
    pub goodput_mbps: f64,
    /// Jain's index over bulk flows' payload after warm-up.
    pub jain: Option<f64>,
    /// Payload rate of each bulk flow after warm-up, a list per part; left out beyond 32 flows.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub flows_kbps: Vec<Vec<f64>>,
    /// Bulk flows to which nothing was delivered.
    pub flows_never_served: u32,
    /// Bulk flows.
    pub flows: u32,
    /// Web transfers; absent without any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub downloads: Option<Downloads>,
    /// What limiters told each other.
    pub control: Control,
    /// Digest of every verdict: equal runs have equal ones.
    pub hash: String,
}

/// Bytes in steps of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steps {
    /// Length of a step.
    pub bin_s: f64,
    /// Series of bytes.
    pub bytes: Vec<Vec<u64>>,
}

/// What limiters enforced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LocalLimits {
    /// Time between two of them.
    pub bin_s: f64,
    /// Megabits per second, a series per limiter.
    pub mbps: Vec<Vec<f64>>,
}

/// Rates over windows of time, megabits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the sample.
    pub deviation: f64,
    /// Median.
    pub median: f64,
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
}

/// Web transfers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Downloads {
    /// Begun.
    pub begun: u64,
    /// Finished.
    pub whole: u64,
    /// By size.
    pub rows: Vec<SizeClass>,
}

/// Web transfers of one class of sizes, as DRL's table 1 has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeClass {
    /// The smallest.
    pub from_bytes: u64,
    /// The first that is too large; none for the last class.
    pub below_bytes: Option<u64>,
    /// Finished transfers.
    pub downloads: u64,
    /// Harmonic mean of their rates.
    pub kbps: Option<f64>,
}

/// What limiters told each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// Updates sent.
    pub updates: u64,
    /// Those that did not arrive.
    pub lost: u64,
    /// Bytes per second that a limiter sends, with headers.
    pub limiter_bytes_per_s: f64,
    /// All of it, bits per second.
    pub all_bits_per_s: f64,
}

impl Rates {
    /// Of rates over windows.
    #[must_use]
    pub fn of(rates: &[f64]) -> Rates {
        let spread = Spread::of(rates);
        Rates {
            mean: rounded(spread.mean),
            deviation: rounded(spread.deviation),
            median: rounded(spread.median),
            min: rounded(spread.least),
            max: rounded(spread.greatest),
        }
    }
}

impl Steps {
    /// Megabits per second of all series together from `from_s` to `to_s`.
    #[must_use]
    pub fn mbps(&self, from_s: f64, to_s: f64) -> f64 {
        (0..self.bytes.len())
            .map(|series| self.series_mbps(series, from_s, to_s))
            .sum()
    }

    /// Megabits per second of one series from `from_s` to `to_s`; 0 for a series that is not there.
    #[must_use]
    pub fn series_mbps(&self, series: usize, from_s: f64, to_s: f64) -> f64 {
        let step = |at_s: f64| (at_s / self.bin_s).round() as usize;
        let counted = self.bytes.get(series).map_or(&[][..], Vec::as_slice);
        let to = step(to_s).min(counted.len());
        let bytes: u64 = counted[step(from_s).min(to)..to].iter().sum();
        bytes as f64 * 8e-6 / (to_s - from_s)
    }
}

/// To a millionth.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
