//! The agent's errands and their results.

use limit::Grant;
use limit::adaptor::HistoryLength;
use link::{MemoryReport, Move, Round, Sharers, TopicState};
use topics::{KnownTopic, Teller};
use wire::{ChannelName, TopicName};

use crate::handle::DeclaredContract;
use crate::window::{ReactorReport, WindowOrder, WindowResult};
use crate::{BrokerError, Operation};

/// An effect, to be carried out in order.
#[derive(Debug)]
pub enum Effect {
    /// Dial the controller there, both prove the key, then [`super::Agent::connected`]; or [`super::Agent::ended`].
    Dial(String),
    /// Close the link, or give the dial up: nothing of it is to be heard any more.
    HangUp,
    /// Carry it out, or find it out; [`super::Agent::answered`] takes the result, whatever has
    /// happened to the link. A reactor that is too busy is asked again.
    Ask(Errand),
    /// With whom limits are shared by gossip.
    Sharers(Sharers),
    /// With whom shares may be held on to.
    Round(Round),
    /// The brokers that take the queues waiting here; none: the queues stay.
    HandOver(Vec<String>),
    /// What those say that may hand over to this broker.
    TakeOver(String),
}

/// A request to the broker; each names the [`Answer`] that belongs to it.
#[derive(Clone, Debug)]
pub enum Errand {
    /// A link begins. The life of its controller is kept before any of its orders is carried out, orders to hand over are of the link
    /// before, and reports tell of so much traffic, `None`: of as much as they do: [`Answer::Done`].
    BeginLink {
        /// The latest life of a controller that this broker has heard of.
        epoch: u64,
        /// Length of the history of traffic.
        history: Option<HistoryLength>,
    },
    /// Log changes of topics from now on, beginning with nothing, then say what is here: [`Answer::Stock`].
    TakeStock,
    /// Say how topics fare: [`Answer::Reported`].
    Report {
        /// Number of the report.
        number: u64,
        /// Name everything that is here.
        is_first: bool,
    },
    /// Keep contracts and put them into force: [`Answer::Declared`].
    Declare(Vec<DeclaredContract>),
    /// Hand out shares: [`Answer::Granted`].
    Grant(Vec<(TopicName, Grant)>),
    /// Leases last as if they answered this report: [`Answer::Done`].
    Renew(u64),
    /// How things stand with the controller: [`Answer::Done`].
    Hear(Teller),
    /// Make a topic as said: [`Answer::Learned`].
    Learn(KnownTopic),
    /// Do to a topic, or to its channel, what was done to it elsewhere: [`Answer::Done`].
    Follow(TopicName, Option<ChannelName>, Operation),
    /// Wait until all that is here by now, and nothing else, is on disk: [`Answer::Kept`].
    Keep,
    /// Tell publishers to move: [`Answer::Done`].
    Migrate(TopicName, Vec<Move>),
    /// Begin a profiling window: [`Answer::Done`].
    BeginWindow(TopicName, WindowOrder),
    /// End it: [`Answer::Window`].
    EndWindow(TopicName),
}

/// The result of an [`Errand`].
#[derive(Debug)]
pub enum Answer {
    /// It is done, or why not.
    Done(Result<(), BrokerError>),
    /// Whether the topic is here.
    Learned(Result<bool, BrokerError>),
    /// Whether each is in force, in their order, and why they are not kept.
    Declared(Vec<Result<(), BrokerError>>, Option<BrokerError>),
    /// Topics that are not here or have no limit, and what else went wrong.
    Granted(Vec<TopicName>, Vec<BrokerError>),
    /// Every topic that is here.
    Stock(Result<Vec<TopicState>, BrokerError>),
    /// How topics fare.
    Reported(Result<Figures, BrokerError>),
    /// The broker keeps nothing, or what it keeps is on disk; or why it never will be.
    Kept(Result<(), BrokerError>),
    /// The result of a topic's window.
    Window(TopicName, Result<WindowResult, BrokerError>),
}

/// The content of a report.
#[derive(Debug, Default)]
pub struct Figures {
    /// Topics, and publishers that came or went.
    pub report: ReactorReport,
    /// The round before which this broker has left all.
    pub left_rounds: u64,
    /// Memory that the broker holds.
    pub memory: Option<MemoryReport>,
}

/// Why a link ended, or never stood.
#[derive(Debug)]
pub enum Ended {
    /// It never stood.
    Unreachable(String),
    /// The controller does not want this broker.
    Refused(String),
    /// The controller does not want this broker at the moment.
    NotYet(String),
    /// It is not the one that leads; where that one is, if it said so.
    NotLeading(Option<String>),
    /// Another one leads, which it has not noticed.
    Outdated {
        /// The life in which it gives orders.
        epoch: u64,
        /// The latest life of a controller that this broker has heard of.
        latest: u64,
    },
    /// It stood, and is gone.
    Lost(String),
    /// The broker stops.
    Exiting,
}
