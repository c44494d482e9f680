//! Carries queues away for as long as there is somebody to take them.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, StatusCode, header};
use http::exchange;
use rustc_hash::FxHasher;
use topics::{Handed, QueueName};
use wire::handover::{HandedMessage, Handover, put_handover};

use crate::agent::{dial, persist};
use crate::{BrokerError, Handle, sys};

/// What flows is given so long to flow before it is handed over.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at what waits.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// A taker has so long to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a batch is said to a taker that may have it already, before another gets it.
const TRIES: u32 = 3;
/// Longest answer that is read, in bytes.
const ANSWER_MAX_BYTES: usize = 4096;

/// What became of a batch at one taker.
enum Outcome {
    Taken,
    /// It certainly does not have it.
    Refused(String),
    /// It may have it.
    Unclear(String),
}

/// This process's batches: a number that no other has, and how many there were.
struct Stream {
    id: u64,
    last: u64,
    /// The problem that was logged last; the same one is logged once.
    problem: String,
}

/// Hands over whenever there are takers; ends with the broker.
pub(crate) async fn run(handle: Handle, broker: &str) {
    let mut takers = handle.handing.takers();
    let mut stream = Stream::new(broker);
    loop {
        // The sender of the list lives as long as the handle.
        let _ = takers.wait_for(|takers| !takers.is_empty()).await;
        let list = takers.borrow_and_update().clone();
        match hand_over_all(&handle, &mut stream, &list).await {
            Ok(0) => {}
            Ok(messages) => {
                stream.problem.clear();
                tracing::info!("{messages} messages that waited here are with other brokers now");
            }
            Err(Stopped::Exiting) => return,
            Err(Stopped::Nobody(problem)) if problem == stream.problem => {}
            Err(Stopped::Nobody(problem)) => {
                tracing::warn!("messages stay here for now, since no broker takes them: {problem}");
                stream.problem = problem;
            }
        }
        let _ = tokio::time::timeout(LOOK_INTERVAL, takers.changed()).await;
    }
}

enum Stopped {
    Exiting,
    Nobody(String),
}

impl From<BrokerError> for Stopped {
    fn from(_: BrokerError) -> Stopped {
        Stopped::Exiting
    }
}

/// Everything that waits now; gives how many messages went.
async fn hand_over_all(
    handle: &Handle,
    stream: &mut Stream,
    takers: &[String],
) -> Result<usize, Stopped> {
    let mut sent = 0;
    for queue in persist(|| handle.stranded(PATIENCE)).await? {
        loop {
            let lifted = persist(|| handle.lift(queue.clone(), PATIENCE)).await?;
            if lifted.is_empty() {
                break;
            }
            let carried = carry(handle, stream, &queue, &lifted, takers).await;
            persist(|| handle.settle(queue.clone(), carried.is_ok())).await?;
            carried.map_err(Stopped::Nobody)?;
            sent += lifted.len();
            handle.handing.note_sent(lifted.len());
        }
    }
    Ok(sent)
}

/// A batch to the first taker that takes it; where a queue's batches begin does not change, so that they stay together.
///
/// # Errors
/// Why the last of them did not.
async fn carry(
    handle: &Handle,
    stream: &mut Stream,
    queue: &QueueName,
    lifted: &[Handed],
    takers: &[String],
) -> Result<(), String> {
    stream.last += 1;
    let body = Bytes::from(stream.encode(lifted));
    let pass = handle.handing.pass().unwrap_or_default();
    let first = hash_of(queue) as usize % takers.len();
    let mut problem = String::new();
    for taker in takers[first..].iter().chain(&takers[..first]) {
        for _ in 0..TRIES {
            let (refused, is_clear) = match send(taker, queue, &pass, body.clone()).await {
                Outcome::Taken => return Ok(()),
                Outcome::Refused(why) => (why, true),
                Outcome::Unclear(why) => (why, false),
            };
            problem = format!("{taker}: {refused}");
            if is_clear {
                break;
            }
        }
    }
    Err(problem)
}

async fn send(taker: &str, queue: &QueueName, pass: &str, body: Bytes) -> Outcome {
    let stream = match dial(taker).await {
        Ok(stream) => stream,
        Err(why) => return Outcome::Refused(why),
    };
    let request = Request::post(path(queue))
        .header(header::HOST, taker)
        .header(header::AUTHORIZATION, format!("Bearer {pass}"))
        .body(body);
    let request = match request {
        Ok(request) => request,
        Err(error) => return Outcome::Refused(error.to_string()),
    };
    let answered = exchange(stream, request, ANSWER_MAX_BYTES);
    match tokio::time::timeout(ANSWER_TIMEOUT, answered).await {
        Ok(Ok((StatusCode::OK, _))) => Outcome::Taken,
        Ok(Ok((status, text))) => {
            let text = String::from_utf8_lossy(&text).into_owned();
            Outcome::Refused(format!("it answers {status}: {text}"))
        }
        Ok(Err(why)) => Outcome::Unclear(why),
        Err(_) => Outcome::Unclear(format!("no answer within {ANSWER_TIMEOUT:?}")),
    }
}

/// Of names only `#` means something else in a URL, and ephemeral queues stay; the dot, dash and underscore need no escape.
fn path(queue: &QueueName) -> String {
    match &queue.channel {
        Some(channel) => format!("/v1/handover?topic={}&channel={channel}", queue.topic),
        None => format!("/v1/handover?topic={}", queue.topic),
    }
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Stream {
    fn new(broker: &str) -> Stream {
        Stream {
            id: hash_of(&(broker, sys::wall_now().as_nanos())),
            last: 0,
            problem: String::new(),
        }
    }

    fn encode(&self, lifted: &[Handed]) -> Vec<u8> {
        let messages = lifted.iter().map(|handed| HandedMessage {
            published_ns: handed.published_ns,
            delay_us: u64::try_from(handed.delay.as_micros()).unwrap_or(u64::MAX),
            attempts: handed.attempts,
            has_paid: handed.has_paid,
            body: &handed.body,
        });
        let handover = Handover {
            stream: self.id,
            number: self.last,
            messages: messages.collect(),
        };
        let mut bytes = Vec::new();
        put_handover(&handover, &mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests;
