//! This broker's node in the gossip and the limits that it takes part in. A pure state machine; its
//! caller carries the datagrams ([`super::port`], or a simulated network).

use std::net::SocketAddr;
use std::time::Duration;

use clock::Instant;
use gossip::{Branches, Key, LimitId, Node, NodeConfig, SocketCounters, Transmit};
use limit::sharing::Update;
use link::Sharers;
use rustc_hash::FxHashMap;
use topics::{Group, IntervalEnd, Known, LimitNumber};

use super::agreement::{Agreement, Cadence};
use super::{INTERVALS_MS, Remotes};

/// One life of this broker on one list of brokers.
#[derive(Debug)]
pub struct Gossiper {
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
    /// Follows a list at `now`: nobody is connected yet, and no limit known. `own_key` goes before the one that comes with the list, `me` is
    /// where others reach this broker, `incarnation` greater than that of any process before it: the wall clock's nanoseconds.
    ///
    /// # Errors
    /// Why the list cannot be followed, and what to do.
    pub fn new(
        sharers: &Sharers,
        own_key: Option<&Key>,
        me: Option<SocketAddr>,
        (incarnation, now): (u64, Instant),
    ) -> Result<(Gossiper, Group), String> {
        let me = me.ok_or(
            "this broker has no gossip address: start it with --gossip-address IP:PORT, as others reach it",
        )?;
        let addresses: Result<Vec<SocketAddr>, _> = sharers
            .addresses
            .iter()
            .map(|address| address.parse())
            .collect();
        let peers = addresses.map_err(|_| {
            let addresses = sharers.addresses.join(", ");
            format!("the controller's list holds an address that is not ip:port: {addresses}")
        })?;
        let place = peers.iter().position(|peer| *peer == me).ok_or_else(|| {
            let generation = sharers.generation;
            format!("list {generation} of the controller does not name this broker's gossip address {me}")
        })?;
        let key = key(sharers, own_key)?;
        let brokers = peers.len() as u32;
        let interval_ms = sharers
            .interval_ms
            .clamp(*INTERVALS_MS.start(), *INTERVALS_MS.end());
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
        let node = Node::new(config, now).map_err(|error| error.to_string())?;
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
    #[must_use]
    pub fn remotes(&self, agreement: &Agreement) -> Remotes {
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

    /// Tells the others about the limits whose intervals are over; for limits that are no longer
    /// shared, gossip ends.
    pub fn tell_estimates(&mut self, now: Instant, ends: &[IntervalEnd], agreement: &Agreement) {
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
            tracing::error!(
                "{error}; this broker keeps 1/N of the limit, N being the number of brokers"
            );
        }
        taken
    }

    /// Time between looks at what is over: the shortest interval of a limit that is taken part in.
    #[must_use]
    pub fn interval(&self) -> Duration {
        let intervals = self.limits.values().map(|taken| taken.cadence.interval);
        intervals.min().unwrap_or(self.group.interval)
    }

    /// Takes in what came.
    pub fn receive(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        self.node.receive(now, from, bytes);
    }

    /// Does what is due.
    pub fn wake(&mut self, now: Instant) {
        self.node.wake(now);
    }

    /// The next datagram to send.
    pub fn next_transmit(&mut self) -> Option<Transmit> {
        self.node.poll_transmit()
    }

    /// Tells some of the others that this broker goes: what is to be sent is there then.
    pub fn leave(&mut self) {
        self.node.leave();
    }

    /// When [`Gossiper::wake`] is due.
    #[must_use]
    pub fn next_wake(&self) -> Option<Instant> {
        self.node.next_wake()
    }

    /// Brokers that are connected, this one included.
    #[must_use]
    pub fn connected(&self) -> u32 {
        self.node.connected()
    }

    /// Datagrams by outcome, including the outcomes at the socket.
    pub(super) fn datagrams(&self, socket: SocketCounters) -> Vec<(&'static str, u64)> {
        let heard = self.node.counters();
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

/// How many of the others a broker tells its numbers: all of them, if possible.
fn branches(branches: u16, brokers: u32) -> Branches {
    match u32::from(branches) >= brokers.saturating_sub(1) {
        true => Branches::Mesh,
        false => Branches::Random(branches),
    }
}

/// The broker's own key goes before the one that the controller hands out.
fn key(sharers: &Sharers, own_key: Option<&Key>) -> Result<Key, String> {
    match (own_key, &sharers.key) {
        (Some(own), _) => Ok(own.clone()),
        (None, Some(handed_out)) => Key::from_hex(handed_out).map_err(|error| {
            format!("the key that the controller hands out is not valid: {error}")
        }),
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

    #[test]
    fn a_list_that_cannot_be_followed_says_why() {
        let here = SocketAddr::from(([127, 0, 0, 1], 4150));
        let me = here.to_string();
        let hex = "ab".repeat(32);
        let own = Key::from_passphrase("between us").ok();
        let table = [
            (
                sharers(&[&me], Some(&hex)),
                None,
                None,
                "--gossip-address IP:PORT",
            ),
            (
                sharers(&["127.0.0.1:9"], Some(&hex)),
                None,
                Some(here),
                "does not name",
            ),
            (
                sharers(&[&me, "there"], Some(&hex)),
                None,
                Some(here),
                "not ip:port",
            ),
            (
                sharers(&[&me], None),
                None,
                Some(here),
                "gossip needs a key",
            ),
            (
                sharers(&[&me], Some("xy")),
                None,
                Some(here),
                "is not valid: ",
            ),
            (
                sharers(&[&me, &me], Some(&hex)),
                own.as_ref(),
                Some(here),
                "listed twice",
            ),
        ];
        let born = (1, Instant::ZERO);
        for (sharers, key, me, expected) in table {
            let problem = Gossiper::new(&sharers, key, me, born).expect_err(expected);
            assert!(problem.contains(expected), "{problem}");
        }
        for (sharers, key) in [
            (sharers(&["127.0.0.1:9", &me], Some(&hex)), None),
            (sharers(&["127.0.0.1:9", &me], None), own.as_ref()),
        ] {
            let (gossiper, group) = Gossiper::new(&sharers, key, Some(here), born).expect("good");
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
