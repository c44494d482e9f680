//! Who has which topic and channel: what nsqd's have registered, and what was created by hand.
//!
//! The rules are nsqlookupd's. Names outlive those who registered them, until somebody deletes them; `#ephemeral` ones go
//! with the last peer that has them. A peer that was not heard of for a while is not told to consumers, though it is
//! kept. A tombstone hides a peer from the consumers of one topic for a while, so that they let go before the topic is
//! deleted there. Pure: time is an argument. Brokers of the controller are not in here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clock::Instant;
use wire::{ChannelName, TopicName};

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

/// What a registry holds at most.
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
            topics: 100_000,
            channels: 200_000,
            registrations: 1_000_000,
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

/// A peer with a topic that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration<'a> {
    /// Topic.
    pub topic: &'a TopicName,
    /// Channel; `None` for the topic itself.
    pub channel: Option<&'a ChannelName>,
    /// Who has it.
    pub peer: &'a Peer,
    /// When it was hidden from the topic's consumers, lately or long ago.
    pub tombstoned_at: Option<Instant>,
}

/// Peers, topics and channels.
#[derive(Debug, Default)]
pub struct Registry {
    rules: Rules,
    peers: BTreeMap<PeerId, Peer>,
    topics: BTreeMap<TopicName, Topic>,
    channels: usize,
    registrations: usize,
}

