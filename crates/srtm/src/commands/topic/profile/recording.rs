//! A recording made by a broker: `POST /v1/topics/{topic}/arrivals`.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use clock::WallTime;
use indicatif::ProgressBar;
use limit::Limit;
use serde::Deserialize;
use ureq::Agent;
use workload::trace::{Trace, TraceHeader, TracePublisher};
use workload::{Arrival, PublisherProfile};

use super::ProfileFlags;
use crate::api::{Api, escaped};
use crate::duration::GoDuration;
use crate::error::Failure;

/// The answer of a broker. Times in nanoseconds since 1970.
#[derive(Debug, Deserialize)]
pub(super) struct Recorded {
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    pub(super) publishers: Vec<String>,
    pub(super) arrivals: Vec<(u64, u32, u32)>,
    pub(super) is_cut: bool,
}

/// Longest answer: a whole trace, with room.
const ANSWER_MAX_BYTES: u64 = 256 << 20;

/// Time for the answer behind the window.
const GRACE: Duration = Duration::from_secs(30);

/// Steps of the bar.
const STEP: Duration = Duration::from_millis(250);

/// Records, and asks for the limit in force.
pub(super) fn record(flags: &ProfileFlags) -> Result<(Trace, Option<Limit>), Failure> {
    let Some(broker) = &flags.whom.broker else {
        let why = "recordings over a controller are not there yet: name a broker that has none with --broker, \
                   or a trace file with --trace";
        return Err(Failure::Usage(String::from(why)));
    };
    let path = format!("/v1/topics/{}", escaped(&flags.name));
    let contract = Api::new(broker).get(&path)?;
    let limit = Limit::deserialize(&contract["limit"]).ok();
    eprintln!("recording {} for {}", flags.name, flags.window);
    let recorded = ask(broker, &format!("{path}/arrivals"), flags.window.0)?;
    if recorded.is_cut {
        let seconds = recorded.end_ns.saturating_sub(recorded.begin_ns) as f64 / 1e9;
        eprintln!(
            "the broker's trace was full after {seconds:.1} s: what follows is of these, not of {}",
            flags.window
        );
    }
    let source = format!(
        "srtm topic profile {} --window {}",
        flags.name, flags.window
    );
    Ok((trace(recorded, source), limit))
}

/// The trace of a recording, counted from its beginning.
pub(super) fn trace(recorded: Recorded, source: String) -> Trace {
    let Recorded {
        begin_ns, end_ns, ..
    } = recorded;
    let named = |name| TracePublisher {
        name: Some(name),
        profile: PublisherProfile {
            class: 0,
            // Not known: a reader measures it.
            rate: 0.0,
            batch_messages: 1,
            body_bytes: 0,
            group: None,
        },
    };
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
            publishers: recorded.publishers.into_iter().map(named).collect(),
        },
        arrivals,
    }
}

/// Asks on a thread of its own, so that a bar can move meanwhile.
fn ask(broker: &str, path: &str, window: Duration) -> Result<Recorded, Failure> {
    let base = broker.trim_end_matches('/');
    let scheme = if base.contains("://") { "" } else { "http://" };
    let url = format!("{scheme}{base}{path}?window={}", GoDuration(window));
    let (done, answer) = channel();
    let asked = url.clone();
    thread::spawn(move || done.send(post(&asked, window)));
    let steps = window.as_millis().div_ceil(STEP.as_millis());
    let bar = ProgressBar::new(u64::try_from(steps).unwrap_or(u64::MAX));
    let result = loop {
        match answer.recv_timeout(STEP) {
            Ok(result) => break result,
            Err(RecvTimeoutError::Timeout) => bar.inc(1),
            Err(RecvTimeoutError::Disconnected) => break Err(String::from("no answer")),
        }
    };
    bar.finish_and_clear();
    result.map_err(|reason| Failure::Api { url, reason })
}

fn post(url: &str, window: Duration) -> Result<Recorded, String> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(window.saturating_add(GRACE)));
    let agent: Agent = config.build().into();
    let mut answer = agent
        .post(url)
        .send_empty()
        .map_err(|error| error.to_string())?;
    let body = answer.body_mut().with_config().limit(ANSWER_MAX_BYTES);
    let body = body.read_to_vec().map_err(|error| error.to_string())?;
    if answer.status().is_success() {
        return serde_json::from_slice(&body)
            .map_err(|error| format!("the answer is no recording: {error}"));
    }
    let json: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    // SRTM's answers say `error`, nsqd's `message`.
    let reason = json["error"].as_str().or(json["message"].as_str());
    let status = answer.status().as_u16();
    Err(format!("{status} {}", reason.unwrap_or("without a reason")))
}
