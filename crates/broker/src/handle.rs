//! The way into the data path for everything outside it: HTTP, the command line, tests.
//!
//! A call becomes one [`Request`] in the inbox of the reactor that owns the topic, and the answer
//! comes back through the [`Reply`] that the request carries. Reactors never wait for the caller.
//! The inbox is bounded; when it is full, a call fails with [`BrokerError::Busy`].

mod contracts;
mod handover;
mod reactors;
mod request;
mod sharing;
mod teller;
mod windows;

pub use contracts::DeclaredContract;
pub(crate) use reactors::Reactors;
pub use request::{HandoverRequest, ObserveRequest, Question, Reply, Request};

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use limit::Grant;
use limit::adaptor::HistoryLength;
use link::Move;
use tokio::sync::{Mutex, Notify};
use topics::{MemoryBudget, NameBudget};
use wire::{ChannelName, TopicName};

use crate::agent::{ChangeLog, LinkBoard};
use crate::announce::AnnounceBoard;
use crate::backlog::BacklogHealth;
use crate::catalog_file::{CatalogFile, KeptCatalog};
use crate::handover::HandoverBoard;
use crate::lookupd::LookupdList;
use crate::reactor::{DialledSubscriber, Identifiers, TaskReport};
use crate::sharing::SharingBoard;
use crate::stats::{Catalog, Stats, StatsFilter};
use crate::tls::Credentials;
use crate::window::{ReactorReport, ReportOrder};
use crate::{BrokerError, Config};
use handover::Queues;
use sharing::SharedLimits;
use teller::Told;

/// An operation on a topic or a channel.
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

/// About what topics take in one report at most, all reactors: publishers and a margin fit beside them.
const TOPICS_BYTES_MAX: usize = link::MAX_MESSAGE_BYTES / 2;

