//! The shell around the link's proofs: both ends show certificates where the link is encrypted, and know the key before either says a
//! word; then every frame is sealed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use credentials::Credentials;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use http::{Wire, encrypted};
use link::{Dialler, HANDSHAKE_BYTES_MAX, LinkError, LinkKey, MAX_FRAME_BYTES, Opener, Sealer};
use tokio::net::TcpStream;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use super::core::Ended;
use crate::sys;

/// The controller has so long to prove itself.
const PROOF_TIMEOUT: Duration = Duration::from_secs(5);

type Framing = Framed<Wire, LengthDelimitedCodec>;

/// What is proved to a controller.
#[derive(Clone)]
pub(super) struct Proof {
    /// Both ends know it.
    pub(super) key: LinkKey,
    /// What the link is encrypted with, where it is.
    pub(super) credentials: Option<Option<Arc<Credentials>>>,
}

/// Messages to the controller.
pub(super) struct Sink {
    frames: SplitSink<Framing, Bytes>,
    sealer: Sealer,
}

/// Messages from the controller.
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

/// Proves itself to the controller at `address`, which proves itself first.
pub(super) async fn prove(
    stream: TcpStream,
    address: &str,
    proof: &Proof,
) -> Result<(Sink, Source), Ended> {
    let proving = async {
        let stream = wire(stream, address, proof).await?;
        exchange(stream, &proof.key).await
    };
    let proven = tokio::time::timeout(PROOF_TIMEOUT, proving).await;
    proven.map_err(|_| Ended::Unreachable(format!("no proof within {PROOF_TIMEOUT:?}")))?
}

/// The stream, encrypted where the link is.
async fn wire(stream: TcpStream, address: &str, proof: &Proof) -> Result<Wire, Ended> {
    let Some(credentials) = &proof.credentials else {
        return Ok(Box::new(stream));
    };
    let client = credentials.as_ref().and_then(|own| own.client());
    let client = client.ok_or_else(|| {
        Ended::Refused(String::from(
            "the link is encrypted, and no authority is named that controllers' certificates are judged by; give --tls-root-ca-file",
        ))
    })?;
    let shaken = encrypted(stream, client, address).await;
    shaken.map_err(|why| Ended::Unreachable(format!("no TLS: {why}")))
}

async fn exchange(stream: Wire, key: &LinkKey) -> Result<(Sink, Source), Ended> {
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
