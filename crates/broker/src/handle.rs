//! The way into the data path for everything that is not the data path (HTTP, the command line, tests).
//!
//! A call becomes one [`Request`] in the inbox of the reactor that owns the topic, and its answer
//! comes back through a oneshot. Reactors never wait for the caller. The inbox is bounded: at the
//! bound a call fails with [`BrokerError::Busy`].

mod contracts;
mod handover;
mod shares;
mod sharing;
mod teller;
mod windows;

pub use contracts::Declaration;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use kernel::Share;
use limit::adaptor::Window;
use limit::{Grant, Prolongation};
use link::{Move, TopicState};
use tokio::sync::{Mutex, Notify, oneshot};
use topics::MemoryBudget;
use topics::{Batch, Group, Handed, IntervalEnd, KnownTopic, NotTaken, QueueName, Teller};
use wire::{ChannelName, TopicName};

use crate::agent::{ChangeLog, LinkBoard};
use crate::announce::AnnounceBoard;
use crate::catalog_file::KeptCatalog;
use crate::handover::HandoverBoard;
use crate::lookupd::LookupdList;
use crate::reactor::{Delivery, Identifiers, Inbox, TaskReport, home_of};
use crate::sharing::{Remotes, SharingBoard};
use crate::stats::{Catalog, Stats, StatsFilter};
use crate::window::{ReactorReport, ReportOrder, TraceResult, WindowOrder, WindowResult};
use crate::{BrokerError, Config};

/// What is done to a topic or a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Create it unless it exists.
    Create,
    /// Delete it with its messages; consumers are disconnected.
    Delete,
    /// Discard its messages.
    Empty,
    /// Stop passing messages on.
    Pause,
    /// Pass messages on again.
    Unpause,
}

/// One question or order to the reactor that owns a topic.
#[derive(Debug)]
pub enum Request {
    /// Publish bodies, all or none.
    Publish {
        /// Where to; created unless it exists.
        topic: TopicName,
        /// The messages.
        bodies: Vec<Bytes>,
        /// Time before consumers get them.
        delay: Duration,
    },
    /// Do something to a topic.
    Topic(TopicName, Operation),
    /// Do something to a channel.
    Channel(TopicName, ChannelName, Operation),
    /// Make what was said of a topic.
    Learn(Box<KnownTopic>),
    /// Hold a topic no longer: its channels were made.
    Answered(TopicName),
    /// Let become of a topic, or of its channel, what has become of it elsewhere.
    Follow(TopicName, Option<ChannelName>, Operation),
    /// How things stand with the one who says what topics have.
    Hear(Teller),
    /// Every topic with all its channels.
    Inventory,
    /// Put a contract into force at its topic's home, all or nothing.
    SetContract(Box<Declaration>),
    /// Note the share of this reactor's time that a topic of another one is entitled to.
    DeclareShare(TopicName, Option<Share>),
    /// Share limits with these brokers by gossip; `None`: with whom is not known.
    Join(Option<Group>),
    /// End an estimate interval of all shared limits, with what is known of the others.
    EndInterval(Arc<Remotes>),
    /// Something of queues that are handed over.
    Handover(HandoverRequest),
    /// How the topics of this reactor have fared as tasks.
    Tasks,
    /// Copy of the counters.
    Stats(StatsFilter),
    /// What outlives a restart.
    Catalog,
    /// Shares of topics' limits, from the controller.
    Grant(Vec<(TopicName, Grant)>),
    /// Leases that have not ended last longer.
    Prolong(Prolongation),
    /// What the controller is told about this reactor's topics and publishers; numbered.
    Report(ReportOrder),
    /// Length of the history of traffic that reports tell of.
    RememberTraffic(Window),
    /// Begin a profiling window for a topic.
    BeginWindow(TopicName, WindowOrder),
    /// End it.
    EndWindow(TopicName),
    /// Begin to record a topic's arrivals.
    BeginRecording(TopicName),
    /// End the recording.
    EndRecording(TopicName),
    /// Tell publishers of a topic to move to another broker.
    Migrate(TopicName, Vec<Move>),
    /// Take the instants of a topic's releases.
    Releases(TopicName),
    /// Begin to deliver to a subscriber of Tempo's.
    Deliver(Box<Delivery>),
    /// What Tempo's identifiers stand for.
    SetIdentifiers(Identifiers),
}

/// One about queues that are handed over to other brokers, or come from them.
#[derive(Debug)]
pub enum HandoverRequest {
    /// Queues with messages that nobody takes here, or not in so long.
    Stranded(Duration),
    /// Lift the next batch of what has waited for so long, to hand it over.
    Lift(QueueName, Duration),
    /// What was lifted is with another broker, or goes back.
    Settle(QueueName, bool),
    /// Messages that another broker hands over.
    TakeOver(QueueName, Box<Batch>),
}

