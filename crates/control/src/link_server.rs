//! Where brokers dial in: one TCP connection each, sealed frames, bounded queues both ways.
//!
//! Nothing that a connection says is believed, and nothing is kept for it but a few bytes, before it has proved the cluster's
//! key; where the link is encrypted, nothing is heard before it has shown a certificate of the cluster's authority.

mod frames;
mod lobby;

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use credentials::Credentials;
use http::{Encryption, Wire};
use link::{HANDSHAKE_BYTES_MAX, LinkKey, Listener, Opener, Order, Sealer, ToController};
use tokio::io::{BufReader, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

use crate::core::TOPICS_MAX;
use crate::random::random_bytes;
use crate::service::FromLink;
use crate::{ControlHandle, LinkProof};
pub use frames::RoomTaken;
use frames::{Hearing, Room, Telling};
use lobby::Lobby;

/// Orders that wait for one broker at most: a broker that joins is sent two messages about every
/// topic.
const ORDERS_MAX: usize = 2 * TOPICS_MAX + 4096;
/// Links of brokers at most; those that have proved nothing yet are not among them.
const LINKS_MAX: usize = 2048;
/// A connection has so long to prove itself, and as long again to say hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Strangers are told of in the log once in so long.
const STRANGERS_TOLD_EVERY: Duration = Duration::from_secs(10);

/// What all links have in common.
#[derive(Clone)]
struct Port {
    key: LinkKey,
    /// Where both ends need certificates.
    encryption: Option<Encryption>,
    handle: ControlHandle,
    from_links: mpsc::Sender<FromLink>,
    room: Room,
    lobby: Lobby,
    links: Arc<AtomicUsize>,
    strangers: Arc<Mutex<Strangers>>,
}

/// Connections that did not prove the key, as they were told of last.
#[derive(Default)]
struct Strangers {
    told: u64,
    told_at: Option<Instant>,
}

/// Accepts brokers that prove what `proof` says until told to stop; `handle` shows how many others there were.
pub async fn serve(
    listener: TcpListener,
    proof: impl Into<LinkProof>,
    handle: ControlHandle,
    from_links: mpsc::Sender<FromLink>,
    stopped: impl Future<Output = ()>,
) {
    let LinkProof { key, credentials } = proof.into();
    let encryption = match credentials.map(encryption).transpose() {
        Ok(encryption) => encryption,
        Err(error) => return tracing::error!("the link is not served: {error}"),
    };
    let port = Port {
        key,
        encryption,
        handle,
        from_links,
        room: Room::new(),
        lobby: Lobby::default(),
        links: Arc::default(),
        strangers: Arc::default(),
    };
    let next = AtomicU64::new(1);
    let mut stopped = std::pin::pin!(stopped);
    loop {
        let accepted = tokio::select! {
            () = &mut stopped => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let number = next.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(port.clone().attend(number, stream, peer));
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a broker");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

impl Port {
    /// One connection from its first byte to its end.
    async fn attend(self, number: u64, stream: TcpStream, peer: SocketAddr) {
        let mut newcomer = self.lobby.enter(number, peer.ip());
        let proven = tokio::select! {
            proven = tokio::time::timeout(HELLO_TIMEOUT, self.prove(stream)) => {
                proven.unwrap_or_else(|_| Err(format!("no proof within {HELLO_TIMEOUT:?}")))
            }
            () = newcomer.asked_to_leave() => Err(String::from("others were waiting")),
        };
        drop(newcomer);
        let (stream, sealer, opener) = match proven {
            Ok(proven) => proven,
            Err(why) => return self.tell_of_stranger(peer, &why).await,
        };
        if self.links.fetch_add(1, Ordering::Relaxed) < LINKS_MAX {
            let (source, sink) = tokio::io::split(stream);
            let hearing = Hearing {
                source: BufReader::new(source),
                opener,
                room: self.room.clone(),
            };
            let ended = self
                .converse((number, peer.ip()), hearing, Telling { sink, sealer })
                .await;
            if let Err(why) = ended {
                tracing::info!(%peer, "link ended: {why}");
            }
            let _ = self.from_links.send(FromLink::Lost(number)).await;
        } else {
            tracing::warn!(%peer, "refused: {LINKS_MAX} links are open");
        }
        self.links.fetch_sub(1, Ordering::Relaxed);
    }

    /// The handshakes: that of TLS, where there is one, then that of the link.
    async fn prove(&self, stream: TcpStream) -> Result<(Wire, Sealer, Opener), String> {
        stream
            .set_nodelay(true)
            .map_err(|error| error.to_string())?;
        let mut stream = match &self.encryption {
            None => Box::new(stream) as Wire,
            Some(encryption) => encryption.accept(stream).await?,
        };
        let explain = |error: link::LinkError| error.to_string();
        let first = frames::read(&mut stream, HANDSHAKE_BYTES_MAX).await?;
        let nonce = random_bytes().map_err(|error| error.to_string())?;
        let (listener, answer) =
            Listener::begin(self.key.clone(), nonce, &first).map_err(explain)?;
        frames::write(&mut stream, &answer).await?;
        let proof = frames::read(&mut stream, HANDSHAKE_BYTES_MAX).await?;
        let (sealer, opener) = listener.proven(&proof).map_err(explain)?;
        Ok((stream, sealer, opener))
    }

    /// One link from its hello to its end.
    async fn converse(
        &self,
        (number, from): (u64, IpAddr),
        mut hearing: Hearing<BufReader<ReadHalf<Wire>>>,
        mut telling: Telling<WriteHalf<Wire>>,
    ) -> Result<(), String> {
        let first = tokio::time::timeout(HELLO_TIMEOUT, hearing.hear()).await;
        let (first, _) = first.map_err(|_| format!("no hello within {HELLO_TIMEOUT:?}"))??;
        let ToController::Hello(hello) = first else {
            return Err(String::from("the first message is not a hello"));
        };
        let (orders, mut outgoing) = mpsc::channel::<Order>(ORDERS_MAX);
        self.pass_on(FromLink::Hello {
            link: number,
            from,
            hello: Box::new(hello),
            orders,
        })
        .await?;
        let tell_all = async {
            while let Some(order) = outgoing.recv().await {
                telling.tell(&order).await?;
            }
            Err(String::from("closed by the controller"))
        };
        let hear_all = async {
            loop {
                let (message, room) = hearing.hear().await?;
                self.pass_on(FromLink::Message(number, Box::new(message), room))
                    .await?;
            }
        };
        tokio::select! {
            ended = tell_all => ended,
            ended = hear_all => ended,
        }
    }

    async fn pass_on(&self, brought: FromLink) -> Result<(), String> {
        let passed_on = self.from_links.send(brought).await;
        passed_on.map_err(|_| String::from("the controller is stopping"))
    }

    /// A broker with the wrong key shows in the log, a flood of strangers does not fill it.
    async fn tell_of_stranger(&self, peer: SocketAddr, why: &str) {
        let before = self.handle.note_stranger();
        let mut strangers = self.strangers.lock().await;
        let now = Instant::now();
        let is_due = |told_at| now - told_at >= STRANGERS_TOLD_EVERY;
        if strangers.told_at.is_none_or(is_due) {
            let others = before.saturating_sub(strangers.told);
            (strangers.told, strangers.told_at) = (before + 1, Some(now));
            tracing::warn!(%peer, others, "a connection to the link proved nothing: {why}");
        }
    }
}

/// For brokers, all of which need a certificate.
fn encryption(credentials: Arc<Credentials>) -> Result<Encryption, String> {
    let Some(first) = credentials.peers() else {
        let reason = "no authority is named that brokers' certificates are judged by; give --tls-root-ca-file";
        return Err(reason.to_owned());
    };
    let current = move || credentials.peers().unwrap_or_else(|| Arc::clone(&first));
    Encryption::new(current).map_err(|error| error.to_string())
}
