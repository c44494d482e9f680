//! `POST /topic/…` and `POST /channel/…`: create, delete, empty, pause, unpause.
//!
//! nsqd names the same mistake differently from route to route. The differences are kept, because
//! scripts match them: an invalid topic name is `INVALID_TOPIC` where a topic is created or
//! emptied, simply not found where it is deleted or paused, and `INVALID_ARG_TOPIC` beside a
//! channel.

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use http::Query;
use http::nsq::{Failure, done};
use wire::{ChannelName, TopicName};

use super::Shared;
use super::asker::Asker;
use super::publish;
use crate::Operation;

/// Does `operation` to the topic of the query.
pub(super) async fn topic(
    State(service): Shared,
    Asker(maker): Asker,
    uri: Uri,
    operation: Operation,
) -> Result<Response, Failure> {
    let query = Query::of(&uri)?;
    let topic = match operation {
        Operation::Create | Operation::Empty => publish::topic(&query)?,
        Operation::Delete | Operation::Pause | Operation::Unpause => {
            let name = query.required("topic")?;
            name.parse()
                .map_err(|_| Failure::new(404, "TOPIC_NOT_FOUND"))?
        }
    };
    match operation {
        Operation::Create => service.handle.make_for(maker, topic, None).await?,
        _ => service.handle.topic(topic, operation).await?,
    }
    Ok(done())
}

/// Does `operation` to the channel of the query, in a topic that must exist.
pub(super) async fn channel(
    State(service): Shared,
    Asker(maker): Asker,
    uri: Uri,
    operation: Operation,
) -> Result<Response, Failure> {
    let (topic, channel) = names(&Query::of(&uri)?)?;
    let handle = &service.handle;
    match operation {
        Operation::Create => handle.make_for(maker, topic, Some(channel)).await?,
        _ => handle.channel(topic, channel, operation).await?,
    }
    Ok(done())
}

fn names(query: &Query) -> Result<(TopicName, ChannelName), Failure> {
    let topic = query.required("topic")?;
    let topic = topic
        .parse()
        .map_err(|_| Failure::new(400, "INVALID_ARG_TOPIC"))?;
    let channel = query.required("channel")?;
    let channel = channel
        .parse()
        .map_err(|_| Failure::new(400, "INVALID_ARG_CHANNEL"))?;
    Ok((topic, channel))
}
