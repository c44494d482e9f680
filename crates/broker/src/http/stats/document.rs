//! The JSON of `/stats`: nsqd 1.3.0's fields in nsqd's order, with SRTM's own last in each topic.

use std::borrow::Cow;

use limit::{Limit, Share};
use link::{Durability, OnFull};
use serde::ser::{Serialize, SerializeMap, Serializer};
use topics::Full;
use wire::identify::Compression;

use super::Memory;
use crate::http::HttpInfo;
use crate::stats::{
    ChannelStats, ClientStats, ProcessingStats, SharingStats, StageLatency, Stats, TopicStats,
};

/// The whole answer.
#[derive(serde::Serialize)]
pub(super) struct Document<'a> {
    pub(super) version: &'a str,
    pub(super) health: Cow<'static, str>,
    pub(super) start_time: u64,
    /// `null` when a topic was asked for that does not exist.
    pub(super) topics: Option<Vec<Topic<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<Memory>,
    /// `null` when there are none, as Go writes an empty slice that was never made.
    pub(super) producers: Option<Vec<Client<'a>>>,
}

#[derive(serde::Serialize)]
pub(super) struct Topic<'a> {
    pub(super) topic_name: &'a str,
    pub(super) channels: Vec<Channel<'a>>,
    pub(super) depth: u64,
    pub(super) backend_depth: u64,
    pub(super) message_count: u64,
    message_bytes: u64,
    pub(super) paused: bool,
    pub(super) e2e_processing_latency: Processing,
    srtm: Extension<'a>,
}

#[derive(serde::Serialize)]
pub(super) struct Channel<'a> {
    pub(super) channel_name: &'a str,
    pub(super) depth: u64,
    pub(super) backend_depth: u64,
    pub(super) in_flight_count: u64,
    pub(super) deferred_count: u64,
    pub(super) message_count: u64,
    pub(super) requeue_count: u64,
    pub(super) timeout_count: u64,
    client_count: u64,
    /// `null` unless clients were asked for.
    pub(super) clients: Option<Vec<Client<'a>>>,
    pub(super) paused: bool,
    pub(super) e2e_processing_latency: Processing,
    srtm: ChannelExtension,
}

#[derive(serde::Serialize)]
pub(super) struct Client<'a> {
    client_id: &'a str,
    pub(super) hostname: &'a str,
    pub(super) version: &'static str,
    pub(super) remote_address: &'a str,
    pub(super) state: u8,
    pub(super) ready_count: u64,
    pub(super) in_flight_count: u64,
    pub(super) message_count: u64,
    pub(super) finish_count: u64,
    pub(super) requeue_count: u64,
    pub(super) connect_ts: u64,
    sample_rate: u8,
    deflate: bool,
    snappy: bool,
    pub(super) user_agent: &'a str,
    #[serde(skip_serializing_if = "is_not")]
    authed: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    auth_identity: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    auth_identity_url: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) pub_counts: Vec<PubCount<'a>>,
    tls: bool,
    tls_cipher_suite: Cow<'static, str>,
    tls_version: &'static str,
    tls_negotiated_protocol: &'static str,
    tls_negotiated_protocol_is_mutual: bool,
}

#[derive(serde::Serialize)]
pub(super) struct PubCount<'a> {
    pub(super) topic: &'a str,
    pub(super) count: u64,
}

/// Whether nsqd leaves it out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks it so")]
fn is_not(word: &bool) -> bool {
    !word
}

/// The time from arrival to FIN, as nsqd tells it.
#[derive(serde::Serialize)]
pub(super) struct Processing {
    count: u64,
    /// `null` where `--e2e-processing-latency-percentile` is not given.
    pub(super) percentiles: Option<Vec<Quantile>>,
}

/// One percentile.
#[derive(serde::Serialize)]
pub(super) struct Quantile {
    quantile: f64,
    /// Nanoseconds.
    pub(super) value: u64,
}

/// What nsqd does not know of a topic.
#[derive(serde::Serialize)]
struct Extension<'a> {
    limit: Option<&'a Limit>,
    /// The part of it that may pass here, unless that is all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<Share>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sharing: Option<SharingStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<&'static str>,
    /// The behaviour of full channels, where it is declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_full: Option<OnFull>,
    /// Where messages are once they are accepted, where that is not memory alone.
    #[serde(skip_serializing_if = "Durability::is_memory")]
    durability: Durability,
    tokens: Option<f64>,
    window_excess: Option<f64>,
    dropped_count: u64,
    rejected_count: u64,
    delayed_count: u64,
    held_publishers: u64,
    latency_us: Stages<'a>,
}

/// What nsqd does not know of a channel.
#[derive(serde::Serialize)]
struct ChannelExtension {
    /// How it treats new messages since it has been full.
    full: Option<Full>,
    full_episodes: u64,
    dropped_count: u64,
    dropped_oldest_count: u64,
    refused_requeue_count: u64,
}

/// An object with a key per stage, in the order a message passes them.
struct Stages<'a>(&'a [StageLatency]);

