//! Facts that results leave out because they depend on the machine or the day.

use std::fs;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::time;

/// Where and when an experiment ran, and what `counted` says of its size.
#[derive(Serialize)]
pub(super) struct Meta<'a, C> {
    experiment: &'a str,
    version: &'static str,
    begun_unix_seconds: u64,
    wall_seconds: f64,
    jobs: usize,
    cores: usize,
    processor: Option<String>,
    runs: usize,
    #[serde(flatten)]
    counted: C,
}

/// When an experiment began.
pub(super) struct Begun {
    at: Instant,
    unix: Duration,
}

impl Begun {
    pub(super) fn now() -> Begun {
        Begun {
            at: time::now(),
            unix: time::unix_time(),
        }
    }

    /// Of the experiment that began then and has just ended, as JSON.
    pub(super) fn meta<C: Serialize>(
        &self,
        experiment: &str,
        jobs: usize,
        runs: usize,
        counted: C,
    ) -> String {
        let meta = Meta {
            experiment,
            version: env!("CARGO_PKG_VERSION"),
            begun_unix_seconds: self.unix.as_secs(),
            wall_seconds: time::now().saturating_duration_since(self.at).as_secs_f64(),
            jobs,
            cores: super::cores(),
            processor: processor(),
            runs,
            counted,
        };
        // Only maps with keys that are no strings fail, and there are none.
        serde_json::to_string_pretty(&meta).unwrap_or_default() + "\n"
    }
}

/// The processor's name, where the system tells it.
fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    let (_, name) = line.split_once(':')?;
    Some(name.trim().to_owned())
}
