//! This broker among those that gossip: its node, and the port that carries the node's datagrams.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use clock::Instant;
use gossip::{Branches, Key, LimitId, Node, NodeConfig, Socket};
use limit::sharing::Update;
use link::Sharers;
use rustc_hash::FxHashMap;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use topics::{Group, IntervalEnd, Known, LimitNumber};

use super::agreement::{Agreement, Cadence};
use super::{INTERVALS_MS, Remotes, SharingConfig};
use crate::sys;

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

    /// Hands over what has come, and from where.
    pub(super) fn receive(&mut self, take: impl FnMut(SocketAddr, &[u8])) {
        self.socket.receive(take);
    }

    /// Sends a datagram; what cannot be sent is lost.
    pub(super) fn send(&mut self, to: SocketAddr, bytes: &[u8]) {
        self.socket.send(to, bytes);
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
    limits: FxHashMap<LimitNumber, Taken>,
    group: Group,
    branches: u16,
}

/// A limit that this broker takes part in.
#[derive(Clone, Copy, Debug)]
struct Taken {
    cadence: Cadence,
    /// When the present interval ends, where this broker has no such limit itself.
    ends_at: Instant,
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
        let interval = Duration::from_millis(interval_ms);
        let config = NodeConfig {
            me,
            peers,
            key,
            branches: branches(sharers.branches, brokers),
            interval,
            incarnation,
            seed: incarnation,
        };
        let node = Node::new(config, sys::monotonic_now()).map_err(|error| error.to_string())?;
        let group = Group {
            brokers,
            me: place as u32,
            generation: sharers.generation,
            interval,
        };
        let gossiper = Gossiper {
            node,
            limits: FxHashMap::default(),
            group,
            branches: sharers.branches,
        };
        Ok((gossiper, group))
    }

    /// What is known of the others, by limit.
    pub(super) fn remotes(&self, agreement: &Agreement) -> Remotes {
        let limits = self.limits.keys();
        let known = limits.map(|&number| {
            let known = Known {
                remote: self.node.remote(LimitId(number)),
                least: agreement.least.get(&number).copied(),
            };
            (number, known)
        });
        known.collect()
    }

    /// Tells the others of the limits whose intervals are over; of those that are shared no more, gossip ends.
    pub(super) fn tell_estimates(
        &mut self,
        now: Instant,
        ends: &[IntervalEnd],
        agreement: &Agreement,
    ) {
        let mut shared = Vec::new();
        for end in ends {
            let number = end
                .number
                .filter(|number| !agreement.apart.contains(number));
            let Some(number) = number else { continue };
            shared.push(number);
            let cadence = Cadence::of(&end.limit, self.group, self.branches);
            self.take(number, cadence, now);
            if let Some(update) = end.update {
                // One that could not be added is told to nobody.
                let _ = self.node.queue_updates(now, LimitId(number), update);
            }
        }
        for &(number, cadence) in &agreement.elsewhere {
            shared.push(number);
            let ends_at = self.take(number, cadence, now).ends_at;
            if now + cadence.interval / 4 < ends_at {
                continue;
            }
            if let Some(taken) = self.limits.get_mut(&number) {
                taken.ends_at = (ends_at + cadence.interval).max(now + cadence.interval / 2);
            }
            let _ = self
                .node
                .queue_updates(now, LimitId(number), Update::NOTHING);
        }
        self.limits.retain(|number, _| {
            let is_shared = shared.contains(number);
            if !is_shared {
                self.node.remove_limit(LimitId(*number));
            }
            is_shared
        });
    }

    /// Begins to gossip about a limit, or goes on; another cadence than before begins anew.
    fn take(&mut self, number: LimitNumber, cadence: Cadence, now: Instant) -> Taken {
        if let Some(taken) = self
            .limits
            .get(&number)
            .filter(|taken| taken.cadence == cadence)
        {
            return *taken;
        }
        let (id, ends_at) = (LimitId(number), now + cadence.interval);
        let taken = Taken { cadence, ends_at };
        self.limits.insert(number, taken);
        self.node.remove_limit(id);
        let branches = branches(cadence.branches, self.group.brokers);
        if let Err(error) = self.node.add_limit_as(id, branches, cadence.interval) {
            tracing::error!("{error}; this broker keeps an N-th part of it");
        }
        taken
    }

    /// Time between looks at what is over: the shortest interval of a limit that is taken part in.
    pub(super) fn interval(&self) -> Duration {
        let intervals = self.limits.values().map(|taken| taken.cadence.interval);
        intervals.min().unwrap_or(self.group.interval)
    }

    /// Takes in what came.
    pub(super) fn receive(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        self.node.receive(now, from, bytes);
    }

    /// Does what is due, and sends what is to be said.
    pub(super) fn send(&mut self, port: &mut Port, now: Instant) {
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

/// To how many of so many others a broker tells its numbers: to all, if it can be.
fn branches(branches: u16, brokers: u32) -> Branches {
    match u32::from(branches) >= brokers.saturating_sub(1) {
        true => Branches::Mesh,
        false => Branches::Random(branches),
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
                interval: Duration::from_millis(50),
            };
            assert_eq!((group, gossiper.connected()), (expected, 1));
        }
    }
}
