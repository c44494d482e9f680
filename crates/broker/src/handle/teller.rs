//! What a broker reports and is told of topics and channels, through whoever knows those of other
//! brokers.

use link::TopicState;
use topics::{KnownTopic, Teller};
use wire::{ChannelName, TopicName};

use super::{Operation, Question, Reactors, Request};
use crate::BrokerError;

/// All reactors, as told by the one who knows the topics of other brokers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told<'a>(pub(super) &'a Reactors);

impl Told<'_> {
    /// Every topic that is here, ephemeral ones included, with all its channels; ordered by name.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub(crate) async fn inventory(self) -> Result<Vec<TopicState>, BrokerError> {
        let mut merged = Vec::new();
        let question = |reply| Request::Survey(Question::Inventory(reply));
        for part in self.0.ask_all(question).await? {
            merged.extend(part);
        }
        merged.sort_by(|a, b| a.topic.cmp(&b.topic));
        Ok(merged)
    }

    /// Tells all reactors how things stand with the one who says what topics have.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`]; some reactors may know then.
    pub(crate) async fn hear(self, teller: Teller) -> Result<(), BrokerError> {
        self.0.tell_all(|reply| Request::Hear(teller, reply)).await
    }

    /// Makes a topic, its channels and pauses as said; it is held no longer. False for one that was asked for and is gone
    /// since: it is not made.
    ///
    /// # Errors
    /// [`BrokerError::Refused`] at a bound.
    pub(crate) async fn learn(self, known: KnownTopic) -> Result<bool, BrokerError> {
        let (home, known) = (self.0.home_of(&known.name), Box::new(known));
        self.0.ask(home, |reply| Request::Learn(known, reply)).await
    }

    /// Holds a topic no longer that was asked for: its channels were made.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub(crate) async fn answered(self, topic: TopicName) -> Result<(), BrokerError> {
        let home = self.0.home_of(&topic);
        self.0
            .ask(home, |reply| Request::Answered(topic, reply))
            .await
    }

    /// Does to a topic, or to its channel, what was done to it elsewhere; it is not told as a change.
    ///
    /// # Errors
    /// [`BrokerError::TopicNotFound`], [`BrokerError::ChannelNotFound`].
    pub(crate) async fn follow(
        self,
        topic: TopicName,
        channel: Option<ChannelName>,
        operation: Operation,
    ) -> Result<(), BrokerError> {
        let home = self.0.home_of(&topic);
        self.0
            .ask(home, |reply| {
                Request::Follow(topic, channel, operation, reply)
            })
            .await
    }
}
