//! Accepts connections and ends them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::conversation::{Conversation, HttpState};
use crate::output::Paced;
use crate::spare::{SPARES, Spares, is_exhaustion};
use crate::{Counts, Encryption, Gate, Place, Places, hostname};

/// Connections served at once.
const PLACES: usize = 1024;
/// Further connections that are answered: one request each, and only the vital ones.
const RESERVE_PLACES: usize = 128;
/// Time that a connection has for a complete request head, and idle time between requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The same in the reserve.
const RESERVE_HEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of a request head at most, and of output that waits in a connection.
const HEAD_MAX_BYTES: usize = 64 * 1024;
/// Pause after a failed accept, which usually means that descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Pause between connections that are on the last descriptors: so long each may be answered before it has to give way.
const LAST_PAUSE: Duration = Duration::from_millis(2);
/// Time that an NSQ client has to read its refusal.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// What differs between ports.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who may change something.
    pub gate: Gate,
    /// Field of an error's JSON object that holds its text.
    pub text_field: &'static str,
    /// The port for NSQ's protocol: a client that took this one instead is told.
    pub nsq_port: Option<u16>,
    /// What the port encrypts with; `None`: it does not.
    pub encryption: Option<Encryption>,
    /// The port that encrypts, where that is the only one at which anything is answered: who asks here is sent there.
    pub only_at: Option<u16>,
    /// Time that requests under way have when the port closes.
    pub close_timeout: Duration,
    /// Where connections are counted.
    pub counts: Counts,
}

impl Settings {
    /// Of a port that is not beside one of NSQ's. Changes may be asked for by `names` and the name of this machine.
    #[must_use]
    pub fn new(
        names: impl IntoIterator<Item = String>,
        text_field: &'static str,
        close_timeout: Duration,
        counts: Counts,
    ) -> Settings {
        Settings {
            gate: Gate::new(names.into_iter().chain([hostname()])),
            text_field,
            nsq_port: None,
            encryption: None,
            only_at: None,
            close_timeout,
            counts,
        }
    }
}

/// Serves `router` on `listener` until `stopped` completes, then lets requests under way end.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    settings: Settings,
    stopped: impl Future<Output = ()>,
) {
    let close_timeout = settings.close_timeout;
    let port = Arc::new(Port::new(router, settings));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut spares = Spares::default();
    spares.fill();
    tokio::pin!(stopped);
    loop {
        let accepted = tokio::select! {
            () = &mut stopped => break,
            Some(_) = connections.join_next() => {
                spares.fill();
                continue;
            }
            accepted = port.accept(&listener, &mut spares) => accepted,
        };
        let Some((stream, peer)) = accepted else {
            continue;
        };
        let is_last = !spares.fill();
        let Some((rules, place)) = port.admit(peer, is_last) else {
            // Not even in the reserve.
            port.state.counts.refused();
            continue;
        };
        let (port, watcher) = (Arc::clone(&port), graceful.watcher());
        connections.spawn(async move { port.hold(stream, peer, rules, place, watcher).await });
        if is_last {
            sleep(LAST_PAUSE).await;
        }
    }
    drop(listener);
    if timeout(close_timeout, graceful.shutdown()).await.is_err() {
        tracing::warn!("HTTP: requests that did not finish in time are cut off");
    }
    connections.shutdown().await;
}

/// What all connections share.
struct Port {
    state: Arc<HttpState>,
    nsq_port: Option<u16>,
    encryption: Option<Encryption>,
    usual: (Rules, Arc<Places>),
    reserve: (Rules, Arc<Places>),
    /// Of connections on the last descriptors.
    last: (Rules, Arc<Places>),
}

/// How a connection is treated.
#[derive(Clone)]
struct Rules {
    http: http1::Builder,
    head_timeout: Duration,
    is_reserve: bool,
}

impl Port {
    fn new(router: Router, settings: Settings) -> Port {
        let Settings {
            gate,
            text_field,
            nsq_port,
            encryption,
            only_at,
            counts,
            ..
        } = settings;
        Port {
            state: Arc::new(HttpState {
                router,
                gate,
                counts,
                text_field,
                only_at,
            }),
            nsq_port,
            encryption,
            usual: (Rules::new(HEAD_TIMEOUT, false), Places::new(PLACES)),
            reserve: (
                Rules::new(RESERVE_HEAD_TIMEOUT, true),
                Places::new(RESERVE_PLACES),
            ),
            last: (Rules::new(RESERVE_HEAD_TIMEOUT, true), Places::new(SPARES)),
        }
    }

