//! nsqlookupd's HTTP API: where topics are, who is registered, and the few operations by hand.
//!
//! Statuses, error codes and headers are nsqlookupd 1.3.0's. Not served: Go's profiler under
//! `/debug/pprof`.

use std::sync::Arc;

use access::Role::{Admin, Read};
use access::{InForce, Need};
use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use http::nsq::{Failure, done, json, json_text};
use http::{Query, Routes};
use link::TopicChange;
use wire::{ChannelName, TopicName};

use super::debug;
use super::document::{Channels, Found, Nodes, Topics};
use super::registry::Full;
use super::{Lookup, NSQLOOKUPD_VERSION, TEXT_FIELD};
use crate::ControlError;
use wire::lookup::Subject;

type Shared = State<Arc<Lookup>>;

/// All that is answered.
pub(super) fn router(lookup: Arc<Lookup>, access: Option<InForce>) -> Router {
    routes(access)
        .into_router()
        .fallback(async || Failure::new(404, "NOT_FOUND"))
        .method_not_allowed_fallback(async || Failure::new(405, "METHOD_NOT_ALLOWED"))
        .with_state(lookup)
}

/// All routes, with what each takes.
pub(super) fn routes(access: Option<InForce>) -> Routes<Arc<Lookup>> {
    Routes::new(access, TEXT_FIELD)
        .get("/ping", Need::Nothing, async || "OK")
        .get("/info", Need::Token, info)
        .get("/debug", Need::Everything(Read), show_debug)
        .get("/lookup", Need::Topic(Read), lookup_topic)
        .get("/topics", Need::Everything(Read), topics)
        .get("/channels", Need::Topic(Read), channels)
        .get("/nodes", Need::Everything(Read), nodes)
        .post("/topic/create", Need::Topic(Admin), create_topic)
        .post("/topic/delete", Need::Topic(Admin), delete_topic)
        .post("/topic/tombstone", Need::Topic(Admin), tombstone_topic)
        .post("/channel/create", Need::Topic(Admin), create_channel)
        .post("/channel/delete", Need::Topic(Admin), delete_channel)
}

async fn info() -> Response {
    json(&serde_json::json!({ "version": NSQLOOKUPD_VERSION }))
}

async fn show_debug(State(lookup): Shared) -> Response {
    json_text(debug::body(lookup))
}

async fn lookup_topic(State(lookup): Shared, uri: Uri) -> Result<Response, Failure> {
    let query = Query::of(&uri)?;
    let topic = query.required("topic")?;
    let now = lookup.now();
    let cluster = lookup.cluster.snapshot(now).await?;
    let tombstones = lookup.cluster.tombstones();
    let found = Found::new(topic, &lookup.registry(), &cluster, &tombstones, now);
    let found = found.ok_or_else(|| Failure::new(404, "TOPIC_NOT_FOUND"))?;
    Ok(json(&found))
}

async fn topics(State(lookup): Shared) -> Result<Response, Failure> {
    let cluster = lookup.cluster.snapshot(lookup.now()).await?;
    let topics = Topics::new(&lookup.registry(), &cluster);
    Ok(json(&topics))
}

async fn channels(State(lookup): Shared, uri: Uri) -> Result<Response, Failure> {
    let query = Query::of(&uri)?;
    let topic = query.required("topic")?;
    let cluster = lookup.cluster.snapshot(lookup.now()).await?;
    let channels = Channels::new(topic, &lookup.registry(), &cluster);
    Ok(json(&channels))
}

async fn nodes(State(lookup): Shared) -> Result<Response, Failure> {
    let now = lookup.now();
    let cluster = lookup.cluster.snapshot(now).await?;
    let tombstones = lookup.cluster.tombstones();
    let nodes = Nodes::new(&lookup.registry(), &cluster, &tombstones, now);
    Ok(json(&nodes))
}

async fn create_topic(State(lookup): Shared, uri: Uri) -> Result<Response, Failure> {
    let subject = Subject {
        topic: topic_of(&Query::of(&uri)?)?,
        channel: None,
    };
    create(&lookup, &subject, TopicChange::TopicCreated).await
}