/// Every peer of a channel is one of its topic.
#[derive(Debug, Default)]
struct Topic {
    /// With the time of a tombstone.
    peers: BTreeMap<PeerId, Option<Instant>>,
    channels: BTreeMap<ChannelName, BTreeSet<PeerId>>,
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
        if !self.peers.contains_key(&id) {
            return Ok(());
        }
        let known = self.topics.get(&subject.topic);
        let has_topic = known.is_some_and(|topic| topic.peers.contains_key(&id));
        let has_channel = subject.channel.as_ref().is_none_or(|channel| {
            let of_channel = known.and_then(|topic| topic.channels.get(channel));
            of_channel.is_some_and(|peers| peers.contains(&id))
        });
        let more = usize::from(!has_topic) + usize::from(!has_channel);
        if self.registrations + more > self.rules.bounds.registrations {
            return Err(Full::Registrations);
        }
        self.create(subject)?;
        self.registrations += more;
        if let Some(topic) = self.topics.get_mut(&subject.topic) {
            topic.peers.entry(id).or_default();
            if let Some(channel) = &subject.channel {
                let peers = topic.channels.entry(channel.clone()).or_default();
                peers.insert(id);
            }
        }
        Ok(())
    }

    /// A peer no longer has a channel, or a topic with all its channels.
    pub fn unregister(&mut self, id: PeerId, subject: &Subject) {
        let Some(topic) = self.topics.get_mut(&subject.topic) else {
            return;
        };
        if let Some(name) = &subject.channel {
            let Some(peers) = topic.channels.get_mut(name) else {
                return;
            };
            self.registrations -= usize::from(peers.remove(&id));
            if peers.is_empty() && name.is_ephemeral() {
                topic.channels.remove(name);
                self.channels -= 1;
            }
            return;
        }
        let (channels, registrations) = topic.forget(id);
        self.channels -= channels;
        self.registrations -= registrations;
        if topic.peers.is_empty() && subject.topic.is_ephemeral() {
            self.delete_topic(subject.topic.as_str());
        }
    }

    /// A connection has ended: its peer and what it had are forgotten. Unlike nsqlookupd this takes `#ephemeral` names
    /// along where it was their last peer, so that brokers that crash leave nothing behind.
    pub fn disconnect(&mut self, id: PeerId) {
        if self.peers.remove(&id).is_none() {
            return;
        }
        let mut orphans = Vec::new();
        for (name, topic) in &mut self.topics {
            let (channels, registrations) = topic.forget(id);
            self.channels -= channels;
            self.registrations -= registrations;
            if registrations > 0 && topic.peers.is_empty() && name.is_ephemeral() {
                orphans.push(name.clone());
            }
        }
        for name in orphans {
            self.delete_topic(name.as_str());
        }
    }

    /// Makes a topic or channel known without anybody who has it, for consumers that come first.
    ///
    /// # Errors
    /// [`Full`] at a bound.
    pub fn create(&mut self, subject: &Subject) -> Result<(), Full> {
        let known = self.topics.get(&subject.topic);
        if known.is_none() && self.topics.len() >= self.rules.bounds.topics {
            return Err(Full::Topics);
        }
        let is_new = subject.channel.as_ref().is_some_and(|channel| {
            !known.is_some_and(|topic| topic.channels.contains_key(channel))
        });
        if is_new && self.channels >= self.rules.bounds.channels {
            return Err(Full::Channels);
        }
        let topic = self.topics.entry(subject.topic.clone()).or_default();
        if is_new && let Some(channel) = &subject.channel {
            topic.channels.insert(channel.clone(), BTreeSet::new());
            self.channels += 1;
        }
        Ok(())
    }

    /// Forgets a topic and its channels, whoever has them; nothing where there is none.
    pub fn delete_topic(&mut self, name: &str) {
        if let Some(topic) = self.topics.remove(name) {
            let of_channels: usize = topic.channels.values().map(BTreeSet::len).sum();
            self.registrations -= topic.peers.len() + of_channels;
            self.channels -= topic.channels.len();
        }
    }

    /// Forgets a channel, whoever has it; says whether there was one.
    pub fn delete_channel(&mut self, topic: &str, channel: &str) -> bool {
        let Some(topic) = self.topics.get_mut(topic) else {
            return false;
        };
        let Some(peers) = topic.channels.remove(channel) else {
            return false;
        };
        self.registrations -= peers.len();
        self.channels -= 1;
        true
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
        let mut topics: BTreeMap<PeerId, Vec<(&str, bool)>> = BTreeMap::new();
        for (name, topic) in &self.topics {
            for (&id, &tombstoned_at) in &topic.peers {
                let of_peer = topics.entry(id).or_default();
                of_peer.push((name.as_str(), self.is_tombstoned(tombstoned_at, now)));
            }
        }
        let active = self
            .peers
            .iter()
            .filter(move |(_, peer)| self.is_active(peer, now));
        active.map(move |(id, peer)| (peer, topics.remove(id).unwrap_or_default()))
    }

    /// All peers, alive or not.
    pub fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.peers.values()
    }

    /// Everything that was registered, in order of topic and channel.
    pub fn registrations(&self) -> impl Iterator<Item = Registration<'_>> {
        self.topics.iter().flat_map(|(name, topic)| {
            let row = |channel, id: &PeerId, tombstoned_at| {
                let peer = self.peers.get(id)?;
                Some(Registration {
                    topic: name,
                    channel,
                    peer,
                    tombstoned_at,
                })
            };
            let of_topic = topic
                .peers
                .iter()
                .filter_map(move |(id, at)| row(None, id, *at));
            let of_channels = topic.channels.iter().flat_map(move |(channel, peers)| {
                let rows = peers.iter();
                rows.filter_map(move |id| row(Some(channel), id, None))
            });
            of_topic.chain(of_channels)
        })
    }

    fn is_active(&self, peer: &Peer, now: Instant) -> bool {
        now - peer.heard_at <= self.rules.inactive_after
    }

    fn is_tombstoned(&self, tombstoned_at: Option<Instant>, now: Instant) -> bool {
        tombstoned_at.is_some_and(|at| now - at < self.rules.tombstone_lifetime)
    }
}

impl Topic {
    /// Forgets a peer; returns the `#ephemeral` channels that went with it, and its registrations.
    fn forget(&mut self, id: PeerId) -> (usize, usize) {
        if self.peers.remove(&id).is_none() {
            return (0, 0);
        }
        let mut registrations = 1;
        let before = self.channels.len();
        self.channels.retain(|name, peers| {
            let was_there = peers.remove(&id);
            registrations += usize::from(was_there);
            !(was_there && peers.is_empty() && name.is_ephemeral())
        });
        (before - self.channels.len(), registrations)
    }
}

#[cfg(test)]
mod tests;
