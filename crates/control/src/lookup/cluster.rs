//! The controller's own brokers, as lookup tells them to NSQ clients.
//!
//! They do not register here: what they hold is asked of the control plane, and the answer serves everybody who asks within
//! [`FRESH_FOR`], so that thousands of polling consumers cost it no more than one. A topic that is only declared is known
//! too. Tombstones for brokers are kept here, because the control plane has no word for them. What is created or deleted
//! through nsqlookupd's API does not change a contract: that is `/v1`'s.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clock::Instant;
use tokio::time::timeout;

use super::protocol::Identity;
use crate::handle::{BrokerChannels, Command, Reply};
use crate::{ControlError, ControlHandle};

/// How old an answer of the control plane may be.
const FRESH_FOR: Duration = Duration::from_millis(200);
/// How long the control plane may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Tombstones for brokers at most; the oldest makes room.
const TOMBSTONES_MAX: usize = 1024;

/// A broker of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broker {
    /// As a registering nsqd would introduce itself; no HTTP is port 0.
    pub(super) identity: Identity,
    /// Its address for NSQ clients.
    pub(super) remote_address: String,
    /// Topics with their channels, in order.
    pub(super) topics: BTreeMap<String, Vec<String>>,
}

/// Brokers and declared topics at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// In order of name.
    pub(super) brokers: Vec<Broker>,
    /// Topics that are declared, whether a broker has them or not.
    pub(super) declared: Vec<String>,
}

/// Topic and node (`host:port` of a broker's HTTP) with the time of the tombstone.
#[derive(Debug)]
pub(super) struct Tombstones {
    lifetime: Duration,
    placed: BTreeMap<(String, String), Instant>,
}

/// The way to the control plane's brokers; without a control plane there are none.
#[derive(Debug)]
pub(super) struct Cluster {
    handle: Option<ControlHandle>,
    latest: tokio::sync::Mutex<Option<(Instant, Arc<Snapshot>)>>,
    tombstones: Mutex<Tombstones>,
}

impl Cluster {
    pub(super) fn new(handle: Option<ControlHandle>, tombstone_lifetime: Duration) -> Cluster {
        Cluster {
            handle,
            latest: tokio::sync::Mutex::default(),
            tombstones: Mutex::new(Tombstones::new(tombstone_lifetime)),
        }
    }

    /// Brokers and topics, not older than [`FRESH_FOR`].
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] while the control plane does not answer.
    pub(super) async fn snapshot(&self, now: Instant) -> Result<Arc<Snapshot>, ControlError> {
        let Some(handle) = &self.handle else {
            return Ok(Arc::default());
        };
        // Held while asking: everybody else waits for the same answer.
        let mut latest = self.latest.lock().await;
        if let Some((asked_at, snapshot)) = &*latest
            && now - *asked_at < FRESH_FOR
        {
            return Ok(Arc::clone(snapshot));
        }
        let brokers = ask(handle, Command::Channels).await?;
        let declared = ask(handle, Command::Topics).await?;
        let snapshot = Arc::new(Snapshot {
            brokers: brokers.into_iter().filter_map(Broker::new).collect(),
            declared: declared.into_iter().map(|view| view.topic).collect(),
        });
        *latest = Some((now, Arc::clone(&snapshot)));
        Ok(snapshot)
    }

    /// Those of brokers.
    pub(super) fn tombstones(&self) -> MutexGuard<'_, Tombstones> {
        // Whole after every call, so a panic elsewhere does not spoil it.
        self.tombstones
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Snapshot {
    /// Whether a topic is declared or a broker has it.
    pub(super) fn has_topic(&self, topic: &str) -> bool {
        let mut brokers = self.brokers.iter();
        self.declared.iter().any(|each| each == topic)
            || brokers.any(|broker| broker.topics.contains_key(topic))
    }

    /// Whether a broker is found under the same address as `identity`: it has registered too, and is told once.
    pub(super) fn has_broker(&self, identity: &Identity) -> bool {
        self.brokers.iter().any(|broker| {
            let own = &broker.identity;
            own.tcp_port == identity.tcp_port && own.broadcast_address == identity.broadcast_address
        })
    }
}