    /// The next connection; `None` after a pause in which there may be one again.
    async fn accept(
        &self,
        listener: &TcpListener,
        spares: &mut Spares,
    ) -> Option<(TcpStream, SocketAddr)> {
        let error = match listener.accept().await {
            Ok(accepted) => return Some(accepted),
            Err(error) => error,
        };
        tracing::warn!(%error, "HTTP: cannot accept");
        if !is_exhaustion(&error) {
            sleep(ACCEPT_PAUSE).await;
            return None;
        }
        self.state.counts.exhausted();
        let accepted = spares.accept(listener).await;
        if accepted.is_none() {
            // Who has the last descriptors and asks nothing gives way.
            let pause = match spares.is_empty() && self.last.1.make_room() {
                true => LAST_PAUSE,
                false => ACCEPT_PAUSE,
            };
            sleep(pause).await;
        }
        accepted
    }

    /// A place for `peer`, which may be on one of the last descriptors.
    fn admit(&self, peer: SocketAddr, is_last: bool) -> Option<(Rules, Place)> {
        let all: &[&(Rules, Arc<Places>)] = match is_last {
            true => &[&self.last],
            false => &[&self.usual, &self.reserve],
        };
        all.iter()
            .find_map(|(rules, places)| Some((rules.clone(), places.enter(peer.ip())?)))
    }

    /// Converses until either side ends it, or the place goes over to somebody else.
    async fn hold(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        rules: Rules,
        place: Place,
        watcher: Watcher,
    ) {
        let _open = self.state.counts.open();
        let place = Arc::new(place);
        tokio::select! {
            () = place.gone() => self.state.counts.gave_way(),
            () = self.converse(stream, peer, rules, &place, watcher) => {}
        }
    }

    async fn converse(
        &self,
        mut stream: TcpStream,
        peer: SocketAddr,
        rules: Rules,
        place: &Arc<Place>,
        watcher: Watcher,
    ) {
        let mut first = [0];
        if let Some(nsq_port) = self.nsq_port {
            // NSQ's magic begins with a space, which no HTTP request does: the first byte decides.
            match timeout(rules.head_timeout, stream.peek(&mut first)).await {
                Ok(Ok(1)) if first == [b' '] => return refuse_nsq(&mut stream, nsq_port).await,
                Ok(Ok(1)) => {}
                // Closed, broken or silent: there is nobody to answer.
                Ok(_) | Err(_) => return,
            }
        }
        // Answers are small and complete: waiting for more to send would only add to their latency.
        let _ = stream.set_nodelay(true);
        let Some(encryption) = &self.encryption else {
            return self.answer(stream, peer, rules, place, watcher).await;
        };
        match timeout(rules.head_timeout, stream.peek(&mut first)).await {
            Ok(Ok(1)) if first[0].is_ascii_uppercase() => return refuse_plain(&mut stream).await,
            Ok(Ok(1)) => {}
            Ok(_) | Err(_) => return,
        }
        match timeout(rules.head_timeout, encryption.accept(stream)).await {
            Ok(Ok(stream)) => self.answer(stream, peer, rules, place, watcher).await,
            Ok(Err(error)) => tracing::debug!(%error, "HTTPS: no handshake"),
            Err(_) => tracing::debug!("HTTPS: no handshake in time"),
        }
    }

    /// Answers requests until either side ends it.
    async fn answer(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        peer: SocketAddr,
        rules: Rules,
        place: &Arc<Place>,
        watcher: Watcher,
    ) {
        let conversation = Conversation {
            state: Arc::clone(&self.state),
            peer,
            place: Arc::clone(place),
            is_reserve: rules.is_reserve,
        };
        let service = service_fn(move |request| conversation.clone().answer(request));
        let io = TokioIo::new(Paced::new(stream));
        let connection = rules.http.serve_connection(io, service);
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!(%error, "HTTP: connection ended");
        }
    }
}

impl Rules {
    fn new(head_timeout: Duration, is_reserve: bool) -> Rules {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(head_timeout)
            .max_buf_size(HEAD_MAX_BYTES)
            .keep_alive(!is_reserve);
        Rules {
            http,
            head_timeout,
            is_reserve,
        }
    }
}

/// Tells an NSQ client that this is not its port.
async fn refuse_nsq(stream: &mut TcpStream, nsq_port: u16) {
    let text = format!(
        "400 Bad Request: this is the HTTP port; the NSQ protocol is spoken on port {nsq_port}\n"
    );
    refuse(stream, &text).await;
}

/// Tells whoever asks without TLS that this port speaks nothing else: a request begins with a letter, TLS does not.
async fn refuse_plain(stream: &mut TcpStream) {
    let text = "400 Bad Request: this port speaks HTTPS; write https:// before its address\n";
    refuse(stream, text).await;
}

async fn refuse(stream: &mut TcpStream, body: &str) {
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    if stream.write_all(answer.as_bytes()).await.is_err() || stream.shutdown().await.is_err() {
        return;
    }
    // Closing with unread bytes would reset the connection and could take the answer with it.
    let mut scrap = [0; 1024];
    let drained = async { while stream.read(&mut scrap).await.is_ok_and(|read| read > 0) {} };
    let _ = timeout(LINGER_TIMEOUT, drained).await;
}
