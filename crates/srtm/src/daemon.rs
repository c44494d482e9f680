//! A broker as a process: started in order, stopped in order, whichever command runs it.
//!
//! Start: catalog file, HTTP port bound, reactors, catalog restored, then the addresses are
//! announced. Stop on SIGINT or SIGTERM: HTTP takes no more requests, the catalog is written,
//! queued messages drain to connected consumers; losses are reported, by the exit code too. A
//! second signal ends the process at once.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;

use broker::agent::{self, EpochFile};
use broker::announce::AnnouncePort;
use broker::catalog_file::{self, CatalogFile};
use broker::http::{self, HttpInfo, LogLevel};
use broker::lookupd::{self, Registrar};
use broker::sharing::SharingPort;
use broker::takeover;
use broker::tls::TlsRequired;
use broker::{Broker, Config, ControllerLink, Handle, Losses, statsd};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::duration::GoDuration;
use crate::error::Failure;

/// Exit code of a process that a second signal ended, as shells have it for SIGINT.
pub(crate) const CUT_SHORT: i32 = 130;

/// What ends a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// SIGINT or SIGTERM.
    Signal,
    /// A signal, or the end of standard input: so the parent ends it, and so its death does.
    SignalOrEndOfInput,
}

/// Runs a broker until it is told to end.
///
/// # Errors
/// What keeps it from starting, and [`Failure::Lost`] where the stop lost messages.
pub(crate) fn run(config: Config, log_level: &LogLevel, until: Until) -> Result<(), Failure> {
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let daemon = Daemon::start(config, log_level).await?;
        match until {
            Until::Signal => signals.next().await,
            Until::SignalOrEndOfInput => tokio::select! {
                () = signals.next() => {}
                () = end_of_input() => {}
            },
        }
        match daemon.stop(&mut signals).await.messages() {
            0 => Ok(()),
            messages => Err(Failure::Lost {
                what: format!("{messages} messages"),
            }),
        }
    });
    // A read of standard input that nobody ends must not keep the process.
    runtime.shutdown_background();
    ended
}

