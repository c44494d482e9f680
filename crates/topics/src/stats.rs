//! Statistics of topics: copies of counters, and of what survives a restart.
//!
//! Field meanings follow nsqd's `/stats`; what nsqd does not know (limits, stages) has types of its
//! own. A snapshot is a copy: nothing here reaches into the data path.

use std::sync::Arc;

use limit::sharing::Policy;
use limit::{Limit, Share};
use link::{Contract, Durability, OnFull};

use crate::Full;

/// One topic.
#[derive(Clone, Debug, Default)]
pub struct TopicStats {
    /// Topic name.
    pub topic: String,
    /// Its channels, ordered by name.
    pub channels: Vec<ChannelStats>,
    /// Messages waiting in the topic queue (for tokens, for room, or for a first channel).
    pub depth: u64,
    /// Of those, the ones outside of memory.
    pub backlog_depth: u64,
    /// Messages accepted from publishers since the topic was created.
    pub message_count: u64,
    /// Their body bytes.
    pub message_bytes: u64,
    /// Messages discarded: limit with `drop`, or a full ephemeral queue.
    pub dropped_count: u64,
    /// Publish commands refused by a limit with `reject`.
    pub rejected_count: u64,
    /// Messages that waited for a token.
    pub delayed_count: u64,
    /// Publishers held back now because the topic queue is full.
    pub held_publishers: u64,
    /// Whether the topic is paused.
    pub paused: bool,
    /// Why nothing of it is passed on before somebody has said what it has, if so.
    pub held: Option<&'static str>,
    /// The limit in force, if any.
    pub limit: Option<Limit>,
    /// What of it may pass here at present, where a controller or brokers among themselves share it.
    pub share: Option<Share>,
    /// How brokers share it by gossip, if they do.
    pub sharing: Option<SharingStats>,
    /// Part of each reactor's time that it is entitled to, if it declares one.
    pub cpu_share: Option<kernel::CpuShare>,
    /// The behaviour of its full channels, if it declares one.
    pub on_full: Option<OnFull>,
    /// Where its messages are once they are accepted.
    pub durability: Durability,
    /// Tokens in the bucket at the time of the snapshot.
    pub tokens: Option<f64>,
    /// Tokens by which the worst window of releases exceeded the limit; negative where none reached it.
    pub window_excess: Option<f64>,
    /// Where the time went, stage by stage.
    pub latency: Arc<[StageLatency]>,
    /// Of all its channels together, from arrival to FIN, where that is asked for and it has any.
    pub processing: Option<ProcessingStats>,
}

/// How long messages took from their arrival to their FIN, within the last window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessingStats {
    /// Messages finished.
    pub count: u64,
    /// Each percentile asked for, above 0 and at most 1, and what it comes to in nanoseconds.
    pub percentiles: Vec<(f64, u64)>,
}

/// How brokers share a limit by gossip, as of the last interval that ended here.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct SharingStats {
    /// By which policy.
    pub policy: Policy,
    /// Brokers that share it, this one included.
    pub brokers: u32,
    /// Of those, the ones that are heard, this one included.
    pub connected: u32,
    /// What this one tells the others: tokens per second that arrive, for `fps` a weight.
    pub demand: f64,
    /// Tokens per second that passed here.
    pub passed: f64,
}

/// One stage of a message's way, in microseconds.
#[derive(Clone, Debug, Default)]
pub struct StageLatency {
    /// `read`, `limiter`, `release`, `queue`, `write`, `fin`, `total` (arrival to the consumer's output) or
    /// `end_to_end` (sampled: publisher's send to subscriber's kernel).
    pub stage: &'static str,
    /// Messages measured.
    pub count: u64,
    /// Sum of all latencies in microseconds.
    pub sum_us: u64,
    /// 50th percentile in microseconds.
    pub p50_us: f64,
    /// 95th percentile in microseconds.
    pub p95_us: f64,
    /// 99th percentile in microseconds.
    pub p99_us: f64,
    /// 99.9th percentile in microseconds.
    pub p999_us: f64,
    /// Largest in microseconds.
    pub max_us: f64,
}

