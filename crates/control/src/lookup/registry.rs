//! Who has which topic and channel: registrations of nsqds, and names created by hand.
//!
//! The rules are nsqlookupd's. Names outlive those who registered them, until somebody deletes
//! them; `#ephemeral` ones go with the last peer that has them. A peer that has not been heard of
//! for a while is kept, but not listed to consumers. A tombstone hides a peer from the consumers of
//! one topic for a while, so that they let go before the topic is deleted there. Pure: time is an
//! argument. Brokers of the controller are not in here.

mod addresses;
mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use clock::Instant;
use wire::{ChannelName, TopicName};

use addresses::Addresses;
pub use rows::{Row, RowKey};
use wire::lookup::{Identity, Subject};

/// Number of a connection that registers.
pub type PeerId = u64;

/// When peers are told to consumers, and how much is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A peer that is not heard of for longer is not told to consumers; nsqd pings every 15 s.
    pub inactive_after: Duration,
    /// How long a tombstone hides a peer.
    pub tombstone_lifetime: Duration,
    /// How much is held.
    pub bounds: Bounds,
}

impl Default for Rules {
    /// nsqlookupd's 300 s and 45 s.
    fn default() -> Self {
        Rules {
            inactive_after: Duration::from_secs(300),
            tombstone_lifetime: Duration::from_secs(45),
            bounds: Bounds::default(),
        }
    }
}

/// The bounds of a registry. One address may have a tenth of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Topics.
    pub topics: usize,
    /// Channels, of all topics.
    pub channels: usize,
    /// Pairs of peer and topic or channel.
    pub registrations: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            topics: 500_000,
            channels: 1_000_000,
            registrations: 2_000_000,
        }
    }
}

/// The bound that was met; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// As many topics as the registry holds.
    #[error("too many topics")]
    Topics,
    /// As many channels as the registry holds.
    #[error("too many channels")]
    Channels,
    /// As many registrations as the registry holds.
    #[error("too many registrations")]
    Registrations,
    /// As much of them as one address may have.
    #[error("too many of one address")]
    Address,
}

/// A peer that has said who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Who it is.
    pub identity: Identity,
    /// Where its connection comes from, `host:port`.
    pub remote_address: String,
    /// When it last said something that counts as a sign of life.
    pub heard_at: Instant,
}

/// Peers, topics and channels.
#[derive(Debug, Default)]
pub struct Registry {
    rules: Rules,
    peers: BTreeMap<PeerId, Peer>,
    topics: BTreeMap<TopicName, Topic>,
    /// By peer, the topics that it has.
    had: BTreeMap<PeerId, BTreeSet<TopicName>>,
    channels: usize,
    registrations: usize,
    addresses: Addresses,
}

/// Every peer of a channel is one of its topic.
#[derive(Debug, Default)]
struct Topic {
    made_by: Option<IpAddr>,
    /// With the time of a tombstone.
    peers: BTreeMap<PeerId, Option<Instant>>,
    channels: BTreeMap<ChannelName, Channel>,
}

#[derive(Debug, Default)]
struct Channel {
    made_by: Option<IpAddr>,
    peers: BTreeSet<PeerId>,
}

impl Registry {
    /// An empty registry.
    #[must_use]
    pub fn new(rules: Rules) -> Registry {
        Registry {
            rules,
            ..Registry::default()
        }
    }

    /// A peer has said who it is.
    pub fn identify(
        &mut self,
        id: PeerId,
        remote_address: String,
        identity: Identity,
        now: Instant,
    ) {
        let peer = Peer {
            identity,
            remote_address,
            heard_at: now,
        };
        self.peers.insert(id, peer);
    }