/// Answer to a [`Request`].
#[derive(Debug)]
pub enum Answer {
    /// It is done.
    Done,
    /// Answer to [`Request::Stats`].
    Stats(Box<Stats>),
    /// Answer to [`Request::Catalog`].
    Catalog(Catalog),
    /// Answer to [`Request::Learn`]: whether the topic is here.
    Learned(bool),
    /// Answer to [`Request::Inventory`].
    Inventory(Vec<TopicState>),
    /// Answer to [`HandoverRequest::Stranded`].
    Stranded(Vec<QueueName>),
    /// Answer to [`HandoverRequest::Lift`].
    Lifted(Vec<Handed>),
    /// Answer to [`HandoverRequest::TakeOver`].
    TakenOver(Result<(), NotTaken>),
    /// Answer to [`Request::Tasks`].
    Tasks(Box<TaskReport>),
    /// Answer to [`Request::Grant`]: topics that are not there or have no limit.
    Ungranted(Vec<TopicName>),
    /// Answer to [`Request::Report`].
    Report(Box<ReactorReport>),
    /// Answer to [`Request::EndWindow`].
    Window(Box<WindowResult>),
    /// Answer to [`Request::EndRecording`].
    Recording(Box<TraceResult>),
    /// Answer to [`Request::Releases`].
    Releases(Vec<u64>),
    /// Answer to [`Request::EndInterval`].
    Interval(Vec<IntervalEnd>),
}

/// Where a reactor sends its answer.
pub type Reply = oneshot::Sender<Result<Answer, BrokerError>>;

/// About what topics take in one report at most, all reactors: publishers and a margin fit beside them.
const TOPICS_BYTES_MAX: usize = link::MAX_MESSAGE_BYTES / 2;

/// A cheap, cloneable way to ask a running broker.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) config: Arc<Config>,
    pub(crate) inboxes: Arc<[Arc<Inbox>]>,
    pub(crate) changed: Arc<Notify>,
    pub(crate) report_wanted: Arc<Notify>,
    pub(crate) kept: KeptCatalog,
    pub(crate) changes: ChangeLog,
    /// Figures of announcements.
    pub announcements: AnnounceBoard,
    /// What went over the link to a controller.
    pub link: LinkBoard,
    /// Queues that are handed over to other brokers, or come from them.
    pub handing: HandoverBoard,
    /// Who shares limits by gossip, and its figures.
    pub sharing: SharingBoard,
    /// Memory that the broker may hold.
    pub memory: MemoryBudget,
    /// Held while a share is declared to all reactors: one at a time, so that all agree on what fits.
    pub(crate) declaring: Arc<Mutex<()>>,
    /// The nsqlookupds that it registers with.
    pub lookupds: LookupdList,
}

