//! HTTP beside the packets: shows what happens, and changes limits while it does.
//!
//! It has a thread of its own. Questions go to the thread that moves packets through a bounded
//! channel; that thread answers with numbers, and the text is made here.

mod metrics;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use access::{InForce, Need, Role};
use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use http::metrics::answer;
use http::{Counts, Pages, Refusal, Room, Routes, Settings, read_object, rendered};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::oneshot;

use crate::amount::Bandwidth;
use crate::config::{Config, LimitConfig};
use crate::error::LimiterError;
use crate::router::Counters;
use crate::service::{DeviceCounters, QueueCounters, Unsent};
use crate::site::Passed;

/// The most questions that wait; further ones are refused.
const QUESTIONS_MAX: usize = 64;
/// Longest body: a limit takes less than a hundred bytes.
const BODY_MAX_BYTES: usize = 64 * 1024;
/// Room that all bodies share, in bytes.
const ROOM_BYTES: usize = 64 * BODY_MAX_BYTES;
/// Field of an error's JSON object that holds its text.
const TEXT_FIELD: &str = "message";
/// An example of a change of a limit, for refusals.
const FORM: &str = r#"{"rate": "20 Mbps", "burst_bytes": 75000}"#;
/// Time that requests under way have when the port closes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The port, its thread, and the questions that come from it.
#[derive(Debug)]
pub(crate) struct HttpPort {
    questions: Receiver<Question>,
    close: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What HTTP wants of the thread that moves packets.
#[derive(Debug)]
pub(crate) enum Question {
    /// Asks for all numbers.
    Snapshot(oneshot::Sender<Snapshot>),
    /// Sets another limit for a class; the answer is the limit in force, or why it was refused.
    SetLimit {
        class: usize,
        change: LimitChange,
        answer: oneshot::Sender<Result<LimitConfig, String>>,
    },
}

/// A change of a limit: what it says replaces what was there.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitChange {
    pub(crate) rate: Bandwidth,
    pub(crate) burst_bytes: Option<f64>,
}

/// All numbers, gathered while packets go on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) limits: Vec<Option<LimitConfig>>,
    /// The numbers of each limiter, by site, then by class.
    pub(crate) standings: Vec<StandingNumbers>,
    /// The counters of each site's gossip; none without gossip by UDP.
    pub(crate) gossip: Vec<Option<gossip::Counters>>,
    pub(crate) unsent: Unsent,
    pub(crate) counters: Counters,
    pub(crate) devices: DeviceCounters,
    pub(crate) queues: QueueCounters,
    pub(crate) held: usize,
}

#[cfg(test)]
impl Snapshot {
    /// How many numbers of sites and classes there are so far.
    pub(crate) fn gathered(&self) -> usize {
        self.standings.len() + self.gossip.len() + self.limits.len()
    }
}

/// The numbers of one site and class.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct StandingNumbers {
    #[serde(flatten)]
    pub(crate) passed: Passed,
    /// The part of the limit in bytes per second; none if all packets pass.
    pub(crate) local_limit: Option<f64>,
    /// The demand by which the limit is divided: bytes per second, or flows for `fps`.
    pub(crate) demand: f64,
    /// The rate of packets that passed recently, in bytes per second.
    pub(crate) passing: f64,
    /// The number of sites that are connected.
    pub(crate) connected: u32,
}

/// What every handler sees.
#[derive(Debug)]
struct HttpState {
    questions: SyncSender<Question>,
    sites: Vec<String>,
    classes: Vec<String>,
    counts: Counts,
    room: Room,
}

impl HttpPort {
    /// Answers at the address that `config` has, if it has one.
    pub(crate) fn open(config: &Config) -> Result<Option<HttpPort>, LimiterError> {
        let Some(address) = config.http else {
            return Ok(None);
        };
        let what = || LimiterError::io(format!("listening for HTTP at {address}"));
        let listener = listen(address).map_err(what())?;
        let (asked, questions) = sync_channel(QUESTIONS_MAX);
        let state = Arc::new(HttpState {
            questions: asked,
            sites: config.site.iter().map(|site| site.name.clone()).collect(),
            classes: config
                .class
                .iter()
                .map(|class| class.name.clone())
                .collect(),
            counts: Counts::default(),
            room: room(),
        });
        let hosts = config.http_hosts.iter().cloned();
        let settings = Settings::new(hosts, TEXT_FIELD, CLOSE_TIMEOUT, state.counts.clone());
        let access = config.access.clone();
        let (close, closed) = oneshot::channel();
        let thread = std::thread::Builder::new().name("http".to_owned());
        let thread = thread
            .spawn(move || serve(listener, state, settings, access, closed))
            .map_err(what())?;
        Ok(Some(HttpPort {
            questions,
            close: Some(close),
            thread: Some(thread),
        }))
    }

    /// The next question, if one waits.
    pub(crate) fn next(&self) -> Option<Question> {
        self.questions.try_recv().ok()
    }
}

