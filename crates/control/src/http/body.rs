//! Bodies as JSON, within bounds.
//!
//! A body is never held beyond its route's maximum, and all bodies share one room; the port waits for a body only
//! so long. What is wrong is said with its place in the document.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use http::{Held, Room};
use serde::de::DeserializeOwned;

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
    pub(super) fn read<T: DeserializeOwned>(&self, form: &str) -> Result<T, Failure> {
        let bytes = &self.held.bytes;
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            let text = format!("the body is no JSON object; expected {form}");
            return Err(Failure::invalid(text));
        }
        let mut json = serde_json::Deserializer::from_slice(bytes);
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
        let held = service.room.read(&head.headers, body, MAX).await;
        let held = held.map_err(|error| Failure::unread(error, MAX))?;
        Ok(Body { held })
    }
}

/// The room that bodies share.
pub(super) fn room() -> Room {
    Room::new(ROOM_BYTES, CHARGE_MIN_BYTES)
}
