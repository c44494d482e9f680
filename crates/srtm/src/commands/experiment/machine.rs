//! What results do not say because another machine or another day would say it differently.

use std::fs;

use serde::Serialize;

/// Where and when an experiment ran.
#[derive(Serialize)]
pub(super) struct Meta<'a> {
    pub(super) experiment: &'a str,
    pub(super) version: &'static str,
    pub(super) begun_unix_seconds: u64,
    pub(super) wall_seconds: f64,
    pub(super) jobs: usize,
    pub(super) cores: usize,
    pub(super) processor: Option<String>,
    pub(super) runs: usize,
    /// Runs whose time is not in `wall_seconds`.
    pub(super) runs_left_by_an_interrupted_run: usize,
    pub(super) messages_measured: u64,
}

impl Meta<'_> {
    pub(super) fn to_json(&self) -> String {
        // Only maps with keys that are no strings fail, and there are none.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// The processor's name, where the system tells it.
pub(super) fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    let (_, name) = line.split_once(':')?;
    Some(name.trim().to_owned())
}
