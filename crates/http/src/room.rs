//! Room for bodies: a bound on the memory of all requests of a port together.
//!
//! Each body is charged for as much as it may become. When the room is short, the bodies that have
//! been under way longest give way; complete ones that wait to be acted on keep their place.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::BytesMut;
use hyper::body::Body as HttpBody;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::body::is_late;

/// How much of a body that is too long is still read, so that a client that writes before it reads sees the answer instead
/// of a reset.
const DISCARD_MAX_BYTES: usize = 64 << 20;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);
/// Time within which those that give way have gone.
const WAY_TIMEOUT: Duration = Duration::from_secs(1);
/// How often they are looked for within it.
const WAY_LOOKS: u32 = 50;

/// The room of one port.
#[derive(Debug)]
pub struct Room {
    bytes: Arc<Semaphore>,
    all_bytes: u64,
    /// Charged for bodies that are there whole.
    whole_bytes: Arc<AtomicU64>,
    charge_min_bytes: usize,
    arriving: Mutex<BTreeMap<u64, Arriving>>,
    next: AtomicU64,
}

/// A whole body, and its share of the room for as long as this lives.
#[derive(Debug)]
pub struct Held {
    /// The body.
    pub bytes: Bytes,
    share: OwnedSemaphorePermit,
    whole_bytes: Arc<AtomicU64>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let charge = self.share.num_permits() as u64;
        self.whole_bytes.fetch_sub(charge, Ordering::Relaxed);
    }
}

/// Why there is no body.
#[derive(Debug)]
pub enum BodyError {
    /// It is longer than it may be.
    TooLong,
    /// The room is full, or the body gave way to another one.
    Busy,
    /// It took too long.
    Late(axum::Error),
    /// It broke off.
    Broken(axum::Error),
}

impl BodyError {
    /// The status that says so.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            BodyError::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::Busy => StatusCode::SERVICE_UNAVAILABLE,
            BodyError::Late(_) => StatusCode::REQUEST_TIMEOUT,
            BodyError::Broken(_) => StatusCode::BAD_REQUEST,
        }
    }
}

/// A body on its way.
#[derive(Debug)]
struct Arriving {
    charge: u32,
    gives_way: Arc<Notify>,
}

/// An entry among those on their way, until it is dropped.
struct Entry<'a> {
    room: &'a Room,
    number: u64,
    gives_way: Arc<Notify>,
}

impl Room {
    /// Room for this many bytes; even the smallest body is charged `charge_min_bytes`, which bounds
    /// the number of bodies.
    #[must_use]
    pub fn new(bytes: usize, charge_min_bytes: usize) -> Room {
        let bytes = bytes.min(Semaphore::MAX_PERMITS);
        Room {
            bytes: Arc::new(Semaphore::new(bytes)),
            all_bytes: bytes as u64,
            whole_bytes: Arc::default(),
            charge_min_bytes,
            arriving: Mutex::default(),
            next: AtomicU64::new(0),
        }
    }

    /// Reads `body` up to `max_bytes`.
    ///
    /// # Errors
    /// See [`BodyError`].
    pub async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
        max_bytes: usize,
    ) -> Result<Held, BodyError> {
        let declared = HttpBody::size_hint(&body);
        if declared.lower() > max_bytes as u64 {
            // A client that waits for "100 Continue" has sent nothing that could be discarded.
            if !headers.contains_key(header::EXPECT) {
                discard(body).await;
            }
            return Err(BodyError::TooLong);
        }
        let upper = declared.upper();
        let most_bytes = upper.map_or(max_bytes, |upper| max_bytes.min(upper as usize));
        let charge = most_bytes.max(self.charge_min_bytes);
        let charge = u32::try_from(charge).unwrap_or(u32::MAX);
        let share = self.share(charge).await?;
        let entry = self.enter(charge);
        let bytes = tokio::select! {
            () = entry.gives_way.notified() => return Err(BodyError::Busy),
            collected = collect(body, max_bytes) => collected?,
        };
        self.whole_bytes
            .fetch_add(u64::from(charge), Ordering::Relaxed);
        Ok(Held {
            bytes,
            share,
            whole_bytes: Arc::clone(&self.whole_bytes),
        })
    }

    async fn share(&self, charge: u32) -> Result<OwnedSemaphorePermit, BodyError> {
        if let Ok(share) = Arc::clone(&self.bytes).try_acquire_many_owned(charge) {
            return Ok(share);
        }
        self.make_way(charge)?;
        let share = Arc::clone(&self.bytes).acquire_many_owned(charge);
        let mut share = std::pin::pin!(share);
        for _ in 0..WAY_LOOKS {
            match timeout(WAY_TIMEOUT / WAY_LOOKS, &mut share).await {
                Ok(share) => return share.map_err(|_| BodyError::Busy),
                // Others were before it, and are on their way now.
                Err(_) => drop(self.make_way(charge)),
            }
        }
        Err(BodyError::Busy)
    }

    /// Makes as many bodies give way as needed, the longest under way first; none, if all
    /// incomplete ones would not be enough. Some of those may just be going, or have just got their
    /// part.
    fn make_way(&self, charge: u32) -> Result<(), BodyError> {
        let mut arriving = self.arriving();
        let wanted = u64::from(charge);
        let mut free = self.bytes.available_permits() as u64;
        let whole = self.whole_bytes.load(Ordering::Relaxed);
        if self.all_bytes.saturating_sub(whole) < wanted {
            return Err(BodyError::Busy);
        }
        while free < wanted
            && let Some((_, longest)) = arriving.pop_first()
        {
            free += u64::from(longest.charge);
            longest.gives_way.notify_one();
        }
        Ok(())
    }

    fn enter(&self, charge: u32) -> Entry<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let gives_way = Arc::new(Notify::new());
        let arriving = Arriving {
            charge,
            gives_way: Arc::clone(&gives_way),
        };
        self.arriving().insert(number, arriving);
        Entry {
            room: self,
            number,
            gives_way,
        }
    }

    fn arriving(&self) -> MutexGuard<'_, BTreeMap<u64, Arriving>> {
        // Whole after every call, so a panic elsewhere does not spoil it.
        self.arriving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.room.arriving().remove(&self.number);
    }
}

