//! The topics and channels of this broker that lookups are to know.

use std::collections::{BTreeMap, BTreeSet};

use link::{TopicChange, TopicState};
use wire::lookup::{Command, Subject};
use wire::{ChannelName, TopicName};

/// Topics with their channels, ephemeral ones included: those have consumers that came by lookup, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Registrations {
    topics: BTreeMap<TopicName, BTreeSet<ChannelName>>,
}

impl Registrations {
    /// That of a broker with these topics.
    pub(super) fn of(topics: &[TopicState]) -> Registrations {
        let mut registrations = Registrations::default();
        for state in topics {
            // Names came out of the broker, where they are valid.
            let Ok(topic) = state.topic.parse::<TopicName>() else {
                continue;
            };
            let channels = state.channels.iter();
            let channels = channels.filter_map(|state| state.channel.parse().ok());
            registrations.topics.insert(topic, channels.collect());
        }
        registrations
    }

    /// Takes in a change of a topic; returns the command for lookups, if there is one. Known things
    /// are not repeated.
    pub(super) fn change(&mut self, topic: &TopicName, change: &TopicChange) -> Option<Command> {
        let named = |channel: &str| channel.parse::<ChannelName>().ok();
        match change {
            TopicChange::TopicCreated => {
                let is_new = !self.topics.contains_key(topic);
                self.topics.entry(topic.clone()).or_default();
                is_new.then(|| Command::Register(subject(topic, None)))
            }
            TopicChange::TopicDeleted => {
                let was_there = self.topics.remove(topic).is_some();
                was_there.then(|| Command::Unregister(subject(topic, None)))
            }
            TopicChange::ChannelCreated { channel } => {
                let channel = named(channel)?;
                let channels = self.topics.entry(topic.clone()).or_default();
                let is_new = channels.insert(channel.clone());
                is_new.then(|| Command::Register(subject(topic, Some(channel))))
            }
            TopicChange::ChannelDeleted { channel } => {
                let channel = named(channel)?;
                let was_there = self.topics.get_mut(topic)?.remove(&channel);
                was_there.then(|| Command::Unregister(subject(topic, Some(channel))))
            }
            TopicChange::TopicPaused
            | TopicChange::TopicResumed
            | TopicChange::TopicEmptied
            | TopicChange::ChannelPaused { .. }
            | TopicChange::ChannelResumed { .. }
            | TopicChange::ChannelEmptied { .. } => None,
        }
    }

    /// All registrations, for a lookup that knows nothing. A channel implies its topic.
    pub(super) fn commands(&self) -> impl Iterator<Item = Command> {
        self.topics.iter().flat_map(|(topic, channels)| {
            let alone = channels.is_empty().then(|| subject(topic, None));
            let with = channels
                .iter()
                .map(|channel| subject(topic, Some(channel.clone())));
            alone.into_iter().chain(with).map(Command::Register)
        })
    }
}

fn subject(topic: &TopicName, channel: Option<ChannelName>) -> Subject {
    Subject {
        topic: topic.clone(),
        channel,
    }
}
