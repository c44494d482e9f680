//! `/v1/topics`: declares a topic's contract and reads it back.
//!
//! A contract is `{"limit":{"rate":1000,"burst":50,"unit":"messages","on_exceed":"delay",
//! "sharing":"lease"},"cpu_share":0.2,"on_full":"block","durability":"fsync"}`. A broker on its own keeps the limit, the share of its
//! reactors' time, what becomes of full channels and where messages are once they are accepted, and nothing else: an `slo` needs brokers to place publishers on, so it is refused instead of stored unkept. A declaration
//! takes the place of the one before as a whole. What is refused changes nothing; what is accepted is in the data folder,
//! if there is one, before it is in force, and is answered as it stands in force.

mod declared;

use std::collections::BTreeMap;
use std::net::IpAddr;

use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use http::Refusal;
use http::nsq::json as answer_json;
use limit::{Limit, Share};
use link::{Contract, Durability, OnFull};
use serde::Serialize;
use serde_json::{Value, json};
use topics::Full;
use wire::TopicName;

use super::asker::Asker;
use super::{Service, Shared};
use crate::BrokerError;
use crate::handle::DeclaredContract;
use crate::stats::{SharingStats, StatsFilter, TopicStats};

/// Longest contract, in bytes.
const CONTRACT_MAX_BYTES: usize = 64 * 1024;

/// `GET /v1/topics`: all topics with their contracts, ordered by name.
pub(super) async fn list(State(service): Shared) -> Result<Response, Refusal> {
    let stats = service.handle.stats(StatsFilter::default()).await?;
    let listed = stats.topics.iter().map(|topic| Listed {
        name: &topic.topic,
        limit: topic.limit.as_ref(),
        cpu_share: topic.cpu_share,
        on_full: topic.on_full,
        durability: topic.durability,
        full: full_channels(topic),
        share: topic.share,
        sharing: topic.sharing,
        held: topic.held,
    });
    let topics: Vec<_> = listed.collect();
    Ok(answer_json(&json!({ "topics": topics })))
}

/// `GET /v1/topics/{topic}`: the contract in force.
pub(super) async fn show(
    State(service): Shared,
    Path(topic): Path<String>,
) -> Result<Response, Refusal> {
    in_force(&service, &name(&topic)?).await
}

/// `PUT /v1/topics/{topic}`: declares a contract; the topic is created unless it exists.
pub(super) async fn put(
    State(service): Shared,
    Path(topic): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let topic = name(&topic)?;
    is_ours(&service)?;
    let (parts, body) = request.into_parts();
    let read = service.room.hold(&parts.headers, body, CONTRACT_MAX_BYTES);
    let body = read
        .await
        .map_err(|error| Refusal::unread(&error, CONTRACT_MAX_BYTES))?;
    let contract = declared::read(&body.bytes).map_err(Refusal::invalid)?;
    let durable = contract.durability.check(topic.is_ephemeral());
    durable.map_err(|error| Refusal::invalid(error.to_string()))?;
    let Asker(maker) = Asker::of(&parts);
    if contract.is_empty() {
        service.handle.make_for(maker, topic.clone(), None).await?;
    }
    declare(&service, maker, &topic, contract).await
}

/// `DELETE /v1/topics/{topic}`: takes the contract away; the topic and its messages stay.
pub(super) async fn remove(
    State(service): Shared,
    Path(topic): Path<String>,
) -> Result<Response, Refusal> {
    let topic = name(&topic)?;
    is_ours(&service)?;
    declare(&service, None, &topic, Contract::default()).await
}

/// `GET /v1/topics/{topic}/releases`: the instants of releases since the last such request, each eight bytes
/// (little endian): nanoseconds of `CLOCK_MONOTONIC`. For tests on the same machine.
pub(super) async fn releases(
    State(service): Shared,
    Path(topic): Path<String>,
) -> Result<Response, Refusal> {
    let topic = name(&topic)?;
    if service.handle.config().release_log_messages == 0 {
        let why = "releases are not logged; start the broker with a release log";
        return Err(Refusal::new(StatusCode::CONFLICT, why.to_owned()));
    }
    let releases = service.handle.releases(topic).await?;
    let bytes: Vec<u8> = releases.iter().flat_map(|at| at.to_le_bytes()).collect();
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
}

/// Keeps a contract, puts it into force and answers with it.
async fn declare(
    service: &Service,
    maker: Option<IpAddr>,
    topic: &TopicName,
    contract: Contract,
) -> Result<Response, Refusal> {
    let declared = DeclaredContract {
        maker,
        topic: topic.clone(),
        contract,
        number: None,
    };
    for outcome in service.handle.declare(vec![declared]).await {
        outcome.map_err(|error| match error {
            BrokerError::Refused(reason) => Refusal::new(StatusCode::CONFLICT, reason),
            error => error.into(),
        })?;
    }
    in_force(service, topic).await
}

/// Contracts of a broker that obeys a controller are declared there.
fn is_ours(service: &Service) -> Result<(), Refusal> {
    match &service.handle.config().controller {
        None => Ok(()),
        Some(link) => {
            let why = format!(
                "this broker obeys the controller at {}: declare the contract there",
                link.addresses.join(" or ")
            );
            Err(Refusal::new(StatusCode::CONFLICT, why))
        }
    }
}

#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    limit: Option<&'a Limit>,
    #[serde(skip_serializing_if = "Option::is_none", with = "link::cpu_share")]
    cpu_share: Option<kernel::CpuShare>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_full: Option<OnFull>,
    #[serde(skip_serializing_if = "Durability::is_memory")]
    durability: Durability,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    full: BTreeMap<&'a str, Full>,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<Share>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sharing: Option<SharingStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<&'static str>,
}

/// Channels that are full, with what they do.
fn full_channels(topic: &TopicStats) -> BTreeMap<&str, Full> {
    let channels = topic.channels.iter();
    channels
        .filter_map(|channel| Some((channel.channel.as_str(), channel.full?)))
        .collect()
}

async fn in_force(service: &Service, topic: &TopicName) -> Result<Response, Refusal> {
    let filter = StatsFilter {
        topic: topic.to_string(),
        ..StatsFilter::default()
    };
    let stats = service.handle.stats(filter).await?;
    let Some(topic) = stats.topics.first() else {
        return Err(BrokerError::TopicNotFound(topic.to_string()).into());
    };
    let mut answer = json!({ "limit": topic.limit });
    if let Some(share) = topic.cpu_share {
        answer["cpu_share"] = Value::from(share.as_f64());
    }
    if let Some(on_full) = topic.on_full {
        answer["on_full"] = json!(on_full);
    }
    if !topic.durability.is_memory() {
        answer["durability"] = json!(topic.durability);
    }
    let full = full_channels(topic);
    if !full.is_empty() {
        answer["full"] = json!(full);
    }
    if service.handle.config().controller.is_some() || topic.sharing.is_some() {
        // What of the limit is this broker's; `null` before the controller has granted anything, or said who shares.
        answer["share"] = json!(topic.share);
    }
    if let Some(sharing) = &topic.sharing {
        answer["sharing"] = json!(sharing);
    }
    if let Some(why) = topic.held {
        answer["held"] = Value::from(why);
    }
    Ok(answer_json(&answer))
}

/// A topic's name from a path.
pub(super) fn name(text: &str) -> Result<TopicName, Refusal> {
    text.parse().map_err(|_| {
        let rule =
            "a name is 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-', and may end in #ephemeral";
        Refusal::invalid(format!("topic {text:?} is not a valid name: {rule}"))
    })
}
