//! Messages of a controller.

use std::fmt;

use limit::Grant;
use serde::{Deserialize, Serialize};

use crate::{Contract, TopicChange, TopicState};

/// A controller's order, with the life that gives it: a broker that has heard a later life ignores
/// it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Number of the controller's life, of all controllers that ever led: greater than those before.
    pub epoch: u64,
    /// The order.
    pub order: ToBroker,
}

/// From the controller to a broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub enum ToBroker {
    /// Answer to a Hello: the link stands.
    Welcome {
        /// Number of the broker's life, to be named in the further hellos of this process ([`crate::Hello::life`]).
        life: u64,
        /// Time between reports.
        report_interval_ms: u64,
        /// Length of the history of traffic that reports tell of.
        history_window_ms: u64,
    },
    /// Answer to a Hello that cannot be accepted; the controller closes the link.
    Refused {
        /// What and why.
        reason: String,
        /// It may be otherwise in a moment, without anybody's doing: the broker tries again soon.
        passes: bool,
    },
    /// Answer to a Hello where another controller leads; the link is closed.
    NotLeading {
        /// Where the one that leads listens for brokers, `host:port`, if that is known.
        leader: Option<String>,
    },
    /// The brokers that share limits by gossip; takes the place of the list before. A broker that was told none passes
    /// nothing of such limits.
    Sharers(Sharers),
    /// With which brokers this one may hold on to its shares while the controller is away; takes the place of the round before.
    Round(Round),
    /// Hand the queues that wait here over to these brokers, named by their HTTP addresses; to nobody: they stay. Takes the place of the
    /// order before; a link begins with none.
    HandOver {
        /// `host:port` each, behind `https://` where it is encrypted.
        to: Vec<String>,
    },
    /// Brokers that say this pass may hand queues over to this one, and this one says it to others.
    TakeOver {
        /// Nobody outside the cluster knows it.
        pass: String,
    },
    /// A topic's contract; under a limit the topic passes nothing before it is granted a share, or knows with whom it
    /// shares.
    Contract {
        /// Topic name.
        topic: String,
        /// As a whole: what is not in it is not in force any more.
        contract: Contract,
        /// The number that gossip knows the limit by, where brokers share it among themselves.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit_number: Option<u16>,
        /// To be named in [`crate::ToController::ContractInForce`].
        ticket: u64,
    },
    /// Everything that the controller knew at the Welcome has been said: contracts and topics. Before it, a broker does not
    /// know that a topic has no contract.
    Complete,
    /// A topic with all its channels, ephemeral ones left out: those that the broker does not have are to be made, pauses are
    /// to be as said. Answers [`crate::ToController::TopicAsked`], is part of what is said up to `Complete`, and goes before
    /// any publisher of the topic is moved to the broker.
    Topic {
        /// The topic.
        state: TopicState,
        /// To be named in [`crate::ToController::TopicReady`].
        ticket: u64,
    },
    /// Something became of a topic or channel elsewhere, and is to become of it here. A topic that is not here is not made. A
    /// deletion is confirmed by [`crate::ToController::Followed`].
    Change {
        /// Topic name.
        topic: String,
        /// What.
        change: TopicChange,
    },
    /// A share of a topic's limit, as a lease.
    Grant {
        /// Topic name.
        topic: String,
        /// The share.
        grant: Grant,
    },
    /// Leases of all topics that have not ended last as if each grant answered the report with this number.
    Renewed {
        /// Number of the report.
        report: u64,
    },
    /// Run a profiling window for a topic, beginning now.
    Measure {
        /// Number to be named in the report.
        window: u64,
        /// Topic name.
        topic: String,
        /// Its length.
        seconds: f64,
        /// Percentile of the end-to-end latency to report, e.g. 99.
        percentile: f64,
        /// The latency that is promised for it, in microseconds: reports count what takes longer from now on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        promise_us: Option<f64>,
        /// Whether the arrivals of publishers are to be traced and sent.
        with_trace: bool,
    },
    /// Tell publishers to move elsewhere.
    Migrate {
        /// Topic name.
        topic: String,
        /// Who, and where to.
        moves: Vec<Move>,
    },
}

/// The brokers that share limits by gossip, and how.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sharers {
    /// Number of the list: greater than those before.
    pub generation: u64,
    /// Gossip addresses of all of them, `ip:port`; a broker is known by its place.
    pub addresses: Vec<String>,
    /// What signs gossip, as 64 hexadecimal digits; `None`: brokers have a key of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// To how many others a broker tells its numbers per interval; N − 1 or more: to all.
    pub branches: u16,
    /// Length of an estimate interval.
    pub interval_ms: u64,
}

/// A round of brokers that vouch for each other ([`limit::Vouches`]).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// Greater than those before.
    pub number: u64,
    /// Gossip addresses of all other brokers of the round, `ip:port`.
    pub others: Vec<String>,
    /// The key that signs messages about rounds, as 64 hexadecimal digits; `None`: brokers have a
    /// key of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl fmt::Debug for Round {
    /// Without the key, which is nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Round")
            .field("number", &self.number)
            .field("others", &self.others)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Sharers {
    /// Without the key, which is nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharers")
            .field("generation", &self.generation)
            .field("addresses", &self.addresses)
            .field("branches", &self.branches)
            .field("interval_ms", &self.interval_ms)
            .finish_non_exhaustive()
    }
}

/// One publisher's move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// Publisher id.
    pub publisher: String,
    /// `host:port` of the broker that it is to publish to.
    pub to: String,
}
