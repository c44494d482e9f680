//! A controller as a part of a process: its ports bound, its parts started, and stopped in order.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use control::service::{Service, Spawner};
use control::store::{MemoryStore, RedbStore, Store};
use control::{ControlHandle, Settings, http, link_server, lookup};
use tokio::net::TcpListener;

use crate::address::ListenAddress;
use crate::daemon::Part;
use crate::error::Failure;
use crate::http_flags::HttpFlags;
use crate::link_key::KeyFile;

/// Where a controller listens and what it keeps.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    /// HTTP API.
    pub(crate) http: SocketAddr,
    /// Where brokers dial in.
    pub(crate) link: SocketAddr,
    /// nsqlookupd's TCP protocol.
    pub(crate) lookup_tcp: SocketAddr,
    /// nsqlookupd's HTTP API.
    pub(crate) lookup_http: SocketAddr,
    /// Further names by which HTTP may be asked to change something.
    pub(crate) http_hosts: Vec<String>,
}

/// The flags for [`Ports`].
#[derive(Args, Clone, Debug)]
pub(crate) struct PortFlags {
    /// Address for HTTP; :4180 lets other machines reach it.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4180")]
    http: ListenAddress,
    #[command(flatten)]
    names: HttpFlags,
    /// Address that brokers dial; :4170 lets other machines reach it.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4170")]
    link_address: ListenAddress,
    /// Address for nsqlookupd's TCP protocol.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4160")]
    lookup_tcp_address: ListenAddress,
    /// Address for nsqlookupd's HTTP API.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4161")]
    lookup_http_address: ListenAddress,
    /// File with the key that brokers prove, created if it is missing [default: link.key in --data-dir, or a temporary
    /// file].
    #[arg(long, value_name = "FILE")]
    pub(crate) link_key: Option<PathBuf>,
}

impl PortFlags {
    /// Where to listen.
    pub(crate) fn ports(&self) -> Ports {
        Ports {
            http: self.http.0,
            link: self.link_address.0,
            lookup_tcp: self.lookup_tcp_address.0,
            lookup_http: self.lookup_http_address.0,
            http_hosts: self.names.hosts.clone(),
        }
    }
}

/// A running controller.
pub(crate) struct ControllerDaemon {
    /// The way in.
    pub(crate) handle: ControlHandle,
    /// Ports as they are bound.
    pub(crate) ports: Ports,
    /// What brokers prove.
    pub(crate) key: KeyFile,
    service: Part,
    fronts: Vec<Part>,
}

impl ControllerDaemon {
    /// Binds all ports, reads back what was kept, and serves.
    pub(crate) async fn start(
        settings: Settings,
        ports: Ports,
        key: KeyFile,
        data_dir: Option<PathBuf>,
        spawner: Option<Spawner>,
    ) -> Result<ControllerDaemon, Failure> {
        let (api, http_address) = bind("HTTP", ports.http).await?;
        let (links, link_address) = bind("brokers", ports.link).await?;
        let (lookup_tcp, lookup_tcp_address) = bind("lookup (TCP)", ports.lookup_tcp).await?;
        let (lookup_http, lookup_http_address) = bind("lookup (HTTP)", ports.lookup_http).await?;
        let link_key = key.key.clone();
        let store: Box<dyn Store> = match data_dir {
            Some(folder) => Box::new(RedbStore::open(&folder.join(STORE_FILE))?),
            None => Box::new(MemoryStore::default()),
        };
        let (service, handle, words) = Service::open(settings, store, link_key.clone(), spawner)?;
        let service = Part::spawn(|stopped| service.run(stopped));
        let (for_api, for_lookup, for_links) = (handle.clone(), handle.clone(), handle.clone());
        let config = lookup::Config {
            http_hosts: ports.http_hosts.clone(),
            ..lookup::Config::default()
        };
        let hosts = ports.http_hosts.clone();
        let fronts = vec![
            Part::spawn(|stopped| link_server::serve(links, link_key, for_links, words, stopped)),
            Part::spawn(|stopped| http::serve(for_api, api, hosts, stopped)),
            Part::spawn(|stopped| {
                lookup::serve(Some(for_lookup), lookup_tcp, lookup_http, config, stopped)
            }),
        ];
        let ports = Ports {
            http: http_address,
            link: link_address,
            lookup_tcp: lookup_tcp_address,
            lookup_http: lookup_http_address,
            ..ports
        };
        tracing::info!("controller: HTTP on {http_address}, brokers dial {link_address}");
        tracing::info!(
            "controller: brokers need the key in {} (srtm broker --link-key)",
            key.path.display()
        );
        tracing::info!(
            "controller: lookup on {lookup_tcp_address} (TCP) and {lookup_http_address} (HTTP)"
        );
        Ok(ControllerDaemon {
            handle,
            ports,
            key,
            service,
            fronts,
        })
    }

    /// Ends all parts.
    pub(crate) async fn stop(self) {
        for front in self.fronts {
            front.stop().await;
        }
        self.service.stop().await;
    }
}

/// The controller's state, in its data folder.
const STORE_FILE: &str = "controller.redb";

async fn bind(what: &str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let fail = || format!("listening for {what} on {address}");
    let listener = TcpListener::bind(address)
        .await
        .map_err(Failure::io(fail()))?;
    let bound = listener.local_addr().map_err(Failure::io(fail()))?;
    Ok((listener, bound))
}
