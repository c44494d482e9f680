//! Options of `bench fit`, and what follows from them.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use clock::DurationText;
use serde::Serialize;

use super::estimate::Confidence;
use super::search::SearchOptions;
use crate::calibrate;
use crate::error::BenchError;
use crate::measurement::Percentiles;
use crate::peers::{Peer, PeerOptions};
use crate::workload::Workload;

/// The lowest rate that is run when no other is named, in messages per second.
const LEAST_RATE: f64 = 200.0;
/// Draws of the bootstrap.
const DRAWS: u32 = 2000;

/// Options of `bench fit`.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("warmup_ms", |arg| arg.default_value("700")))]
#[command(mut_arg("measure_ms", |arg| arg.default_value("3000")))]
pub struct FitOptions {
    /// Percentile of the goal.
    #[arg(long, value_enum, default_value_t = Percentile::P99)]
    pub percentile: Percentile,
    /// Goal: the latency at --percentile is at most this, such as 800us or 5ms.
    #[arg(long, value_name = "DURATION", default_value = "1ms")]
    pub slo: DurationText,
    /// Brokers to start, load and compare; ratios are to the first.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "srtm,srtm-acks,nsqd,nats,mosquitto-qos0"
    )]
    pub peers: Vec<Peer>,
    /// Load a running, idle broker instead of starting any.
    #[arg(
        long,
        value_name = "ADDRESS",
        conflicts_with = "peers",
        requires = "protocol"
    )]
    pub address: Option<SocketAddr>,
    /// Protocol that the broker at --address speaks.
    #[arg(long, value_enum, requires = "address")]
    pub protocol: Option<Speech>,
    /// Process id of the broker at --address, to report its CPU time.
    #[arg(long, value_name = "PID", requires = "address")]
    pub pid: Option<u32>,
    /// What to raise for a higher load.
    #[arg(long, value_enum, default_value_t = Grow::Publishers)]
    pub grow: Grow,
    /// Smallest difference between two rates that the search tells apart, in percent.
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = percent(0.5, 50.0))]
    pub tolerance: f64,
    /// Runs at each rate around the knee.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Probability that the interval holds the knee, in percent.
    #[arg(long, value_name = "PERCENT", default_value = "95", value_parser = percent(50.0, 99.9))]
    pub confidence: f64,
    /// The first rate.
    #[arg(long, value_name = "MSG/S", default_value_t = 20_000.0)]
    pub start: f64,
    /// Lowest rate to run [default: 200, or what one group of publishers sends].
    #[arg(long, value_name = "MSG/S")]
    pub least: Option<f64>,
    /// Highest rate to run [default: what the limit of open files allows].
    #[arg(long, value_name = "MSG/S")]
    pub most: Option<f64>,
    /// Most runs of each broker.
    #[arg(long, value_name = "N", default_value_t = 80, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_runs: u32,
    /// The load; the search varies its rate.
    #[command(flatten)]
    pub workload: Workload,
    /// Where the brokers' programs are.
    #[command(flatten)]
    pub programs: PeerOptions,
    /// File that results are appended to, a JSON line each.
    #[arg(long, default_value = "bench/results/fit.jsonl", value_name = "FILE")]
    pub results: PathBuf,
}

/// A percentile that the measurement keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Percentile {
    /// Half of the messages.
    #[value(name = "50")]
    P50,
    /// 90 of 100.
    #[value(name = "90")]
    P90,
    /// 99 of 100.
    #[value(name = "99")]
    P99,
    /// 999 of 1000.
    #[value(name = "99.9")]
    P999,
}

/// What a higher load is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Grow {
    /// More publishers of --rate-per-publisher each.
    Publishers,
    /// A higher rate of each of --publishers.
    Rate,
}

/// Protocol and guarantee spoken to a broker that runs already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Speech {
    /// NSQ V2, an OK per PUB, the subscriber's output buffer off.
    Nsq,
    /// NSQ V2 with SRTM's cumulative acknowledgements.
    NsqAcks,
    /// NATS core.
    Nats,
    /// MQTT 3.1.1, QoS 0.
    Mqtt,
    /// MQTT 3.1.1, QoS 1.
    MqttQos1,
}

/// The promise that is fitted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Goal {
    /// Percentile of the latency, 0 to 100.
    pub percentile: f64,
    /// What it is at most, in microseconds.
    pub slo_us: f64,
    #[serde(skip)]
    kind: Percentile,
}

