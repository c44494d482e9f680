//! Asks who is at an address.

use std::io::ErrorKind;
use std::time::Duration;

use link::{LinkKey, Present};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::core::ProbeAnswer;
use crate::random::random_bytes;

/// What nobody answers is given up after so long.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// A broker that is busy has so long to say who it is.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Who is at `address`.
pub(super) async fn ask(address: &str, key: &LinkKey) -> ProbeAnswer {
    match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => match tokio::time::timeout(ANSWER_TIMEOUT, answer(stream, key)).await {
            Ok(Some(present)) => ProbeAnswer::Present(present),
            _ => ProbeAnswer::Open,
        },
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => ProbeAnswer::Refused,
        _ => ProbeAnswer::Silence,
    }
}

async fn answer(mut stream: TcpStream, key: &LinkKey) -> Option<Present> {
    let question = link::probe_question(key, &random_bytes().ok()?);
    stream.write_all(&question).await.ok()?;
    let length = stream.read_u8().await.ok()?;
    let mut answer = vec![0; link::answer_bytes(length)];
    answer[0] = length;
    stream.read_exact(&mut answer[1..]).await.ok()?;
    link::probed(key, &question, &answer).ok()
}
