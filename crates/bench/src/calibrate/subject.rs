//! The broker to calibrate: started anew for each run, or one that is already running.
//!
//! A fresh broker has no leftovers of the run before. A running one gets a topic and a channel for
//! the run alone, `#ephemeral`, so nothing stays behind in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::options::CalibrateOptions;
use crate::error::BenchError;
use crate::generator::{self, Outcome, RunOptions, Target};
use crate::peers::{Peer, PeerOptions};
use crate::protocol::Protocol;
use crate::protocol::nsq::{Acknowledgement, Nsq};
use crate::workload::Workload;
use ::model::{Purpose, Run};

/// How long messages under way may take after the last send; later ones count as lost.
const DRAIN: Duration = Duration::from_millis(500);

/// The broker, and how many runs it has had.
#[derive(Debug)]
pub struct Subject {
    broker: Broker,
    runs: u64,
}

#[derive(Debug)]
enum Broker {
    Started(PeerOptions),
    Running(Target),
}

impl Subject {
    /// The broker that `options` name; `program` is started when they name none. Its log lies in a folder of
    /// its own in `work_dir`, which goes with this value.
    pub fn new(options: &CalibrateOptions, program: &Path, work_dir: &Path) -> Self {
        let broker = match options.tcp {
            Some(address) => Broker::Running(Target {
                address,
                protocol: topic_of_run(0),
                trust: None,
                pid: options.pid,
                core: options.broker_core,
            }),
            None => Broker::Started(PeerOptions {
                bin_dir: PathBuf::new(),
                srtm: options.srtm.clone().unwrap_or_else(|| program.to_owned()),
                srtm_args: options.srtm_args.clone(),
                mosquitto: PathBuf::new(),
                work_dir: work_dir.join(format!("srtm-calibrate-{}", std::process::id())),
                broker_core: options.broker_core,
                broker_threads: 1,
                generator_core: options.generator_core,
            }),
        };
        Self { broker, runs: 0 }
    }

    /// Loads the broker once. Every run has a seed of its own, so that repetitions are not the same schedule.
    ///
    /// # Errors
    /// When the broker does not start, dies, or refuses.
    pub fn run(
        &mut self,
        workload: &Workload,
        purpose: Purpose,
    ) -> Result<(Run, Outcome), BenchError> {
        self.runs += 1;
        let workload = Workload {
            seed: self.runs,
            ..workload.clone()
        };
        let options = RunOptions {
            drain: DRAIN,
            keep_samples: false,
        };
        let outcome = match &self.broker {
            Broker::Started(programs) => {
                let running = Peer::Srtm.start(programs, &[])?;
                generator::run(&workload, &running.target, options)?
            }
            Broker::Running(target) => {
                let target = Target {
                    protocol: topic_of_run(self.runs),
                    ..target.clone()
                };
                generator::run(&workload, &target, options)?
            }
        };
        Ok((record(&workload, purpose, &outcome), outcome))
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        if let Broker::Started(programs) = &self.broker {
            // Only an empty folder and a log are lost if it stays.
            let _left_behind = fs::remove_dir_all(&programs.work_dir);
        }
    }
}

fn topic_of_run(run: u64) -> Protocol {
    Protocol::Nsq(Nsq {
        topic: format!("calibrate-{}-{run}#ephemeral", std::process::id()),
        channel: "calibrate#ephemeral".to_owned(),
        acknowledgement: Acknowledgement::Each,
        unbuffered: false,
    })
}

fn record(workload: &Workload, purpose: Purpose, outcome: &Outcome) -> Run {
    Run {
        purpose,
        publishers: workload.publishers,
        batch_messages: workload.batch_messages,
        group_publishers: workload.group_publishers,
        offered_per_second: outcome.offered_per_second,
        achieved_per_second: outcome.achieved_per_second,
        broker_ns_per_message: outcome.broker_us_per_message.unwrap_or(0.0) * 1000.0,
        p50_us: outcome.latency.p50_us,
        p99_us: outcome.latency.p99_us,
        generator_late_p99_us: outcome.lateness.p99_us,
        core_used_by_others: if outcome.broker_cpu.is_some() {
            outcome.core_used_by_others()
        } else {
            0.0
        },
        lost: outcome.counts.missing + outcome.counts.refused,
    }
}
