//! The values of the HTTP API: what comes in, what goes out.

use limit::Share;
use placement::FitStatus;
use serde::{Deserialize, Serialize};

mod topic_spec;

pub use link::Contract;
pub use topic_spec::TopicSpec;

/// A promise: the given percentile of end-to-end latencies stays below so much.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Slo {
    /// Percentile, above 0 and below 100.
    #[serde(default = "p99")]
    pub percentile: f64,
    /// Latency in microseconds.
    pub latency_us: f64,
}

fn p99() -> f64 {
    99.0
}

/// A topic as it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TopicView {
    /// Name.
    pub topic: String,
    /// What was declared.
    #[serde(flatten)]
    pub spec: TopicSpec,
    /// `waiting` (no publishers), `placing`, `measuring`, `fitted`, `violated` (a promise is being broken), `moving` (publishers
    /// are on the way as the answer), `out-of-brokers`, or `unfitted` (no promise declared).
    pub state: String,
    /// What that means just now, in words.
    pub text: String,
    /// Publishers known.
    pub publishers: usize,
    /// Those without a broker.
    pub unplaced: usize,
    /// Rate of all of them in messages per second.
    pub rate: f64,
    /// Brokers that carry it.
    pub brokers: Vec<TopicBrokerView>,
    /// How the fit went: the rows of the paper's table I.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub fit_status: Option<FitStatus>,
    /// Names of the brokers that `fit_status` numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fit_brokers: Vec<String>,
    /// The neighbour whose promise decided where publishers are, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<NeighbourView>,
}

/// A topic whose promise kept a broker from holding more of another one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NeighbourView {
    /// The neighbour.
    pub topic: String,
    /// Where.
    pub broker: String,
    /// Its latency there with what was taken away again, at its SLO's percentile, measured or predicted, in microseconds.
    pub latency_us: f64,
    /// What is promised of it, in microseconds.
    pub promise_us: f64,
}

/// A topic at one broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TopicBrokerView {
    /// Broker name.
    pub broker: String,
    /// Where NSQ clients connect.
    pub tcp_address: String,
    /// Publishers placed there.
    pub publishers: usize,
    /// Those of them that are connected there now.
    pub attached: usize,
    /// Their rate in messages per second: declared, or as measured where that contradicts it.
    pub rate: f64,
    /// What arrives, in messages per second, by the last report.
    pub measured_rate: f64,
    /// Messages per second from clients that cannot be moved.
    pub fixed_rate: f64,
    /// The share of the limit that it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub share: Option<Share>,
    /// End-to-end latency at the SLO's percentile, in microseconds, by the last window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<f64>,
}

/// Answer to `GET /v1/topics`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TopicViews {
    /// In order of name.
    pub topics: Vec<TopicView>,
}

/// Body of `POST /v1/topics/{t}/publishers`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PublisherList {
    /// Each id at most once.
    pub publishers: Vec<PublisherSpec>,
}

/// A publisher as it is declared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PublisherSpec {
    /// Unique within the topic; 1 to 128 printable characters without blanks.
    pub id: String,
    /// Messages per second, above 0.
    #[serde(default = "one_per_second")]
    pub rate: f64,
    /// Messages sent at once, 1 to 65536.
    #[serde(default = "one")]
    pub batch: u32,
    /// Correlation group key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

fn one_per_second() -> f64 {
    1.0
}

fn one() -> u32 {
    1
}

/// A publisher as it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PublisherView {
    /// Id.
    pub id: String,
    /// Messages per second as declared.
    pub rate: f64,
    /// Messages per second as measured, where that contradicts the declaration; placements reckon with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_rate: Option<f64>,
    /// Messages sent at once.
    pub batch: u32,
    /// Correlation group key, as told or (`~3`) as inferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Where it is to publish; nothing while it has no place, or the broker there lacks a channel of the topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker: Option<BrokerAddress>,
    /// Broker that it is connected to now, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attached_to: Option<String>,
}

/// A broker and where to reach it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BrokerAddress {
    /// Name.
    pub broker: String,
    /// `host:port` for NSQ clients.
    pub tcp_address: String,
}

