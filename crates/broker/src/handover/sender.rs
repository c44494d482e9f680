//! Carries queues away as long as some broker takes them.

use axum::body::Bytes;
use axum::http::{Request, StatusCode, header};
use http::{Wire, encrypted, exchange, is_encrypted};
use topics::{Handed, QueueName};

use super::carrier::{
    ANSWER_TIMEOUT, Carriage, LOOK_INTERVAL, Outcome, PATIENCE, Step, Stream, hash_of,
};
use crate::agent::{dial, persist};
use crate::{BrokerError, Handle, sys};

/// Longest answer that is read, in bytes.
const ANSWER_MAX_BYTES: usize = 4096;

/// Hands over whenever there are takers; ends with the broker.
pub(crate) async fn run(handle: Handle, broker: &str) {
    let mut takers = handle.handing.takers();
    let mut stream = Stream::new(hash_of(&(broker, sys::wall_now().as_nanos())));
    // The problem that was logged last; the same one is logged once.
    let mut known = String::new();
    loop {
        // The sender of the list lives as long as the handle.
        let _ = takers.wait_for(|takers| !takers.is_empty()).await;
        let list = takers.borrow_and_update().clone();
        match hand_over_all(&handle, &mut stream, &list).await {
            Ok(0) => {}
            Ok(messages) => {
                known.clear();
                tracing::info!("{messages} messages that waited here are with other brokers now");
            }
            Err(Stopped::Exiting) => return,
            Err(Stopped::Nobody(problem)) if problem == known => {}
            Err(Stopped::Nobody(problem)) => {
                tracing::warn!(
                    "messages stay here for now, because no broker takes them: {problem}"
                );
                known = problem;
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
    for queue in persist(|| handle.queues().stranded(PATIENCE)).await? {
        loop {
            let lifted = persist(|| handle.queues().lift(queue.clone(), PATIENCE)).await?;
            if lifted.is_empty() {
                break;
            }
            let carried = carry(handle, stream, &queue, &lifted, takers).await;
            persist(|| handle.queues().settle(queue.clone(), carried.is_ok())).await?;
            carried.map_err(Stopped::Nobody)?;
            sent += lifted.len();
            handle.handing.note_sent(lifted.len());
        }
    }
    Ok(sent)
}

/// A batch to the first taker that takes it.
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
    let body = Bytes::from(stream.next_batch(lifted));
    let pass = handle.handing.pass().unwrap_or_default();
    let mut carriage = Carriage::new(queue, takers);
    while let Some(taker) = carriage.taker() {
        let outcome = send(handle, taker, queue, &pass, body.clone()).await;
        if carriage.tried(outcome) == Step::Done {
            return Ok(());
        }
    }
    Err(carriage.into_problem())
}

async fn send(handle: &Handle, taker: &str, queue: &QueueName, pass: &str, body: Bytes) -> Outcome {
    let stream = match connect(handle, taker).await {
        Ok(stream) => stream,
        Err(why) => return Outcome::Refused(why),
    };
    let request = Request::post(path(queue))
        .header(header::HOST, is_encrypted(taker).0)
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

/// A connection to a taker, encrypted where its address says so.
async fn connect(handle: &Handle, taker: &str) -> Result<Wire, String> {
    let (address, is_encrypted) = is_encrypted(taker);
    let stream = dial(address).await?;
    if !is_encrypted {
        return Ok(Box::new(stream));
    }
    let client = handle.credentials.as_ref().and_then(|own| own.client());
    let client = client.ok_or_else(|| {
        String::from("it takes queues by HTTPS only, and this broker knows no authority; give --tls-root-ca-file")
    })?;
    let shaken = tokio::time::timeout(ANSWER_TIMEOUT, encrypted(stream, client, address));
    let shaken = shaken.await;
    shaken.map_err(|_| format!("no handshake within {ANSWER_TIMEOUT:?}"))?
}

/// Of names only `#` means something else in a URL, and ephemeral queues stay; the dot, dash and underscore need no escape.
fn path(queue: &QueueName) -> String {
    match &queue.channel {
        Some(channel) => format!("/v1/handover?topic={}&channel={channel}", queue.topic),
        None => format!("/v1/handover?topic={}", queue.topic),
    }
}

#[cfg(test)]
mod tests;
