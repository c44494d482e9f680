//! The listener where nsqds register: one connection each, bounded buffers, time-outs.
//!
//! A peer that says nothing is closed: before it has said who it is after [`HELLO_TIMEOUT`], or earlier where others need its place;
//! later after twice the time in which it becomes inactive. An nsqd that is alive connects again and registers everything anew.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use http::places::{Place, Places, Shares};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::Lookup;
use super::session::{Session, Stage};
use wire::lookup::{BODY_MAX_BYTES, LINE_MAX_BYTES};

/// Connections at once. Whoever has not said who it is gives way to others; then further ones are closed.
const PEERS_MAX: usize = 4096;
/// Connections from one address at once.
const PEERS_OF_ADDRESS_MAX: usize = PEERS_MAX / 10;
/// Time for the magic and IDENTIFY.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// A peer that does not take its answers for so long is closed.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that a peer has to read a refusal before the connection is cut.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after a failed accept, which usually means that descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Input that is held at most; a command fits whole.
const INPUT_MAX_BYTES: usize = LINE_MAX_BYTES + 4 + BODY_MAX_BYTES;

/// Accepts peers until told to stop; then all connections are closed.
pub(super) async fn serve(
    lookup: &Arc<Lookup>,
    listener: TcpListener,
    stopped: impl Future<Output = ()>,
) {
    let mut stopped = std::pin::pin!(stopped);
    let mut connections = JoinSet::new();
    let places = Places::of(Shares {
        all: PEERS_MAX,
        of_one: PEERS_OF_ADDRESS_MAX,
        of_this_machine: PEERS_OF_ADDRESS_MAX,
    });
    let mut next_id = 1;
    loop {
        let accepted = tokio::select! {
            () = &mut stopped => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let (stream, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "lookup: accepting a peer");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(place) = places.enter(remote.ip()) else {
            tracing::warn!(%remote, "lookup: refused, {PEERS_OF_ADDRESS_MAX} peers of its address or {PEERS_MAX} in all are connected");
            continue;
        };
        let (lookup, id) = (Arc::clone(lookup), next_id);
        next_id += 1;
        connections.spawn(async move {
            let mut session = Session::new(id, remote.to_string());
            let ended = tokio::select! {
                () = place.gone() => Err(io::Error::other("it has not said who it is, and others were waiting")),
                ended = converse(&lookup, &mut session, stream, &place) => ended,
            };
            lookup.registry().disconnect(id);
            match ended {
                Ok(()) => tracing::info!(%remote, "lookup: peer has gone"),
                Err(why) => tracing::info!(%remote, "lookup: peer closed: {why}"),
            }
        });
    }
    connections.shutdown().await;
}

/// Serves a peer until it goes, or until it must.
async fn converse(
    lookup: &Lookup,
    session: &mut Session,
    mut stream: TcpStream,
    place: &Place,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let silence = lookup.inactive_after.saturating_mul(2);
    let hello_by = Instant::now() + HELLO_TIMEOUT;
    let (mut input, mut output) = (BytesMut::new(), Vec::new());
    loop {
        let end = answer(lookup, session, &mut input, &mut output);
        if !output.is_empty() {
            timeout(WRITE_TIMEOUT, stream.write_all(&output)).await??;
            output.clear();
        }
        if let Some(why) = end {
            linger(stream).await;
            return Err(io::Error::other(why));
        }
        let until = match session.stage() {
            Stage::Silent | Stage::Greeted => hello_by,
            Stage::Identified if !place.serve() => {
                return Err(io::Error::other("it came too late, others were waiting"));
            }
            Stage::Identified => Instant::now() + silence,
        };
        input.reserve(1);
        // What has come is less than a command, so there is room.
        let room = INPUT_MAX_BYTES.saturating_sub(input.len()).max(1);
        let mut limited = (&mut stream).take(room as u64);
        if timeout_at(until, limited.read_buf(&mut input)).await?? == 0 {
            return Ok(());
        }
    }
}

/// Answers everything that has come whole. The registry is held for the time of one piece of input, never while waiting.
fn answer(
    lookup: &Lookup,
    session: &mut Session,
    input: &mut BytesMut,
    output: &mut Vec<u8>,
) -> Option<String> {
    let now = lookup.now();
    let mut registry = lookup.registry();
    while let Some(turn) = session.receive(input, &mut registry, &lookup.introduction, now) {
        input.advance(turn.used);
        output.extend_from_slice(&turn.answer);
        if turn.end.is_some() {
            return turn.end;
        }
    }
    None
}

/// Lets the peer read its refusal: closing with unread input would reset the connection and lose it.
async fn linger(mut stream: TcpStream) {
    let _ = stream.shutdown().await;
    let mut rest = [0; 1024];
    let drained = async { while matches!(stream.read(&mut rest).await, Ok(1..)) {} };
    let _ = timeout(LINGER_TIMEOUT, drained).await;
}
