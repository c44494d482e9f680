//! Asks every lookup once, over HTTP, which channels a new topic has elsewhere.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, StatusCode, header};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::exchange;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use wire::{ChannelName, TopicName};

use super::LookupdConfig;
use super::keeper::HttpEndpoint;

/// Longest answer that is read, in bytes: 1,024 channels and more.
const ANSWER_MAX_BYTES: usize = 1 << 20;

/// nsqlookupd's answer to `/channels`.
#[derive(Deserialize)]
struct Channels {
    channels: Vec<String>,
}

/// One lookup to be asked.
pub(super) type Asked = (String, watch::Receiver<HttpEndpoint>);

/// The channels of `topic` at all of `lookups` together, without ephemeral ones: those come with
/// their consumers. Answers that have not come by `deadline` are missing, and the result says so.
pub(super) async fn channels_of(
    topic: &TopicName,
    lookups: Vec<Asked>,
    config: &LookupdConfig,
    deadline: Instant,
) -> BTreeSet<ChannelName> {
    let mut asks: FuturesUnordered<_> = lookups
        .into_iter()
        .map(|(name, known)| async move {
            let answer = timeout_at(deadline, answer_of(topic, known, config)).await;
            (name, answer.unwrap_or_else(|_| Err(overdue(config))))
        })
        .collect();
    let mut all = BTreeSet::new();
    while let Some((name, answer)) = asks.next().await {
        match answer {
            Ok(channels) => all.extend(channels),
            Err(why) => tracing::warn!(
                "topic {topic} begins without the channels that nsqlookupd {name} knows: {why}"
            ),
        }
    }
    all
}

async fn answer_of(
    topic: &TopicName,
    mut known: watch::Receiver<HttpEndpoint>,
    config: &LookupdConfig,
) -> Result<Vec<ChannelName>, String> {
    // One that is being dialled for the first time is waited for; one that is away is not.
    let is_met = |known: &HttpEndpoint| *known != HttpEndpoint::Unmet;
    let met = known.wait_for(is_met).await.map(|known| known.clone());
    let Ok(HttpEndpoint::At(address)) = met else {
        return Err(String::from("it is away"));
    };
    let connecting = timeout(config.connect_timeout, TcpStream::connect(&address)).await;
    let stream = connecting
        .map_err(|_| format!("{address} does not accept a connection"))?
        .map_err(|error| format!("{address}: {error}"))?;
    let body = get(stream, &address, topic)
        .await
        .map_err(|why| format!("{address}: {why}"))?;
    let answer: Channels =
        serde_json::from_slice(&body).map_err(|error| format!("{address}: {error}"))?;
    let channels = answer.channels.iter().filter_map(|name| name.parse().ok());
    Ok(channels
        .filter(|channel: &ChannelName| !channel.is_ephemeral())
        .collect())
}

async fn get(stream: TcpStream, address: &str, topic: &TopicName) -> Result<Bytes, String> {
    // Of a topic's name only this sign means something else in a URL.
    let name = topic.as_str().replace('#', "%23");
    let request = Request::get(format!("/channels?topic={name}"))
        .header(header::HOST, address)
        .header(header::ACCEPT, "application/vnd.nsq; version=1.0")
        .body(Bytes::new())
        .map_err(|error| error.to_string())?;
    match exchange(Box::new(stream), request, ANSWER_MAX_BYTES).await? {
        (StatusCode::OK, body) => Ok(body),
        (status, _) => Err(format!("it answers {status}")),
    }
}

fn overdue(config: &LookupdConfig) -> String {
    let within: Duration = config.request_timeout;
    format!("no answer within {within:?}")
}