/// A cheap, cloneable way to ask a running broker.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) config: Arc<Config>,
    pub(crate) reactors: Reactors,
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
    /// Topics and channels that each address has made.
    pub(crate) names: NameBudget,
    /// Held while a share is declared to all reactors: one at a time, so that all agree on what fits.
    pub(crate) declaring: Arc<Mutex<()>>,
    /// The nsqlookupds that it registers with.
    pub lookupds: LookupdList,
    /// What TLS is spoken with.
    pub(crate) credentials: Option<Arc<Credentials>>,
    /// How the disk of backlogs fares; `None`: there are none.
    pub(crate) backlog: Option<BacklogHealth>,
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
        self.publish_for(None, topic, bodies, delay).await
    }

    /// [`Handle::publish`] for `maker`, against whom the topic counts if it has to be made.
    ///
    /// # Errors
    /// Those of the same, and [`BrokerError::Refused`] where the maker has made as many as it may.
    pub(crate) async fn publish_for(
        &self,
        maker: Option<IpAddr>,
        topic: TopicName,
        bodies: Vec<Bytes>,
        delay: Duration,
    ) -> Result<(), BrokerError> {
        let home = self.home_of(&topic);
        self.reactors
            .ask(home, |reply| Request::Publish {
                maker,
                topic,
                bodies,
                delay,
                reply,
            })
            .await
    }

    /// Makes a topic, or a channel of one that is there, for `maker`, unless it exists.
    ///
    /// # Errors
    /// [`BrokerError::Refused`] at a bound, [`BrokerError::TopicNotFound`] for a channel.
    pub(crate) async fn make_for(
        &self,
        maker: Option<IpAddr>,
        topic: TopicName,
        channel: Option<ChannelName>,
    ) -> Result<(), BrokerError> {
        let home = self.home_of(&topic);
        self.reactors
            .ask(home, |reply| Request::Make(maker, topic, channel, reply))
            .await
    }

    /// Creates, deletes, empties, pauses or unpauses a topic.
    ///
    /// # Errors
    /// [`BrokerError::TopicNotFound`] for all but [`Operation::Create`].
    pub async fn topic(&self, topic: TopicName, operation: Operation) -> Result<(), BrokerError> {
        let home = self.home_of(&topic);
        self.reactors
            .ask(home, |reply| Request::Topic(topic, operation, reply))
            .await
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
        let home = self.home_of(&topic);
        self.reactors
            .ask(home, |reply| {
                Request::Channel(topic, channel, operation, reply)
            })
            .await
    }

    /// Counters of all reactors, merged and ordered by name.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub async fn stats(&self, filter: StatsFilter) -> Result<Stats, BrokerError> {
        let mut merged = Stats::default();
        let question = |reply| Request::Survey(Question::Stats(filter.clone(), reply));
        for part in self.reactors.ask_all(question).await? {
            merged.topics.extend(part.topics);
            merged.producers.extend(part.producers);
            merged.reactors.extend(part.reactors);
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
        let question = |reply| Request::Survey(Question::Catalog(reply));
        for part in self.reactors.ask_all(question).await? {
            merged.topics.extend(part.topics);
        }
        merged.topics.sort_by(|a, b| a.name.cmp(&b.name));
        for topic in &mut merged.topics {
            topic.channels.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Ok(merged)
    }

    /// Number of the reactor that a topic lives on.
    pub(crate) fn home_of(&self, topic: &TopicName) -> usize {
        self.reactors.home_of(topic)
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
        self.reactors
            .ask(home, |reply| Request::Grant(grants, reply))
            .await
    }

    /// Report number `number`: traffic by topic and publishers that came or went (all of them if
    /// `is_first`), merged over the reactors.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub async fn report(&self, number: u64, is_first: bool) -> Result<ReactorReport, BrokerError> {
        let mut merged = ReactorReport::default();
        let bytes_max = TOPICS_BYTES_MAX / self.reactors.count().max(1);
        let order = ReportOrder {
            number,
            is_first,
            bytes_max,
        };
        let question = |reply| Request::Survey(Question::Report(order, reply));
        for part in self.reactors.ask_all(question).await? {
            merged.news.topics.extend(part.news.topics);
            merged.news.gone.extend(part.news.gone);
            merged.news.has_more |= part.news.has_more;
            merged.attachments.extend(part.attachments);
        }
        Ok(merged)
    }

    /// Lets reports tell of the traffic over a history of this length; histories of another begin anew.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub async fn remember_traffic(&self, length: HistoryLength) -> Result<(), BrokerError> {
        self.reactors
            .tell_all(|reply| Request::RememberTraffic(length, reply))
            .await
    }

    /// Begins to deliver to a subscriber of Tempo's.
    ///
    /// # Errors
    /// [`BrokerError::Refused`] at a bound.
    pub(crate) async fn begin_delivery(
        &self,
        dialled: DialledSubscriber,
    ) -> Result<(), BrokerError> {
        let (home, dialled) = (self.home_of(&dialled.topic), Box::new(dialled));
        self.reactors
            .ask(home, |reply| Request::Deliver(dialled, reply))
            .await
    }

    /// Tells all reactors what Tempo's identifiers stand for.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub(crate) async fn set_identifiers(
        &self,
        identifiers: Identifiers,
    ) -> Result<(), BrokerError> {
        self.reactors
            .tell_all(|reply| Request::SetIdentifiers(Arc::clone(&identifiers), reply))
            .await
    }

    /// Tells publishers to move. Those that are not attached here are passed over. Goes to all reactors:
    /// a publisher's connection need not live where its topic does.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub async fn migrate(&self, topic: TopicName, moves: Vec<Move>) -> Result<(), BrokerError> {
        self.reactors
            .tell_all(|reply| Request::Migrate(topic.clone(), moves.clone(), reply))
            .await
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
        let home = self.home_of(&topic);
        self.reactors
            .ask(home, |reply| {
                Request::Observe(ObserveRequest::Releases(topic, reply))
            })
            .await
    }

    /// How topics have fared as tasks: one report per reactor, in their order.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub async fn tasks(&self) -> Result<Vec<TaskReport>, BrokerError> {
        let question = |reply| Request::Survey(Question::Tasks(reply));
        let reports = self.reactors.ask_all(question).await?;
        Ok(reports.into_iter().map(|report| *report).collect())
    }

    /// Keeps contracts in `file` from now on, and everything else once [`crate::catalog_file::keep`] runs.
    pub async fn keep_in(&self, file: CatalogFile) {
        self.kept.keep_in(file).await;
    }

    /// Queues that are handed over.
    pub(crate) fn queues(&self) -> Queues<'_> {
        Queues(&self.reactors)
    }

    /// Limits that brokers share.
    pub(crate) fn shared_limits(&self) -> SharedLimits<'_> {
        SharedLimits(&self.reactors)
    }

    /// Topics and channels as the one who knows those of other brokers says them.
    pub(crate) fn told(&self) -> Told<'_> {
        Told(&self.reactors)
    }
}
