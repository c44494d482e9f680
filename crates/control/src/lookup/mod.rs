//! A lookup service compatible with nsqlookupd 1.3.0: stock nsqds register over TCP, consumers and
//! tools ask over HTTP.
//!
//! With a control plane its brokers are listed as well, without registering; without one this is a
//! stand-alone nsqlookupd (`srtm nsqlookupd`). [`registry`] and [`session`] are pure; around them
//! are the two listeners. As with nsqlookupd nothing survives a restart: every nsqd registers anew
//! within its ping interval.

mod api;
mod cluster;
mod debug;
mod document;
mod peers;
pub mod registry;
pub mod session;

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use access::InForce;
use clock::{Instant, WallTime};
use futures_util::future::OptionFuture;
use http::{Counts, Encryption, Settings, hostname, serve as serve_http};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::ControlHandle;
use crate::http::CLOSE_TIMEOUT;
use cluster::Cluster;
use registry::{Registry, Rules};
use wire::lookup::Introduction;

/// The version shown: that of the nsqlookupd whose behaviour this is.
pub const NSQLOOKUPD_VERSION: &str = "1.3.0";

/// Field of an error's JSON object that holds its text; nsqlookupd's.
const TEXT_FIELD: &str = "message";

/// How a lookup introduces itself and what it holds.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// What peers are told as its address; `None` is the name of this machine.
    pub broadcast_address: Option<String>,
    /// Further names by which HTTP may be asked to change something.
    pub http_hosts: Vec<String>,
    /// Who may do what over HTTP; `None`: everybody may do everything.
    pub access: Option<InForce>,
    /// What HTTP is encrypted with; `None`: it is not.
    pub encryption: Option<Encryption>,
    /// Time-outs and bounds.
    pub rules: Rules,
}

/// What listeners and connections share.
#[derive(Debug)]
struct Lookup {
    registry: Mutex<Registry>,
    cluster: Cluster,
    inactive_after: Duration,
    /// The answer to IDENTIFY.
    introduction: Vec<u8>,
    zero: tokio::time::Instant,
}

/// Serves the listeners until told to stop; without `tcp` nobody registers. With `handle` the brokers of that control plane are found here too.
pub async fn serve(
    handle: Option<ControlHandle>,
    tcp: Option<TcpListener>,
    http_listener: TcpListener,
    config: Config,
    stopped: impl Future<Output = ()>,
) {
    let hosts = config.http_hosts.iter().chain(&config.broadcast_address);
    let settings = Settings {
        encryption: config.encryption.clone(),
        ..Settings::new(hosts.cloned(), TEXT_FIELD, CLOSE_TIMEOUT, Counts::default())
    };
    let port = |listener: &TcpListener| listener.local_addr().map_or(0, |at| at.port());
    let ports = [tcp.as_ref().map_or(0, port), port(&http_listener)];
    let access = config.access.clone();
    let lookup = Arc::new(Lookup::new(handle, config, ports));
    let (stop, is_stopping) = watch::channel(false);
    let stopping = || {
        let mut is_stopping = is_stopping.clone();
        async move {
            // The sender lives in this function; its end means the same.
            let _ = is_stopping.wait_for(|is_stopping| *is_stopping).await;
        }
    };
    let router = api::router(Arc::clone(&lookup), access);
    let served = async {
        tokio::join!(
            OptionFuture::from(tcp.map(|tcp| peers::serve(&lookup, tcp, stopping()))),
            serve_http(http_listener, router, settings, stopping()),
        )
    };
    let told = async {
        stopped.await;
        stop.send_replace(true);
    };
    tokio::join!(served, told);
}

impl Lookup {
    fn new(
        handle: Option<ControlHandle>,
        config: Config,
        [tcp_port, http_port]: [u16; 2],
    ) -> Lookup {
        let hostname = hostname();
        let introduction = Introduction {
            broadcast_address: config.broadcast_address.unwrap_or_else(|| hostname.clone()),
            hostname,
            http_port,
            tcp_port,
            version: String::from(NSQLOOKUPD_VERSION),
        };
        Lookup {
            cluster: Cluster::new(handle, config.rules),
            inactive_after: config.rules.inactive_after,
            registry: Mutex::new(Registry::new(config.rules)),
            // Text and numbers, which JSON holds.
            introduction: serde_json::to_vec(&introduction).unwrap_or_default(),
            zero: tokio::time::Instant::now(),
        }
    }

    /// The registry; never held while waiting.
    fn registry(&self) -> MutexGuard<'_, Registry> {
        // Whole after every call, so a panic elsewhere does not spoil it.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.zero.elapsed()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "nsqlookupd's /debug tells times of the wall clock"
)]
fn wall_now() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = since.map_or(0, |since| since.as_nanos());
    WallTime::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
