//! The way into the control plane for HTTP, lookup and the process around it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clock::Instant;
use link::TopicChange;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use wire::TopicName;

use crate::ControlError;
use crate::core::{Core, Declared, Topics};
use crate::service::{Pace, PaceView};
use crate::view::{
    BrokerView, ChannelViews, EventView, NameView, PlacementView, PublisherSpec, PublisherView,
    TopicSpec, TopicView,
};

/// Topics that are told of in one turn of the controller's loop.
pub const TOPICS_AT_ONCE: usize = 64;

/// Topics whose brokers are told in one turn.
pub(crate) const HOLDINGS_AT_ONCE: usize = 500;

/// Publishers that are told of in one turn.
pub(crate) const PUBLISHERS_AT_ONCE: usize = 500;

/// A question or an order.
#[derive(Debug)]
pub enum Command {
    /// Looks at the state, in one turn.
    Look(Question),
    /// Declares a topic, or declares it anew.
    PutTopic(String, TopicSpec, Reply<TopicView>),
    /// The topics behind the given one, at most this many, ordered by name.
    Topics(Option<String>, usize, Reply<Vec<TopicView>>),
    /// One topic.
    Topic(String, Reply<TopicView>),
    /// Removes a topic: its limit, its promise and its publishers.
    DeleteTopic(String, Reply<()>),
    /// Adds publishers, or declares them anew, and places them. Answered once they may be told their places.
    PutPublishers(String, Declared, Reply<()>),
    /// Publishers of a topic by id, in the order asked for.
    PublishersNamed(String, Vec<String>, Reply<Vec<PublisherView>>),
    /// The publishers of a topic behind the given one, at most this many, ordered by id.
    Publishers(String, Option<String>, usize, Reply<Vec<PublisherView>>),
    /// One publisher; `avoid` names a broker that it could not reach.
    Publisher {
        /// Topic name.
        topic: String,
        /// Publisher id.
        id: String,
        /// Name or address of a broker that did not answer.
        avoid: Option<String>,
        /// Answer.
        reply: Reply<PublisherView>,
    },
    /// Removes a publisher.
    DeletePublisher(String, String, Reply<()>),
    /// Where a topic is, or would be; of its publishers those behind the given one, at most this
    /// many.
    Placement(String, Option<String>, usize, Reply<PlacementView>),
    /// All brokers, ordered by name.
    Brokers(Reply<Vec<BrokerView>>),
    /// Moves all publishers away from a broker and gives it no more.
    DrainBroker(String, Reply<BrokerView>),
    /// Ends a drain.
    ResumeBroker(String, Reply<BrokerView>),
    /// Declares a broker dead: its publishers are placed elsewhere, its shares are free.
    RemoveBroker(String, Reply<()>),
    /// Gives a topic's name an identifier, unless it has one. Answered once it is kept.
    PutName(String, Reply<NameView>),
    /// Channels of a topic.
    Channels(String, Reply<ChannelViews>),
    /// Topics and channels by broker, for lookup: those behind the given topic, at most this many.
    Holdings(Option<TopicName>, usize, Reply<Holdings>),
    /// Changes a topic or channel at all brokers.
    ChangeTopic(String, TopicChange, Reply<()>),
    /// For `lifetime`, a deletion of the topic at one broker concerns that broker alone.
    PlaceTombstone {
        /// Topic name.
        topic: String,
        /// Where the broker's HTTP is, `host:port`.
        node: String,
        /// How long.
        lifetime: Duration,
        /// Answer.
        reply: Reply<()>,
    },
}

/// A look at the state at one instant; returns the closure that answers once everything it may show
/// is kept.
pub struct Question(Box<Look>);

type Look = dyn FnOnce(&Core, Instant) -> Seen + Send;

/// Answers what was seen.
pub(crate) type Seen = Box<dyn FnOnce() + Send>;

impl Command {
    /// What `see` sees goes to `reply`.
    pub fn look<T: Send + 'static>(
        see: impl FnOnce(&Core, Instant) -> Result<T, ControlError> + Send + 'static,
        reply: Reply<T>,
    ) -> Command {
        Command::Look(Question(Box::new(|core, now| {
            let seen = see(core, now);
            // Whoever asked may have gone.
            Box::new(|| drop(reply.send(seen)))
        })))
    }
}