impl Drop for HttpPort {
    fn drop(&mut self) {
        drop(self.close.take());
        // Those who wait for an answer are told that there is none.
        while let Ok(question) = self.questions.try_recv() {
            drop(question);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    tracing::info!("HTTP: listening on {}", listener.local_addr()?);
    Ok(listener)
}

fn serve(
    listener: TcpListener,
    state: Arc<HttpState>,
    settings: Settings,
    access: Option<InForce>,
    closed: oneshot::Receiver<()>,
) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let served = runtime.enable_all().build().and_then(|runtime| {
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            // A sender that is dropped means the same as a message.
            let closed = async { drop(closed.await) };
            let router = routes(access).into_router().with_state(state);
            http::serve(listener, router, settings, closed).await;
            Ok(())
        })
    });
    if let Err(error) = served {
        tracing::error!("HTTP: {error}; packets go on");
    }
}

/// All routes, with what each takes.
fn routes(access: Option<InForce>) -> Routes<Arc<HttpState>> {
    let pages = Pages::default();
    let (look, change) = (Need::Everything(Role::Read), Need::Everything(Role::Admin));
    Routes::new(access, TEXT_FIELD)
        .get("/ping", Need::Nothing, async || "OK")
        .get_shared(&pages, "/metrics", Need::Metrics, metrics)
        .get_shared(&pages, "/v1/sites", look, sites)
        .get_shared(&pages, "/v1/limits", look, limits)
        .put("/v1/limits/{class}", change, set_limit)
}

/// The refusal of a request, with its text.
fn refusal(status: StatusCode, text: impl Into<String>) -> Refusal {
    Refusal::new(status, text).with_text_in(TEXT_FIELD)
}

fn room() -> Room {
    Room::new(ROOM_BYTES, BODY_MAX_BYTES)
}

impl HttpState {
    async fn ask<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<T>) -> Question,
    ) -> Result<T, Refusal> {
        let (answer, answered) = oneshot::channel();
        let gone = || {
            refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                "the limiter is stopping".to_owned(),
            )
        };
        match self.questions.try_send(question(answer)) {
            Ok(()) => answered.await.map_err(|_| gone()),
            Err(TrySendError::Full(_)) => Err(refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("{QUESTIONS_MAX} requests are waiting already: try again"),
            )),
            Err(TrySendError::Disconnected(_)) => Err(gone()),
        }
    }
}

async fn metrics(State(state): State<Arc<HttpState>>) -> Result<Response, Refusal> {
    let snapshot = state.ask(Question::Snapshot).await?;
    let page = move || {
        let page = metrics::Page {
            sites: state.sites.clone(),
            classes: state.classes.clone(),
            snapshot,
        };
        answer(metrics::render(page, state.counts.clone()))
    };
    Ok(rendered(page).await)
}

async fn sites(State(state): State<Arc<HttpState>>) -> Result<Response, Refusal> {
    let snapshot = state.ask(Question::Snapshot).await?;
    Ok(rendered(move || list_sites(&state, &snapshot)).await)
}

fn list_sites(state: &HttpState, snapshot: &Snapshot) -> Response {
    let classes = state.classes.len();
    let site = |(number, name): (usize, &String)| {
        let standings = &snapshot.standings[number * classes..][..classes];
        let named = state.classes.iter().zip(standings);
        let named: Vec<_> = named
            .map(|(class, standing)| json!({ "class": class, "standing": standing }))
            .collect();
        json!({ "site": name, "classes": named })
    };
    let sites: Vec<_> = state.sites.iter().enumerate().map(site).collect();
    Json(json!({ "sites": sites })).into_response()
}

async fn limits(State(state): State<Arc<HttpState>>) -> Result<Response, Refusal> {
    let snapshot = state.ask(Question::Snapshot).await?;
    let limits = state.classes.iter().zip(&snapshot.limits);
    let limits: Vec<_> = limits
        .map(|(class, limit)| json!({ "class": class, "limit": limit }))
        .collect();
    Ok(Json(json!({ "limits": limits })).into_response())
}

async fn set_limit(
    State(state): State<Arc<HttpState>>,
    Path(class): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let body = state.room.read(&head.headers, body, BODY_MAX_BYTES).await;
    let body =
        body.map_err(|error| Refusal::unread(&error, BODY_MAX_BYTES).with_text_in(TEXT_FIELD))?;
    let number = state.classes.iter().position(|known| *known == class);
    let number = number.ok_or_else(|| {
        let known = state.classes.join(", ");
        refusal(
            StatusCode::NOT_FOUND,
            format!("there is no class {class:?}: choose from {known}"),
        )
    })?;
    let change: LimitChange =
        read_object(&body.bytes, FORM).map_err(|text| refusal(StatusCode::BAD_REQUEST, text))?;
    let limit = state
        .ask(|answer| Question::SetLimit {
            class: number,
            change,
            answer,
        })
        .await?;
    let limit = limit.map_err(|reason| refusal(StatusCode::BAD_REQUEST, reason))?;
    Ok(Json(json!({ "class": class, "limit": limit })).into_response())
}

#[cfg(test)]
mod strangers;
