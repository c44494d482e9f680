//! Reading request bodies within bounds.
//!
//! A body is never buffered beyond the command's own maximum, and all bodies that are being read or
//! wait to be published share one room of [`BodyRoom`] bytes: a topic that holds its publishers back
//! must not fill the memory, nor take the port from those who want to look at `/metrics`. They count as input in the memory
//! budget as well. At either bound a request is answered 503 `BUSY` at once.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::answer::Failure;
use crate::memory::{Charge, MemoryBudget, Part};

/// Room that all bodies share, in bytes, unless four bodies of the greatest size need more.
const ROOM_BYTES: usize = 64 * 1024 * 1024;
/// What even the smallest body is charged: bounds the number of publishes that wait at once.
const CHARGE_MIN_BYTES: usize = 128 * 1024;
/// How much of a body that is refused by its size is still read, so that a client that writes before
/// it reads can see the answer instead of a reset.
const DISCARD_MAX_BYTES: usize = 64 * 1024 * 1024;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);

/// The room that request bodies share.
#[derive(Debug)]
pub(super) struct BodyRoom {
    bytes: Arc<Semaphore>,
    memory: MemoryBudget,
}

/// A body, and its share of the room for as long as this lives.
#[derive(Debug)]
pub(super) struct HeldBody {
    /// The whole body.
    pub(super) bytes: Bytes,
    _share: Share,
}

/// A part of the room, given back when it is dropped.
#[derive(Debug)]
struct Share {
    _permit: OwnedSemaphorePermit,
    _charge: Charge,
}

impl BodyRoom {
    /// Room for at least four bodies of `max_body_size` bytes, as far as `memory` has it.
    pub(super) fn new(max_body_size: u32, memory: MemoryBudget) -> BodyRoom {
        let bytes = ROOM_BYTES.max(4 * max_body_size as usize);
        BodyRoom {
            bytes: Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))),
            memory,
        }
    }

    /// Reads `body` up to `max_bytes`.
    ///
    /// # Errors
    /// 413 `too_big`, 503 `BUSY` without room, 408 for a body that the port waits no longer for, 500 for a broken one.
    pub(super) async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
        max_bytes: usize,
        too_big: &'static str,
    ) -> Result<HeldBody, Failure> {
        let declared = body.size_hint();
        if declared.lower() > max_bytes as u64 {
            // A client that waits for "100 Continue" has sent nothing that we could discard.
            if !headers.contains_key(header::EXPECT) {
                discard(body).await;
            }
            return Err(Failure::new(413, too_big));
        }
        let upper_bytes = declared
            .upper()
            .map_or(max_bytes, |upper| max_bytes.min(upper as usize));
        let share = self.share(upper_bytes)?;
        match Limited::new(body, max_bytes).collect().await {
            Ok(collected) => Ok(HeldBody {
                bytes: collected.to_bytes(),
                _share: share,
            }),
            Err(error) if error.is::<LengthLimitError>() => Err(Failure::new(413, too_big)),
            Err(error) if port::is_late(&*error) => Err(Failure::new(408, "REQUEST_TIMEOUT")),
            Err(_) => Err(Failure::new(500, "INTERNAL_ERROR")),
        }
    }

    fn share(&self, bytes: usize) -> Result<Share, Failure> {
        let busy = || Failure::new(503, "BUSY");
        let charge = u32::try_from(bytes.max(CHARGE_MIN_BYTES)).unwrap_or(u32::MAX);
        let permit = self.bytes.clone().try_acquire_many_owned(charge);
        let permit = permit.map_err(|_| busy())?;
        let charge = self.memory.charge(Part::Input, u64::from(charge));
        Ok(Share {
            _permit: permit,
            _charge: charge.ok_or_else(busy)?,
        })
    }
}

async fn discard(mut body: Body) {
    let read = async {
        let mut read_bytes = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read_bytes += frame.data_ref().map_or(0, Bytes::len);
            if read_bytes > DISCARD_MAX_BYTES {
                return;
            }
        }
    };
    // Either way the answer is the same: the body is too big.
    let _ = timeout(DISCARD_TIMEOUT, read).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_room_refuses_and_frees_with_the_body() {
        let room = BodyRoom::new(1024, MemoryBudget::new(1 << 40));
        let places = ROOM_BYTES / CHARGE_MIN_BYTES;
        let mut held = Vec::new();
        for _ in 0..places {
            let body = room
                .read(&HeaderMap::new(), Body::from("x"), 1024, "BIG")
                .await;
            held.push(body.expect("there is room"));
        }
        assert_eq!(&held[0].bytes[..], b"x");
        assert!(
            room.read(&HeaderMap::new(), Body::from("x"), 1024, "BIG")
                .await
                .is_err()
        );
        held.pop();
        assert!(
            room.read(&HeaderMap::new(), Body::from("x"), 1024, "BIG")
                .await
                .is_ok()
        );
    }

    #[tokio::test]
    async fn no_body_is_taken_that_there_is_no_memory_for() {
        let memory = MemoryBudget::new(16 * 1024 * 1024);
        let all = memory.charge(Part::Input, memory.limit(Part::Input));
        let room = BodyRoom::new(1024, memory.clone());
        let read = async || {
            let body = Body::from("x");
            let read = room.read(&HeaderMap::new(), body, 1024, "BIG").await;
            read.map(|held| held.bytes)
        };
        assert!(read().await.is_err());
        assert_eq!(memory.waits(Part::Input), 1);
        drop(all);
        assert!(read().await.is_ok());
        assert_eq!(memory.used(Part::Input), 0);
    }

    #[tokio::test]
    async fn no_body_is_buffered_beyond_its_maximum() {
        let room = BodyRoom::new(1024, MemoryBudget::new(1 << 40));
        for (length, fits) in [(0, true), (9, true), (10, true), (11, false), (5000, false)] {
            let body = Body::from(vec![b'x'; length]);
            let read = room.read(&HeaderMap::new(), body, 10, "BIG").await;
            assert_eq!(read.is_ok(), fits, "{length}");
        }
    }
}