impl Broker {
    /// `None` where the address for clients is none.
    fn new(holds: BrokerChannels) -> Option<Broker> {
        let (host, tcp_port) = host_and_port(&holds.tcp_address)?;
        let http = holds.http_address.as_deref().and_then(host_and_port);
        Some(Broker {
            identity: Identity {
                broadcast_address: host.to_owned(),
                hostname: holds.broker,
                tcp_port,
                http_port: http.map_or(0, |(_, port)| port),
                version: String::from(super::NSQLOOKUPD_VERSION),
            },
            remote_address: holds.tcp_address,
            topics: holds.topics.into_iter().collect(),
        })
    }
}

impl Tombstones {
    pub(super) fn new(lifetime: Duration) -> Tombstones {
        Tombstones {
            lifetime,
            placed: BTreeMap::new(),
        }
    }

    /// Hides the broker at `node` from consumers of a topic for a while.
    pub(super) fn place(&mut self, topic: &str, node: &str, now: Instant) {
        let lifetime = self.lifetime;
        self.placed.retain(|_, at| now - *at < lifetime);
        if self.placed.len() >= TOMBSTONES_MAX {
            let oldest = self.placed.iter().min_by_key(|(_, at)| **at);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.placed.remove(&oldest);
            }
        }
        self.placed.insert((topic.to_owned(), node.to_owned()), now);
    }

    /// Whether a broker is hidden.
    pub(super) fn hide(&self, topic: &str, identity: &Identity, now: Instant) -> bool {
        let key = (topic.to_owned(), identity.http_node());
        let at = self.placed.get(&key);
        at.is_some_and(|at| now - *at < self.lifetime)
    }
}

async fn ask<T>(
    handle: &ControlHandle,
    command: impl FnOnce(Reply<T>) -> Command,
) -> Result<T, ControlError> {
    let answer = timeout(ANSWER_TIMEOUT, handle.ask(command)).await;
    let late = |_| ControlError::Unavailable(format!("no answer within {ANSWER_TIMEOUT:?}"));
    answer.map_err(late)?
}

/// Host without the brackets of an IPv6 address, and port.
fn host_and_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    Some((bare.unwrap_or(host), port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_introduce_themselves_by_their_addresses() {
        let cases = [
            (
                "10.0.0.1:4150",
                Some("10.0.0.1:4151"),
                Some(("10.0.0.1", 4150, 4151)),
            ),
            ("b1.example:4150", None, Some(("b1.example", 4150, 0))),
            ("[::1]:4150", Some("[::1]:4151"), Some(("::1", 4150, 4151))),
            ("nonsense", None, None),
            ("h:70000", None, None),
        ];
        for (tcp, http, expected) in cases {
            let broker = Broker::new(BrokerChannels {
                broker: String::from("b1"),
                tcp_address: tcp.to_owned(),
                http_address: http.map(str::to_owned),
                topics: Vec::new(),
            });
            let seen = broker.as_ref().map(|broker| {
                let identity = &broker.identity;
                assert_eq!(identity.hostname, "b1");
                (
                    identity.broadcast_address.as_str(),
                    identity.tcp_port,
                    identity.http_port,
                )
            });
            assert_eq!(seen, expected, "{tcp}");
        }
    }

    #[test]
    fn tombstones_pass_and_are_bounded() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut tombstones = Tombstones::new(Duration::from_secs(45));
        let identity = |host: &str| Identity {
            broadcast_address: host.to_owned(),
            hostname: String::new(),
            tcp_port: 1,
            http_port: 2,
            version: String::new(),
        };
        tombstones.place("t", "h1:2", at(0));
        assert!(tombstones.hide("t", &identity("h1"), at(44)));
        assert!(!tombstones.hide("t", &identity("h1"), at(45)));
        assert!(!tombstones.hide("u", &identity("h1"), at(1)));
        assert!(!tombstones.hide("t", &identity("h2"), at(1)));
        for number in 0..TOMBSTONES_MAX {
            tombstones.place("t", &format!("x{number}:2"), at(1));
        }
        assert_eq!(tombstones.placed.len(), TOMBSTONES_MAX);
        assert!(
            !tombstones.hide("t", &identity("h1"), at(1)),
            "the oldest made room"
        );
    }
}
