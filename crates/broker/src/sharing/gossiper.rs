//! This broker among those that gossip: its node, and the port that carries the node's datagrams.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use clock::Instant;
use gossip::{Branches, Key, LimitId, Node, NodeConfig, Socket};
use link::Sharers;
use rustc_hash::FxHashSet;
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::{INTERVALS_MS, Remotes, SharingConfig};
use crate::sys;
use crate::topic::{Group, IntervalEnd, LimitNumber};

/// The UDP port of gossip.
#[derive(Debug)]
pub(super) struct Port {
    socket: Socket,
    /// The same socket, to wait for.
    readiness: UdpSocket,
    address: SocketAddr,
}

impl Port {
    /// Binds it; to be called within a runtime.
    pub(super) fn bind(address: SocketAddr) -> io::Result<Port> {
        let socket = Socket::bind(address)?;
        let address = socket.local_addr()?;
        let twin = std::net::UdpSocket::from(socket.as_fd().try_clone_to_owned()?);
        let readiness = UdpSocket::from_std(twin)?;
        Ok(Port {
            socket,
            readiness,
            address,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Completes when something has come since it was read from last; if more waits than is read at one go, the end of an
    /// interval comes upon it.
    pub(super) async fn readable(&self) {
        if self.readiness.readable().await.is_err() {
            return std::future::pending().await;
        }
        // Reading is the node's business; what comes from now on is news again.
        let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _ = self.readiness.try_io(Interest::READABLE, nothing);
    }
}

/// One life of this broker on one list of brokers.
#[derive(Debug)]
pub(super) struct Gossiper {
    node: Node,
    limits: FxHashSet<LimitNumber>,
}

impl Gossiper {
    /// Follows a list: nobody is connected yet, and no limit known.
    ///
    /// # Errors
    /// Why the list cannot be followed, and what to do.
    pub(super) fn new(
        sharers: &Sharers,
        config: &SharingConfig,
        port: Option<&Port>,
    ) -> Result<(Gossiper, Group), String> {
        let port = port.ok_or(
            "this broker has no gossip address: start it with --gossip-address IP:PORT, as others reach it",
        )?;
        let addresses: Result<Vec<SocketAddr>, _> = sharers
            .addresses
            .iter()
            .map(|address| address.parse())
            .collect();
        let peers = addresses.map_err(|_| {
            let addresses = sharers.addresses.join(", ");
            format!("the controller's list holds what is no ip:port: {addresses}")
        })?;
        let me = port.address();
        let place = peers.iter().position(|peer| *peer == me).ok_or_else(|| {
            let generation = sharers.generation;
            format!("list {generation} of the controller does not name this broker's gossip address {me}")
        })?;
        let key = key(sharers, config)?;
        let brokers = peers.len() as u32;
        let interval_ms = sharers
            .interval_ms
            .clamp(*INTERVALS_MS.start(), *INTERVALS_MS.end());
        let incarnation = sys::wall_now().as_nanos();
        let branches = match u32::from(sharers.branches) >= brokers.saturating_sub(1) {
            true => Branches::Mesh,
            false => Branches::Random(sharers.branches),
        };
        let config = NodeConfig {
            me,
            peers,
            key,
            branches,
            interval: Duration::from_millis(interval_ms),
            incarnation,
            seed: incarnation,
        };
        let node = Node::new(config, sys::monotonic_now()).map_err(|error| error.to_string())?;
        let group = Group {
            brokers,
            me: place as u32,
            generation: sharers.generation,
        };
        let limits = FxHashSet::default();
        Ok((Gossiper { node, limits }, group))
    }

    /// What is known of the others, by limit.
    pub(super) fn remotes(&self) -> Remotes {
        let limits = self.limits.iter();
        limits
            .map(|&number| (number, self.node.remote(LimitId(number))))
            .collect()
    }

    /// Ends an interval of all limits; of those that are shared no more, gossip ends.
    pub(super) fn end_interval(&mut self, now: Instant, ends: &[IntervalEnd]) {
        let mut shared = FxHashSet::default();
        for end in ends {
            let Some(number) = end.number else { continue };
            shared.insert(number);
            let id = LimitId(number);
            if self.limits.insert(number)
                && let Err(error) = self.node.add_limit(id)
            {
                tracing::error!("{error}; this broker keeps an N-th part of it");
            }
            // One that could not be added is told to nobody.
            let _ = self.node.end_interval(now, id, end.update);
        }
        self.limits.retain(|number| {
            let is_shared = shared.contains(number);
            if !is_shared {
                self.node.remove_limit(LimitId(*number));
            }
            is_shared
        });
    }

    /// Hears what has come, does what is due, and sends what is to be said.
    pub(super) fn exchange(&mut self, port: &mut Port, now: Instant) {
        port.socket.drain(&mut self.node, now);
        self.node.wake(now);
        port.socket.flush(&mut self.node);
    }

    /// Tells some of the others that this broker goes.
    pub(super) fn leave(&mut self, port: &mut Port) {
        self.node.leave();
        port.socket.flush(&mut self.node);
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.node.next_wake()
    }

    /// Brokers that are connected, this one included.
    pub(super) fn connected(&self) -> u32 {
        self.node.connected()
    }

    /// What became of datagrams.
    pub(super) fn datagrams(&self, port: Option<&Port>) -> Vec<(&'static str, u64)> {
        let heard = self.node.counters();
        let socket = port.map(|port| port.socket.counters()).unwrap_or_default();
        vec![
            ("sent", socket.sent),
            ("received", socket.received),
            (
                "unsent",
                socket.blocked + socket.unreachable + socket.failed + heard.overflowed,
            ),
            ("lost", heard.lost),
            ("overtaken", heard.overtaken),
            ("forged", heard.forged),
            ("replayed", heard.replayed),
            ("malformed", heard.malformed),
            ("refused", heard.refused),
            ("unknown_peer", heard.unknown_peer),
            ("unknown_limit", heard.unknown_limit),
        ]
    }

    /// Bytes sent, headers included, by what they were for.
    pub(super) fn sent_bytes(&self) -> Vec<(&'static str, u64)> {
        let counters = self.node.counters();
        vec![
            ("updates", counters.update_bytes_sent),
            ("membership", counters.membership_bytes_sent),
        ]
    }
}

/// The broker's own key goes before the one that the controller hands out.
fn key(sharers: &Sharers, config: &SharingConfig) -> Result<Key, String> {
    match (&config.key, &sharers.key) {
        (Some(own), _) => Ok(own.clone()),
        (None, Some(handed_out)) => Key::from_hex(handed_out)
            .map_err(|error| format!("the key that the controller hands out is none: {error}")),
        (None, None) => Err(String::from(
            "gossip needs a key and the controller hands none out: give all brokers the same --gossip-key-file",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sharers(addresses: &[&str], key: Option<&str>) -> Sharers {
        Sharers {
            generation: 4,
            addresses: addresses
                .iter()
                .map(|&address| address.to_owned())
                .collect(),
            key: key.map(str::to_owned),
            branches: 3,
            interval_ms: 50,
        }
    }

    #[tokio::test]
    async fn a_list_that_cannot_be_followed_says_why() {
        let port = Port::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let me = port.address().to_string();
        let hex = "ab".repeat(32);
        let own = SharingConfig {
            key: Key::from_passphrase("between us").ok(),
            ..SharingConfig::default()
        };
        let none = SharingConfig::default();
        let table = [
            (
                sharers(&[&me], Some(&hex)),
                &none,
                None,
                "--gossip-address IP:PORT",
            ),
            (
                sharers(&["127.0.0.1:9"], Some(&hex)),
                &none,
                Some(&port),
                "does not name",
            ),
            (
                sharers(&[&me, "there"], Some(&hex)),
                &none,
                Some(&port),
                "no ip:port",
            ),
            (
                sharers(&[&me], None),
                &none,
                Some(&port),
                "gossip needs a key",
            ),
            (sharers(&[&me], Some("xy")), &none, Some(&port), "is none: "),
            (
                sharers(&[&me, &me], Some(&hex)),
                &own,
                Some(&port),
                "listed twice",
            ),
        ];
        for (sharers, config, port, expected) in table {
            let problem = Gossiper::new(&sharers, config, port).expect_err(expected);
            assert!(problem.contains(expected), "{problem}");
        }
        for (sharers, config) in [
            (sharers(&["127.0.0.1:9", &me], Some(&hex)), &none),
            (sharers(&["127.0.0.1:9", &me], None), &own),
        ] {
            let (gossiper, group) = Gossiper::new(&sharers, config, Some(&port)).expect("good");
            let expected = Group {
                brokers: 2,
                me: 1,
                generation: 4,
            };
            assert_eq!((group, gossiper.connected()), (expected, 1));
        }
    }
}
