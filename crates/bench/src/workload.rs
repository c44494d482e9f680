//! The load as flags: how many publishers, how fast, how large, how much together, for how long.
//!
//! The flags describe a [`Spec`] of one class; files can describe more.

use std::time::Duration;

use ::workload::{Class, Cluster, Pattern, Spec, Topic};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::error::BenchError;
use crate::load::Load;
use crate::stamp::STAMP_BYTES;

/// How the sends of one publisher (or group) follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Exponential gaps: independent sources.
    Poisson,
    /// Equal gaps with a random phase: sensors.
    Periodic,
}

/// A load, complete with its seed: the same workload gives the same schedule.
#[derive(Debug, Clone, Serialize, Args)]
pub struct Workload {
    /// Publisher connections.
    #[arg(long, default_value_t = 4000)]
    pub publishers: u32,
    /// Messages per second of each publisher.
    #[arg(long, default_value_t = 10.0, value_name = "MSG/S")]
    pub rate_per_publisher: f64,
    /// How sends follow each other.
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson)]
    pub arrivals: Arrivals,
    /// Messages that a publisher sends at once, in one write.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub batch_messages: u32,
    /// Send a batch as one MPUB instead of several PUBs (NSQ only).
    #[arg(long)]
    pub mpub: bool,
    /// Body of a message, at least 24 bytes.
    #[arg(long, default_value_t = 100, value_name = "BYTES")]
    pub body_bytes: usize,
    /// Publishers that send at the same instant.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub group_publishers: u32,
    /// Load before the measurement begins.
    #[arg(long, default_value_t = 2000, value_name = "MS")]
    pub warmup_ms: u64,
    /// Length of the measurement.
    #[arg(long, default_value_t = 10_000, value_name = "MS")]
    pub measure_ms: u64,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Workload {
    /// Messages per second of all publishers together.
    pub fn offered_per_second(&self) -> f64 {
        f64::from(self.publishers) * self.rate_per_publisher
    }

    /// The same load with each publisher's rate chosen so that all together send `messages_per_second`.
    #[must_use]
    pub fn at_rate(&self, messages_per_second: f64) -> Self {
        Self {
            rate_per_publisher: messages_per_second / f64::from(self.publishers),
            ..self.clone()
        }
    }

    /// The spec that the flags stand for. Flags that [`Workload::check`] refuses give one of no meaning.
    pub fn spec(&self) -> Spec {
        let class = Class {
            arrivals: match self.arrivals {
                Arrivals::Poisson => Pattern::Poisson,
                Arrivals::Periodic => Pattern::Periodic,
            },
            batch_messages: u16::try_from(self.batch_messages).unwrap_or(u16::MAX),
            body_bytes: u32::try_from(self.body_bytes).unwrap_or(u32::MAX),
            group_publishers: self.group_publishers,
            ..Class::new(self.publishers, self.rate_per_publisher)
        };
        Spec {
            seed: self.seed,
            warmup: Duration::from_millis(self.warmup_ms),
            duration: Duration::from_millis(self.measure_ms),
            publishers: vec![class],
            topic: Topic::default(),
            cluster: Cluster::default(),
            failures: Vec::new(),
        }
    }

    /// When each publisher is due: for ever.
    pub fn schedule(&self) -> ::workload::Arrivals {
        self.spec().arrivals()
    }

    /// What the generator sends.
    ///
    /// # Errors
    /// As [`Workload::check`].
    pub fn load(&self) -> Result<Load, BenchError> {
        self.check()?;
        let load = Load {
            spec: self.spec(),
            mpub: self.mpub,
        };
        load.check()?;
        Ok(load)
    }

    /// Length of warm-up and measurement together.
    pub fn duration_ns(&self) -> u64 {
        (self.warmup_ms + self.measure_ms) * 1_000_000
    }

    /// Checks what the types leave open.
    ///
    /// # Errors
    /// Names the option that is out of range and the range.
    pub fn check(&self) -> Result<(), BenchError> {
        let refuse = |text: &str| Err(BenchError::Options(text.to_owned()));
        if self.publishers == 0 || self.publishers > 60_000 {
            return refuse("--publishers must be 1 to 60000");
        }
        if !(self.rate_per_publisher > 0.0 && self.rate_per_publisher <= 1e6) {
            return refuse("--rate-per-publisher must be above 0 and at most 1000000 msg/s");
        }
        if self.batch_messages == 0 || self.batch_messages > 1000 {
            return refuse("--batch-messages must be 1 to 1000");
        }
        if self.body_bytes < STAMP_BYTES || self.body_bytes > 1 << 20 {
            return refuse("--body-bytes must be 24 to 1048576");
        }
        if self.group_publishers == 0 || self.group_publishers > self.publishers {
            return refuse("--group-publishers must be 1 to the number of publishers");
        }
        if self.measure_ms == 0 || self.duration_ns() > 3_600_000_000_000 {
            return refuse("--measure-ms must be at least 1, with --warmup-ms at most an hour");
        }
        Ok(())
    }
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            publishers: 4000,
            rate_per_publisher: 10.0,
            arrivals: Arrivals::Poisson,
            batch_messages: 1,
            mpub: false,
            body_bytes: 100,
            group_publishers: 1,
            warmup_ms: 2000,
            measure_ms: 10_000,
            seed: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_say_what_a_spec_says() {
        let flags = Workload {
            publishers: 20,
            rate_per_publisher: 2.5,
            arrivals: Arrivals::Periodic,
            batch_messages: 5,
            mpub: true,
            body_bytes: 40,
            group_publishers: 10,
            warmup_ms: 1500,
            measure_ms: 3000,
            seed: 7,
        };
        let text = "seed = 7\nwarmup = \"1.5s\"\nduration = \"3s\"\n[[publishers]]\ncount = 20\n\
                    rate = 2.5\narrivals = \"periodic\"\nbatch = 5\nbytes = 40\ngroup = 10\n";
        let mut spec = Spec::parse(text).expect("valid");
        spec.publishers[0].name.clear();
        assert_eq!(flags.spec(), spec);
        let load = flags.load().expect("valid");
        assert_eq!((load.spec, load.mpub), (spec, true));
        assert_eq!(flags.schedule().take(99).count(), 99);
    }

    #[test]
    fn flags_out_of_range_are_named() {
        let flags = Workload {
            body_bytes: STAMP_BYTES - 1,
            ..Workload::default()
        };
        let error = flags.load().expect_err("too short").to_string();
        assert_eq!(error, "bad option: --body-bytes must be 24 to 1048576");
    }
}
