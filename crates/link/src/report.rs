//! Messages of a broker.

use limit::Share;
use model::ServiceModel;
use serde::{Deserialize, Serialize};

use crate::{Durability, Identity, OnFull, TopicChange, TopicState};

/// From a broker to its controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub enum ToController {
    /// The first message of a link.
    Hello(Hello),
    /// Once per report interval: also the heartbeat.
    Report(BrokerReport),
    /// A profiling window has ended.
    Window(WindowReport),
    /// A part of a window's arrival trace; all parts go before the window's report.
    Trace(Traced),
    /// The contract of `topic` numbered `ticket` is in force.
    ContractInForce {
        /// Topic name.
        topic: String,
        /// Number of the contract.
        ticket: u64,
    },
    /// All topics that are here, in parts, after the Welcome and before the first report. Takes the place of whatever the
    /// broker said before; [`ToController::Changed`] keeps it true.
    Inventory {
        /// Some of them.
        topics: Vec<TopicState>,
        /// No further part follows.
        is_last: bool,
    },
    /// Something became of a topic or channel here; told at once, in the order in which it became.
    Changed {
        /// Topic name.
        topic: String,
        /// What.
        change: TopicChange,
    },
    /// An ordered deletion ([`crate::ToBroker::Change`]) is carried out, or there was nothing to
    /// delete. Earlier messages about the topic or channel are about the deleted one; later ones
    /// are about another.
    Followed {
        /// Topic name.
        topic: String,
        /// The deletion.
        change: TopicChange,
    },
    /// A deletion that was [followed](ToController::Followed) is on this broker's disk: it does not come back with it
    /// after a restart. A broker that keeps nothing says so at once.
    DeletionKept {
        /// Topic name.
        topic: String,
        /// The deletion.
        change: TopicChange,
    },
    /// A topic came into being here: it passes nothing on before [`crate::ToBroker::Topic`] says which channels it has. The
    /// contract, if there is one, comes before that.
    TopicAsked {
        /// Topic name.
        topic: String,
    },
    /// The channels of the [`crate::ToBroker::Topic`] with this ticket are here.
    TopicReady {
        /// Topic name.
        topic: String,
        /// Its number.
        ticket: u64,
    },
    /// A part of the orders could not be carried out.
    Problem {
        /// Which, and why.
        text: String,
    },
}

/// The broker that dials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The broker's name, unique in the cluster and kept over restarts.
    pub broker: String,
    /// Which broker of that name; the same over restarts where it has a data folder.
    pub identity: Identity,
    /// The life that the last Welcome to this process named; 0 in its first hello.
    pub life: u64,
    /// Where NSQ clients connect, `host:port`, as they are to be told.
    pub tcp_address: String,
    /// Where HTTP is served: `host:port`, behind `https://` where it is encrypted.
    pub http_address: Option<String>,
    /// Where other brokers gossip with it, `ip:port`; `None`: it shares no limits by gossip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gossip_address: Option<String>,
    /// Messages per second it carries under its SLO, if it was calibrated.
    pub mcap: Option<f64>,
    /// Its service model, if it was calibrated or emulates one.
    pub model: Option<ServiceModel>,
}

/// What happened since the last report. All numbers are checked by the controller before it believes them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BrokerReport {
    /// Counts from 1 with each link; grants name the report that they answer.
    pub number: u64,
    /// Seconds since the report before.
    pub seconds: f64,
    /// Topics with a limit, with a share of its thread's time, or with traffic, as far as there is anything new: of one that was
    /// named on this link and is not named now, everything is as it was, and nothing arrives.
    pub topics: Vec<TopicReport>,
    /// Of more topics there is something new: the next reports name them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_more: bool,
    /// Topics that were named on this link and are not to be named any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
    /// Publishers that came or went since the last report; the first report of a link names all that are there.
    pub attachments: Vec<Attachment>,
    /// The round before which this broker has left all ([`limit::Vouches::left`]).
    #[serde(default)]
    pub left_rounds: u64,
    /// Its memory; `None` where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryReport>,
}

/// The memory budget of a broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryReport {
    /// Bytes that it holds for messages and for what is on its way in and out.
    pub used_bytes: u64,
    /// The most that it may hold, in bytes.
    pub budget_bytes: u64,
}

/// One topic at one broker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopicReport {
    /// Topic name.
    pub topic: String,
    /// Its channels.
    pub channels: Vec<String>,
    /// Messages that arrived since the last report.
    pub messages: u64,
    /// Those of them from connections without a declaration: they cannot be moved.
    pub fixed_messages: u64,
    /// Messages waiting in the topic's queue now.
    pub depth: u64,
    /// Messages that are not finished: those of `depth`, and those that each channel has waiting, deferred or in flight.
    #[serde(default)]
    pub unfinished: u64,
    /// Tokens per second asked for, mean over the history window (SRTM-long, section 5.4).
    pub mean_rate: f64,
    /// Largest backlog over the history window, in tokens.
    pub max_backlog: f64,
    /// Whether the broker has a contract for it.
    #[serde(default)]
    pub is_limited: bool,
    /// Share in force, if the topic has a contract and a share was granted.
    pub held: Option<Share>,
    /// Part of its thread's time that it is entitled to, if any was declared.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "crate::cpu_share"
    )]
    pub cpu_share: Option<kernel::CpuShare>,
    /// The declared behaviour of its full channels, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_full: Option<OnFull>,
    /// Where its messages are once they are accepted.
    #[serde(default, skip_serializing_if = "Durability::is_memory")]
    pub durability: Durability,
    /// Epoch and number of the latest grant that is in force.
    pub confirmed: (u64, u64),
    /// How its promise fared, where one is known at the broker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
}

/// How a promise fared at a broker since the last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// First deliveries.
    pub delivered: u64,
    /// Those of them that took longer than promised, from arrival to the consumer's output.
    pub late: u64,
    /// Messages that wait for the broker's service or for tokens now; those that wait for consumers do not count.
    pub backlog: u64,
}

/// A publisher's declaration in IDENTIFY.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Declaration {
    /// Unique within the topic.
    pub id: String,
    /// Where it publishes.
    pub topic: String,
    /// Correlation group key; publishers with one key send at about the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Messages per second it means to send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Messages it sends at once, at least 1.
    #[serde(default = "one")]
    pub batch: u32,
}

fn one() -> u32 {
    1
}

/// A publisher came or went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attachment {
    /// Who.
    pub publisher: Declaration,
    /// Whether it is connected now.
    pub attached: bool,
    /// Why a publisher with this id was refused, if it was (a second one with the same id).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// The result of a profiling window for one topic at one broker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowReport {
    /// Number that the order gave it.
    pub window: u64,
    /// Topic name.
    pub topic: String,
    /// Its length.
    pub seconds: f64,
    /// Messages released to subscribers within it.
    pub messages: u64,
    /// End-to-end latency at the percentile that was asked for, in microseconds; `None`: too few samples.
    pub latency_us: Option<f64>,
    /// Median of the same, in microseconds.
    pub p50_us: Option<f64>,
    /// Samples behind it.
    pub samples: u64,
    /// The arrival trace did not fit and lacks its end.
    pub is_trace_cut: bool,
}

/// A part of an arrival trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traced {
    /// Number of the window.
    pub window: u64,
    /// Topic name.
    pub topic: String,
    /// Publisher ids; arrivals name them by position. Grows with the parts: each part continues the list.
    pub publishers: Vec<String>,
    /// Publish commands in order: arrival in nanoseconds since 1970, publisher, messages.
    pub arrivals: Vec<(u64, u32, u32)>,
}
