//! What both sides know of a topic beside its contract: its channels, and what is paused.

use serde::{Deserialize, Serialize};

/// A topic with its channels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicState {
    /// Topic name.
    pub topic: String,
    /// Whether the topic passes nothing on to its channels.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_paused: bool,
    /// Its channels.
    pub channels: Vec<ChannelState>,
}

/// A channel of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChannelState {
    /// Channel name.
    pub channel: String,
    /// Whether the channel gives nothing to its consumers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_paused: bool,
}

/// A change to a topic or to one of its channels. Each may be sent twice: the second time changes
/// nothing, except for `TopicEmptied` and `ChannelEmptied`, which drop what came meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum TopicChange {
    /// The topic came into being.
    TopicCreated,
    /// The topic is gone, with its channels and what they held.
    TopicDeleted,
    /// The topic passes nothing on any more.
    TopicPaused,
    /// The topic passes messages on again.
    TopicResumed,
    /// What waited in the topic's queue is gone.
    TopicEmptied,
    /// A channel came into being.
    ChannelCreated {
        /// Channel name.
        channel: String,
    },
    /// A channel is gone, with what it held.
    ChannelDeleted {
        /// Channel name.
        channel: String,
    },
    /// A channel gives nothing to its consumers any more.
    ChannelPaused {
        /// Channel name.
        channel: String,
    },
    /// A channel gives messages to its consumers again.
    ChannelResumed {
        /// Channel name.
        channel: String,
    },
    /// What waited in a channel is gone.
    ChannelEmptied {
        /// Channel name.
        channel: String,
    },
}

impl TopicChange {
    /// Whether a topic or channel is gone with it.
    #[must_use]
    pub fn is_deletion(&self) -> bool {
        matches!(
            self,
            TopicChange::TopicDeleted | TopicChange::ChannelDeleted { .. }
        )
    }
}