impl FitOptions {
    /// The promise.
    pub fn goal(&self) -> Goal {
        Goal {
            percentile: self.percentile.number(),
            slo_us: self.slo.0.as_secs_f64() * 1e6,
            kind: self.percentile,
        }
    }

    /// The interval that is asked for.
    pub fn confidence(&self) -> Confidence {
        Confidence {
            level: self.confidence / 100.0,
            draws: DRAWS,
        }
    }

    /// The load that makes `rate` messages per second.
    pub fn load(&self, rate: f64) -> Workload {
        match self.grow {
            Grow::Publishers => calibrate::at_rate(&self.workload, rate),
            Grow::Rate => self.workload.at_rate(rate),
        }
    }

    /// The bounds of the search; at most `max_publishers` connections can be opened.
    ///
    /// # Errors
    /// Names the options that contradict each other or are out of range.
    pub fn search(&self, max_publishers: u32) -> Result<SearchOptions, BenchError> {
        let refuse = |text: String| Err(BenchError::Options(text));
        if self.slo.0.is_zero() {
            return refuse("--slo must be above 0".to_owned());
        }
        // Whatever does not depend on the rate that is searched.
        let largest = Workload {
            publishers: self.workload.publishers.max(self.workload.group_publishers),
            ..self.workload.clone()
        };
        largest.check()?;
        if self.grow == Grow::Rate && self.workload.publishers > max_publishers {
            return refuse(format!(
                "--publishers {} is more than the {max_publishers} that the limit of open files allows",
                self.workload.publishers
            ));
        }
        let (least, most) = (self.least_rate(), self.most_rate(max_publishers));
        for (flag, rate) in [("start", self.start), ("least", least), ("most", most)] {
            if !(rate > 0.0 && rate.is_finite()) {
                return refuse(format!("--{flag} must be a rate above 0, not {rate}"));
            }
        }
        if least > most {
            return refuse(format!("--least {least:.0} is above --most {most:.0}"));
        }
        let needed = most / self.workload.rate_per_publisher;
        if self.grow == Grow::Publishers && needed.round() > f64::from(max_publishers) {
            return refuse(format!(
                "--most {most:.0} needs {needed:.0} publishers of {} msg/s, but the limit of open files allows {max_publishers}: raise it (ulimit -n) or raise --rate-per-publisher",
                self.workload.rate_per_publisher
            ));
        }
        for rate in [least, most] {
            self.load(rate).check().map_err(|error| {
                BenchError::Options(format!("the load of {rate:.0} msg/s: {error}"))
            })?;
        }
        Ok(SearchOptions {
            start: self.start.clamp(least, most),
            least,
            most,
            tolerance: self.tolerance / 100.0,
            repeats: self.repeats,
            max_runs: self.max_runs,
            seed: self.workload.seed,
        })
    }

    fn least_rate(&self) -> f64 {
        let one_group = match self.grow {
            Grow::Publishers => {
                f64::from(self.workload.group_publishers) * self.workload.rate_per_publisher
            }
            Grow::Rate => 0.0,
        };
        self.least.unwrap_or(LEAST_RATE.max(one_group))
    }

    fn most_rate(&self, max_publishers: u32) -> f64 {
        let allowed = f64::from(max_publishers) * self.workload.rate_per_publisher;
        self.most.unwrap_or(match self.grow {
            Grow::Publishers => allowed,
            Grow::Rate => 1e6,
        })
    }
}

impl Percentile {
    fn number(self) -> f64 {
        match self {
            Self::P50 => 50.0,
            Self::P90 => 90.0,
            Self::P99 => 99.0,
            Self::P999 => 99.9,
        }
    }
}

impl Goal {
    /// The goal's percentile of `latencies`, in microseconds.
    pub fn of(&self, latencies: &Percentiles) -> f64 {
        match self.kind {
            Percentile::P50 => latencies.p50_us,
            Percentile::P90 => latencies.p90_us,
            Percentile::P99 => latencies.p99_us,
            Percentile::P999 => latencies.p999_us,
        }
    }

    /// The percentile as in `p99`.
    pub fn name(&self) -> String {
        format!("p{}", self.percentile)
    }
}

impl std::fmt::Display for Goal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} <= {} us", self.name(), self.slo_us)
    }
}

/// Reads a percentage within bounds, with or without its sign.
fn percent(least: f64, most: f64) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| {
        let number = text.trim_end_matches('%').trim_end().parse::<f64>().ok();
        number
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| format!("{text:?} is not a percentage from {least} to {most}"))
    }
}

#[cfg(test)]
mod tests;
