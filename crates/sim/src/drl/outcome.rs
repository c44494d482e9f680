//! The outcome of a scenario.

use clock::Instant;
use statistics::jain;

use crate::tcp::SenderCounts;

/// The time in which samples of limits and weights are told apart, seconds.
const SAMPLE_S: f64 = 0.1;

/// The time in which delivered bytes are told apart, seconds.
const GOODPUT_BIN_S: f64 = 1.0;

/// The outcome of a scenario. Spans of time are seconds since its beginning, and count whole bins.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Of every verdict: when, about whose packet, and what it was. Equal runs have equal ones.
    pub hash: u64,
    /// How long it lasted, seconds.
    pub duration_s: f64,
    /// Length of the bins of forwarded bytes, seconds.
    pub bin_s: f64,
    /// By limiter.
    pub limiters: Vec<LimiterOutcome>,
    /// By flow: those of the scenario in its order, then web transfers as they began.
    pub flows: Vec<FlowOutcome>,
    /// Updates sent.
    pub updates: u64,
    /// Updates that did not arrive.
    pub updates_lost: u64,
    /// All updates with their headers, bytes.
    pub control_bytes: u64,
    /// Events that were simulated.
    pub events: u64,
}

/// A limiter's outcome.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimiterOutcome {
    /// IP bytes that it let through, by bin.
    pub forwarded: Vec<u32>,
    /// Packets that it let through.
    pub packets: u64,
    /// Packets that it dropped.
    pub drops: u64,
    /// Its local limit every 100 ms, IP bytes per second. Of the one limiter in its place where the policy is `ctb`.
    pub limits: Vec<f32>,
    /// The demand that it told every 100 ms: for `fps` its weight, else IP bytes per second.
    pub demands: Vec<f32>,
}

/// A flow's outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowOutcome {
    /// The limiter that it passes.
    pub limiter: u32,
    /// Whether it is a transfer of a web session.
    pub web: bool,
    /// When it began.
    pub began: Instant,
    /// When all of it was acknowledged.
    pub finished: Option<Instant>,
    /// Payload to transfer; `None` for as much as possible.
    pub transfer_bytes: Option<u64>,
    /// Payload that reached the receiver, by second.
    pub delivered: Vec<u32>,
    /// Packets that a limiter dropped.
    pub drops: u64,
    /// Packets that its bottleneck dropped.
    pub drops_upstream: u64,
    /// What its sender did.
    pub sender: SenderCounts,
}

impl Outcome {
    /// IP megabits per second that all limiters let through, in steps of `bin_s`.
    pub fn aggregate_mbps(&self, bin_s: f64, from_s: f64, to_s: f64) -> Vec<f64> {
        let limiters = 0..self.limiters.len();
        let each = limiters.map(|limiter| self.limiter_mbps(limiter, bin_s, from_s, to_s));
        each.reduce(|sums, rates| sums.iter().zip(rates).map(|(a, b)| a + b).collect())
            .unwrap_or_default()
    }

    /// IP megabits per second that `limiter` let through, in steps of `bin_s`, at least one of the scenario's bins.
    pub fn limiter_mbps(&self, limiter: usize, bin_s: f64, from_s: f64, to_s: f64) -> Vec<f64> {
        let bins = |seconds: f64| (seconds / self.bin_s).round() as usize;
        let per_step = bins(bin_s).max(1);
        let step_s = per_step as f64 * self.bin_s;
        let forwarded = &self.limiters[limiter].forwarded;
        let to = bins(to_s.min(self.duration_s));
        let steps = (bins(from_s)..to).step_by(per_step);
        steps
            .filter(|from| from + per_step <= to)
            .map(|from| {
                let end = (from + per_step).min(forwarded.len());
                let bytes = forwarded.get(from..end).unwrap_or_default().iter();
                bytes.map(|&bytes| f64::from(bytes)).sum::<f64>() * 8e-6 / step_s
            })
            .collect()
    }

