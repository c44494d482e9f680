//! What is known of topics beside their contracts: each topic's channels over all brokers, and what
//! is paused.
//!
//! `#ephemeral` channels are not listed: they live and die at each broker. An `#ephemeral` topic is
//! listed for as long as a broker has it. Pure: [`super::channels`] handles who reports and who is
//! told.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use link::{ChannelState, TopicChange, TopicState};
use wire::{ChannelName, TopicName};

use super::registry::Brokers;
use super::{Broker, TOPICS_MAX};

/// Channels of one topic that are known at most; as many as a broker has.
pub const CHANNELS_MAX: usize = 1024;

/// A topic over all brokers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) is_paused: bool,
    /// Channels, with whether they are paused.
    pub(super) channels: BTreeMap<ChannelName, bool>,
}

/// Who is to hear of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// Nobody: nothing has changed but for the broker that says so.
    Nobody,
    /// Brokers that have the topic.
    Holders,
    /// All brokers.
    Everybody,
}

/// The effect of a change on the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct News {
    /// Whether the catalog has changed.
    pub(super) is_new: bool,
    pub(super) audience: Audience,
}

/// All topics.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    topics: BTreeMap<TopicName, Known>,
    /// The `#ephemeral` ones.
    ephemeral: BTreeSet<TopicName>,
    /// Where the search for those of them that no broker has goes on behind, if it does.
    orphans: Option<Option<TopicName>>,
}

impl Catalog {
    /// A topic.
    pub(super) fn get(&self, topic: &str) -> Option<&Known> {
        self.topics.get(topic)
    }

    /// All topics.
    pub(super) fn topics(&self) -> &BTreeMap<TopicName, Known> {
        &self.topics
    }

