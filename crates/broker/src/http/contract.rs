//! `/v1/topics`: what a topic promises, declared and read back.
//!
//! A contract is `{"limit":{"rate":1000,"burst":50,"unit":"messages","on_exceed":"delay",
//! "sharing":"static"}}`. A broker on its own keeps the limit and nothing else: an `slo` needs brokers
//! to place publishers on, so it is refused instead of stored unkept. What is refused changes
//! nothing; what is accepted is answered as it stands in force.

use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use limit::{Limit, Share};
use serde::Serialize;
use serde_json::{Value, json};
use wire::TopicName;

use super::answer::json as answer_json;
use super::{Service, Shared};
use crate::stats::StatsFilter;
use crate::{BrokerError, Operation};

/// Longest contract, in bytes.
const CONTRACT_MAX_BYTES: usize = 64 * 1024;

const SLO_UNSUPPORTED: &str = "slo: a broker on its own does not support latency objectives yet; \
    declare a limit without \"slo\"";

/// What is wrong with a request, as `{"error":"…"}`.
pub(super) struct Refusal(pub(super) StatusCode, pub(super) String);

/// `GET /v1/topics`: all topics with their contracts, ordered by name.
pub(super) async fn list(State(service): Shared) -> Result<Response, Refusal> {
    let stats = service.handle.stats(StatsFilter::default()).await?;
    let listed = stats.topics.iter().map(|topic| Listed {
        name: &topic.topic,
        limit: topic.limit.as_ref(),
        share: topic.share,
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
    let too_big = "the contract is longer than 65536 bytes";
    let read = service
        .room
        .read(&parts.headers, body, CONTRACT_MAX_BYTES, too_big)
        .await;
    let body = match read {
        Ok(body) => body.bytes,
        Err(failure) => return Ok(failure.into_response()),
    };
    let limit = parse(&body).map_err(|reason| Refusal(StatusCode::BAD_REQUEST, reason))?;
    if limit.is_none() {
        service
            .handle
            .topic(topic.clone(), Operation::Create)
            .await?;
    }
    service.handle.set_limit(topic.clone(), limit).await?;
    in_force(&service, &topic).await
}

/// `DELETE /v1/topics/{topic}`: takes the limit away; the topic and its messages stay.
pub(super) async fn remove(
    State(service): Shared,
    Path(topic): Path<String>,
) -> Result<Response, Refusal> {
    let topic = name(&topic)?;
    is_ours(&service)?;
    service.handle.set_limit(topic.clone(), None).await?;
    in_force(&service, &topic).await
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
        return Err(Refusal(StatusCode::CONFLICT, why.to_owned()));
    }
    let releases = service.handle.releases(topic).await?;
    let bytes: Vec<u8> = releases.iter().flat_map(|at| at.to_le_bytes()).collect();
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
}

/// Contracts of a broker that obeys a controller are declared there.
fn is_ours(service: &Service) -> Result<(), Refusal> {
    match &service.handle.config().controller {
        None => Ok(()),
        Some(link) => {
            let why = format!(
                "this broker obeys the controller at {}: declare the contract there",
                link.address
            );
            Err(Refusal(StatusCode::CONFLICT, why))
        }
    }
}

#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    limit: Option<&'a Limit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<Share>,
}

async fn in_force(service: &Service, topic: &TopicName) -> Result<Response, Refusal> {
    let filter = StatsFilter {
        topic: topic.to_string(),
        ..StatsFilter::default()
    };
    let stats = service.handle.stats(filter).await?;
    match stats.topics.first() {
        // What of the limit is this broker's; `null` before the controller has granted anything.
        Some(topic) if service.handle.config().controller.is_some() => Ok(answer_json(
            &json!({ "limit": topic.limit, "share": topic.share }),
        )),
        Some(topic) => Ok(answer_json(&json!({ "limit": topic.limit }))),
        None => Err(BrokerError::TopicNotFound(topic.to_string()).into()),
    }
}

/// A topic's name from a path.
pub(super) fn name(text: &str) -> Result<TopicName, Refusal> {
    text.parse().map_err(|_| {
        let rule =
            "a name is 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-', and may end in #ephemeral";
        Refusal(
            StatusCode::BAD_REQUEST,
            format!("topic {text:?} is not a valid name: {rule}"),
        )
    })
}

