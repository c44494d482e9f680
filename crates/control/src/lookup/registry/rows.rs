//! All registrations, row by row: a page of them can be made in parts, and the registry may change
//! in between.

use std::ops::Bound;

use clock::Instant;
use wire::{ChannelName, TopicName};

use super::{Peer, PeerId, Registry};

/// The subject of a row; in the order of `/debug`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowKey {
    /// A channel of a topic.
    Channel(TopicName, ChannelName),
    /// Everybody who has said who it is.
    Clients,
    /// A topic.
    Topic(TopicName),
}

/// Who is registered for something.
#[derive(Debug)]
pub struct Row<'a> {
    /// For what.
    pub key: RowKey,
    /// Who, and when it was hidden from the topic's consumers, lately or long ago.
    pub peers: Vec<(&'a Peer, Option<Instant>)>,
}

impl Registry {
    /// The rows behind one, those that nobody is registered for left out.
    pub fn rows_behind<'a>(&'a self, last: Option<&RowKey>) -> impl Iterator<Item = Row<'a>> {
        let channels = match last {
            None => Some(None),
            Some(RowKey::Channel(topic, channel)) => Some(Some((topic.clone(), channel.clone()))),
            Some(_) => None,
        };
        let channels = channels
            .into_iter()
            .flat_map(|last| self.channel_rows(last));
        let clients = last
            .is_none_or(|last| *last < RowKey::Clients)
            .then(|| Row {
                key: RowKey::Clients,
                peers: self.peers.values().map(|peer| (peer, None)).collect(),
            });
        let behind = match last {
            Some(RowKey::Topic(topic)) => Bound::Excluded(topic.clone()),
            _ => Bound::Unbounded,
        };
        let topics = self.topics.range((behind, Bound::Unbounded));
        let topics = topics.map(|(name, topic)| Row {
            key: RowKey::Topic(name.clone()),
            peers: self.with_times(topic.peers.iter().map(|(id, at)| (id, *at))),
        });
        let rows = channels.chain(clients).chain(topics);
        rows.filter(|row| !row.peers.is_empty())
    }

    fn channel_rows(
        &self,
        last: Option<(TopicName, ChannelName)>,
    ) -> impl Iterator<Item = Row<'_>> {
        let begin = match &last {
            Some((topic, _)) => Bound::Included(topic.clone()),
            None => Bound::Unbounded,
        };
        let topics = self.topics.range((begin, Bound::Unbounded));
        topics.flat_map(move |(name, topic)| {
            let begin = match &last {
                Some((at, channel)) if at == name => Bound::Excluded(channel.clone()),
                _ => Bound::Unbounded,
            };
            let channels = topic.channels.range((begin, Bound::Unbounded));
            channels.map(|(channel, here)| Row {
                key: RowKey::Channel(name.clone(), channel.clone()),
                peers: self.with_times(here.peers.iter().map(|id| (id, None))),
            })
        })
    }

    fn with_times<'a>(
        &'a self,
        peers: impl Iterator<Item = (&'a PeerId, Option<Instant>)>,
    ) -> Vec<(&'a Peer, Option<Instant>)> {
        let known = peers.filter_map(|(id, at)| Some((self.peers.get(id)?, at)));
        known.collect()
    }
}