    /// `#ephemeral` topics behind one, in order of name.
    fn ephemeral(&self, after: Option<TopicName>) -> impl Iterator<Item = &TopicName> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.ephemeral.range((begin, Bound::Unbounded))
    }

    /// Whether a broker has all channels that are known of a topic.
    pub(super) fn is_held_by(&self, name: &str, broker: &Broker) -> bool {
        self.get(name)
            .is_none_or(|known| broker.inventory.has_all(name, known))
    }

    /// Whether it is being looked which `#ephemeral` topics no broker has any more.
    pub(super) fn is_busy(&self) -> bool {
        self.orphans.is_some()
    }

    /// Looks for `#ephemeral` topics that no broker has any more, a few at a time.
    pub(super) fn forget_orphans(&mut self, brokers: &Brokers, at_most: usize) {
        self.orphans = Some(None);
        self.go_on_orphans(brokers, at_most);
    }

    /// The next part of that.
    pub(super) fn go_on_orphans(&mut self, brokers: &Brokers, at_most: usize) {
        let Some(last) = self.orphans.take() else {
            return;
        };
        let part = self.ephemeral(last).take(at_most);
        let part: Vec<TopicName> = part.cloned().collect();
        for topic in &part {
            self.forget_orphan(topic, brokers);
        }
        let last = part.into_iter().nth(at_most - 1);
        self.orphans = last.map(Some);
    }

    /// An `#ephemeral` topic is known as long as a broker has it.
    pub(super) fn forget_orphan(&mut self, topic: &TopicName, brokers: &Brokers) {
        let mut brokers = brokers.iter();
        if topic.is_ephemeral() && !brokers.any(|broker| broker.inventory.has(topic)) {
            self.remove(topic.as_str());
        }
    }

    /// Forgets a topic.
    fn remove(&mut self, topic: &str) {
        self.topics.remove(topic);
        self.ephemeral.remove(topic);
    }

    /// Takes a change over.
    ///
    /// # Errors
    /// A text: not a channel's name, or a bound; nothing has changed.
    pub(super) fn apply(
        &mut self,
        topic: &TopicName,
        change: &TopicChange,
    ) -> Result<News, String> {
        use Audience::{Everybody, Holders, Nobody};
        let told = |is_new: bool, audience| News {
            is_new,
            audience: if is_new { audience } else { Nobody },
        };
        let emptied = News {
            is_new: false,
            audience: Everybody,
        };
        match change {
            TopicChange::TopicCreated => {
                let is_new = !self.topics.contains_key(topic);
                self.topic_or_new(topic)?;
                Ok(told(is_new, Nobody))
            }
            // Elsewhere its last channel may still be there.
            TopicChange::TopicDeleted if topic.is_ephemeral() => Ok(told(false, Nobody)),
            TopicChange::TopicDeleted => Ok(told(self.topics.remove(topic).is_some(), Everybody)),
            TopicChange::TopicPaused => Ok(told(self.pause(topic, true)?, Everybody)),
            TopicChange::TopicResumed => Ok(told(self.pause(topic, false)?, Everybody)),
            TopicChange::TopicEmptied => Ok(emptied),
            TopicChange::ChannelCreated { channel } => {
                let channel = channel_name(channel)?;
                let is_new = !channel.is_ephemeral() && self.create(topic, channel, false)?;
                Ok(told(is_new, Holders))
            }
            TopicChange::ChannelDeleted { channel } => {
                let channel = channel_name(channel)?;
                let known = self.topics.get_mut(topic);
                let was_there =
                    known.is_some_and(|known| known.channels.remove(&channel).is_some());
                Ok(told(was_there, Everybody))
            }
            TopicChange::ChannelPaused { channel } => self.pause_channel(topic, channel, true),
            TopicChange::ChannelResumed { channel } => self.pause_channel(topic, channel, false),
            TopicChange::ChannelEmptied { channel } => channel_name(channel).map(|_| emptied),
        }
    }

    /// Takes over what a broker has: topics and channels that are not known become known as they are there. Of those that are,
    /// nothing changes. Gives what is new.
    ///
    /// # Errors
    /// A text: a bound; what was before it has been taken over.
    pub(super) fn merge(
        &mut self,
        topic: &TopicName,
        there: &Known,
    ) -> Result<(bool, Vec<TopicChange>), String> {
        let is_new = !self.topics.contains_key(topic);
        let known = self.topic_or_new(topic)?;
        if is_new {
            known.is_paused = there.is_paused;
        }
        let mut news = Vec::new();
        let lasting = there
            .channels
            .iter()
            .filter(|(name, _)| !name.is_ephemeral());
        for (channel, &is_paused) in lasting {
            if !self.create(topic, channel.clone(), is_paused)? {
                continue;
            }
            let channel = channel.to_string();
            news.push(TopicChange::ChannelCreated {
                channel: channel.clone(),
            });
            if is_paused {
                news.push(TopicChange::ChannelPaused { channel });
            }
        }
        Ok((is_new, news))
    }

    /// What would be known of a topic after a change, where that is something else.
    ///
    /// # Errors
    /// A text, as [`Catalog::apply`].
    pub(super) fn after(
        &self,
        topic: &TopicName,
        change: &TopicChange,
    ) -> Result<Option<Option<Known>>, String> {
        let known = self.topics.get_key_value(topic);
        let known = known.map(|(topic, known)| (topic.clone(), known.clone()));
        let is_new = known.is_none();
        let mut alone = Catalog {
            topics: known.into_iter().collect(),
            ..Catalog::default()
        };
        let news = alone.apply(topic, change)?;
        let known = alone.topics.remove(topic);
        if is_new && known.is_some() {
            self.has_room(topic)?;
        }
        Ok(news.is_new.then_some(known))
    }

    /// A topic as brokers are told it; one that nobody knows has nothing.
    pub(super) fn state_of(&self, topic: &TopicName) -> TopicState {
        let nothing = Known::default();
        self.topics.get(topic).unwrap_or(&nothing).state_of(topic)
    }

    fn topic_or_new(&mut self, topic: &TopicName) -> Result<&mut Known, String> {
        self.has_room(topic)?;
        if topic.is_ephemeral() && !self.ephemeral.contains(topic) {
            self.ephemeral.insert(topic.clone());
        }
        Ok(self.topics.entry(topic.clone()).or_default())
    }

    fn has_room(&self, topic: &TopicName) -> Result<(), String> {
        match self.topics.len() >= TOPICS_MAX && !self.topics.contains_key(topic) {
            false => Ok(()),
            true => Err(format!(
                "there is no room for topic {topic}: {TOPICS_MAX} are known; delete some"
            )),
        }
    }

    /// Whether that is another state than before.
    fn pause(&mut self, topic: &TopicName, is_paused: bool) -> Result<bool, String> {
        let known = self.topic_or_new(topic)?;
        let was_paused = std::mem::replace(&mut known.is_paused, is_paused);
        Ok(was_paused != is_paused)
    }

    /// Whether the channel was not known.
    fn create(
        &mut self,
        topic: &TopicName,
        channel: ChannelName,
        is_paused: bool,
    ) -> Result<bool, String> {
        let known = self.topic_or_new(topic)?;
        if known.channels.contains_key(&channel) {
            return Ok(false);
        }
        if known.channels.len() >= CHANNELS_MAX {
            return Err(format!(
                "there is no room for channel {channel}: {topic} has {CHANNELS_MAX}; delete some"
            ));
        }
        known.channels.insert(channel, is_paused);
        Ok(true)
    }

    fn pause_channel(
        &mut self,
        topic: &TopicName,
        channel: &str,
        is_paused: bool,
    ) -> Result<News, String> {
        let channel = channel_name(channel)?;
        let known = self.topics.get_mut(topic);
        let state = known.and_then(|known| known.channels.get_mut(&channel));
        let was_paused = state.map(|state| std::mem::replace(state, is_paused));
        let is_new = was_paused.is_some_and(|was_paused| was_paused != is_paused);
        Ok(News {
            is_new,
            audience: match is_new || channel.is_ephemeral() {
                true => Audience::Everybody,
                false => Audience::Nobody,
            },
        })
    }
}

impl Known {
    /// In the form in which brokers are told and the store keeps it.
    pub(super) fn state_of(&self, topic: &TopicName) -> TopicState {
        let channels = self.channels.iter();
        TopicState {
            topic: topic.to_string(),
            is_paused: self.is_paused,
            channels: channels
                .map(|(channel, &is_paused)| ChannelState {
                    channel: channel.to_string(),
                    is_paused,
                })
                .collect(),
        }
    }

    /// Takes over what was said or kept of a topic.
    ///
    /// # Errors
    /// A text: a channel name that is not valid, or a bound that is reached.
    pub(super) fn of(state: &TopicState) -> Result<Known, String> {
        if state.channels.len() > CHANNELS_MAX {
            let count = state.channels.len();
            return Err(format!(
                "{count} channels are too many: {CHANNELS_MAX} is the most"
            ));
        }
        let channels = state.channels.iter();
        let channels = channels.map(|state| Ok((channel_name(&state.channel)?, state.is_paused)));
        Ok(Known {
            is_paused: state.is_paused,
            channels: channels.collect::<Result<_, String>>()?,
        })
    }
}

/// A channel's name.
///
/// # Errors
/// A text.
pub(super) fn channel_name(name: &str) -> Result<ChannelName, String> {
    name.parse().map_err(|_| {
        let shown: String = name.chars().take(70).collect();
        format!("{shown:?} is not a channel name")
    })
}
