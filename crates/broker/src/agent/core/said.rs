//! What the controller has told this broker of topics and channels.

use link::{TopicChange, TopicState};
use topics::KnownTopic;
use wire::{ChannelName, TopicName};

use super::errand::Errand;
use crate::Operation;

/// A topic as said.
pub(super) fn known(state: &TopicState) -> Result<KnownTopic, String> {
    let channels = state.channels.iter();
    let channels: Result<Vec<_>, String> = channels
        .map(|state| Ok((channel_name(&state.channel)?, state.is_paused)))
        .collect();
    Ok(KnownTopic {
        name: name(&state.topic)?,
        is_paused: state.is_paused,
        channels: channels?,
    })
}

/// The errand that follows here from a change elsewhere; `None` for a topic that is not here and
/// for an ephemeral channel, which belongs where its consumers are: these are not created.
pub(super) fn follow(topic: &str, change: &TopicChange) -> Result<Option<Errand>, String> {
    let (channel, operation) = operation(change)?;
    let is_made = operation == Operation::Create;
    if is_made && channel.as_ref().is_none_or(ChannelName::is_ephemeral) {
        return Ok(None);
    }
    Ok(Some(Errand::Follow(name(topic)?, channel, operation)))
}

/// To which channel (none: the topic itself) what is done.
fn operation(change: &TopicChange) -> Result<(Option<ChannelName>, Operation), String> {
    let (channel, operation) = match change {
        TopicChange::TopicCreated => (None, Operation::Create),
        TopicChange::TopicDeleted => (None, Operation::Delete),
        TopicChange::TopicPaused => (None, Operation::Pause),
        TopicChange::TopicResumed => (None, Operation::Unpause),
        TopicChange::TopicEmptied => (None, Operation::Empty),
        TopicChange::ChannelCreated { channel } => (Some(channel), Operation::Create),
        TopicChange::ChannelDeleted { channel } => (Some(channel), Operation::Delete),
        TopicChange::ChannelPaused { channel } => (Some(channel), Operation::Pause),
        TopicChange::ChannelResumed { channel } => (Some(channel), Operation::Unpause),
        TopicChange::ChannelEmptied { channel } => (Some(channel), Operation::Empty),
    };
    let channel = channel.map(|name| channel_name(name)).transpose()?;
    Ok((channel, operation))
}

/// A topic's name.
pub(super) fn name(topic: &str) -> Result<TopicName, String> {
    topic
        .parse()
        .map_err(|_| format!("{topic:?} is not a valid topic name"))
}

fn channel_name(channel: &str) -> Result<ChannelName, String> {
    channel
        .parse()
        .map_err(|_| format!("{channel:?} is not a valid channel name"))
}
