//! Queues handed over to other brokers or received from them.

use topics::{Batch, Handed, NotTaken, QueueName};

use std::time::Duration;

use super::{HandoverRequest, Question, Reactors, Reply, Request};
use crate::BrokerError;

/// Queues of all reactors, as those see them that hand them over or take them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queues<'a>(pub(super) &'a Reactors);

impl Queues<'_> {
    /// Queues with messages that nobody takes here, or not within `patience`.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub(crate) async fn stranded(self, patience: Duration) -> Result<Vec<QueueName>, BrokerError> {
        let mut merged = Vec::new();
        for home in 0..self.0.count() {
            let question = |reply| Request::Survey(Question::Stranded(patience, reply));
            merged.extend(self.0.ask(home, question).await?);
        }
        Ok(merged)
    }

    /// Lifts the next batch of a queue; [`Queues::settle`] has to follow unless there is none.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub(crate) async fn lift(
        self,
        queue: QueueName,
        patience: Duration,
    ) -> Result<Vec<Handed>, BrokerError> {
        let home = self.0.home_of(&queue.topic);
        self.ask_handover(home, |reply| HandoverRequest::Lift(queue, patience, reply))
            .await
    }

    /// What was lifted is with another broker, or goes back.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub(crate) async fn settle(self, queue: QueueName, is_taken: bool) -> Result<(), BrokerError> {
        let home = self.0.home_of(&queue.topic);
        self.ask_handover(home, |reply| {
            HandoverRequest::Settle(queue, is_taken, reply)
        })
        .await
    }

    /// Takes a batch from another broker; the inner error says why it was not taken.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub(crate) async fn take_over(
        self,
        queue: QueueName,
        batch: Batch,
    ) -> Result<Result<(), NotTaken>, BrokerError> {
        let (home, batch) = (self.0.home_of(&queue.topic), Box::new(batch));
        self.ask_handover(home, |reply| HandoverRequest::TakeOver(queue, batch, reply))
            .await
    }

    async fn ask_handover<T>(
        self,
        home: usize,
        request: impl FnOnce(Reply<T>) -> HandoverRequest,
    ) -> Result<T, BrokerError> {
        self.0
            .ask(home, |reply| Request::Handover(request(reply)))
            .await
    }
}
