//! `GET /v1/announcements`: how the broker takes part in Tempo's announcements, for people.
//!
//! The figures are those of `/metrics`, counted from the start of the broker. The page does not
//! list who announced what: endpoints hear that from the broker itself.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use http::Refusal;
use http::nsq::json;
use serde::Serialize;

use super::Shared;
use crate::announce::{AnnounceConfig, AnnounceStats};
use crate::stats::{ReactorStats, StatsFilter};

/// The whole answer.
#[derive(Serialize)]
struct Document {
    /// As set; port 0 is one that the system chose.
    address: String,
    group: Option<String>,
    /// Whether a key is set: announcements without its signature count as forged.
    signed: bool,
    interval_us: u64,
    datagrams: Datagrams,
    instances: Instances,
    /// Topics of accepted announcements that found no room.
    entries_refused: u64,
    identifiers: Identifiers,
    deliveries: Deliveries,
    data: Data,
}

#[derive(Serialize)]
struct Datagrams {
    received: u64,
    accepted: u64,
    replayed: u64,
    forged: u64,
    truncated: u64,
    malformed: u64,
    refused_full: u64,
    own: u64,
}

/// Publishers, subscribers and other brokers.
#[derive(Serialize)]
struct Instances {
    known: u64,
    left: u64,
    expired: u64,
    replaced: u64,
}

#[derive(Serialize)]
struct Identifiers {
    collisions: u64,
    foreign: u64,
    full: u64,
    exhausted: u64,
}

/// Subscribers that messages are sent to.
#[derive(Serialize)]
struct Deliveries {
    wanted: u64,
    failed_dials: u64,
}

/// Connections of publishers, on all reactors.
#[derive(Serialize)]
struct Data {
    unknown_identifiers: u64,
    refused_hellos: u64,
}

/// Renders one snapshot.
pub(super) async fn announcements(State(service): Shared) -> Result<Response, Refusal> {
    let Some(config) = &service.handle.config().announce else {
        let why = "this broker takes no part in announcements; start it with --announce-address";
        return Err(Refusal::new(StatusCode::CONFLICT, why.to_owned()));
    };
    let reactors = service.handle.stats(StatsFilter::default()).await?.reactors;
    let stats = service.handle.announcements.stats();
    Ok(json(&document(config, &stats, &reactors)))
}

fn document(config: &AnnounceConfig, stats: &AnnounceStats, reactors: &[ReactorStats]) -> Document {
    let (datagrams, names) = (stats.datagrams, stats.names);
    let sum = |count: fn(&ReactorStats) -> u64| reactors.iter().map(count).sum();
    Document {
        address: config.address.to_string(),
        group: config.group.map(|group| group.to_string()),
        signed: config.key.is_some(),
        interval_us: u64::try_from(config.interval.as_micros()).unwrap_or(u64::MAX),
        datagrams: Datagrams {
            received: datagrams.received(),
            accepted: datagrams.accepted,
            replayed: datagrams.replayed,
            forged: datagrams.forged,
            truncated: datagrams.truncated,
            malformed: datagrams.malformed,
            refused_full: datagrams.refused_full,
            own: datagrams.own,
        },
        instances: Instances {
            known: stats.instances,
            left: datagrams.left,
            expired: datagrams.expired,
            replaced: datagrams.replaced,
        },
        entries_refused: datagrams.entries_refused,
        identifiers: Identifiers {
            collisions: names.collisions,
            foreign: names.foreign,
            full: names.full,
            exhausted: names.exhausted,
        },
        deliveries: Deliveries {
            wanted: stats.deliveries,
            failed_dials: stats.dials_failed,
        },
        data: Data {
            unknown_identifiers: sum(|reactor| reactor.tempo_unknown_ids),
            refused_hellos: sum(|reactor| reactor.tempo_hellos_refused),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use announce::{Counters, NameCounts};
    use serde_json::{json, to_value};

    use super::*;

    #[test]
    fn every_figure_stands_under_its_name() {
        let config = AnnounceConfig {
            address: ([127, 0, 0, 1], 5000).into(),
            group: Some(([239, 1, 2, 3], 5001).into()),
            key: Some(wire::announce::Key::from_text("secret")),
            interval: Duration::from_millis(200),
        };
        let stats = AnnounceStats {
            datagrams: Counters {
                accepted: 1,
                own: 2,
                replayed: 3,
                refused_full: 4,
                forged: 5,
                truncated: 6,
                malformed: 7,
                entries_refused: 8,
                expired: 9,
                replaced: 10,
                left: 11,
            },
            names: NameCounts {
                collisions: 12,
                foreign: 13,
                full: 14,
                exhausted: 15,
            },
            instances: 16,
            deliveries: 17,
            dials_failed: 18,
        };
        let reactor = ReactorStats {
            tempo_unknown_ids: 20,
            tempo_hellos_refused: 30,
            ..ReactorStats::default()
        };
        let document = document(&config, &stats, &[reactor.clone(), reactor]);
        let expected = json!({
            "address": "127.0.0.1:5000",
            "group": "239.1.2.3:5001",
            "signed": true,
            "interval_us": 200_000,
            "datagrams": {
                "received": 28, "accepted": 1, "replayed": 3, "forged": 5, "truncated": 6, "malformed": 7,
                "refused_full": 4, "own": 2,
            },
            "instances": {"known": 16, "left": 11, "expired": 9, "replaced": 10},
            "entries_refused": 8,
            "identifiers": {"collisions": 12, "foreign": 13, "full": 14, "exhausted": 15},
            "deliveries": {"wanted": 17, "failed_dials": 18},
            "data": {"unknown_identifiers": 40, "refused_hellos": 60},
        });
        assert_eq!(to_value(document).expect("plain"), expected);
    }
}
