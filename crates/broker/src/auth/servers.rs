//! The thread that asks auth servers for all reactors.
//!
//! A connection has one question at a time, so no more wait than there are connections. Each gets its answer within bounded time, if
//! only that there is none.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use access::{ANSWER_MAX_BYTES, Authorizations};
use axum::body::Bytes;
use axum::http::{Method, Request, StatusCode, Uri, header};
use http::exchange;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::line::Line;
use super::{AuthConfig, AuthMethod, AuthQuestion};
use crate::BrokerError;
use crate::connection::ConnectionKey;
use crate::reactor::{Inbox, Mail};
use crate::sys;
use crate::tls::TlsConfig;
use credentials::{Trust, TrustFiles};

/// A question that has waited for longer is answered with no.
const WAIT_MAX: Duration = Duration::from_secs(30);

const OPTION: &str = "--auth-http-address";

/// The way to the thread.
#[derive(Debug)]
pub struct AuthServers(UnboundedSender<AuthQuestion>);

/// What came of a question.
#[derive(Debug)]
pub struct Permitted {
    /// Whose it was.
    pub connection: ConnectionKey,
    /// What it may do; `None`: no server said so.
    pub authorizations: Option<Authorizations>,
}

/// One server.
#[derive(Clone, Debug)]
struct Server {
    name: String,
    uri: Uri,
    /// Where it speaks TLS.
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// All of them, and how they are asked.
#[derive(Debug)]
struct Servers {
    list: Vec<Server>,
    method: AuthMethod,
    connect_timeout: Duration,
    request_timeout: Duration,
}

/// Who was asked about, and what came of it.
struct Told {
    reactor: usize,
    remote: IpAddr,
    permitted: Permitted,
}

impl AuthServers {
    /// Starts the thread, which answers into `inboxes`, by the reactors' numbers, and ends when nobody can ask it any more. Servers
    /// that speak TLS are judged by the authorities of `tls`.
    ///
    /// # Errors
    /// [`BrokerError::Config`] naming an address that is none, [`BrokerError::Io`] where the system gives no thread.
    pub fn start(
        config: &AuthConfig,
        tls: Option<&TlsConfig>,
        inboxes: &[Arc<Inbox>],
    ) -> Result<AuthServers, BrokerError> {
        let list = config.addresses.iter().map(|name| Server::new(name, tls));
        let servers = Arc::new(Servers {
            list: list.collect::<Result<_, _>>()?,
            method: config.method,
            connect_timeout: config.connect_timeout,
            request_timeout: config.request_timeout,
        });
        let io = |source| BrokerError::Io {
            what: String::from("starting the thread for auth servers"),
            source,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(io)?;
        let (orders, ordered) = unbounded_channel();
        let inboxes = inboxes.to_vec();
        std::thread::Builder::new()
            .name(String::from("auth"))
            .spawn(move || runtime.block_on(serve(servers, ordered, &inboxes)))
            .map_err(io)?;
        Ok(AuthServers(orders))
    }

    /// Has a question asked; the answer comes as [`Mail::Permitted`].
    pub fn ask(&self, question: AuthQuestion) {
        // The thread ends after all who can ask it.
        let _ = self.0.send(question);
    }
}

impl Server {
    fn new(name: &str, tls: Option<&TlsConfig>) -> Result<Server, BrokerError> {
        let bad = |reason: String| BrokerError::Config {
            option: OPTION,
            reason,
        };
        let url = match name.contains("://") {
            true => name.to_owned(),
            false => format!("http://{name}/auth"),
        };
        let none = || {
            bad(format!(
                "{name:?} is not an address; use HOST:PORT or a URL"
            ))
        };
        let uri: Uri = url.parse().map_err(|_| none())?;
        let host = uri
            .host()
            .filter(|host| !host.is_empty())
            .ok_or_else(none)?;
        let tls = match uri.scheme_str() {
            Some("http") => None,
            Some("https") => {
                let plain = host.trim_start_matches('[').trim_end_matches(']');
                let server = ServerName::try_from(plain.to_owned()).map_err(|_| none())?;
                let authorities = tls.and_then(|tls| tls.authorities.as_deref());
                let authorities = authorities.ok_or_else(|| {
                    bad(format!("{name}: a server that speaks TLS is judged by --tls-root-ca-file; give the file with its authorities"))
                })?;
                let files = TrustFiles {
                    authorities: authorities.to_owned(),
                    own: None,
                };
                let trust = Trust::load(&files).map_err(|error| bad(format!("{name}: {error}")))?;
                Some((trust.config(), server))
            }
            _ => return Err(none()),
        };
        let name = name.to_owned();
        Ok(Server { name, uri, tls })
    }

