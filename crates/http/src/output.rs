//! A connection whose peer takes its answers at a minimum pace.
//!
//! While output waits for the peer it has [`GRACE`], and a second more for each
//! [`RATE_MIN_BYTES_PER_S`] that it takes meanwhile. The connection of a slower peer is ended: its
//! output holds memory, and places are few.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Time that output may wait.
const GRACE: Duration = Duration::from_secs(10);
/// Slowest pace that goes on for longer.
const RATE_MIN_BYTES_PER_S: f64 = 4096.0;

/// A stream that fails when its peer takes too little.
pub(crate) struct Paced<S> {
    stream: S,
    waiting: Option<Waiting>,
}

/// Since output waits.
struct Waiting {
    since: Instant,
    taken_bytes: usize,
    deadline: Pin<Box<Sleep>>,
}

impl<S> Paced<S> {
    pub(crate) fn new(stream: S) -> Paced<S> {
        Paced {
            stream,
            waiting: None,
        }
    }

    /// The verdict on offering this many bytes, as to the pace.
    fn judge(
        &mut self,
        written: Poll<io::Result<usize>>,
        offered_bytes: usize,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(taken_bytes)) => {
                if taken_bytes >= offered_bytes {
                    self.waiting = None;
                } else if let Some(waiting) = &mut self.waiting {
                    waiting.taken_bytes += taken_bytes;
                }
                written
            }
            Poll::Ready(Err(_)) => written,
            Poll::Pending => {
                let waiting = self.waiting.get_or_insert_with(Waiting::begin);
                if waiting.is_over(context) {
                    let text = "the peer takes its answer too slowly";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)));
                }
                Poll::Pending
            }
        }
    }
}

impl Waiting {
    fn begin() -> Waiting {
        let since = Instant::now();
        Waiting {
            since,
            taken_bytes: 0,
            deadline: Box::pin(sleep_until(since + GRACE)),
        }
    }

    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        let deadline = self.since + allowed(self.taken_bytes);
        if deadline != self.deadline.deadline() {
            self.deadline.as_mut().reset(deadline);
        }
        self.deadline.as_mut().poll(context).is_ready()
    }
}

/// The time allowed until this many bytes are taken while further ones wait.
fn allowed(taken_bytes: usize) -> Duration {
    GRACE + Duration::from_secs_f64(taken_bytes as f64 / RATE_MIN_BYTES_PER_S)
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(written, bytes.len(), context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered_bytes = slices.iter().map(|slice| slice.len()).sum();
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(written, offered_bytes, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// Writes this much to a peer that takes some bytes each second; returns the outcome, and when.
    async fn write(total_bytes: usize, taken_bytes_per_s: usize) -> (io::Result<()>, Duration) {
        let began = Instant::now();
        let (stream, mut peer) = duplex(1024);
        tokio::spawn(async move {
            let mut piece = vec![0; taken_bytes_per_s];
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if !piece.is_empty() && peer.read_exact(&mut piece).await.is_err() {
                    return;
                }
            }
        });
        let written = Paced::new(stream).write_all(&vec![0; total_bytes]).await;
        (written, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn peers_that_let_output_wait_are_left() {
        for (total_bytes, taken_bytes_per_s, is_left) in [
            (1024, 0, false),
            (100_000, 0, true),
            (100_000, 1, true),
            (200_000, 1024, true),
            (200_000, 8192, false),
        ] {
            let (written, took) = write(total_bytes, taken_bytes_per_s).await;
            let case =
                format!("{total_bytes} bytes at {taken_bytes_per_s}/s: {written:?} {took:?}");
            assert_eq!(written.is_err(), is_left, "{case}");
            assert!(!is_left || (GRACE..2 * GRACE).contains(&took), "{case}");
        }
    }
}