async fn delete_topic(State(lookup): Shared, uri: Uri) -> Result<Response, Failure> {
    let query = Query::of(&uri)?;
    let topic = query.required("topic")?;
    lookup.registry().delete_topic(topic);
    let cluster = lookup.cluster.snapshot(lookup.now()).await?;
    if let Ok(topic) = topic.parse::<TopicName>()
        && cluster.has_topic(topic.as_str())
    {
        lookup
            .cluster
            .change(&topic, TopicChange::TopicDeleted)
            .await?;
    }
    Ok(done())
}

async fn tombstone_topic(State(lookup): Shared, uri: Uri) -> Result<Response, Failure> {
    let query = Query::of(&uri)?;
    let topic = query.required("topic")?;
    let node = query.required("node")?;
    let now = lookup.now();
    lookup.registry().tombstone(topic, node, now);
    lookup.cluster.place_tombstone(topic, node, now).await?;
    Ok(done())
}

async fn create_channel(State(lookup): Shared, uri: Uri) -> Result<Response, Failure> {
    let subject = channel_of(&Query::of(&uri)?)?;
    let channel = subject.channel.as_ref();
    let channel = channel.map_or_else(String::new, ChannelName::to_string);
    create(&lookup, &subject, TopicChange::ChannelCreated { channel }).await
}

async fn delete_channel(State(lookup): Shared, uri: Uri) -> Result<Response, Failure> {
    let Subject { topic, channel } = channel_of(&Query::of(&uri)?)?;
    let channel = channel.map_or_else(String::new, |channel| channel.to_string());
    let was_registered = lookup.registry().delete_channel(topic.as_str(), &channel);
    let cluster = lookup.cluster.snapshot(lookup.now()).await?;
    if cluster.channels(topic.as_str()).any(|each| each == channel) {
        let gone = TopicChange::ChannelDeleted { channel };
        lookup.cluster.change(&topic, gone).await?;
    } else if !was_registered {
        return Err(Failure::new(404, "CHANNEL_NOT_FOUND"));
    }
    Ok(done())
}

/// Under a control plane its brokers have what is created, now or as soon as they have the topic.
async fn create(
    lookup: &Lookup,
    subject: &Subject,
    change: TopicChange,
) -> Result<Response, Failure> {
    if lookup.cluster.creates(subject) {
        lookup.cluster.change(&subject.topic, change).await?;
    } else {
        lookup.registry().create(subject)?;
    }
    Ok(done())
}

fn topic_of(query: &Query) -> Result<TopicName, Failure> {
    let topic = query.required("topic")?;
    topic
        .parse()
        .map_err(|_| Failure::new(400, "INVALID_ARG_TOPIC"))
}

fn channel_of(query: &Query) -> Result<Subject, Failure> {
    let topic = topic_of(query)?;
    let channel = query.required("channel")?;
    let channel = channel
        .parse()
        .map_err(|_| Failure::new(400, "INVALID_ARG_CHANNEL"))?;
    Ok(Subject {
        topic,
        channel: Some(channel),
    })
}

impl From<Full> for Failure {
    fn from(full: Full) -> Failure {
        // nsqlookupd has no bounds and so no words for them.
        Failure::new(
            503,
            match full {
                Full::Topics => "TOO_MANY_TOPICS",
                Full::Channels => "TOO_MANY_CHANNELS",
                Full::Registrations => "TOO_MANY_REGISTRATIONS",
                Full::Address => "TOO_MANY_OF_ONE_ADDRESS",
            },
        )
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Failure {
        match error {
            ControlError::NotKept(_) => Failure::new(507, "NOT_KEPT"),
            ControlError::Elsewhere { .. } => Failure::new(421, "NOT_LEADING"),
            // Half an answer looks like a whole one; a failure makes clients ask again.
            _ => Failure::new(503, "CONTROLLER_UNAVAILABLE"),
        }
    }
}
