//! nsqlookupd's JSON, field by field in its order. Lists are sorted by name; nsqlookupd's are not.

use std::collections::BTreeSet;

use clock::Instant;
use serde::Serialize;
use wire::lookup::Identity;

use super::cluster::{Snapshot, Tombstones};
use super::registry::{Peer, Registry};

/// Answer to `/lookup`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Found {
    channels: BTreeSet<String>,
    producers: Vec<Producer>,
}

/// Answer to `/topics`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Topics {
    topics: BTreeSet<String>,
}

/// Answer to `/channels`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Channels {
    channels: BTreeSet<String>,
}

/// Answer to `/nodes`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Nodes {
    producers: Vec<Node>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Producer {
    remote_address: String,
    hostname: String,
    broadcast_address: String,
    tcp_port: u16,
    http_port: u16,
    version: String,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Node {
    #[serde(flatten)]
    producer: Producer,
    /// One per topic, in the same order.
    tombstones: Vec<bool>,
    topics: Vec<String>,
}

impl Found {
    /// Where a topic is; `None` where nobody knows it.
    pub(super) fn new(
        topic: &str,
        registry: &Registry,
        cluster: &Snapshot,
        tombstones: &Tombstones,
        now: Instant,
    ) -> Option<Found> {
        if !registry.has_topic(topic) && !cluster.has_topic(topic) {
            return None;
        }
        let brokers = cluster
            .brokers
            .iter()
            .filter(|broker| broker.has(topic))
            .filter(|broker| !tombstones.hide(topic, &broker.identity, now))
            .map(|broker| Producer::new(&broker.identity, &broker.remote_address));
        let peers = registry
            .producers(topic, now)
            .filter(|peer| !cluster.has_broker(&peer.identity))
            .map(Producer::of);
        Some(Found {
            channels: Channels::new(topic, registry, cluster).channels,
            producers: brokers.chain(peers).collect(),
        })
    }
}

impl Topics {
    /// Every topic that anybody knows.
    pub(super) fn new(registry: &Registry, cluster: &Snapshot) -> Topics {
        let all = cluster.topics().chain(registry.topics());
        Topics {
            topics: all.map(str::to_owned).collect(),
        }
    }
}

impl Channels {
    /// Every channel of a topic; none where nobody knows it.
    pub(super) fn new(topic: &str, registry: &Registry, cluster: &Snapshot) -> Channels {
        let channels = cluster.channels(topic).chain(registry.channels(topic));
        Channels {
            channels: channels.map(str::to_owned).collect(),
        }
    }
}

impl Nodes {
    /// Everybody who is alive, those that bear tombstones too.
    pub(super) fn new(
        registry: &Registry,
        cluster: &Snapshot,
        tombstones: &Tombstones,
        now: Instant,
    ) -> Nodes {
        let brokers = cluster.brokers.iter().map(|broker| Node {
            producer: Producer::new(&broker.identity, &broker.remote_address),
            tombstones: broker
                .topics()
                .map(|topic| tombstones.hide(topic, &broker.identity, now))
                .collect(),
            topics: broker.topics().map(str::to_owned).collect(),
        });
        let peers = registry
            .nodes(now)
            .filter(|(peer, _)| !cluster.has_broker(&peer.identity))
            .map(|(peer, topics)| Node {
                producer: Producer::of(peer),
                tombstones: topics.iter().map(|(_, is_hidden)| *is_hidden).collect(),
                topics: topics
                    .iter()
                    .map(|(topic, _)| (*topic).to_owned())
                    .collect(),
            });
        Nodes {
            producers: brokers.chain(peers).collect(),
        }
    }
}

impl Producer {
    fn new(identity: &Identity, remote_address: &str) -> Producer {
        let Identity {
            broadcast_address,
            hostname,
            tcp_port,
            http_port,
            version,
        } = identity.clone();
        Producer {
            remote_address: remote_address.to_owned(),
            hostname,
            broadcast_address,
            tcp_port,
            http_port,
            version,
        }
    }

    fn of(peer: &Peer) -> Producer {
        Producer::new(&peer.identity, &peer.remote_address)
    }
}
