//! The stream to a controller: dialled, authenticated, then read and written one frame at a time in
//! each direction.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, OptionFuture};
use link::{Order, ToController};
use tokio::time::timeout;

use super::core::Ended;
use super::proof::{self, Proof, Sink, Source};
use super::{LinkBoard, dial};

/// The broker leaves a controller that reads nothing for this long.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// The stream and its state.
pub(super) enum Line {
    Down,
    Dialling(BoxFuture<'static, Result<(Sink, Source), Ended>>),
    Up(Box<Up>),
}

/// One that stands.
pub(super) struct Up {
    source: Source,
    /// Absent while a message is being written.
    sink: Option<Sink>,
    writing: Option<BoxFuture<'static, Result<Sink, String>>>,
}

/// What happens to it.
pub(super) enum News {
    /// It stands, and both ends have proven the key.
    Stands,
    /// The controller says something.
    Said(Order),
    /// Everything has been written.
    Written,
    /// It is gone.
    Ended(Ended),
}

impl Line {
    /// Begins to dial.
    pub(super) fn dial(&mut self, address: String, proof: Proof) {
        let dialling = async move {
            let stream = dial(&address).await.map_err(Ended::Unreachable)?;
            proof::prove(stream, &address, &proof).await
        };
        *self = Line::Dialling(dialling.boxed());
    }

    /// Whether a message may be sent.
    pub(super) fn takes_word(&self) -> bool {
        matches!(self, Line::Up(up) if up.sink.is_some())
    }

    /// Begins to send a message.
    pub(super) fn say(&mut self, message: &ToController, board: &LinkBoard) {
        let Line::Up(up) = self else {
            return;
        };
        let Some(mut sink) = up.sink.take() else {
            return;
        };
        let bytes = link::encode(message).map_err(|error| error.to_string());
        if let Ok(bytes) = &bytes {
            board.note_sent(bytes.len() + link::TAG_BYTES);
        }
        let writing = async move {
            let bytes = bytes?;
            let sent = timeout(WRITE_TIMEOUT, sink.send(&bytes)).await;
            sent.map_err(|_| format!("it has read nothing for {WRITE_TIMEOUT:?}"))??;
            Ok(sink)
        };
        up.writing = Some(writing.boxed());
    }

    /// Waits for what happens next; the controller is heard only if it `is_heard`. Never comes while the line is down.
    pub(super) async fn next(&mut self, is_heard: bool, board: &LinkBoard) -> News {
        let news = match self {
            Line::Down => std::future::pending().await,
            Line::Dialling(dialling) => match dialling.await {
                Ok((sink, source)) => {
                    *self = Line::Up(Box::new(Up {
                        source,
                        sink: Some(sink),
                        writing: None,
                    }));
                    return News::Stands;
                }
                Err(ended) => News::Ended(ended),
            },
            Line::Up(up) => up.next(is_heard, board).await,
        };
        if matches!(news, News::Ended(_)) {
            *self = Line::Down;
        }
        news
    }
}

impl Up {
    async fn next(&mut self, is_heard: bool, board: &LinkBoard) -> News {
        let writing: OptionFuture<_> = self.writing.as_mut().into();
        tokio::select! {
            Some(written) = writing => {
                self.writing = None;
                match written {
                    Ok(sink) => {
                        self.sink = Some(sink);
                        News::Written
                    }
                    Err(reason) => News::Ended(Ended::Lost(reason)),
                }
            }
            said = self.source.next(), if is_heard => match parse(said, board) {
                Ok(order) => News::Said(order),
                Err(reason) => News::Ended(Ended::Lost(reason)),
            },
            else => std::future::pending().await,
        }
    }
}

fn parse(message: Result<Vec<u8>, String>, board: &LinkBoard) -> Result<Order, String> {
    let bytes = message?;
    board.note_received(bytes.len() + link::TAG_BYTES);
    link::decode(&bytes).map_err(|error| error.to_string())
}