/// Answer to `POST /v1/topics/{t}/publishers` and `GET /v1/topics/{t}/publishers`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PublisherViews {
    /// In order of id.
    pub publishers: Vec<PublisherView>,
}

/// Answer to `GET /v1/topics/{t}/placement`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PlacementView {
    /// Topic name.
    pub topic: String,
    /// Whether it was declared or has publishers.
    pub exists: bool,
    /// Where it is; for a topic that does not exist, where a first publisher would be sent.
    pub brokers: Vec<BrokerAddress>,
    /// Broker by publisher id.
    pub publishers: std::collections::BTreeMap<String, String>,
    /// The last publisher that a part covers; `None`: the last there is.
    #[serde(skip)]
    pub last_publisher: Option<String>,
    /// The neighbour whose promise decided on this, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<NeighbourView>,
}

/// A topic's name and what stands for it on Tempo's data path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NameView {
    /// Name.
    pub topic: String,
    /// 1 to 2^31 - 1, for good.
    pub id: u32,
}

/// Answer to `GET /v1/names`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NameViews {
    /// In order of name, 10,000 at most.
    pub names: Vec<NameView>,
    /// Whether others follow: ask again with `?after=` and the last name.
    pub has_more: bool,
}

/// Answer to `GET /v1/topics/{t}/channels`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChannelViews {
    /// Topic name.
    pub topic: String,
    /// Whether the topic passes nothing on to its channels.
    pub is_paused: bool,
    /// In order of name; `#ephemeral` ones as long as a broker has them.
    pub channels: Vec<ChannelView>,
    /// Names of the brokers that have the topic, as far as they are not dead.
    pub brokers: Vec<String>,
}

/// A channel over all brokers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChannelView {
    /// Channel name.
    pub channel: String,
    /// Whether it gives nothing to its consumers; of `#ephemeral` ones that is not known.
    pub is_paused: bool,
}

/// A broker as it stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BrokerView {
    /// Name.
    pub broker: String,
    /// Where NSQ clients connect.
    pub tcp_address: String,
    /// Where its HTTP is: `host:port`, behind `https://` where it is encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_address: Option<String>,
    /// Where other brokers gossip with it; none: it shares no limits by gossip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gossip_address: Option<String>,
    /// `up`, `unreached`, `silent`, `draining` or `dead`.
    pub state: String,
    /// Why it does not count, or not for everything, although it reports: which address does not answer, what follows and what
    /// to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_counted: Option<String>,
    /// Whether an operator takes it out, alive or not.
    #[serde(default)]
    pub is_draining: bool,
    /// Messages per second it carries at most under its SLO (mcap).
    pub mcap: f64,
    /// Whether mcap was measured (`srtm calibrate`) or is the default.
    pub is_calibrated: bool,
    /// Messages per second placed there.
    pub load: f64,
    /// Messages per second that arrive there.
    pub measured_rate: f64,
    /// Publishers placed there, of all topics.
    pub publishers: usize,
    /// Publishers connected there, of all topics; what connects without announcing itself is not counted.
    #[serde(default)]
    pub attached: usize,
    /// Messages that are there and not finished, of all topics and channels, by the last report: what is lost if it is stopped
    /// now.
    #[serde(default)]
    pub holds: u64,
    /// Memory that it holds for messages and for what is on its way in and out, in bytes, by the last report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_used_bytes: Option<u64>,
    /// What it may hold of that, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_budget_bytes: Option<u64>,
    /// Seconds since its last report.
    pub seconds_since_report: f64,
}

/// Answer to `GET /v1/brokers`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BrokerViews {
    /// In order of name.
    pub brokers: Vec<BrokerView>,
}

/// Something that happened; one `data:` line of `GET /v1/events`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EventView {
    /// Counts up; gaps mean that a slow reader missed some.
    pub number: u64,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// `broker-up`, `broker-dead`, `broker-silent`, `topic-changed`, `publisher-moved`, `window`, `fit`, `share`, `problem` …
    pub kind: String,
    /// Topic, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Broker, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker: Option<String>,
    /// In words.
    pub text: String,
}