    /// A sign of life.
    pub fn ping(&mut self, id: PeerId, now: Instant) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.heard_at = now;
        }
    }

    /// A peer that is known has a topic or a channel; again is the same as once, and leaves a tombstone in force.
    ///
    /// # Errors
    /// [`Full`] at a bound.
    pub fn register(&mut self, id: PeerId, subject: &Subject) -> Result<(), Full> {
        let Some(peer) = self.peers.get(&id) else {
            return Ok(());
        };
        let from = peer.ip();
        let known = self.topics.get(&subject.topic);
        let has_topic = known.is_some_and(|topic| topic.peers.contains_key(&id));
        let has_channel = subject.channel.as_ref().is_none_or(|channel| {
            let of_channel = known.and_then(|topic| topic.channels.get(channel));
            of_channel.is_some_and(|channel| channel.peers.contains(&id))
        });
        let more = usize::from(!has_topic) + usize::from(!has_channel);
        let bound = self.rules.bounds.registrations;
        if self.registrations + more > bound {
            return Err(Full::Registrations);
        }
        let mine = self.addresses.at(from).registrations + more;
        if more > 0 && mine > addresses::part_of(bound) {
            return Err(Full::Address);
        }
        self.create_for(subject, from)?;
        self.count_registrations(from, more, true);
        if let Some(topic) = self.topics.get_mut(&subject.topic) {
            topic.peers.entry(id).or_default();
            if let Some(channel) = &subject.channel {
                let channel = topic.channels.entry(channel.clone()).or_default();
                channel.peers.insert(id);
            }
        }
        if !has_topic && let Some((topic, _)) = self.topics.get_key_value(&subject.topic) {
            self.had.entry(id).or_default().insert(topic.clone());
        }
        Ok(())
    }

    /// A peer no longer has a channel, or a topic with all its channels.
    pub fn unregister(&mut self, id: PeerId, subject: &Subject) {
        let from = self.peers.get(&id).and_then(Peer::ip);
        let Some(topic) = self.topics.get_mut(&subject.topic) else {
            return;
        };
        if let Some(name) = &subject.channel {
            let Some(channel) = topic.channels.get_mut(name) else {
                return;
            };
            let was_there = channel.peers.remove(&id);
            if channel.peers.is_empty() && name.is_ephemeral() {
                let made_by = channel.made_by;
                topic.channels.remove(name);
                self.channels -= 1;
                self.addresses.change(made_by, |holds| holds.channels -= 1);
            }
            return self.count_registrations(from, usize::from(was_there), false);
        }
        self.forget(id, &subject.topic, from);
        if let Some(topics) = self.had.get_mut(&id) {
            topics.remove(&subject.topic);
        }
        let topic = self.topics.get(&subject.topic);
        if topic.is_some_and(|topic| topic.peers.is_empty()) && subject.topic.is_ephemeral() {
            self.delete_topic(subject.topic.as_str());
        }
    }

    /// A connection has ended: its peer and what it had are forgotten. Unlike nsqlookupd this takes `#ephemeral` names
    /// along where it was their last peer, so that brokers that crash leave nothing behind.
    pub fn disconnect(&mut self, id: PeerId) {
        let Some(peer) = self.peers.remove(&id) else {
            return;
        };
        for name in self.had.remove(&id).unwrap_or_default() {
            self.forget(id, &name, peer.ip());
            let topic = self.topics.get(&name);
            if topic.is_some_and(|topic| topic.peers.is_empty()) && name.is_ephemeral() {
                self.delete_topic(name.as_str());
            }
        }
    }

    /// A peer is taken from a topic and its channels.
    fn forget(&mut self, id: PeerId, topic: &TopicName, from: Option<IpAddr>) {
        let Some(topic) = self.topics.get_mut(topic) else {
            return;
        };
        let (orphans, registrations) = topic.forget(id);
        self.channels -= orphans.len();
        for made_by in orphans {
            self.addresses.change(made_by, |holds| holds.channels -= 1);
        }
        self.count_registrations(from, registrations, false);
    }

    fn count_registrations(&mut self, from: Option<IpAddr>, number: usize, is_more: bool) {
        if number == 0 {
            return;
        }
        let change = |sum: &mut usize| match is_more {
            true => *sum += number,
            false => *sum -= number,
        };
        change(&mut self.registrations);
        self.addresses
            .change(from, |holds| change(&mut holds.registrations));
    }

    /// Makes a topic or channel known without anybody who has it, for consumers that come first.
    ///
    /// # Errors
    /// [`Full`] at a bound.
    pub fn create(&mut self, subject: &Subject) -> Result<(), Full> {
        self.create_for(subject, None)
    }

    fn create_for(&mut self, subject: &Subject, from: Option<IpAddr>) -> Result<(), Full> {
        let bounds = self.rules.bounds;
        let mine = self.addresses.at(from);
        let known = self.topics.get(&subject.topic);
        let is_new_topic = known.is_none();
        if is_new_topic && self.topics.len() >= bounds.topics {
            return Err(Full::Topics);
        }
        let is_new = subject.channel.as_ref().is_some_and(|channel| {
            !known.is_some_and(|topic| topic.channels.contains_key(channel))
        });
        if is_new && self.channels >= bounds.channels {
            return Err(Full::Channels);
        }
        let has_part = (!is_new_topic || mine.topics < addresses::part_of(bounds.topics))
            && (!is_new || mine.channels < addresses::part_of(bounds.channels));
        if !has_part {
            return Err(Full::Address);
        }
        let topic = self.topics.entry(subject.topic.clone()).or_default();
        if is_new_topic {
            topic.made_by = from;
            self.addresses.change(from, |holds| holds.topics += 1);
        }
        if is_new && let Some(channel) = &subject.channel {
            let made = Channel {
                made_by: from,
                peers: BTreeSet::new(),
            };
            topic.channels.insert(channel.clone(), made);
            self.channels += 1;
            self.addresses.change(from, |holds| holds.channels += 1);
        }
        Ok(())
    }

    /// Forgets a topic and its channels, whoever has them; nothing where there is none.
    pub fn delete_topic(&mut self, name: &str) {
        let Some(topic) = self.topics.remove(name) else {
            return;
        };
        self.addresses
            .change(topic.made_by, |holds| holds.topics -= 1);
        for channel in topic.channels.into_values() {
            self.end_channel(channel);
        }
        for id in topic.peers.into_keys() {
            if let Some(topics) = self.had.get_mut(&id) {
                topics.remove(name);
            }
            self.end_registration(id);
        }
    }

    /// Forgets a channel, whoever has it; says whether there was one.
    pub fn delete_channel(&mut self, topic: &str, channel: &str) -> bool {
        let topic = self.topics.get_mut(topic);
        let Some(channel) = topic.and_then(|topic| topic.channels.remove(channel)) else {
            return false;
        };
        self.end_channel(channel);
        true
    }

    fn end_channel(&mut self, channel: Channel) {
        self.channels -= 1;
        self.addresses
            .change(channel.made_by, |holds| holds.channels -= 1);
        for id in channel.peers {
            self.end_registration(id);
        }
    }

    fn end_registration(&mut self, id: PeerId) {
        let from = self.peers.get(&id).and_then(Peer::ip);
        self.count_registrations(from, 1, false);
    }

    /// Hides the peer whose HTTP is at `node` (`host:port` as it broadcasts it) from consumers of a topic for a while.
    pub fn tombstone(&mut self, topic: &str, node: &str, now: Instant) {
        let Some(topic) = self.topics.get_mut(topic) else {
            return;
        };
        for (id, tombstoned_at) in &mut topic.peers {
            let peer = self.peers.get(id);
            if peer.is_some_and(|peer| peer.identity.http_node() == node) {
                *tombstoned_at = Some(now);
            }
        }
    }
}