    /// IP megabits per second that all limiters let through in the mean.
    pub fn mean_mbps(&self, from_s: f64, to_s: f64) -> f64 {
        let seconds = self.aggregate_mbps(to_s - from_s, from_s, to_s);
        seconds.first().copied().unwrap_or(0.0)
    }

    /// Jain's index over the goodputs of the flows that are not of web sessions and had begun at `from_s`.
    pub fn fairness(&self, from_s: f64, to_s: f64) -> f64 {
        jain(self.goodputs_mbps(from_s, to_s))
    }

    /// Payload megabits per second of each of those flows.
    pub fn goodputs_mbps(&self, from_s: f64, to_s: f64) -> Vec<f64> {
        let from = Instant::from_nanos((from_s * 1e9) as u64);
        let flows = self.flows.iter();
        let flows = flows.filter(|flow| !flow.web && flow.began <= from);
        flows.map(|flow| flow.goodput_mbps(from_s, to_s)).collect()
    }

    /// Packets that limiters dropped.
    pub fn drops(&self) -> u64 {
        self.limiters.iter().map(|limiter| limiter.drops).sum()
    }

    /// Control traffic, bits per second.
    pub fn control_bps(&self) -> f64 {
        self.control_bytes as f64 * 8.0 / self.duration_s
    }
}

impl LimiterOutcome {
    pub(super) fn forward(&mut self, bin: usize, bytes: u32) {
        self.packets += 1;
        if self.forwarded.len() <= bin {
            self.forwarded.resize(bin + 1, 0);
        }
        self.forwarded[bin] += bytes;
    }

    pub(super) fn sample(&mut self, now: Instant, limit: f64, demand: f64) {
        let at = (seconds(now) / SAMPLE_S) as usize;
        for (samples, value) in [(&mut self.limits, limit), (&mut self.demands, demand)] {
            let last = samples.last().copied().unwrap_or(value as f32);
            if samples.len() <= at {
                samples.resize(at + 1, last);
            }
            samples[at] = value as f32;
        }
    }

    /// The local limit at a time, megabits per second; 0 before the first.
    pub fn limit_mbps(&self, at_s: f64) -> f64 {
        let at = (at_s / SAMPLE_S) as usize;
        let sample = self.limits.get(at).or(self.limits.last());
        sample.map_or(0.0, |&limit| f64::from(limit) * 8e-6)
    }
}

impl FlowOutcome {
    pub(super) fn new(
        limiter: u32,
        web: bool,
        began: Instant,
        transfer_bytes: Option<u64>,
    ) -> Self {
        FlowOutcome {
            limiter,
            web,
            began,
            finished: None,
            transfer_bytes,
            delivered: Vec::new(),
            drops: 0,
            drops_upstream: 0,
            sender: SenderCounts::default(),
        }
    }

    pub(super) fn deliver(&mut self, now: Instant, bytes: u64) {
        let bin = (seconds(now) / GOODPUT_BIN_S) as usize;
        if self.delivered.len() <= bin {
            self.delivered.resize(bin + 1, 0);
        }
        self.delivered[bin] += bytes as u32;
    }

    /// Payload megabits per second in whole seconds from `from_s` to `to_s`.
    pub fn goodput_mbps(&self, from_s: f64, to_s: f64) -> f64 {
        let bins = self.delivered.len();
        let (from, to) = (from_s as usize, to_s as usize);
        let seen = &self.delivered[from.min(bins)..to.clamp(from.min(bins), bins)];
        let bytes: u64 = seen.iter().map(|&bytes| u64::from(bytes)).sum();
        bytes as f64 * 8e-6 / (to.saturating_sub(from).max(1)) as f64
    }

    /// How long the transfer took, seconds, from the first SYN to the last acknowledgement.
    pub fn took_s(&self) -> Option<f64> {
        self.finished.map(|at| (at - self.began).as_secs_f64())
    }
}

fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 * 1e-9
}