/// The limit of a contract; `Ok(None)` where it is declared as `null`.
fn parse(body: &[u8]) -> Result<Option<Limit>, String> {
    let contract: Value = serde_json::from_slice(body)
        .map_err(|error| format!("the contract is not JSON: {error}"))?;
    let Value::Object(mut fields) = contract else {
        return Err(
            "the contract is not an object; write {\"limit\":{\"rate\":1000,\"burst\":50}}"
                .to_owned(),
        );
    };
    if fields.remove("slo").is_some_and(|slo| !slo.is_null()) {
        return Err(SLO_UNSUPPORTED.to_owned());
    }
    let Some(limit) = fields.remove("limit") else {
        return Err(
            "limit: missing; write {\"limit\":{\"rate\":1000,\"burst\":50}}, or null for none"
                .to_owned(),
        );
    };
    if let Some(unknown) = fields.keys().next() {
        return Err(format!("{unknown}: unknown field; a contract holds limit"));
    }
    serde_path_to_error::deserialize(limit).map_err(|error| {
        let (path, reason) = (error.path().to_string(), error.inner().to_string());
        match path.as_str() {
            "." | "?" => format!("limit: {reason}"),
            // The reason begins with the field's name, which the path has said.
            field => format!(
                "limit.{field}: {}",
                reason.strip_prefix(&format!("{field} ")).unwrap_or(&reason)
            ),
        }
    })
}

impl From<BrokerError> for Refusal {
    fn from(error: BrokerError) -> Refusal {
        let status = match error {
            BrokerError::TopicNotFound(_) | BrokerError::ChannelNotFound(_) => {
                StatusCode::NOT_FOUND
            }
            BrokerError::Refused(_) => StatusCode::TOO_MANY_REQUESTS,
            BrokerError::Busy(_) | BrokerError::Exiting => StatusCode::SERVICE_UNAVAILABLE,
            BrokerError::Io { .. } | BrokerError::Config { .. } => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        Refusal(status, error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = answer_json(&json!({ "error": self.1 }));
        *response.status_mut() = self.0;
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contracts_are_read_or_refused_with_a_reason() {
        assert_eq!(parse(br#"{"limit":null}"#), Ok(None));
        let limit = parse(br#"{"limit":{"rate":1000,"burst":50,"on_exceed":"drop"},"slo":null}"#)
            .expect("valid");
        let limit = limit.expect("declared");
        assert_eq!(
            (limit.rate.get(), limit.burst.get(), limit.on_exceed),
            (1000.0, 50.0, limit::OnExceed::Drop)
        );
        let cases = [
            ("", "not JSON"),
            ("[]", "not an object"),
            ("{}", "limit: missing"),
            (r#"{"limit":5}"#, "limit: invalid type"),
            (r#"{"limit":{}}"#, "limit: missing field `rate`"),
            (r#"{"limit":{"rate":1}}"#, "limit: missing field `burst`"),
            (
                r#"{"limit":{"rate":0,"burst":1}}"#,
                "limit.rate: 0 is out of range: it must be greater than 0",
            ),
            (
                r#"{"limit":{"rate":-3,"burst":1}}"#,
                "limit.rate: -3 is out of range",
            ),
            (r#"{"limit":{"rate":1e13,"burst":1}}"#, "limit.rate: "),
            (r#"{"limit":{"rate":"x","burst":1}}"#, "limit.rate: "),
            (
                r#"{"limit":{"rate":1,"burst":0.5}}"#,
                "limit.burst: 0.5 is out of range",
            ),
            (
                r#"{"limit":{"rate":1,"burst":1,"unit":"litres"}}"#,
                "limit.unit: ",
            ),
            (
                r#"{"limit":{"rate":1,"burst":1,"on_exceed":"panic"}}"#,
                "limit.on_exceed: ",
            ),
            (
                r#"{"limit":{"rate":1,"burst":1,"sharing":"gtb"}}"#,
                "limit.sharing: ",
            ),
            (
                r#"{"limit":{"rate":1,"burst":1,"color":2}}"#,
                "unknown field `color`",
            ),
            (r#"{"limit":null,"color":2}"#, "color: unknown field"),
            (
                r#"{"limit":null,"slo":{"percentile":99,"latency_us":1000}}"#,
                "slo: a broker on its own",
            ),
        ];
        for (body, expected) in cases {
            let reason = parse(body.as_bytes()).expect_err(body);
            assert!(reason.contains(expected), "{body}: {reason}");
        }
    }
}