impl Question {
    /// Looks; to be called in a turn.
    pub(crate) fn see(self, core: &Core, now: Instant) -> Seen {
        (self.0)(core, now)
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Question")
    }
}

/// Where an answer goes.
pub type Reply<T> = oneshot::Sender<Result<T, ControlError>>;

/// Who has what, for consumers that look for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holdings {
    /// Brokers that are not dead for certain.
    pub brokers: Vec<BrokerHoldings>,
    /// Every known topic with its known channels, whether a broker has them or not.
    pub topics: Topics,
    /// The last topic that this covers; `None`: all.
    pub last: Option<TopicName>,
}

impl Holdings {
    /// Takes the next part over; brokers are as it says.
    pub(crate) fn extend(&mut self, part: Holdings) {
        let before = std::mem::take(&mut self.brokers).into_iter();
        let mut before: BTreeMap<String, BrokerHoldings> =
            before.map(|each| (each.broker.clone(), each)).collect();
        let brokers = part.brokers.into_iter().map(|next| {
            let former = before.remove(&next.broker).unwrap_or_default();
            let (mut topics, mut placed) = (former.topics, former.placed);
            topics.extend(next.topics);
            placed.extend(next.placed);
            BrokerHoldings {
                topics,
                placed,
                ..next
            }
        });
        self.brokers = brokers.collect();
        self.topics.extend(part.topics);
        self.last = part.last;
    }
}

/// What a broker has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BrokerHoldings {
    /// Broker name.
    pub broker: String,
    /// Where NSQ clients connect, `host:port`.
    pub tcp_address: String,
    /// Where its HTTP is, `host:port`.
    pub http_address: Option<String>,
    /// Time since its last report.
    pub silent_for: Duration,
    /// Topics and their channels that are there.
    pub topics: Topics,
    /// Topics whose publishers are placed there.
    pub placed: BTreeSet<TopicName>,
}

/// Whether what is decided can be kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreState {
    /// Why not, while the store cannot be written.
    pub failure: Option<String>,
    /// Writes that have failed so far.
    pub failures: u64,
}

/// A cheap, cloneable way to ask a running control plane.
#[derive(Clone, Debug)]
pub struct ControlHandle {
    commands: mpsc::Sender<Command>,
    events: broadcast::Sender<EventView>,
    holdings: Arc<AtomicU64>,
    store: watch::Receiver<StoreState>,
    pace: Pace,
    strangers: Arc<AtomicU64>,
}

impl ControlHandle {
    /// Joins the ends; the number counts up when topics or channels have changed, `store` says whether the store can be
    /// written.
    #[must_use]
    pub fn new(
        commands: mpsc::Sender<Command>,
        events: broadcast::Sender<EventView>,
        (holdings, pace): (Arc<AtomicU64>, Pace),
        store: watch::Receiver<StoreState>,
    ) -> Self {
        ControlHandle {
            commands,
            events,
            holdings,
            store,
            pace,
            strangers: Arc::default(),
        }
    }

