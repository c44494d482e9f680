//! Frames over a socket: lengths, time limits, and a bound on what is under way in all.

use std::sync::Arc;
use std::time::Duration;

use link::{MAX_FRAME_BYTES, Opener, Order, Sealer, ToController};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of frames that are being read or were not acted on yet, of all links together.
const UNDER_WAY_MAX_BYTES: usize = 64 * 1024 * 1024;
/// A frame that has begun is whole within this time.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);
/// A broker that reads nothing for this long is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Room for frames; links wait for it before they read.
#[derive(Clone, Debug)]
pub(super) struct Room(Arc<Semaphore>);

/// A part of that room, taken until this is dropped.
#[derive(Debug, Default)]
pub struct RoomTaken {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Room {
    pub(super) fn new() -> Room {
        Room(Arc::new(Semaphore::new(UNDER_WAY_MAX_BYTES)))
    }

    async fn take(&self, bytes: usize) -> RoomTaken {
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.0).acquire_many_owned(permits).await;
        RoomTaken {
            // Nobody closes it.
            _permit: permit.ok(),
        }
    }
}

/// The broker's direction of a link.
pub(super) struct Hearing<R> {
    pub(super) source: R,
    pub(super) opener: Opener,
    pub(super) room: Room,
}

impl<R: AsyncRead + Unpin> Hearing<R> {
    /// Its next message, with the room that it takes.
    ///
    /// # Errors
    /// Why there is none; the link ends with it.
    pub(super) async fn hear(&mut self) -> Result<(ToController, RoomTaken), String> {
        let length = read_length(&mut self.source, MAX_FRAME_BYTES).await?;
        let taken = self.room.take(length).await;
        let frame = read_bytes(&mut self.source, length);
        let frame = tokio::time::timeout(FRAME_TIMEOUT, frame).await;
        let frame = frame.map_err(|_| format!("a frame took longer than {FRAME_TIMEOUT:?}"))??;
        let message = self
            .opener
            .open(&frame)
            .map_err(|error| error.to_string())?;
        let message = link::decode(message).map_err(|error| error.to_string())?;
        Ok((message, taken))
    }
}

/// The controller's direction of a link.
pub(super) struct Telling<W> {
    pub(super) sink: W,
    pub(super) sealer: Sealer,
}

impl<W: AsyncWrite + Unpin> Telling<W> {
    /// Tells it this.
    ///
    /// # Errors
    /// Why not; the link ends with it.
    pub(super) async fn tell(&mut self, order: &Order) -> Result<(), String> {
        let message = link::encode(order).map_err(|error| error.to_string())?;
        write(&mut self.sink, &self.sealer.seal(&message)).await
    }
}

/// Reads bytes behind their length, at most `most` of them.
pub(super) async fn read(
    source: &mut (impl AsyncRead + Unpin),
    most: usize,
) -> Result<Vec<u8>, String> {
    let length = read_length(source, most).await?;
    read_bytes(source, length).await
}

async fn read_length(source: &mut (impl AsyncRead + Unpin), most: usize) -> Result<usize, String> {
    let length = source.read_u32().await.map_err(explain)? as usize;
    if length > most {
        return Err(format!(
            "it announces a frame of {length} bytes, more than {most}"
        ));
    }
    Ok(length)
}

async fn read_bytes(
    source: &mut (impl AsyncRead + Unpin),
    length: usize,
) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; length];
    source.read_exact(&mut bytes).await.map_err(explain)?;
    Ok(bytes)
}

/// Writes bytes behind their length.
pub(super) async fn write(
    sink: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
) -> Result<(), String> {
    let length = (bytes.len() as u32).to_be_bytes();
    let framed = [&length, bytes].concat();
    let written = tokio::time::timeout(WRITE_TIMEOUT, sink.write_all(&framed)).await;
    written
        .map_err(|_| format!("has read nothing for {WRITE_TIMEOUT:?}"))?
        .map_err(|error| error.to_string())
}

fn explain(error: std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => String::from("closed by the broker"),
        _ => error.to_string(),
    }
}
