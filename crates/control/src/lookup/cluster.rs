//! The controller's own brokers, as lookup tells them to NSQ clients.
//!
//! They do not register here: the control plane is asked what they have, and its answer serves
//! everybody until something changes, for [`FRESH_FOR`] at most, so thousands of polling consumers
//! cost it little more than one. What is created or deleted through nsqlookupd's API is created or
//! deleted at the brokers; contracts stay as they are, they belong to `/v1`. A broker whose link is
//! lost stays listed until it is known to be dead, or silent for as long as a peer may be.
//! Tombstones for brokers are kept here and reported to the control plane, because a topic that is
//! deleted under one stays elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clock::Instant;
use link::TopicChange;
use tokio::time::timeout;
use wire::{ChannelName, TopicName};

use super::registry::Rules;
use crate::core::Topics;
use crate::handle::{BrokerHoldings, Command, Reply};
use crate::{ControlError, ControlHandle};
use wire::lookup::{Identity, Subject};

/// How old an answer of the control plane may be while nothing has changed.
const FRESH_FOR: Duration = Duration::from_millis(200);
/// How old it may be in any case: many changes in a row are told together.
const TOLD_TOGETHER: Duration = Duration::from_millis(2);
/// And so much older for every thousand topics, for answers take the longer: all together ask for a part of the control
/// plane's time only.
const TOLD_TOGETHER_PER_1000: Duration = Duration::from_millis(5);
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
    /// Topics with their channels.
    topics: Topics,
    /// Topics whose publishers will be there.
    placed: BTreeSet<TopicName>,
}

/// Brokers and topics at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// In order of name.
    pub(super) brokers: Vec<Broker>,
    /// Topics that are known, whether a broker has them or not, with the channels that outlive their consumers.
    pub(super) topics: Topics,
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
    latest: tokio::sync::Mutex<Option<Latest>>,
    rules: Rules,
    tombstones: Mutex<Tombstones>,
}

/// The last answer of the control plane.
#[derive(Debug)]
struct Latest {
    asked_at: Instant,
    version: u64,
    snapshot: Arc<Snapshot>,
}

impl Latest {
    /// How old it may become while things change.
    fn told_together(&self) -> Duration {
        let thousands = self.snapshot.topics.len() / 1000;
        TOLD_TOGETHER + TOLD_TOGETHER_PER_1000 * u32::try_from(thousands).unwrap_or(u32::MAX)
    }
}

impl Cluster {
    pub(super) fn new(handle: Option<ControlHandle>, rules: Rules) -> Cluster {
        Cluster {
            handle,
            latest: tokio::sync::Mutex::default(),
            rules,
            tombstones: Mutex::new(Tombstones::new(rules.tombstone_lifetime)),
        }
    }

    /// Brokers and topics as they are now.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] while the control plane does not answer.
    pub(super) async fn snapshot(&self, now: Instant) -> Result<Arc<Snapshot>, ControlError> {
        let Some(handle) = &self.handle else {
            return Ok(Arc::default());
        };
        // Held while asking: everybody else waits for the same answer.
        let mut latest = self.latest.lock().await;
        let version = handle.holdings_version();
        if let Some(latest) = &*latest {
            let age = now - latest.asked_at;
            if age < latest.told_together() || (age < FRESH_FOR && latest.version == version) {
                return Ok(Arc::clone(&latest.snapshot));
            }
        }
        let holdings = within(handle.holdings()).await?;
        let inactive_after = self.rules.inactive_after;
        let brokers = holdings.brokers.into_iter();
        let active = brokers.filter(|broker| broker.silent_for <= inactive_after);
        let snapshot = Arc::new(Snapshot {
            brokers: active.filter_map(Broker::new).collect(),
            topics: holdings.topics,
        });
        *latest = Some(Latest {
            asked_at: now,
            version,
            snapshot: Arc::clone(&snapshot),
        });
        Ok(snapshot)
    }

    /// Whether a topic or channel is the control plane's to create. `#ephemeral` ones are nobody's before somebody uses them.
    pub(super) fn creates(&self, subject: &Subject) -> bool {
        let channel = subject.channel.as_ref();
        let is_ephemeral =
            subject.topic.is_ephemeral() || channel.is_some_and(ChannelName::is_ephemeral);
        self.handle.is_some() && !is_ephemeral
    }

    /// Changes a topic or channel at all brokers; who looks next sees it.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] while the control plane does not answer, or at a bound.
    pub(super) async fn change(
        &self,
        topic: &TopicName,
        change: TopicChange,
    ) -> Result<(), ControlError> {
        let Some(handle) = &self.handle else {
            return Ok(());
        };
        let topic = topic.to_string();
        ask(handle, |reply| Command::ChangeTopic(topic, change, reply)).await?;
        *self.latest.lock().await = None;
        Ok(())
    }

    /// Hides the broker at `node` from consumers of a topic for a while.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] while the control plane does not answer.
    pub(super) async fn place_tombstone(
        &self,
        topic: &str,
        node: &str,
        now: Instant,
    ) -> Result<(), ControlError> {
        let snapshot = self.snapshot(now).await?;
        let mut brokers = snapshot.brokers.iter();
        let is_meant =
            brokers.any(|broker| broker.has(topic) && broker.identity.http_node() == node);
        let Some(handle) = self.handle.as_ref().filter(|_| is_meant) else {
            return Ok(());
        };
        self.tombstones().place(topic, node, now);
        let (topic, node) = (topic.to_owned(), node.to_owned());
        let lifetime = self.rules.tombstone_lifetime;
        ask(handle, |reply| Command::PlaceTombstone {
            topic,
            node,
            lifetime,
            reply,
        })
        .await
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
    /// Whether a topic is known or a broker has it.
    pub(super) fn has_topic(&self, topic: &str) -> bool {
        let mut brokers = self.brokers.iter();
        self.topics.contains_key(topic) || brokers.any(|broker| broker.has(topic))
    }

    /// Names of all topics, some of them several times.
    pub(super) fn topics(&self) -> impl Iterator<Item = &str> {
        let brokers = self.brokers.iter().flat_map(Broker::topics);
        brokers.chain(self.topics.keys().map(TopicName::as_str))
    }

    /// Channels of a topic at all brokers, some of them several times.
    pub(super) fn channels(&self, topic: &str) -> impl Iterator<Item = &str> {
        let brokers = self.brokers.iter().map(|broker| &broker.topics);
        let all = brokers.chain([&self.topics]);
        let channels = all.filter_map(move |topics| topics.get(topic));
        channels.flatten().map(ChannelName::as_str)
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
    fn new(holds: BrokerHoldings) -> Option<Broker> {
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
            topics: holds.topics,
            placed: holds.placed,
        })
    }

    /// Whether it has a topic, or will have it.
    pub(super) fn has(&self, topic: &str) -> bool {
        self.topics.contains_key(topic) || self.placed.contains(topic)
    }

    /// Names of its topics, in order.
    pub(super) fn topics(&self) -> impl Iterator<Item = &str> {
        let all: BTreeSet<&TopicName> = self.topics.keys().chain(&self.placed).collect();
        all.into_iter().map(TopicName::as_str)
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
    within(handle.ask(command)).await
}

/// An answer of the control plane, unless it takes too long.
async fn within<T>(
    answer: impl Future<Output = Result<T, ControlError>>,
) -> Result<T, ControlError> {
    let answer = timeout(ANSWER_TIMEOUT, answer).await;
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
            let broker = Broker::new(BrokerHoldings {
                broker: String::from("b1"),
                tcp_address: tcp.to_owned(),
                http_address: http.map(str::to_owned),
                ..BrokerHoldings::default()
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