    /// Everything that happens from now on.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<EventView> {
        self.events.subscribe()
    }

    /// Whether the store can be written.
    #[must_use]
    pub fn store_state(&self) -> StoreState {
        self.store.borrow().clone()
    }

    /// How long turns of the control plane take.
    #[must_use]
    pub fn pace(&self) -> PaceView {
        self.pace.view()
    }

    /// A number that is another one when topics or channels have changed.
    #[must_use]
    pub fn holdings_version(&self) -> u64 {
        self.holdings.load(Ordering::Acquire)
    }

    /// Connections to the link that proved no key.
    #[must_use]
    pub fn strangers(&self) -> u64 {
        self.strangers.load(Ordering::Relaxed)
    }

    /// Counts one more of them; gives how many there were before.
    pub(crate) fn note_stranger(&self) -> u64 {
        self.strangers.fetch_add(1, Ordering::Relaxed)
    }

    /// All topics, ordered by name, each as of some instant since the call. Asked for a few at a time: others' turns come in between.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`], as [`ControlHandle::ask`].
    pub async fn topics(&self) -> Result<Vec<TopicView>, ControlError> {
        let mut topics: Vec<TopicView> = Vec::new();
        loop {
            let after = topics.last().map(|last| last.topic.clone());
            let ask = |reply| Command::Topics(after, TOPICS_AT_ONCE, reply);
            let part = self.ask(ask).await?;
            let is_last = part.len() < TOPICS_AT_ONCE;
            topics.extend(part);
            if is_last {
                return Ok(topics);
            }
        }
    }

    /// All publishers of a topic, ordered by id, each as of some instant since the call; as [`ControlHandle::topics`].
    ///
    /// # Errors
    /// [`ControlError::NotFound`]; [`ControlError::Unavailable`], as [`ControlHandle::ask`].
    pub async fn publishers(&self, topic: &str) -> Result<Vec<PublisherView>, ControlError> {
        let mut publishers: Vec<PublisherView> = Vec::new();
        loop {
            let after = publishers.last().map(|last| last.id.clone());
            let ask =
                |reply| Command::Publishers(topic.to_owned(), after, PUBLISHERS_AT_ONCE, reply);
            let part = self.ask(ask).await?;
            let is_last = part.len() < PUBLISHERS_AT_ONCE;
            publishers.extend(part);
            if is_last {
                return Ok(publishers);
            }
        }
    }

    /// Adds publishers, or declares them anew, and places them. Gives them in the order of the list, each as of some instant after it
    /// was taken.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] naming the publisher and the field; [`ControlError::Unavailable`] at a bound, or as
    /// [`ControlHandle::ask`]; [`ControlError::NotKept`]. Where a part of a long list was taken before, the text says how much.
    pub async fn declare(
        &self,
        topic: &str,
        specs: Vec<PublisherSpec>,
    ) -> Result<Vec<PublisherView>, ControlError> {
        let publishers = Declared::new(specs)?;
        let mut ids = publishers.ids();
        self.ask(|reply| Command::PutPublishers(topic.to_owned(), publishers, reply))
            .await?;
        let mut views = Vec::with_capacity(ids.len());
        while !ids.is_empty() {
            let behind = ids.split_off(ids.len().min(PUBLISHERS_AT_ONCE));
            let part = std::mem::replace(&mut ids, behind);
            let ask = |reply| Command::PublishersNamed(topic.to_owned(), part, reply);
            views.extend(self.ask(ask).await?);
        }
        Ok(views)
    }

    /// Where a topic is, or would be, and where each of its publishers is as of some instant since the call.
    ///
    /// # Errors
    /// [`ControlError::Invalid`]; [`ControlError::Unavailable`], as [`ControlHandle::ask`].
    pub async fn placement(&self, topic: &str) -> Result<PlacementView, ControlError> {
        let mut placed = BTreeMap::new();
        let mut after = None;
        loop {
            let ask =
                |reply| Command::Placement(topic.to_owned(), after, PUBLISHERS_AT_ONCE, reply);
            let mut part = self.ask(ask).await?;
            after = part.last_publisher.take();
            placed.extend(std::mem::take(&mut part.publishers));
            if after.is_none() {
                return Ok(PlacementView {
                    publishers: placed,
                    ..part
                });
            }
        }
    }

    /// Topics and channels by broker, each topic as of some instant since the call.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`], as [`ControlHandle::ask`].
    pub(crate) async fn holdings(&self) -> Result<Holdings, ControlError> {
        let mut all = Holdings::default();
        loop {
            let after = all.last.take();
            let part = self
                .ask(|reply| Command::Holdings(after, HOLDINGS_AT_ONCE, reply))
                .await?;
            all.extend(part);
            if all.last.is_none() {
                return Ok(all);
            }
        }
    }

    /// Looks at the state in one turn, which is to be short; nothing changes.
    ///
    /// # Errors
    /// What `see` says; [`ControlError::Unavailable`], as [`ControlHandle::ask`].
    pub async fn look<T: Send + 'static>(
        &self,
        see: impl FnOnce(&Core, Instant) -> Result<T, ControlError> + Send + 'static,
    ) -> Result<T, ControlError> {
        self.ask(|reply| Command::look(see, reply)).await
    }

    /// Asks; `make` wraps the reply into the command.
    ///
    /// # Errors
    /// What the control plane refuses; [`ControlError::Unavailable`] while it stops or is overrun.
    pub async fn ask<T>(&self, make: impl FnOnce(Reply<T>) -> Command) -> Result<T, ControlError> {
        let gone = || ControlError::Unavailable(String::from("the controller is stopping"));
        let (reply, answer) = oneshot::channel();
        self.commands.send(make(reply)).await.map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }
}