/// One channel.
#[derive(Clone, Debug, Default)]
pub struct ChannelStats {
    /// Channel name.
    pub channel: String,
    /// Messages waiting for a consumer.
    pub depth: u64,
    /// Of those, the ones outside of memory.
    pub backlog_depth: u64,
    /// Messages sent and not finished.
    pub in_flight_count: u64,
    /// Messages waiting for their delay to pass.
    pub deferred_count: u64,
    /// Messages put into the channel since its creation.
    pub message_count: u64,
    /// Messages requeued by consumers.
    pub requeue_count: u64,
    /// Messages requeued because their timeout passed.
    pub timeout_count: u64,
    /// Messages discarded: by a full queue, sampled away, or emptied.
    pub dropped_count: u64,
    /// Of those, the oldest of a full queue that gave way to newer ones.
    pub dropped_oldest_count: u64,
    /// REQs with a delay that were refused because as many messages as may be were deferred.
    pub refused_requeue_count: u64,
    /// How it treats new messages, from when it was found full until its queue has fallen to half
    /// of the bound.
    pub full: Option<Full>,
    /// Times that it became full.
    pub full_episodes: u64,
    /// Consumers of the channel.
    pub clients: Vec<ClientStats>,
    /// Number of consumers, also where `clients` was not asked for.
    pub client_count: u64,
    /// Whether the channel is paused.
    pub paused: bool,
    /// From arrival to FIN, where that is asked for.
    pub processing: Option<ProcessingStats>,
}

/// One connection.
#[derive(Clone, Debug, Default)]
pub struct ClientStats {
    /// `client_id` of IDENTIFY.
    pub client_id: String,
    /// `hostname` of IDENTIFY.
    pub hostname: String,
    /// `user_agent` of IDENTIFY.
    pub user_agent: String,
    /// Peer address, `ip:port`.
    pub remote_address: String,
    /// NSQ's state number: 0 init, 1 disconnected, 2 connected, 3 subscribed, 4 closing.
    pub state: u8,
    /// RDY count.
    pub ready_count: u64,
    /// Messages in flight to this client.
    pub in_flight_count: u64,
    /// Messages sent to this client.
    pub message_count: u64,
    /// Messages it finished.
    pub finish_count: u64,
    /// Messages it requeued.
    pub requeue_count: u64,
    /// Unix seconds of its connect.
    pub connect_ts_s: u64,
    /// Sample rate in percent, 0 = all.
    pub sample_rate: u8,
    /// Messages published per topic.
    pub pub_counts: Vec<(String, u64)>,
    /// Layers of its connection.
    pub layers: wire::identify::Layers,
    /// Whether it has said who it is,
    pub is_authed: bool,
    /// who that is,
    pub auth_identity: String,
    /// and where there is more about that.
    pub auth_identity_url: String,
    /// What version of TLS was agreed on, in Go's words, `TLS1.3`; empty before that.
    pub tls_version: &'static str,
    /// The cipher suite, in rustls's words.
    pub tls_cipher_suite: &'static str,
}

/// Which topics are told of; empty strings mean all, as in nsqd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsFilter {
    /// Only this topic.
    pub topic: String,
    /// Only this channel.
    pub channel: String,
    /// Whether client entries are filled.
    pub include_clients: bool,
}

/// What outlives a restart: topics, channels, pauses and contracts. Never messages.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Catalog {
    /// Non-ephemeral topics, ordered by name.
    pub topics: Vec<CatalogTopic>,
}

/// A topic in the [`Catalog`].
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(from = "CatalogEntry", into = "CatalogEntry")]
pub struct CatalogTopic {
    /// Topic name.
    pub name: String,
    /// Whether it is paused.
    pub paused: bool,
    /// Non-ephemeral channels, ordered by name.
    pub channels: Vec<CatalogChannel>,
    /// Its contract.
    pub contract: Contract,
}

/// A [`CatalogTopic`] as it is written, field by field: serde says where a fault is only without `flatten`.
#[derive(serde::Serialize, serde::Deserialize)]
struct CatalogEntry {
    name: String,
    #[serde(default)]
    paused: bool,
    #[serde(default)]
    channels: Vec<CatalogChannel>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<Limit>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "link::cpu_share"
    )]
    cpu_share: Option<kernel::CpuShare>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    on_full: Option<OnFull>,
    #[serde(default, skip_serializing_if = "Durability::is_memory")]
    durability: Durability,
}

impl From<CatalogEntry> for CatalogTopic {
    fn from(entry: CatalogEntry) -> CatalogTopic {
        CatalogTopic {
            name: entry.name,
            paused: entry.paused,
            channels: entry.channels,
            contract: Contract {
                limit: entry.limit,
                cpu_share: entry.cpu_share,
                on_full: entry.on_full,
                durability: entry.durability,
            },
        }
    }
}

impl From<CatalogTopic> for CatalogEntry {
    fn from(topic: CatalogTopic) -> CatalogEntry {
        let Contract {
            limit,
            cpu_share,
            on_full,
            durability,
        } = topic.contract;
        CatalogEntry {
            name: topic.name,
            paused: topic.paused,
            channels: topic.channels,
            limit,
            cpu_share,
            on_full,
            durability,
        }
    }
}

/// A channel in the [`Catalog`].
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CatalogChannel {
    /// Channel name.
    pub name: String,
    /// Whether it is paused.
    #[serde(default)]
    pub paused: bool,
}
