//! The shell around the link's proofs: both ends know the key before either says a word, then every frame is sealed.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use link::{Dialler, HANDSHAKE_BYTES_MAX, LinkError, LinkKey, MAX_FRAME_BYTES, Opener, Sealer};
use tokio::net::TcpStream;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use super::core::Ended;
use crate::sys;

/// The controller has so long to prove itself.
const PROOF_TIMEOUT: Duration = Duration::from_secs(5);

type Framing = Framed<TcpStream, LengthDelimitedCodec>;

/// What the controller is told.
pub(super) struct Sink {
    frames: SplitSink<Framing, Bytes>,
    sealer: Sealer,
}

/// What it says.
pub(super) struct Source {
    frames: SplitStream<Framing>,
    opener: Opener,
}

impl Sink {
    /// Sends a message.
    pub(super) async fn send(&mut self, message: &[u8]) -> Result<(), String> {
        let frame = Bytes::from(self.sealer.seal(message));
        let sent = self.frames.send(frame).await;
        sent.map_err(|error| error.to_string())
    }
}

impl Source {
    /// Waits for a message.
    pub(super) async fn next(&mut self) -> Result<Vec<u8>, String> {
        let frame = heard(self.frames.next().await)?;
        let message = self.opener.open(&frame);
        message
            .map(<[u8]>::to_vec)
            .map_err(|error| error.to_string())
    }
}

/// Proves the key to the controller at the other end, which proves it first.
pub(super) async fn prove(stream: TcpStream, key: &LinkKey) -> Result<(Sink, Source), Ended> {
    let proven = tokio::time::timeout(PROOF_TIMEOUT, exchange(stream, key)).await;
    proven.map_err(|_| Ended::Unreachable(format!("no proof within {PROOF_TIMEOUT:?}")))?
}

async fn exchange(stream: TcpStream, key: &LinkKey) -> Result<(Sink, Source), Ended> {
    let codec = LengthDelimitedCodec::builder()
        .max_frame_length(HANDSHAKE_BYTES_MAX)
        .new_codec();
    let mut framing = Framed::new(stream, codec);
    let nonce = sys::random().map_err(|error| Ended::Unreachable(error.to_string()))?;
    let (dialler, first) = Dialler::begin(key.clone(), nonce);
    say(&mut framing, first).await?;
    let answer = heard(framing.next().await).map_err(Ended::Unreachable)?;
    let (proof, sealer, opener) = dialler.answered(&answer).map_err(|error| match error {
        // Somebody has to change something first.
        LinkError::WrongKey | LinkError::Version(_) => Ended::Refused(error.to_string()),
        _ => Ended::Unreachable(error.to_string()),
    })?;
    say(&mut framing, proof).await?;
    framing.codec_mut().set_max_frame_length(MAX_FRAME_BYTES);
    let (sink, source) = framing.split();
    let sink = Sink {
        frames: sink,
        sealer,
    };
    let source = Source {
        frames: source,
        opener,
    };
    Ok((sink, source))
}

async fn say(framing: &mut Framing, words: Vec<u8>) -> Result<(), Ended> {
    let said = framing.send(Bytes::from(words)).await;
    said.map_err(|error| Ended::Unreachable(error.to_string()))
}

fn heard(frame: Option<std::io::Result<bytes::BytesMut>>) -> Result<bytes::BytesMut, String> {
    let frame = frame.ok_or_else(|| String::from("it closed the link"))?;
    frame.map_err(|error| error.to_string())
}