impl Handle {
    /// The broker's settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Publishes `bodies`, all or none; waits while the topic's queue is full.
    ///
    /// # Errors
    /// [`BrokerError::Refused`] by a limit with `reject`; [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub async fn publish(
        &self,
        topic: TopicName,
        bodies: Vec<Bytes>,
        delay: Duration,
    ) -> Result<(), BrokerError> {
        let home = home_of(topic.as_str(), self.inboxes.len());
        self.done(
            home,
            Request::Publish {
                topic,
                bodies,
                delay,
            },
        )
        .await
    }

    /// Creates, deletes, empties, pauses or unpauses a topic.
    ///
    /// # Errors
    /// [`BrokerError::TopicNotFound`] for all but [`Operation::Create`].
    pub async fn topic(&self, topic: TopicName, operation: Operation) -> Result<(), BrokerError> {
        let home = home_of(topic.as_str(), self.inboxes.len());
        self.done(home, Request::Topic(topic, operation)).await
    }

    /// Creates, deletes, empties, pauses or unpauses a channel.
    ///
    /// # Errors
    /// [`BrokerError::TopicNotFound`], [`BrokerError::ChannelNotFound`].
    pub async fn channel(
        &self,
        topic: TopicName,
        channel: ChannelName,
        operation: Operation,
    ) -> Result<(), BrokerError> {
        let home = home_of(topic.as_str(), self.inboxes.len());
        self.done(home, Request::Channel(topic, channel, operation))
            .await
    }

    /// Counters of all reactors, merged and ordered by name.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub async fn stats(&self, filter: StatsFilter) -> Result<Stats, BrokerError> {
        let mut merged = Stats::default();
        for answer in self.ask_all(|| Request::Stats(filter.clone())).await? {
            if let Answer::Stats(part) = answer {
                merged.topics.extend(part.topics);
                merged.producers.extend(part.producers);
                merged.reactors.extend(part.reactors);
            }
        }
        merged.topics.sort_by(|a, b| a.topic.cmp(&b.topic));
        for topic in &mut merged.topics {
            topic.channels.sort_by(|a, b| a.channel.cmp(&b.channel));
        }
        Ok(merged)
    }

    /// What outlives a restart, as it is now.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub async fn catalog(&self) -> Result<Catalog, BrokerError> {
        let mut merged = Catalog::default();
        for answer in self.ask_all(|| Request::Catalog).await? {
            if let Answer::Catalog(part) = answer {
                merged.topics.extend(part.topics);
            }
        }
        merged.topics.sort_by(|a, b| a.name.cmp(&b.name));
        for topic in &mut merged.topics {
            topic.channels.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Ok(merged)
    }

    /// Number of the reactor that a topic lives on.
    pub(crate) fn home_of(&self, topic: &TopicName) -> usize {
        home_of(topic.as_str(), self.inboxes.len())
    }

    /// Hands topics of reactor `home` the shares that a controller granted; gives those that are not there or have no limit.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub(crate) async fn grant(
        &self,
        home: usize,
        grants: Vec<(TopicName, Grant)>,
    ) -> Result<Vec<TopicName>, BrokerError> {
        match self.ask(home, Request::Grant(grants)).await? {
            Answer::Ungranted(topics) => Ok(topics),
            _ => Ok(Vec::new()),
        }
    }

    /// Report number `number`: traffic by topic and publishers that came or went (all of them if
    /// `is_first`), merged over the reactors.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub async fn report(&self, number: u64, is_first: bool) -> Result<ReactorReport, BrokerError> {
        let mut merged = ReactorReport::default();
        let bytes_max = TOPICS_BYTES_MAX / self.inboxes.len().max(1);
        let order = ReportOrder {
            number,
            is_first,
            bytes_max,
        };
        for answer in self.ask_all(|| Request::Report(order)).await? {
            if let Answer::Report(part) = answer {
                merged.news.topics.extend(part.news.topics);
                merged.news.gone.extend(part.news.gone);
                merged.news.has_more |= part.news.has_more;
                merged.attachments.extend(part.attachments);
            }
        }
        Ok(merged)
    }

    /// Lets reports tell of the traffic over a history of this length; histories of another begin anew.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub async fn remember_traffic(&self, window: Window) -> Result<(), BrokerError> {
        for home in 0..self.inboxes.len() {
            self.done(home, Request::RememberTraffic(window)).await?;
        }
        Ok(())
    }

    /// Begins to deliver to a subscriber of Tempo's.
    ///
    /// # Errors
    /// [`BrokerError::Refused`] at a bound.
    pub(crate) async fn begin_delivery(&self, delivery: Delivery) -> Result<(), BrokerError> {
        let home = home_of(delivery.topic.as_str(), self.inboxes.len());
        self.done(home, Request::Deliver(Box::new(delivery))).await
    }

    /// Tells all reactors what Tempo's identifiers stand for.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub(crate) async fn set_identifiers(
        &self,
        identifiers: Identifiers,
    ) -> Result<(), BrokerError> {
        for home in 0..self.inboxes.len() {
            let request = Request::SetIdentifiers(Arc::clone(&identifiers));
            self.done(home, request).await?;
        }
        Ok(())
    }

    /// Tells publishers to move. Those that are not attached here are passed over. Goes to all reactors:
    /// a publisher's connection need not live where its topic does.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub async fn migrate(&self, topic: TopicName, moves: Vec<Move>) -> Result<(), BrokerError> {
        for home in 0..self.inboxes.len() {
            self.done(home, Request::Migrate(topic.clone(), moves.clone()))
                .await?;
        }
        Ok(())
    }

    /// Completes after the catalog changed (at once if it changed since the last call).
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Completes when the controller should be told of something before the next report is due: a topic
    /// that waits for a share (at once if there was something since the last call).
    pub async fn report_wanted(&self) {
        self.report_wanted.notified().await;
    }

    /// Takes the instants of a topic's releases that were logged since the last call, in nanoseconds of
    /// `CLOCK_MONOTONIC`, ascending. Empty unless [`Config::release_log_messages`] is set.
    ///
    /// # Errors
    /// [`BrokerError::TopicNotFound`].
    pub async fn releases(&self, topic: TopicName) -> Result<Vec<u64>, BrokerError> {
        let home = home_of(topic.as_str(), self.inboxes.len());
        match self.ask(home, Request::Releases(topic)).await? {
            Answer::Releases(releases) => Ok(releases),
            _ => Ok(Vec::new()),
        }
    }

    async fn done(&self, home: usize, request: Request) -> Result<(), BrokerError> {
        self.ask(home, request).await.map(|_| ())
    }

    /// Asks all reactors at the same time; the answers are in their order.
    async fn ask_all(&self, request: impl Fn() -> Request) -> Result<Vec<Answer>, BrokerError> {
        let homes = 0..self.inboxes.len();
        try_join_all(homes.map(|home| self.ask(home, request()))).await
    }

    async fn ask(&self, home: usize, request: Request) -> Result<Answer, BrokerError> {
        let (reply, answer) = oneshot::channel();
        self.inboxes[home].ask(request, reply)?;
        answer.await.unwrap_or(Err(BrokerError::Exiting))
    }
}