#[derive(serde::Serialize)]
struct Percentiles {
    count: u64,
    p50: f64,
    p95: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl<'a> Document<'a> {
    /// Renders `stats`. `is_unknown`: the topic asked for is not there, which nsqd tells apart from
    /// nothing to tell; `clients_asked`: clients are shown.
    pub(super) fn new(
        info: &'a HttpInfo,
        stats: &'a Stats,
        memory: Option<Memory>,
        is_unknown: bool,
        clients_asked: bool,
    ) -> Document<'a> {
        let topics: Vec<_> = stats
            .topics
            .iter()
            .map(|topic| Topic::new(topic, clients_asked))
            .collect();
        let producers: Vec<_> = stats.producers.iter().map(Client::new).collect();
        Document {
            version: &info.version,
            health: Cow::Borrowed("OK"),
            start_time: info.start_time_s(),
            topics: (!is_unknown).then_some(topics),
            memory,
            producers: (!producers.is_empty()).then_some(producers),
        }
    }
}

impl<'a> Topic<'a> {
    fn new(topic: &'a TopicStats, clients_asked: bool) -> Topic<'a> {
        Topic {
            topic_name: &topic.topic,
            channels: topic
                .channels
                .iter()
                .map(|channel| Channel::new(channel, clients_asked))
                .collect(),
            depth: topic.depth,
            backend_depth: topic.backlog_depth,
            message_count: topic.message_count,
            message_bytes: topic.message_bytes,
            paused: topic.paused,
            e2e_processing_latency: Processing::new(topic.processing.as_ref()),
            srtm: Extension {
                limit: topic.limit.as_ref(),
                share: topic.share,
                sharing: topic.sharing,
                held: topic.held,
                on_full: topic.on_full,
                durability: topic.durability,
                tokens: topic.tokens,
                window_excess: topic.window_excess,
                dropped_count: topic.dropped_count,
                rejected_count: topic.rejected_count,
                delayed_count: topic.delayed_count,
                held_publishers: topic.held_publishers,
                latency_us: Stages(&topic.latency),
            },
        }
    }
}

impl<'a> Channel<'a> {
    fn new(channel: &'a ChannelStats, clients_asked: bool) -> Channel<'a> {
        Channel {
            channel_name: &channel.channel,
            depth: channel.depth,
            backend_depth: channel.backlog_depth,
            in_flight_count: channel.in_flight_count,
            deferred_count: channel.deferred_count,
            message_count: channel.message_count,
            requeue_count: channel.requeue_count,
            timeout_count: channel.timeout_count,
            client_count: channel.client_count,
            clients: clients_asked.then(|| channel.clients.iter().map(Client::new).collect()),
            paused: channel.paused,
            e2e_processing_latency: Processing::new(channel.processing.as_ref()),
            srtm: ChannelExtension {
                full: channel.full,
                full_episodes: channel.full_episodes,
                dropped_count: channel.dropped_count,
                dropped_oldest_count: channel.dropped_oldest_count,
                refused_requeue_count: channel.refused_requeue_count,
            },
        }
    }
}

impl Processing {
    fn new(told: Option<&ProcessingStats>) -> Processing {
        let percentiles = told.map(|told| {
            let all = told.percentiles.iter();
            all.map(|&(quantile, value)| Quantile { quantile, value })
                .collect()
        });
        Processing {
            count: told.map_or(0, |told| told.count),
            percentiles,
        }
    }
}

impl<'a> Client<'a> {
    fn new(client: &'a ClientStats) -> Client<'a> {
        let has_tls = !client.tls_version.is_empty();
        Client {
            client_id: &client.client_id,
            hostname: &client.hostname,
            version: "V2",
            remote_address: &client.remote_address,
            state: client.state,
            ready_count: client.ready_count,
            in_flight_count: client.in_flight_count,
            message_count: client.message_count,
            finish_count: client.finish_count,
            requeue_count: client.requeue_count,
            connect_ts: client.connect_ts_s,
            sample_rate: client.sample_rate,
            deflate: matches!(client.layers.compression, Some(Compression::Deflate { .. })),
            snappy: client.layers.compression == Some(Compression::Snappy),
            user_agent: &client.user_agent,
            authed: client.is_authed,
            auth_identity: &client.auth_identity,
            auth_identity_url: &client.auth_identity_url,
            pub_counts: client
                .pub_counts
                .iter()
                .map(|(topic, count)| PubCount {
                    topic,
                    count: *count,
                })
                .collect(),
            tls: has_tls,
            tls_cipher_suite: go_cipher_suite(client.tls_cipher_suite),
            tls_version: client.tls_version,
            tls_negotiated_protocol: "",
            tls_negotiated_protocol_is_mutual: has_tls,
        }
    }
}

/// Go leaves the version out of a suite's name.
fn go_cipher_suite(name: &'static str) -> Cow<'static, str> {
    match name.strip_prefix("TLS13_") {
        Some(rest) => Cow::Owned(format!("TLS_{rest}")),
        None => Cow::Borrowed(name),
    }
}

impl Serialize for Stages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for stage in self.0 {
            let percentiles = Percentiles {
                count: stage.count,
                p50: stage.p50_us,
                p95: stage.p95_us,
                p99: stage.p99_us,
                p999: stage.p999_us,
                max: stage.max_us,
            };
            map.serialize_entry(stage.stage, &percentiles)?;
        }
        map.end()
    }
}
