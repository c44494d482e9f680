//! `POST /v1/topics/{topic}/arrivals?window=10s`: records who publishes when, for as long as the
//! request lasts.
//!
//! A recording ([`Handle::begin_recording`]) has the bounds of a profiling window's trace: at the
//! bound it is cut, and the answer says so and ends there. A topic has one recording at a time, and
//! a few topics can be recorded at once. A caller that disconnects ends its recording. Windows of a
//! controller's fits are not affected.
//!
//! A recording covers this broker alone; whoever asks several brokers joins their recordings.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use clock::DurationText;
use http::nsq::json as answer_json;
use http::{Query, Refusal};
use serde::Serialize;
use wire::TopicName;

use super::contract::name;
use super::{Service, Shared};
use crate::window::TraceResult;
use crate::{BrokerError, Handle, sys};

/// Topics that are recorded at the same time.
const RECORDINGS_MAX: usize = 4;

/// Shortest recording.
const WINDOW_MIN: Duration = Duration::from_millis(10);

/// Longest recording; what is open for ten minutes is thrown away.
const WINDOW_MAX: Duration = Duration::from_secs(540);

/// Topics that are being recorded.
#[derive(Debug, Default)]
pub(super) struct Recordings(Mutex<HashSet<String>>);

/// Records the arrivals of a topic.
pub(super) async fn record(
    State(service): Shared,
    Path(topic): Path<String>,
    uri: Uri,
) -> Result<Response, Refusal> {
    let topic = name(&topic)?;
    let window = window(&uri)?;
    let recording = Recording::begin(&service, topic.clone()).await?;
    let begin_ns = sys::wall_now().as_nanos();
    tokio::time::sleep(window).await;
    let end_ns = sys::wall_now().as_nanos();
    let result = recording.end().await?;
    Ok(answer_json(&Recorded::of(&topic, result, begin_ns, end_ns)))
}

/// Answer to a recording. Times in nanoseconds since 1970.
#[derive(Debug, PartialEq, Serialize)]
struct Recorded {
    topic: String,
    begin_ns: u64,
    /// The last arrival where the trace is cut.
    end_ns: u64,
    /// Names, by position.
    publishers: Vec<String>,
    /// Publish commands in order of arrival: time, publisher by position, messages.
    arrivals: Vec<(u64, u32, u32)>,
    /// Whether the trace's bound was reached before the window was over.
    is_cut: bool,
}

impl Recorded {
    /// What of a trace arrived within the recording.
    fn of(topic: &TopicName, trace: TraceResult, begin_ns: u64, end_ns: u64) -> Recorded {
        let mut arrivals = trace.arrivals;
        // Arrivals are the kernel's stamps: some may be from before the recording began, and were read in it.
        arrivals.retain(|&(at_ns, ..)| (begin_ns..=end_ns).contains(&at_ns));
        let last_ns = arrivals.last().map(|&(at_ns, ..)| at_ns);
        Recorded {
            topic: topic.to_string(),
            begin_ns,
            end_ns: last_ns.filter(|_| trace.is_cut).unwrap_or(end_ns),
            publishers: trace.publishers,
            arrivals,
            is_cut: trace.is_cut,
        }
    }
}

/// An open recording. It ends even if dropped without [`Recording::end`].
struct Recording {
    handle: Handle,
    topic: TopicName,
    taken: Option<Taken>,
}

impl Recording {
    async fn begin(service: &Arc<Service>, topic: TopicName) -> Result<Recording, Refusal> {
        let taken = Taken::new(service, &topic)?;
        let handle = service.handle.clone();
        handle.begin_recording(topic.clone()).await?;
        Ok(Recording {
            handle,
            topic,
            taken: Some(taken),
        })
    }

    async fn end(mut self) -> Result<TraceResult, Refusal> {
        let ended = self.handle.end_recording(self.topic.clone()).await;
        // Only now: a recording that began earlier would be ended instead of this one.
        self.taken = None;
        ended.map_err(|error| match error {
            // Not 404, which says that nothing was there to record.
            BrokerError::TopicNotFound(topic) => {
                let why = format!("{topic} was deleted while it was being recorded");
                Refusal::new(StatusCode::GONE, why)
            }
            error => error.into(),
        })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.take() {
            let (handle, topic) = (self.handle.clone(), self.topic.clone());
            tokio::spawn(async move {
                // Without the topic there is nothing to end.
                let _ = handle.end_recording(topic).await;
                drop(taken);
            });
        }
    }
}

/// A topic's place among [`Recordings`], free again when it is dropped.
struct Taken {
    service: Arc<Service>,
    topic: String,
}

impl Taken {
    fn new(service: &Arc<Service>, topic: &TopicName) -> Result<Taken, Refusal> {
        let mut topics = service.recordings.lock();
        if topics.contains(topic.as_str()) {
            let why = format!("{topic} is being recorded already; wait for that recording's end");
            return Err(Refusal::new(StatusCode::CONFLICT, why));
        }
        if topics.len() >= RECORDINGS_MAX {
            let why =
                format!("{RECORDINGS_MAX} topics are being recorded already; try again later");
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
        }
        topics.insert(topic.to_string());
        Ok(Taken {
            service: service.clone(),
            topic: topic.to_string(),
        })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.service.recordings.lock().remove(&self.topic);
    }
}

impl Recordings {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn window(uri: &Uri) -> Result<Duration, Refusal> {
    let refuse = |why: String| Refusal::invalid(format!("window: {why}"));
    let query = Query::of(uri)?;
    let text = query.get("window").unwrap_or("10s");
    let window: DurationText = text.parse().map_err(refuse)?;
    if (WINDOW_MIN..=WINDOW_MAX).contains(&window.0) {
        return Ok(window.0);
    }
    let (least, most) = (DurationText(WINDOW_MIN), DurationText(WINDOW_MAX));
    Err(refuse(format!("{text} is out of range: {least} to {most}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_bounds() {
        let window = |query: &str| {
            let uri = format!("/v1/topics/t/arrivals{query}");
            window(&uri.parse().expect("a URI")).map_err(|refusal| refusal.text().to_owned())
        };
        assert_eq!(window("").ok(), Some(Duration::from_secs(10)));
        assert_eq!(window("?window=1m30s").ok(), Some(Duration::from_secs(90)));
        for (query, text) in [
            ("?window=5", "not a duration"),
            ("?window=1ms", "window: 1ms is out of range: 10ms to 9m"),
            ("?window=10m", "out of range"),
            ("?window=%zz", "broken % escape"),
        ] {
            let reason = window(query).expect_err(query);
            assert!(reason.contains(text), "{reason}");
        }
    }

    #[test]
    fn a_recording_is_what_arrived_in_it() {
        let trace = |is_cut| TraceResult {
            publishers: vec![String::from("s1")],
            arrivals: vec![(9, 0, 1), (10, 0, 2), (15, 0, 3), (20, 0, 4), (21, 0, 5)],
            is_cut,
        };
        let topic = "t".parse().expect("valid");
        let whole = Recorded::of(&topic, trace(false), 10, 20);
        assert_eq!(whole.arrivals, [(10, 0, 2), (15, 0, 3), (20, 0, 4)]);
        assert_eq!(
            (whole.begin_ns, whole.end_ns, whole.is_cut),
            (10, 20, false)
        );
        let cut = Recorded::of(&topic, trace(true), 10, 18);
        assert_eq!((cut.end_ns, cut.is_cut), (15, true));
    }
}
