//! Asks who is at an address that a broker announces.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, StatusCode, header};
use http::{Wire, encrypted, exchange, is_encrypted};
use link::{ANSWER_BYTES_MAX, Door, PROBE_PATH, Present, probe_question};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::{Semaphore, mpsc};

use crate::LinkProof;
use crate::core::{Probe, ProbeAnswer};
use crate::random::random_bytes;

/// What nobody answers is given up after so long.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// A broker that is busy has so long to say who it is.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Pauses after which a datagram that may be lost is sent again.
const RESEND_PAUSES_MS: [u64; 3] = [200, 400, 800];
/// Questions under way to brokers that were seen; as many to others. Further ones wait in their turn.
const UNDER_WAY_MAX: usize = 256;

/// Sends probes for the service. Whoever names addresses where nobody is delays nobody that was
/// seen at its own.
#[derive(Debug)]
pub(super) struct Prober {
    proof: LinkProof,
    known: Arc<Semaphore>,
    unseen: Arc<Semaphore>,
}

impl Prober {
    /// Proves what `proof` says.
    pub(super) fn new(proof: LinkProof) -> Prober {
        let places = || Arc::new(Semaphore::new(UNDER_WAY_MAX));
        Prober {
            proof,
            known: places(),
            unseen: places(),
        }
    }

    /// Asks as soon as there is a place; the answer goes to `answers`.
    pub(super) fn ask(&self, probe: Probe, answers: mpsc::Sender<(Probe, ProbeAnswer)>) {
        let places = match probe.is_known {
            true => Arc::clone(&self.known),
            false => Arc::clone(&self.unseen),
        };
        let proof = self.proof.clone();
        tokio::spawn(async move {
            // Nobody closes it.
            let _place = places.acquire_owned().await;
            let answer = ask(&probe, &proof).await;
            let _ = answers.send((probe, answer)).await;
        });
    }
}

/// Who is there.
async fn ask(probe: &Probe, proof: &LinkProof) -> ProbeAnswer {
    let Ok(nonce) = random_bytes() else {
        return ProbeAnswer::Silence;
    };
    let key = &proof.key;
    let question = probe_question(key, probe.door, &nonce);
    let present = |answer: &[u8]| link::probed(key, &question, answer).ok();
    if probe.door == Door::Gossip {
        return ask_by_datagram(&probe.address, &question, present).await;
    }
    let (address, is_encrypted) = is_encrypted(&probe.address);
    match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => {
            let answered = async {
                let stream: Wire = match is_encrypted {
                    false => Box::new(stream),
                    true => encrypted(stream, proof.client()?, address).await.ok()?,
                };
                match probe.door {
                    Door::Http => by_http(stream, address, question.clone()).await,
                    _ => by_stream(stream, &question).await,
                }
            };
            let answer = tokio::time::timeout(ANSWER_TIMEOUT, answered).await;
            let present = answer.ok().flatten().and_then(|answer| present(&answer));
            present.map_or(ProbeAnswer::Open, ProbeAnswer::Present)
        }
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => ProbeAnswer::Refused,
        _ => ProbeAnswer::Silence,
    }
}

async fn by_stream(mut stream: Wire, question: &[u8]) -> Option<Vec<u8>> {
    stream.write_all(question).await.ok()?;
    let length = stream.read_u8().await.ok()?;
    let mut answer = vec![0; link::answer_bytes(length)];
    answer[0] = length;
    stream.read_exact(&mut answer[1..]).await.ok()?;
    Some(answer)
}

async fn by_http(stream: Wire, address: &str, question: Vec<u8>) -> Option<Vec<u8>> {
    let request = Request::post(PROBE_PATH)
        .header(header::HOST, address)
        .body(Bytes::from(question))
        .ok()?;
    let (status, answer) = exchange(stream, request, ANSWER_BYTES_MAX).await.ok()?;
    (status == StatusCode::OK).then(|| answer.to_vec())
}

async fn ask_by_datagram(
    address: &str,
    question: &[u8],
    present: impl Fn(&[u8]) -> Option<Present>,
) -> ProbeAnswer {
    let Ok(socket) = connected(address).await else {
        return ProbeAnswer::Silence;
    };
    let (mut answer, mut found) = ([0; ANSWER_BYTES_MAX + 1], ProbeAnswer::Silence);
    for pause_ms in RESEND_PAUSES_MS {
        if let Err(error) = socket.send(question).await {
            return found_by(&error);
        }
        let next = tokio::time::Instant::now() + Duration::from_millis(pause_ms);
        while let Ok(received) = tokio::time::timeout_at(next, socket.recv(&mut answer)).await {
            match received.map(|bytes| present(&answer[..bytes])) {
                Ok(Some(present)) => return ProbeAnswer::Present(present),
                Ok(None) => found = ProbeAnswer::Open,
                Err(error) => return found_by(&error),
            }
        }
    }
    found
}

/// A socket that hears what comes from `address` and nothing else.
async fn connected(address: &str) -> io::Result<UdpSocket> {
    let to: SocketAddr = address.parse().map_err(io::Error::other)?;
    let any = match to {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(to).await?;
    Ok(socket)
}

fn found_by(error: &io::Error) -> ProbeAnswer {
    match error.kind() {
        ErrorKind::ConnectionRefused => ProbeAnswer::Refused,
        _ => ProbeAnswer::Silence,
    }
}
