//! JSON bodies, within bounds.
//!
//! A body is never held beyond its route's maximum, and all bodies share one room; the port waits
//! for a body only for a limited time. An error names its place in the document.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use http::{Held, Refusal, Room, read_object};
use serde::de::DeserializeOwned;

use super::Service;

/// Longest body but that of a list of publishers, in bytes.
pub(super) const BODY_MAX_BYTES: usize = 1 << 20;
/// Longest list of publishers, in bytes: 100,000 of them, with groups, take about 7 MB.
pub(super) const PUBLISHERS_MAX_BYTES: usize = 16 << 20;
/// Room that all bodies share, in bytes.
const ROOM_BYTES: usize = 4 * PUBLISHERS_MAX_BYTES;
/// What even the smallest body is charged.
const CHARGE_MIN_BYTES: usize = 64 * 1024;

/// A body of at most `MAX` bytes, and its share of the room.
#[derive(Debug)]
pub(super) struct Body<const MAX: usize> {
    held: Held,
}

impl<const MAX: usize> Body<MAX> {
    /// The value that the body is; `form` shows what is expected.
    ///
    /// # Errors
    /// 400 with the place of what is wrong.
    pub(super) fn read<T: DeserializeOwned>(&self, form: &str) -> Result<T, Refusal> {
        read_object(&self.held.bytes, form).map_err(Refusal::invalid)
    }
}

impl<const MAX: usize> FromRequest<Arc<Service>> for Body<MAX> {
    type Rejection = Refusal;

    async fn from_request(request: Request, service: &Arc<Service>) -> Result<Self, Refusal> {
        let (head, body) = request.into_parts();
        let held = service.room.read(&head.headers, body, MAX).await;
        let held = held.map_err(|error| Refusal::unread(&error, MAX))?;
        Ok(Body { held })
    }
}

/// The room that bodies share.
pub(super) fn room() -> Room {
    Room::new(ROOM_BYTES, CHARGE_MIN_BYTES)
}
