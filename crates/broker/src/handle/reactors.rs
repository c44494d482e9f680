//! The inboxes of all reactors: requests go in, replies come back.

use std::sync::Arc;

use futures_util::future::try_join_all;
use wire::TopicName;

use super::{Reply, Request};
use crate::BrokerError;
use crate::reactor::{Inbox, home_of};

/// All reactors, as they are asked.
#[derive(Clone, Debug)]
pub(crate) struct Reactors(Arc<[Arc<Inbox>]>);

impl Reactors {
    /// Those with these inboxes.
    pub(crate) fn new(inboxes: Arc<[Arc<Inbox>]>) -> Reactors {
        Reactors(inboxes)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Number of the reactor that a topic lives on.
    pub(crate) fn home_of(&self, topic: &TopicName) -> usize {
        home_of(topic.as_str(), self.0.len())
    }

    /// Asks one of them.
    ///
    /// # Errors
    /// Its own; [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub(super) async fn ask<T>(
        &self,
        home: usize,
        request: impl FnOnce(Reply<T>) -> Request,
    ) -> Result<T, BrokerError> {
        let (reply, answer) = Reply::new();
        self.0[home].ask(request(reply))?;
        answer.await.unwrap_or(Err(BrokerError::Exiting))
    }

    /// Asks all at the same time; the answers are in their order.
    ///
    /// # Errors
    /// As [`Reactors::ask`].
    pub(super) async fn ask_all<T>(
        &self,
        request: impl Fn(Reply<T>) -> Request,
    ) -> Result<Vec<T>, BrokerError> {
        let homes = 0..self.count();
        try_join_all(homes.map(|home| self.ask(home, &request))).await
    }

    /// Tells all, one after another; after an error some may know.
    ///
    /// # Errors
    /// As [`Reactors::ask`].
    pub(super) async fn tell_all(
        &self,
        request: impl Fn(Reply<()>) -> Request,
    ) -> Result<(), BrokerError> {
        for home in 0..self.count() {
            self.ask(home, &request).await?;
        }
        Ok(())
    }
}