/// Questions.
impl Registry {
    /// Names of topics, in order.
    pub fn topics(&self) -> impl Iterator<Item = &str> {
        self.topics.keys().map(TopicName::as_str)
    }

    /// Whether a topic is known.
    #[must_use]
    pub fn has_topic(&self, name: &str) -> bool {
        self.topics.contains_key(name)
    }

    /// Names of a topic's channels, in order.
    pub fn channels(&self, topic: &str) -> impl Iterator<Item = &str> {
        let channels = self.topics.get(topic).map(|topic| topic.channels.keys());
        channels.into_iter().flatten().map(ChannelName::as_str)
    }

    /// The peers that a topic's consumers are to connect to: those that have it, are alive and bear no tombstone.
    pub fn producers(&self, topic: &str, now: Instant) -> impl Iterator<Item = &Peer> {
        let peers = self.topics.get(topic).map(|topic| &topic.peers);
        peers
            .into_iter()
            .flatten()
            .filter(move |(_, tombstoned_at)| !self.is_tombstoned(**tombstoned_at, now))
            .filter_map(|(id, _)| self.peers.get(id))
            .filter(move |peer| self.is_active(peer, now))
    }

    /// All peers that are alive, each with its topics and whether it bears a tombstone there.
    pub fn nodes(&self, now: Instant) -> impl Iterator<Item = (&Peer, Vec<(&str, bool)>)> {
        let active = self
            .peers
            .iter()
            .filter(move |(_, peer)| self.is_active(peer, now));
        active.map(move |(id, peer)| {
            let topics = self.had.get(id).into_iter().flatten();
            let topics = topics.map(|name| {
                let topic = self.topics.get(name);
                let at = topic.and_then(|topic| topic.peers.get(id).copied().flatten());
                (name.as_str(), self.is_tombstoned(at, now))
            });
            (peer, topics.collect())
        })
    }

    fn is_active(&self, peer: &Peer, now: Instant) -> bool {
        now - peer.heard_at <= self.rules.inactive_after
    }

    fn is_tombstoned(&self, tombstoned_at: Option<Instant>, now: Instant) -> bool {
        tombstoned_at.is_some_and(|at| now - at < self.rules.tombstone_lifetime)
    }
}

impl Peer {
    /// The address that it connects from.
    fn ip(&self) -> Option<IpAddr> {
        let from: Option<std::net::SocketAddr> = self.remote_address.parse().ok();
        from.map(|from| from.ip())
    }
}

impl Topic {
    /// Forgets a peer; gives who made the `#ephemeral` channels that went with it, and how many registrations it had.
    fn forget(&mut self, id: PeerId) -> (Vec<Option<IpAddr>>, usize) {
        if self.peers.remove(&id).is_none() {
            return (Vec::new(), 0);
        }
        let (mut registrations, mut orphans) = (1, Vec::new());
        self.channels.retain(|name, channel| {
            let was_there = channel.peers.remove(&id);
            registrations += usize::from(was_there);
            let is_orphan = was_there && channel.peers.is_empty() && name.is_ephemeral();
            orphans.extend(is_orphan.then_some(channel.made_by));
            !is_orphan
        });
        (orphans, registrations)
    }
}

#[cfg(test)]
mod tests;
