//! The broker in Tempo's announce protocol: a subscriber to publishers, a publisher to subscribers.
//!
//! It listens on its own UDP port, remembers who publishes and subscribes to what, announces in its
//! own name what concerns each of them, and connects to subscribers. Messages never come here:
//! publishers send theirs to the broker's data port, where reactors know the identifiers, and
//! connections to subscribers are handed to reactors.
//!
//! The broker subscribes to a topic on behalf of NSQ clients that have a channel of it: what peers
//! publish reaches the topic and its limit.

mod announce_socket;
mod deliveries;
mod dials;
mod participant;

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use announce::{Counters, NameCounts};
use wire::announce::Key;

use crate::{BrokerError, Handle};
use announce_socket::AnnounceSocket;
use participant::Participant;

/// How the broker takes part in announcements.
#[derive(Clone, Debug)]
pub struct AnnounceConfig {
    /// UDP address that publishers and subscribers announce themselves to.
    pub address: SocketAddr,
    /// Multicast group that is listened to as well.
    pub group: Option<SocketAddr>,
    /// Shared with all that are to be believed.
    pub key: Option<Key>,
    /// Time between two announcements; three of them is how long one counts.
    pub interval: Duration,
}

/// Counts of announcements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnnounceStats {
    /// Datagrams by outcome.
    pub datagrams: Counters,
    /// Identifiers.
    pub names: NameCounts,
    /// Publishers, subscribers and other brokers known.
    pub instances: u64,
    /// Subscribers that messages are sent to.
    pub deliveries: u64,
    /// Connections to subscribers that could not be made.
    pub dials_failed: u64,
}

/// Where the figures are to be seen.
#[derive(Clone, Debug, Default)]
pub struct AnnounceBoard(Arc<Mutex<AnnounceStats>>);

impl AnnounceBoard {
    /// The figures at this moment.
    #[must_use]
    pub fn stats(&self) -> AnnounceStats {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, stats: AnnounceStats) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = stats;
    }
}

/// A broker's announce port, bound.
#[derive(Debug)]
pub struct AnnouncePort {
    config: AnnounceConfig,
    socket: AnnounceSocket,
    group: Option<AnnounceSocket>,
}

impl AnnouncePort {
    /// Binds the port and joins the group.
    ///
    /// # Errors
    /// [`BrokerError::Io`] naming the address.
    pub async fn bind(config: AnnounceConfig) -> Result<AnnouncePort, BrokerError> {
        let io = |address: SocketAddr| {
            let what = format!("listening for announcements on {address}");
            move |source| BrokerError::Io { what, source }
        };
        let address = config.address;
        let socket = UdpSocket::bind(address).and_then(AnnounceSocket::new);
        let socket = socket.map_err(io(address))?;
        let group = match config.group {
            Some(group) => Some(
                join(group)
                    .and_then(AnnounceSocket::new)
                    .map_err(io(group))?,
            ),
            None => None,
        };
        Ok(AnnouncePort {
            config,
            socket,
            group,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// [`BrokerError::Io`].
    pub fn address(&self) -> Result<SocketAddr, BrokerError> {
        self.socket.local_addr().map_err(|source| BrokerError::Io {
            what: String::from("reading the announce port"),
            source,
        })
    }

    /// Takes part until `stop` completes, then takes its leave. `data` is where the broker takes messages by TCP.
    pub async fn run(self, handle: Handle, data: SocketAddr, stop: impl Future<Output = ()>) {
        let AnnouncePort {
            config,
            socket,
            group,
        } = self;
        let mut participant = Participant::new(handle, config, data, socket, group);
        tokio::select! {
            () = participant.keep() => {}
            () = stop => {}
        }
        participant.leave().await;
    }
}

/// A socket that hears a multicast group, beside others on this machine.
fn join(group: SocketAddr) -> std::io::Result<UdpSocket> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(
        Domain::for_address(group),
        Type::DGRAM.nonblocking(),
        Some(Protocol::UDP),
    )?;
    socket.set_reuse_address(true)?;
    socket.bind(&group.into())?;
    match group {
        SocketAddr::V4(v4) => socket.join_multicast_v4(v4.ip(), &Ipv4Addr::UNSPECIFIED)?,
        SocketAddr::V6(v6) => socket.join_multicast_v6(v6.ip(), v6.scope_id())?,
    }
    Ok(socket.into())
}
