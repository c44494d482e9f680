//! A controller as a part of a process: its ports bound, its parts started, and stopped in order.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use control::service::{Service, Spawner};
use control::store::{MemoryStore, RedbStore, Store};
use control::{ControlHandle, LinkProof, Settings, http, link_server, lookup};
use credentials::Credentials;
use tokio::net::TcpListener;

use crate::access_flags::AccessFlags;
use crate::address::ListenAddress;
use crate::controller_tls_flags::ControllerTls;
use crate::daemon::{Part, Stopped};
use crate::error::Failure;
use crate::http_flags::HttpFlags;
use crate::link_key::KeyFile;

/// Where a controller listens and what it keeps.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    /// HTTP API.
    pub(crate) http: SocketAddr,
    /// The address that brokers dial.
    pub(crate) link: SocketAddr,
    /// nsqlookupd's TCP protocol, where it is spoken.
    pub(crate) lookup_tcp: Option<SocketAddr>,
    /// nsqlookupd's HTTP API.
    pub(crate) lookup_http: SocketAddr,
    /// By which names HTTP is asked to change something, and by whom.
    pub(crate) admission: http::Admission,
    /// Whether HTTP is HTTPS; known once ports are bound.
    pub(crate) is_encrypted: bool,
}

/// The flags for [`Ports`].
#[derive(Args, Clone, Debug)]
pub(crate) struct PortFlags {
    /// Address for HTTP; :4180 lets other machines reach it.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4180")]
    http: ListenAddress,
    #[command(flatten)]
    names: HttpFlags,
    #[command(flatten)]
    pub(crate) access: AccessFlags,
    /// Address that brokers dial; :4170 lets other machines reach it.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4170")]
    link_address: ListenAddress,
    /// Address for nsqlookupd's TCP protocol, which knows no TLS, or none [default: 127.0.0.1:4160;
    /// with --secure, none].
    #[arg(long, value_name = "ADDRESS|none", value_parser = lookup_address)]
    lookup_tcp_address: Option<LookupAddress>,
    /// Address for nsqlookupd's HTTP API.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4161")]
    lookup_http_address: ListenAddress,
    /// File with the key that brokers prove, created if it is missing [default: link.key in --data-dir, or a temporary
    /// file].
    #[arg(long, value_name = "FILE", group = "proof")]
    pub(crate) link_key: Option<PathBuf>,
}

impl PortFlags {
    /// Where to listen.
    ///
    /// `is_strict`: only what is encrypted is served, unless a flag says otherwise.
    ///
    /// # Errors
    /// [`Failure::Usage`] where strangers would be let in.
    pub(crate) fn ports(&self, is_strict: bool) -> Result<Ports, Failure> {
        let usual = LookupAddress((!is_strict).then_some(LOOKUP_TCP));
        let lookup_tcp = self.lookup_tcp_address.unwrap_or(usual).0;
        let doors = [
            ("--http", Some(self.http.0)),
            ("--lookup-tcp-address", lookup_tcp),
            ("--lookup-http-address", Some(self.lookup_http_address.0)),
        ];
        let doors = doors.into_iter().filter_map(|(flag, at)| Some((flag, at?)));
        self.access.check(doors)?;
        Ok(Ports {
            http: self.http.0,
            link: self.link_address.0,
            lookup_tcp: self.lookup_tcp_address.unwrap_or(usual).0,
            lookup_http: self.lookup_http_address.0,
            admission: http::Admission {
                hosts: self.names.hosts.clone(),
                access: self.access.in_force(),
            },
            is_encrypted: false,
        })
    }
}

/// A running controller.
pub(crate) struct ControllerDaemon {
    /// The handle of the controller.
    pub(crate) handle: ControlHandle,
    /// Ports as they are bound.
    pub(crate) ports: Ports,
    /// The key that brokers prove to have.
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
        tls: ControllerTls,
        data_dir: Option<PathBuf>,
        spawner: Option<Spawner>,
    ) -> Result<ControllerDaemon, Failure> {
        let (api, http_address) = bind("HTTP", ports.http).await?;
        let (links, link_address) = bind("brokers", ports.link).await?;
        let (lookup_tcp, lookup_tcp_address) = match ports.lookup_tcp {
            None => (None, None),
            Some(address) => bind("lookup (TCP)", address)
                .await
                .map(|(listener, address)| (Some(listener), Some(address)))?,
        };
        let (credentials, encryption) = tls.read()?;
        let (lookup_http, lookup_http_address) = bind("lookup (HTTP)", ports.lookup_http).await?;
        let proof = LinkProof {
            key: key.key.clone(),
            credentials: credentials.clone(),
        };
        let link_proof = LinkProof {
            credentials: credentials.clone().filter(|_| tls.is_link_encrypted),
            ..proof.clone()
        };
        let store: Box<dyn Store> = match data_dir {
            Some(folder) => Box::new(RedbStore::open(&folder.join(STORE_FILE))?),
            None => Box::new(MemoryStore::default()),
        };
        let (service, handle, heard) = Service::open(settings, store, proof, spawner)?;
        let service = Part::spawn(|stopped| service.run(stopped));
        let (for_api, for_lookup, for_links) = (handle.clone(), handle.clone(), handle.clone());
        let config = lookup::Config {
            http_hosts: ports.admission.hosts.clone(),
            access: ports.admission.access.clone(),
            encryption: encryption.clone(),
            ..lookup::Config::default()
        };
        let admission = ports.admission.clone();
        let scheme = match encryption {
            Some(_) => "HTTPS",
            None => "HTTP",
        };
        let is_encrypted = encryption.is_some();
        let mut fronts = vec![
            Part::spawn(|stopped| link_server::serve(links, link_proof, for_links, heard, stopped)),
            Part::spawn(|stopped| http::serve(for_api, api, admission, encryption, stopped)),
            Part::spawn(|stopped| {
                lookup::serve(Some(for_lookup), lookup_tcp, lookup_http, config, stopped)
            }),
        ];
        fronts.extend(credentials.map(|own| Part::spawn(|stopped| look_after(own, stopped))));
        let ports = Ports {
            http: http_address,
            link: link_address,
            lookup_tcp: lookup_tcp_address,
            lookup_http: lookup_http_address,
            is_encrypted,
            ..ports
        };
        tracing::info!("controller: {scheme} on {http_address}, brokers dial {link_address}");
        tracing::info!(
            "controller: brokers need the key in {} (srtm broker --link-key)",
            key.path.display()
        );
        let tcp = lookup_tcp_address.map(|address| format!("{address} (TCP) and "));
        let tcp = tcp.unwrap_or_default();
        tracing::info!("controller: lookup on {tcp}{lookup_http_address} ({scheme})");
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

/// Where nsqlookupd's TCP protocol is spoken unless told otherwise.
const LOOKUP_TCP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4160);

/// The interval at which the files of TLS are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// An address, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LookupAddress(Option<SocketAddr>);

fn lookup_address(text: &str) -> Result<LookupAddress, String> {
    match text {
        "none" => Ok(LookupAddress(None)),
        text => Ok(LookupAddress(Some(text.parse::<ListenAddress>()?.0))),
    }
}

/// Reads files of TLS again when they change.
async fn look_after(credentials: Arc<Credentials>, mut stopped: Stopped) {
    let mut looks = tokio::time::interval(LOOK_INTERVAL);
    loop {
        tokio::select! {
            () = &mut stopped => return,
            _ = looks.tick() => {
                let own = Arc::clone(&credentials);
                // It says itself what is wrong.
                let _ = tokio::task::spawn_blocking(move || own.look_again()).await;
            }
        }
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
