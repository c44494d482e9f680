//! Requests to a reactor. Each carries a reply of its own type, so the answer always has the right
//! type.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kernel::CpuShare;
use limit::adaptor::HistoryLength;
use limit::{Grant, Prolongation};
use link::{Move, TopicState};
use tokio::sync::oneshot;
use topics::{Batch, Group, Handed, IntervalEnd, KnownTopic, NotTaken, QueueName, Teller};
use wire::{ChannelName, TopicName};

use super::{DeclaredContract, Operation};
use crate::BrokerError;
use crate::reactor::{DialledSubscriber, Identifiers, TaskReport};
use crate::sharing::Remotes;
use crate::stats::{Catalog, Stats, StatsFilter};
use crate::window::{ReactorReport, ReportOrder, TraceResult, WindowOrder, WindowResult};

/// Where a reactor sends an answer of that type. One that is dropped says that the broker exits.
#[derive(Debug)]
pub struct Reply<T>(oneshot::Sender<Result<T, BrokerError>>);

impl<T> Reply<T> {
    /// A reply, and where it arrives.
    #[must_use]
    pub fn new() -> (Reply<T>, oneshot::Receiver<Result<T, BrokerError>>) {
        let (sender, receiver) = oneshot::channel();
        (Reply(sender), receiver)
    }

    /// Answers. If the caller has gone, nobody misses the answer.
    pub fn send(self, answer: Result<T, BrokerError>) {
        let _ = self.0.send(answer);
    }

    /// Whether somebody still waits for the answer.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        !self.0.is_closed()
    }
}

impl Reply<()> {
    /// Says that it is done.
    pub fn done(self) {
        self.send(Ok(()));
    }
}

/// One question or order to the reactor that owns a topic.
#[derive(Debug)]
pub enum Request {
    /// Publish bodies, all or none.
    Publish {
        /// Against whom the topic counts if it is created.
        maker: Option<IpAddr>,
        /// Where to; created unless it exists.
        topic: TopicName,
        /// The messages.
        bodies: Vec<Bytes>,
        /// Time before consumers get them.
        delay: Duration,
        /// The caller that waits until it is done.
        reply: Reply<()>,
    },
    /// Make a topic, or a channel of one that is there, which counts against somebody.
    Make(Option<IpAddr>, TopicName, Option<ChannelName>, Reply<()>),
    /// Do something to a topic.
    Topic(TopicName, Operation, Reply<()>),
    /// Do something to a channel.
    Channel(TopicName, ChannelName, Operation, Reply<()>),
    /// Make what was said of a topic; says whether it is here.
    Learn(Box<KnownTopic>, Reply<bool>),
    /// Hold a topic no longer: its channels were made.
    Answered(TopicName, Reply<()>),
    /// Let become of a topic, or of its channel, what has become of it elsewhere.
    Follow(TopicName, Option<ChannelName>, Operation, Reply<()>),
    /// How things stand with the one who says what topics have.
    Hear(Teller, Reply<()>),
    /// Put a contract into force at its topic's home, all or nothing.
    SetContract(Box<DeclaredContract>, Reply<()>),
    /// Note the share of this reactor's time that a topic of another one is entitled to.
    DeclareShare(TopicName, Option<CpuShare>, Reply<()>),
    /// Share limits with these brokers by gossip; `None`: with whom is not known.
    Join(Option<Group>, Reply<()>),
    /// Something of queues that are handed over.
    Handover(HandoverRequest),
    /// Something of everything, which is answered in slices.
    Survey(Question),
    /// Shares of topics' limits, from the controller; says which topics are not there or have no limit.
    Grant(Vec<(TopicName, Grant)>, Reply<Vec<TopicName>>),
    /// Leases that have not ended last longer.
    Prolong(Prolongation, Reply<()>),
    /// Length of the history of traffic that reports tell of.
    RememberTraffic(HistoryLength, Reply<()>),
    /// Something of what is written down of a topic's messages.
    Observe(ObserveRequest),
    /// Tell publishers of a topic to move to another broker.
    Migrate(TopicName, Vec<Move>, Reply<()>),
    /// Begin to deliver to a subscriber of Tempo's.
    Deliver(Box<DialledSubscriber>, Reply<()>),
    /// What Tempo's identifiers stand for.
    SetIdentifiers(Identifiers, Reply<()>),
}

/// One about all topics, connections or tasks of a reactor: it takes several turns.
#[derive(Debug)]
pub enum Question {
    /// Copy of the counters.
    Stats(StatsFilter, Reply<Box<Stats>>),
    /// How the topics of this reactor have fared as tasks.
    Tasks(Reply<Box<TaskReport>>),
    /// A report to the controller about this reactor's topics and publishers; numbered.
    Report(ReportOrder, Reply<Box<ReactorReport>>),
    /// What outlives a restart.
    Catalog(Reply<Catalog>),
    /// Every topic with all its channels.
    Inventory(Reply<Vec<TopicState>>),
    /// End an estimate interval of all shared limits, with what is known of the others.
    CollectEstimates(Arc<Remotes>, Reply<Vec<IntervalEnd>>),
    /// Queues with messages that nobody takes here, or not in so long.
    Stranded(Duration, Reply<Vec<QueueName>>),
}

impl Question {
    /// Answers nothing but that.
    pub fn refuse(self, error: BrokerError) {
        match self {
            Question::Stats(_, reply) => reply.send(Err(error)),
            Question::Tasks(reply) => reply.send(Err(error)),
            Question::Report(_, reply) => reply.send(Err(error)),
            Question::Catalog(reply) => reply.send(Err(error)),
            Question::Inventory(reply) => reply.send(Err(error)),
            Question::CollectEstimates(_, reply) => reply.send(Err(error)),
            Question::Stranded(_, reply) => reply.send(Err(error)),
        }
    }
}

/// One about queues that are handed over to other brokers, or come from them.
#[derive(Debug)]
pub enum HandoverRequest {
    /// Lift the next batch of what has waited this long, to hand it over.
    Lift(QueueName, Duration, Reply<Vec<Handed>>),
    /// The lifted messages are with another broker, or go back.
    Settle(QueueName, bool, Reply<()>),
    /// Messages that another broker hands over.
    TakeOver(QueueName, Box<Batch>, Reply<Result<(), NotTaken>>),
}

/// One about what is written down of a topic's messages.
#[derive(Debug)]
pub enum ObserveRequest {
    /// Begin a profiling window for a topic.
    BeginWindow(TopicName, WindowOrder, Reply<()>),
    /// End it.
    EndWindow(TopicName, Reply<Box<WindowResult>>),
    /// Begin to record a topic's arrivals.
    BeginRecording(TopicName, Reply<()>),
    /// End the recording.
    EndRecording(TopicName, Reply<Box<TraceResult>>),
    /// Take the instants of a topic's releases.
    Releases(TopicName, Reply<Vec<u64>>),
}
