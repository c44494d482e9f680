//! Reads request bodies within bounds.
//!
//! A body is never buffered beyond the command's own maximum, and all bodies that are being read or
//! wait to be published share one room: a topic that holds its publishers back must neither fill
//! the memory nor block the port for those who want to read `/metrics`. Bodies count as input in
//! the memory budget as well. At either bound a request is answered 503 `BUSY`.

use axum::body::{Body, Bytes, HttpBody};
use axum::http::HeaderMap;
use http::{BodyError, Held, Room};
use topics::{Charge, MemoryBudget, Part};

use http::nsq::Failure;

/// Room that all bodies share, in bytes, unless four bodies of the greatest size need more.
const ROOM_BYTES: usize = 64 * 1024 * 1024;
/// What even the smallest body is charged: bounds the number of publishes that wait at once.
const CHARGE_MIN_BYTES: usize = 128 * 1024;

/// The room that request bodies share.
#[derive(Debug)]
pub(super) struct BodyRoom {
    room: Room,
    memory: MemoryBudget,
}

/// A body, with its share of the room and of the memory for as long as this lives.
#[derive(Debug)]
pub(super) struct HeldBody {
    /// The whole body.
    pub(super) bytes: Bytes,
    _held: Held,
    _charge: Charge,
}

impl BodyRoom {
    /// Room for at least four bodies of `max_body_size` bytes, as far as `memory` has it.
    pub(super) fn new(max_body_size: u32, memory: MemoryBudget) -> BodyRoom {
        let bytes = ROOM_BYTES.max(4 * max_body_size as usize);
        BodyRoom {
            room: Room::new(bytes, CHARGE_MIN_BYTES),
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
        let held = self.hold(headers, body, max_bytes).await;
        held.map_err(|error| Failure::unread(&error, too_big))
    }

    /// Reads `body` up to `max_bytes`.
    ///
    /// # Errors
    /// See [`BodyError`]; memory that is short is room that is short.
    pub(super) async fn hold(
        &self,
        headers: &HeaderMap,
        body: Body,
        max_bytes: usize,
    ) -> Result<HeldBody, BodyError> {
        let most = body.size_hint().upper().unwrap_or(u64::MAX);
        let charge = most.min(max_bytes as u64).max(CHARGE_MIN_BYTES as u64);
        let charge = self.memory.charge(Part::Input, charge);
        let charge = charge.ok_or(BodyError::Busy)?;
        let held = self.room.read(headers, body, max_bytes).await?;
        Ok(HeldBody {
            bytes: held.bytes.clone(),
            _held: held,
            _charge: charge,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
