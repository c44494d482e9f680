//! A recording of arrivals, made by the given broker or by all brokers of a controller.

mod answers;
mod brokers;
mod merge;
#[cfg(test)]
mod tests;

use std::time::Duration;

use clock::WallTime;
use limit::Limit;
use serde::Deserialize;
use workload::Arrival;
use workload::trace::{Trace, TraceHeader, TracePublisher};

use super::ProfileFlags;
use crate::error::Failure;
use brokers::Recorders;

/// What one broker recorded, or several together. Times in nanoseconds since 1970.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Recorded {
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    pub(super) publishers: Vec<String>,
    pub(super) arrivals: Vec<(u64, u32, u32)>,
    pub(super) is_cut: bool,
}

/// Records, and asks for the limit in force.
pub(super) fn record(flags: &ProfileFlags) -> Result<(Trace, Option<Limit>), Failure> {
    let Recorders {
        asked,
        brokers,
        limit,
    } = Recorders::of(flags)?;
    let (name, window) = (&flags.name, flags.window);
    let count = brokers.len();
    match &flags.whom.broker {
        Some(_) => eprintln!("recording {name} for {window}"),
        None => eprintln!("recording {name} for {window} at {count} brokers of {asked}"),
    }
    let answers = answers::of_all(&brokers, name, window.0, &flags.whom.token)?;
    let parts: Vec<Recorded> = answers.into_iter().flatten().collect();
    if parts.is_empty() {
        let reason = format!("none of {count} brokers carries {name}");
        return Err(Failure::Api { url: asked, reason });
    }
    if parts.len() < count {
        eprintln!("{} of {count} brokers carry {name}", parts.len());
    }
    let recorded = merge::merge(&parts).map_err(|reason| Failure::Api { url: asked, reason })?;
    if recorded.is_cut {
        let seconds = recorded.end_ns.saturating_sub(recorded.begin_ns) as f64 / 1e9;
        eprintln!(
            "the trace of a broker was full after {seconds:.1} s; the result covers this time, not {window}"
        );
    }
    let source = format!("srtm topic profile {name} --window {window}");
    Ok((trace(recorded, source), limit))
}

/// The trace of a recording, counted from its beginning.
pub(super) fn trace(recorded: Recorded, source: String) -> Trace {
    let Recorded {
        begin_ns, end_ns, ..
    } = recorded;
    let mut arrivals = Vec::with_capacity(recorded.arrivals.len());
    for (at_ns, publisher, messages) in recorded.arrivals {
        let mut rest = messages;
        // A publish command may hold more than an arrival can say.
        while rest > 0 {
            let part = u16::try_from(rest).unwrap_or(u16::MAX);
            rest -= u32::from(part);
            arrivals.push(Arrival {
                at_ns: at_ns.saturating_sub(begin_ns),
                publisher,
                messages: part,
            });
        }
    }
    Trace {
        header: TraceHeader {
            begin: Some(WallTime::from_nanos(begin_ns)),
            length: Some(Duration::from_nanos(end_ns.saturating_sub(begin_ns))),
            source,
            publishers: recorded
                .publishers
                .into_iter()
                .map(|name| TracePublisher::unknown(Some(name)))
                .collect(),
        },
        arrivals,
    }
}
