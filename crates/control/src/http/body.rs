//! Bodies as JSON, within bounds.
//!
//! A body is never held beyond its route's maximum, and all bodies that are being read share one room; the port waits for
//! a body only so long. What is wrong is said with its place in the document.

use std::sync::Arc;
use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::{FromRequest, Request};
use axum::http::header;
use bytes::BytesMut;
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::Service;
use super::answer::Failure;

/// Longest body but that of a list of publishers, in bytes.
pub(super) const BODY_MAX_BYTES: usize = 1 << 20;
/// Longest list of publishers, in bytes: 100,000 of them, with groups, take about 7 MB.
pub(super) const PUBLISHERS_MAX_BYTES: usize = 16 << 20;
/// Room that all bodies share, in bytes.
const ROOM_BYTES: usize = 4 * PUBLISHERS_MAX_BYTES;
/// What even the smallest body is charged.
const CHARGE_MIN_BYTES: usize = 64 * 1024;
/// How much of a body that is too long is still read, so that a client that writes before it reads sees the answer instead
/// of a reset.
const DISCARD_MAX_BYTES: usize = 64 << 20;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);

/// The room that bodies share.
#[derive(Clone, Debug)]
pub(super) struct BodyRoom(Arc<Semaphore>);

/// A body of at most `MAX` bytes, and its share of the room.
#[derive(Debug)]
pub(super) struct Body<const MAX: usize> {
    bytes: BytesMut,
    _share: OwnedSemaphorePermit,
}

impl<const MAX: usize> Body<MAX> {
    /// The value that the body is; `form` shows what is expected.
    ///
    /// # Errors
    /// 400 with the place of what is wrong.
    pub(super) fn read<T: DeserializeOwned>(&self, form: &str) -> Result<T, Failure> {
        if self.bytes.trim_ascii_start().first() != Some(&b'{') {
            let text = format!("the body is no JSON object; expected {form}");
            return Err(Failure::invalid(text));
        }
        let mut json = serde_json::Deserializer::from_slice(&self.bytes);
        let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let place = match error.path().to_string() {
                path if path == "." => String::from("the body"),
                path => path,
            };
            Failure::invalid(format!("{place}: {}; expected {form}", error.inner()))
        })?;
        let end = json.end();
        end.map_err(|error| {
            Failure::invalid(format!("behind the value: {error}; expected {form}"))
        })?;
        Ok(value)
    }
}

impl<const MAX: usize> FromRequest<Arc<Service>> for Body<MAX> {
    type Rejection = Failure;

    async fn from_request(request: Request, service: &Arc<Service>) -> Result<Self, Failure> {
        let (head, body) = request.into_parts();
        let declared = body.size_hint();
        if declared.lower() > MAX as u64 {
            // A client that waits for "100 Continue" has sent nothing that could be discarded.
            if !head.headers.contains_key(header::EXPECT) {
                discard(body).await;
            }
            return Err(Failure::too_long(MAX));
        }
        let most = declared
            .upper()
            .map_or(MAX, |upper| MAX.min(upper as usize));
        let share = service.room.share(most)?;
        let bytes = collect(body, MAX).await?;
        Ok(Body {
            bytes,
            _share: share,
        })
    }
}

impl BodyRoom {
    pub(super) fn new() -> BodyRoom {
        BodyRoom(Arc::new(Semaphore::new(ROOM_BYTES)))
    }

    fn share(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Failure> {
        let charge = u32::try_from(bytes.max(CHARGE_MIN_BYTES)).unwrap_or(u32::MAX);
        let share = Arc::clone(&self.0).try_acquire_many_owned(charge);
        share.map_err(|_| Failure::busy())
    }
}

async fn collect(body: axum::body::Body, max_bytes: usize) -> Result<BytesMut, Failure> {
    let mut stream = body.into_data_stream();
    let mut bytes = BytesMut::new();
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|error| Failure::broken(&error))?;
        if bytes.len() + piece.len() > max_bytes {
            return Err(Failure::too_long(max_bytes));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

async fn discard(body: axum::body::Body) {
    let mut stream = body.into_data_stream();
    let read = async {
        let mut read_bytes = 0;
        while let Some(Ok(piece)) = stream.next().await {
            read_bytes += piece.len();
            if read_bytes > DISCARD_MAX_BYTES {
                return;
            }
        }
    };
    // Either way the answer is the same.
    let _ = timeout(DISCARD_TIMEOUT, read).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_room_refuses_and_frees_with_the_body() {
        let room = BodyRoom::new();
        let held: Vec<_> = (0..4)
            .map(|_| room.share(PUBLISHERS_MAX_BYTES).expect("room for four"))
            .collect();
        assert!(room.share(1).is_err());
        drop(held);
        assert!(room.share(1).is_ok());
    }

    #[tokio::test]
    async fn no_body_is_held_beyond_its_maximum() {
        for (length, fits) in [(0, true), (10, true), (11, false), (5000, false)] {
            let body = axum::body::Body::from(vec![b'x'; length]);
            assert_eq!(collect(body, 10).await.is_ok(), fits, "{length}");
        }
    }
}