async fn collect(mut body: Body, max_bytes: usize) -> Result<Bytes, BodyError> {
    let mut bytes = BytesMut::new();
    while let Some(piece) = next(&mut body).await {
        let piece = piece.map_err(|error| match is_late(&error) {
            true => BodyError::Late(error),
            false => BodyError::Broken(error),
        })?;
        if bytes.len() + piece.len() > max_bytes {
            return Err(BodyError::TooLong);
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes.freeze())
}

async fn discard(mut body: Body) {
    let read = async {
        let mut read_bytes = 0;
        while let Some(Ok(piece)) = next(&mut body).await {
            read_bytes += piece.len();
            if read_bytes > DISCARD_MAX_BYTES {
                return;
            }
        }
    };
    // Either way the answer is the same.
    let _ = timeout(DISCARD_TIMEOUT, read).await;
}

/// The next piece; trailers are passed over.
async fn next(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    loop {
        match poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await? {
            Ok(frame) => {
                if let Ok(piece) = frame.into_data() {
                    return Some(Ok(piece));
                }
            }
            Err(error) => return Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll};

    use hyper::body::{Frame, SizeHint};

    use super::*;

    const CHARGE_BYTES: usize = 16;

    /// A body of this many bytes that never comes.
    struct Awaited(u64);

    impl HttpBody for Awaited {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
            Poll::Pending
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.0)
        }
    }

    async fn read(room: &Room, body: Body, max_bytes: usize) -> Result<Held, BodyError> {
        room.read(&HeaderMap::new(), body, max_bytes).await
    }

    #[tokio::test]
    async fn no_body_is_held_beyond_its_maximum() {
        let room = Room::new(1000, CHARGE_BYTES);
        for (length, fits) in [(0, true), (9, true), (10, true), (11, false), (5000, false)] {
            let held = read(&room, Body::from(vec![b'x'; length]), 10).await;
            assert_eq!(held.is_ok(), fits, "{length}");
            assert!(
                held.is_ok() || matches!(held, Err(BodyError::TooLong)),
                "{length}"
            );
        }
    }

    #[tokio::test]
    async fn bodies_that_are_there_keep_their_share() {
        let room = Room::new(4 * CHARGE_BYTES, CHARGE_BYTES);
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(
                read(&room, Body::from("x"), 10)
                    .await
                    .expect("room for four"),
            );
        }
        assert_eq!(&held[0].bytes[..], b"x");
        assert!(matches!(
            read(&room, Body::from("x"), 10).await,
            Err(BodyError::Busy)
        ));
        held.pop();
        assert!(read(&room, Body::from("x"), 10).await.is_ok());
    }

    #[tokio::test]
    async fn the_longest_on_its_way_gives_way_to_whom_it_makes_room_for() {
        let room = Arc::new(Room::new(100, CHARGE_BYTES));
        let mut slow = Vec::new();
        for bytes in [40, 30, 20] {
            let own = Arc::clone(&room);
            let body = Body::new(Awaited(bytes));
            slow.push(tokio::spawn(async move {
                read(&own, body, 100).await.map(|held| held.bytes.clone())
            }));
            tokio::task::yield_now().await;
        }
        // It takes the first two; the third stays.
        let held = read(&room, Body::from(vec![b'x'; 60]), 100)
            .await
            .expect("made room for");
        for (number, gives_way) in [(0, true), (1, true), (2, false)] {
            tokio::task::yield_now().await;
            assert_eq!(slow[number].is_finished(), gives_way, "{number}");
        }
        let first = slow.remove(0).await.expect("no panic");
        assert!(matches!(first, Err(BodyError::Busy)));
        // All that is on its way would not do: nobody gives way for nothing.
        assert!(matches!(
            read(&room, Body::from(vec![b'x'; 80]), 100).await,
            Err(BodyError::Busy)
        ));
        assert!(!slow[1].is_finished());
        slow[1].abort();
        drop(held);
    }
}
