//! What the controller says of topics and channels, carried out.

use link::{ToController, TopicChange, TopicState};
use topics::KnownTopic;
use wire::ChannelName;

use super::orders::{Words, name, persist};
use crate::{BrokerError, Handle, Operation};

/// Makes a topic as said, and says that it is there.
pub(super) async fn learn(
    handle: &Handle,
    state: TopicState,
    ticket: u64,
    words: &Words,
) -> Result<(), String> {
    let known = known(&state)?;
    let learned = persist(|| handle.told().learn(known.clone())).await;
    let is_here = learned.map_err(|error| format!("channels of {}: {error}", state.topic))?;
    if is_here {
        let ready = ToController::TopicReady {
            topic: state.topic,
            ticket,
        };
        // The link is lost if this fails, and with it the session.
        let _ = words.send(ready).await;
    }
    Ok(())
}

/// Does here what was done elsewhere. A topic that is not here is not made, nor is an ephemeral channel, which is where its
/// consumers are. That something is deleted its reactor says, behind what it has said of it; where nothing is, this does.
pub(super) async fn follow(
    handle: &Handle,
    topic: String,
    change: TopicChange,
    words: &Words,
) -> Result<(), String> {
    let (channel, operation) = operation(&change)?;
    let is_made = operation == Operation::Create;
    if is_made && channel.as_ref().is_none_or(ChannelName::is_ephemeral) {
        return Ok(());
    }
    let name = name(&topic)?;
    let followed = persist(|| {
        handle
            .told()
            .follow(name.clone(), channel.clone(), operation)
    })
    .await;
    match followed {
        Err(BrokerError::TopicNotFound(_) | BrokerError::ChannelNotFound(_))
            if change.is_deletion() =>
        {
            // The link is lost if this fails, and with it the session.
            let _ = words.send(ToController::Followed { topic, change }).await;
            Ok(())
        }
        Ok(()) | Err(BrokerError::TopicNotFound(_) | BrokerError::ChannelNotFound(_)) => Ok(()),
        Err(error) => Err(format!("a change of {topic}: {error}")),
    }
}

fn known(state: &TopicState) -> Result<KnownTopic, String> {
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

fn channel_name(channel: &str) -> Result<ChannelName, String> {
    channel
        .parse()
        .map_err(|_| format!("{channel:?} is not a valid channel name"))
}