    /// One question; `form` is what is asked.
    async fn ask(&self, servers: &Servers, form: &str) -> Result<Authorizations, String> {
        let authority = self
            .uri
            .authority()
            .map_or("", |authority| authority.as_str());
        let port = self.uri.port_u16();
        let port = port.unwrap_or(if self.tls.is_some() { 443 } else { 80 });
        let host = self.uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let connecting = TcpStream::connect((host, port));
        let stream = timeout(servers.connect_timeout, connecting).await;
        let stream = stream
            .map_err(|_| String::from("it does not accept a connection"))?
            .map_err(|error| error.to_string())?;
        let request = self.request(servers.method, authority, form)?;
        let answer = async {
            match &self.tls {
                None => exchange(stream, request, ANSWER_MAX_BYTES).await,
                Some((config, server)) => {
                    let connector = TlsConnector::from(Arc::clone(config));
                    let stream = connector.connect(server.clone(), stream).await;
                    let stream = stream.map_err(|error| error.to_string())?;
                    exchange(stream, request, ANSWER_MAX_BYTES).await
                }
            }
        };
        let within = servers.request_timeout;
        let answer = timeout(within, answer).await;
        match answer.map_err(|_| format!("no answer within {within:?}"))?? {
            (StatusCode::OK, body) => {
                Authorizations::parse(&body).map_err(|error| error.to_string())
            }
            (status, _) => Err(format!("it answers {status}")),
        }
    }

    fn request(
        &self,
        method: AuthMethod,
        authority: &str,
        form: &str,
    ) -> Result<Request<Bytes>, String> {
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let request = Request::builder()
            .header(header::HOST, authority)
            .header(header::ACCEPT, "application/vnd.nsq; version=1.0");
        let request = match method {
            AuthMethod::Get => {
                let sign = if path.contains('?') { '&' } else { '?' };
                let target = format!("{path}{sign}{form}");
                request.uri(target).body(Bytes::new())
            }
            AuthMethod::Post => request
                .method(Method::POST)
                .uri(path)
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(Bytes::from(form.to_owned())),
        };
        request.map_err(|error| error.to_string())
    }
}

impl Servers {
    /// Asks one after the other, from any of them, until one says what the client may do.
    async fn ask(&self, question: &AuthQuestion) -> Option<Authorizations> {
        let form = question.form();
        let from = sys::random::<8>().map_or(0, |bytes| u64::from_ne_bytes(bytes) as usize);
        for number in 0..self.list.len() {
            let server = &self.list[from.wrapping_add(number) % self.list.len()];
            match server.ask(self, &form).await {
                Ok(authorizations) => return Some(authorizations),
                // Nothing of it is for the client, who is a stranger.
                Err(why) => tracing::warn!(
                    "auth server {}: nothing about a client of {}: {why}",
                    server.name,
                    question.remote
                ),
            }
        }
        None
    }
}

async fn serve(
    servers: Arc<Servers>,
    mut ordered: UnboundedReceiver<AuthQuestion>,
    inboxes: &[Arc<Inbox>],
) {
    let mut line = Line::default();
    let mut asked = JoinSet::new();
    loop {
        let now = sys::monotonic_now();
        while let Some((since, question)) = line.next(now) {
            let servers = Arc::clone(&servers);
            asked.spawn(async move { answer(&servers, question, since).await });
        }
        let pause = line.wakes_at().map(|at| at.saturating_since(now));
        let paused = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            question = ordered.recv() => {
                let Some(question) = question else { return };
                line.join(question.remote, (sys::monotonic_now(), question));
            }
            Some(told) = asked.join_next() => {
                if let Ok(told) = told {
                    let is_refused = told.permitted.authorizations.is_none();
                    line.answered(told.remote, is_refused, sys::monotonic_now());
                    if let Some(inbox) = inboxes.get(told.reactor) {
                        inbox.post(&mut vec![Mail::Permitted(Box::new(told.permitted))]);
                    }
                }
            }
            () = paused => {}
        }
    }
}

async fn answer(servers: &Servers, question: AuthQuestion, since: clock::Instant) -> Told {
    let is_late = sys::monotonic_now().saturating_since(since) > WAIT_MAX;
    let authorizations = match is_late {
        true => None,
        false => servers.ask(&question).await,
    };
    Told {
        reactor: question.reactor,
        remote: question.remote,
        permitted: Permitted {
            connection: question.connection,
            authorizations,
        },
    }
}

#[cfg(test)]
mod tests;
