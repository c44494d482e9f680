//! `srtm topic profile`: the limit that a topic's traffic needs, from a recording of it.
//!
//! The recording is made at all brokers of a controller or at one broker, or read from a trace
//! file; the fit is `limit::Advice`. The result compares the traffic's wait under the limit in
//! force with that under the fitted one.

mod page;
mod recording;

use std::path::{Path, PathBuf};

use clap::Args;
use limit::{Advice, FitQuestion, Limit};
use wire::TopicName;
use workload::trace::Trace;

use super::Whom;
use crate::duration::GoDuration;
use crate::error::Failure;
use crate::trace_file;

/// Flags of `srtm topic profile`.
#[derive(Args, Debug)]
pub(crate) struct ProfileFlags {
    /// The topic.
    name: TopicName,
    /// How long to record, 10ms to 9m.
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    window: GoDuration,
    /// Reads a trace file instead of recording.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["window", "write", "controller", "broker"])]
    trace: Option<PathBuf>,
    /// Keeps the recording as a trace file, in CSV if the name ends in .csv.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Rate of the limit, as a multiple of the mean rate.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.1)]
    headroom: f64,
    /// Percentile of the access delay, the time that messages wait for tokens.
    #[arg(long, value_name = "P", default_value_t = 99.0)]
    percentile: f64,
    /// Longest access delay at that percentile.
    #[arg(long, value_name = "DURATION", default_value = "0")]
    target: GoDuration,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    whom: Whom,
}

/// All that is told.
#[derive(Debug)]
struct Findings {
    topic: TopicName,
    question: FitQuestion,
    publishers: usize,
    sends: usize,
    advice: Advice,
}

/// Records or reads, fits, tells.
pub(super) fn run(flags: &ProfileFlags) -> Result<(), Failure> {
    let (trace, limit) = match &flags.trace {
        Some(path) => (trace_file::read(path)?, None),
        None => recording::record(flags)?,
    };
    let kept = match &flags.write {
        Some(path) => write(path, &trace),
        None => Ok(()),
    };
    let findings = Findings::of(flags, &trace, limit)?;
    if flags.json {
        println!("{:#}", findings.json());
    } else {
        print!("{}", findings.page());
    }
    // Not before the findings are told: a recording takes its time.
    kept
}

/// Keeps a trace.
fn write(path: &Path, trace: &Trace) -> Result<(), Failure> {
    let arrivals = trace.arrivals.iter().copied().map(Ok);
    trace_file::write(path, &trace.header, arrivals).map(drop)
}

impl Findings {
    fn of(flags: &ProfileFlags, trace: &Trace, limit: Option<Limit>) -> Result<Findings, Failure> {
        let length = trace.header.length;
        let question = FitQuestion {
            headroom: flags.headroom,
            percentile: flags.percentile,
            target: flags.target.0,
            rate: None,
            span: length.map(|length| (0, u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))),
        };
        let failed = |error| {
            let name = &flags.name;
            Failure::Usage(format!("cannot fit a limit to {name}: {error}"))
        };
        Ok(Findings {
            topic: flags.name.clone(),
            question,
            publishers: trace.header.publishers.len(),
            sends: trace.arrivals.len(),
            advice: Advice::of(arrivals(trace), &question, limit.as_ref()).map_err(failed)?,
        })
    }
}

fn arrivals(trace: &Trace) -> impl Iterator<Item = (u64, u32)> + Clone {
    let pair = |arrival: &workload::Arrival| (arrival.at_ns, u32::from(arrival.messages));
    trace.arrivals.iter().map(pair)
}

#[cfg(test)]
mod tests;
