//! Where brokers dial in: one TCP connection each, length-delimited messages, bounded queues both ways.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use link::{MAX_MESSAGE_BYTES, ToBroker, ToController};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use crate::core::TOPICS_MAX;
use crate::service::LinkWord;

/// Orders that wait for one broker at most: whoever joins is told two words of every topic.
const ORDERS_MAX: usize = 2 * TOPICS_MAX + 4096;
/// Connections at most, those without a hello included.
const LINKS_MAX: usize = 2048;
/// A connection has so long to say hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// A broker that takes nothing for so long is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Accepts brokers until told to stop.
pub async fn serve(
    listener: TcpListener,
    words: mpsc::Sender<LinkWord>,
    stopped: impl Future<Output = ()>,
) {
    let (next, open) = (AtomicU64::new(1), Arc::new(AtomicUsize::new(0)));
    let mut stopped = std::pin::pin!(stopped);
    loop {
        let accepted = tokio::select! {
            () = &mut stopped => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accepting a broker");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        if open.load(Ordering::Relaxed) >= LINKS_MAX {
            tracing::warn!(%peer, "refused: {LINKS_MAX} links are open");
            continue;
        }
        open.fetch_add(1, Ordering::Relaxed);
        let (open, words) = (Arc::clone(&open), words.clone());
        let number = next.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            if let Err(why) = converse(number, stream, &words).await {
                tracing::info!(%peer, "link ended: {why}");
            }
            let _ = words.send(LinkWord::Lost(number)).await;
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// One link from its hello to its end.
async fn converse(
    number: u64,
    stream: TcpStream,
    words: &mpsc::Sender<LinkWord>,
) -> Result<(), String> {
    stream
        .set_nodelay(true)
        .map_err(|error| error.to_string())?;
    let codec = LengthDelimitedCodec::builder()
        .max_frame_length(MAX_MESSAGE_BYTES)
        .new_codec();
    let (mut sink, mut source) = Framed::new(stream, codec).split();
    let first = tokio::time::timeout(HELLO_TIMEOUT, source.next()).await;
    let first = first.map_err(|_| format!("no hello within {HELLO_TIMEOUT:?}"))?;
    let ToController::Hello(hello) = read(first)? else {
        return Err(String::from("the first message is no hello"));
    };
    let (orders, mut outgoing) = mpsc::channel::<ToBroker>(ORDERS_MAX);
    let hello = Box::new(hello);
    let word = LinkWord::Hello {
        link: number,
        hello,
        orders,
    };
    words
        .send(word)
        .await
        .map_err(|_| String::from("the controller is stopping"))?;
    loop {
        tokio::select! {
            order = outgoing.recv() => {
                let Some(order) = order else {
                    return Err(String::from("closed by the controller"));
                };
                let bytes = link::encode(&order).map_err(|error| error.to_string())?;
                let sent = tokio::time::timeout(WRITE_TIMEOUT, sink.send(Bytes::from(bytes))).await;
                sent.map_err(|_| format!("takes nothing for {WRITE_TIMEOUT:?}"))?
                    .map_err(|error| error.to_string())?;
            }
            message = source.next() => {
                let word = LinkWord::Said(number, Box::new(read(message)?));
                words.send(word).await.map_err(|_| String::from("the controller is stopping"))?;
            }
        }
    }
}

fn read(message: Option<std::io::Result<bytes::BytesMut>>) -> Result<ToController, String> {
    match message {
        None => Err(String::from("closed by the broker")),
        Some(Err(error)) => Err(error.to_string()),
        Some(Ok(bytes)) => link::decode(&bytes).map_err(|error| error.to_string()),
    }
}