/// Completes when standard input ends.
async fn end_of_input() {
    let reading = tokio::task::spawn_blocking(|| {
        // An input that cannot be read has ended as well.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    });
    let _ = reading.await;
}

/// The runtime of everything that is not the data path: two threads, so that a slow scrape does not
/// keep a signal waiting.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(2)
        .thread_name("control")
        .enable_all()
        .build()
        .map_err(Failure::io("starting the runtime"))
}

/// A running broker with its HTTP port and its catalog file.
pub(crate) struct Daemon {
    broker: Broker,
    http: Option<Part>,
    catalog: Option<Part>,
    agent: Option<Part>,
    registrar: Option<Part>,
    sharing: Option<Part>,
    announce: Option<Part>,
    statsd: Option<Part>,
}

impl Daemon {
    /// Starts all parts and logs where they listen.
    pub(crate) async fn start(mut config: Config, log_level: &LogLevel) -> Result<Daemon, Failure> {
        let catalog_file = open_catalog(&config)?;
        if let Some(link) = &mut config.controller {
            recall(link, config.data_path.as_deref())?;
        }
        let [listener, https] = bind_http([config.http_address, config.https_address]).await?;
        let http = HttpPlace::of(&config, listener.as_ref(), https.as_ref())?;
        let http_address = listener.as_ref().or(https.as_ref());
        let http_address = http_address.map(TcpListener::local_addr).transpose();
        let http_address = http_address.map_err(Failure::io("reading the HTTP address"))?;
        let broker = Broker::prepare(config.clone())?;
        let (handle, tcp_address) = (broker.handle(), broker.tcp_address());
        let mut daemon = Daemon {
            broker,
            http: None,
            catalog: None,
            agent: None,
            registrar: None,
            sharing: None,
            announce: None,
            statsd: None,
        };
        if let Some(file) = catalog_file {
            if let Err(error) = file.restore(&handle).await {
                tokio::task::block_in_place(|| daemon.broker.stop());
                return Err(error.into());
            }
            handle.keep_in(file).await;
            let handle = handle.clone();
            daemon.catalog = Some(Part::spawn(|stopped| catalog_file::keep(handle, stopped)));
        }
        daemon.registrar = register(&handle, tcp_address, http_address).await?;
        daemon.broker.open();
        tracing::info!("TCP: listening on {tcp_address}");
        if let Some(address) = http_address {
            let plain = listener.is_some();
            let info = HttpInfo::new(&config, tcp_address, address, log_level.clone());
            daemon.http = Some(Part::spawn(|stopped| {
                http::serve(handle, [listener, https], info, stopped)
            }));
            if plain {
                tracing::info!("HTTP: listening on {address}");
            }
        }
        if let Some(announce) = config.announce.clone() {
            let port = AnnouncePort::bind(announce).await?;
            tracing::info!("announcements: listening on {}", port.address()?);
            let handle = daemon.handle();
            daemon.announce = Some(Part::spawn(move |stopped| {
                port.run(handle, tcp_address, stopped)
            }));
        }
        daemon.statsd = config.statsd.address.is_some().then(|| {
            let (handle, port) = (daemon.handle(), http_address.map_or(0, |http| http.port()));
            Part::spawn(move |stopped| statsd::run(handle, port, stopped))
        });
        let obeys = config.controller.is_some();
        let (sharing, host) = (config.sharing.clone(), &config.broadcast_address);
        let port = SharingPort::bind(sharing, tcp_address, host, obeys)?;
        let gossip_address = port.address();
        if let Some(address) = gossip_address {
            tracing::info!("gossip: listening on {address}");
        }
        let sharer = daemon.handle();
        daemon.sharing = Some(Part::spawn(move |stopped| port.run(sharer, stopped)));
        daemon.obey(&config, tcp_address, http, gossip_address);
        Ok(daemon)
    }

    /// Goes to the controller, where there is one, and says where this broker is found.
    fn obey(
        &mut self,
        config: &Config,
        tcp: SocketAddr,
        http: Option<HttpPlace>,
        gossip: Option<SocketAddr>,
    ) {
        let Some(mut link) = config.controller.clone() else {
            return;
        };
        link.gossip_address = gossip.map(|address| address.to_string());
        let at = |address: SocketAddr| format!("{}:{}", config.broadcast_address, address.port());
        let (handle, tcp) = (self.handle(), at(tcp));
        let http = http.map(|http| match http.is_encrypted {
            true => ::http::encrypted_address(&at(http.address)),
            false => at(http.address),
        });
        self.agent = Some(Part::spawn(|stopped| {
            agent::run(handle, link, tcp, http, stopped)
        }));
    }

    /// The handle of the broker.
    pub(crate) fn handle(&self) -> Handle {
        self.broker.handle()
    }

    /// Drains and ends everything; a signal meanwhile ends the process. Gives what is lost.
    pub(crate) async fn stop(self, signals: &mut Signals) -> Losses {
        let drain_timeout = GoDuration(self.handle().config().drain_timeout);
        tracing::info!(
            "stopping: consumers get queued messages until they have finished none for {drain_timeout}; \
             a second signal stops at once"
        );
        let stopping = async {
            for part in [self.announce, self.statsd].into_iter().flatten() {
                part.stop().await;
            }
            for link in [self.agent, self.registrar].into_iter().flatten() {
                link.stop().await;
            }
            if let Some(sharing) = self.sharing {
                sharing.stop().await;
            }
            // The file asks the reactors once more, so it goes before them.
            if let Some(catalog) = self.catalog {
                catalog.stop().await;
            }
            let broker = self.broker;
            let draining = tokio::task::spawn_blocking(|| broker.stop());
            if let Some(http) = self.http {
                http.stop().await;
            }
            draining.await.unwrap_or_else(|error| {
                report(Err(error));
                Losses::default()
            })
        };
        tokio::select! {
            losses = stopping => {
                tracing::info!("bye");
                losses
            }
            () = signals.next() => {
                tracing::warn!("stopped by a second signal: queued messages are lost");
                std::process::exit(CUT_SHORT);
            }
        }
    }
}

/// The catalog of the data folder, if there is one, with what nsqd has left there.
fn open_catalog(config: &Config) -> Result<Option<CatalogFile>, Failure> {
    let Some(data_path) = config.data_path.as_deref() else {
        return Ok(None);
    };
    let mut file = CatalogFile::open(data_path)?;
    takeover::take_over(data_path, &mut file, config.backlog.as_ref())?;
    Ok(Some(file))
}

/// Where others find a broker's HTTP.
#[derive(Clone, Copy, Debug)]
struct HttpPlace {
    address: SocketAddr,
    is_encrypted: bool,
}

impl HttpPlace {
    /// The plain port, unless there is none or nothing is answered there.
    fn of(
        config: &Config,
        plain: Option<&TcpListener>,
        encrypted: Option<&TcpListener>,
    ) -> Result<Option<HttpPlace>, Failure> {
        let plain =
            plain.filter(|_| encrypted.is_none() || config.tls_required != TlsRequired::Yes);
        let Some(listener) = plain.or(encrypted) else {
            return Ok(None);
        };
        let address = listener.local_addr();
        Ok(Some(HttpPlace {
            address: address.map_err(Failure::io("reading the HTTP address"))?,
            is_encrypted: plain.is_none(),
        }))
    }
}

/// Which broker this is and which controller it obeyed last, as its data folder has them.
fn recall(link: &mut ControllerLink, data_path: Option<&Path>) -> Result<(), Failure> {
    link.identity = agent::identity(data_path)?;
    link.epoch_file = data_path.map(EpochFile::open).transpose()?;
    Ok(())
}

/// A task that ends when it is told to.
pub(crate) struct Part {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Completes when a part is to end.
pub(crate) type Stopped = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Part {
    /// Starts a part; it is given a future that completes when it is to end.
    pub(crate) fn spawn<F>(part: impl FnOnce(Stopped) -> F) -> Part
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        // A dropped sender means the same as a message.
        let stopped: Stopped = Box::pin(async {
            let _ = stopped.await;
        });
        Part {
            stop,
            task: tokio::spawn(part(stopped)),
        }
    }

    /// Tells the part to end and waits until it has.
    pub(crate) async fn stop(self) {
        // A part that has ended by itself needs no telling.
        let _ = self.stop.send(());
        report(self.task.await);
    }
}

/// The signals that end a daemon: SIGINT and SIGTERM.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Takes over both signals from now on.
    pub(crate) fn new() -> Result<Signals, Failure> {
        let listen = |kind| signal(kind).map_err(Failure::io("listening for signals"));
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Registers a broker on its own with nsqlookupds: with those that it is told at its start, and later.
async fn register(
    handle: &Handle,
    tcp: SocketAddr,
    http: Option<SocketAddr>,
) -> Result<Option<Part>, Failure> {
    let config = handle.config();
    let (None, Some(http)) = (&config.controller, http) else {
        return Ok(None);
    };
    let identity = lookupd::identity(config, tcp.port(), http.port());
    let registrar = Registrar::begin(handle.clone(), identity).await?;
    Ok(Some(Part::spawn(|stopped| registrar.run(stopped))))
}

/// Binds the ports of HTTP and HTTPS, those that there are.
async fn bind_http(
    addresses: [Option<SocketAddr>; 2],
) -> Result<[Option<TcpListener>; 2], Failure> {
    let mut bound = [None, None];
    for (address, bound) in addresses.into_iter().zip(&mut bound) {
        if let Some(address) = address {
            let listener = TcpListener::bind(address).await;
            let failed = Failure::io(format!("listening for HTTP on {address}"));
            *bound = Some(listener.map_err(failed)?);
        }
    }
    Ok(bound)
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a part of the broker failed");
    }
}
