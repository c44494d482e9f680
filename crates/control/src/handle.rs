//! The way into the control plane for HTTP, lookup and the process around it.

use tokio::sync::{broadcast, mpsc, oneshot};

use crate::ControlError;
use crate::view::{
    BrokerView, EventView, NameView, NameViews, PlacementView, PublisherSpec, PublisherView,
    TopicSpec, TopicView,
};

/// A question or an order.
#[derive(Debug)]
pub enum Command {
    /// Declares a topic, or declares it anew.
    PutTopic(String, TopicSpec, Reply<TopicView>),
    /// All topics, ordered by name.
    Topics(Reply<Vec<TopicView>>),
    /// One topic.
    Topic(String, Reply<TopicView>),
    /// Removes a topic: its limit, its promise and its publishers.
    DeleteTopic(String, Reply<()>),
    /// Adds publishers, or declares them anew, and places them.
    PutPublishers(String, Vec<PublisherSpec>, Reply<Vec<PublisherView>>),
    /// All publishers of a topic, ordered by id.
    Publishers(String, Reply<Vec<PublisherView>>),
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
    /// Where a topic is, or would be.
    Placement(String, Reply<PlacementView>),
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
    /// The identifier of a topic's name.
    Name(String, Reply<NameView>),
    /// Names with identifiers behind the given one, in order of name.
    Names(Option<String>, Reply<NameViews>),
    /// How many names have identifiers.
    NamesCount(Reply<usize>),
    /// Channels of each topic by broker name, for lookup.
    Channels(Reply<Vec<BrokerChannels>>),
}

/// Where an answer goes.
pub type Reply<T> = oneshot::Sender<Result<T, ControlError>>;

/// What a broker holds, for consumers that look for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BrokerChannels {
    /// Broker name.
    pub broker: String,
    /// Where NSQ clients connect, `host:port`.
    pub tcp_address: String,
    /// Where its HTTP is, `host:port`.
    pub http_address: Option<String>,
    /// Topics and their channels, at the broker already or placed there.
    pub topics: Vec<(String, Vec<String>)>,
}

/// A cheap, cloneable way to ask a running control plane.
#[derive(Clone, Debug)]
pub struct ControlHandle {
    commands: mpsc::Sender<Command>,
    events: broadcast::Sender<EventView>,
}

impl ControlHandle {
    /// Joins the two ends.
    #[must_use]
    pub fn new(commands: mpsc::Sender<Command>, events: broadcast::Sender<EventView>) -> Self {
        ControlHandle { commands, events }
    }

    /// Everything that happens from now on.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<EventView> {
        self.events.subscribe()
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
