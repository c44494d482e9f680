//! Queues that are handed over to other brokers, or come from them.

use topics::{Batch, Handed, NotTaken, QueueName};

use std::time::Duration;

use super::{Answer, Handle, HandoverRequest, Request};
use crate::BrokerError;
use crate::reactor::home_of;

impl Handle {
    /// Queues with messages that nobody takes here, or not within `patience`.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub(crate) async fn stranded(&self, patience: Duration) -> Result<Vec<QueueName>, BrokerError> {
        let mut merged = Vec::new();
        for home in 0..self.inboxes.len() {
            if let Answer::Stranded(part) = self
                .ask(home, Request::Handover(HandoverRequest::Stranded(patience)))
                .await?
            {
                merged.extend(part);
            }
        }
        Ok(merged)
    }

    /// Lifts the next batch of a queue; [`Handle::settle`] has to follow unless there is none.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub(crate) async fn lift(
        &self,
        queue: QueueName,
        patience: Duration,
    ) -> Result<Vec<Handed>, BrokerError> {
        let home = home_of(queue.topic.as_str(), self.inboxes.len());
        match self
            .ask(
                home,
                Request::Handover(HandoverRequest::Lift(queue, patience)),
            )
            .await?
        {
            Answer::Lifted(batch) => Ok(batch),
            _ => Ok(Vec::new()),
        }
    }

    /// What was lifted is with another broker, or goes back.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub(crate) async fn settle(&self, queue: QueueName, is_taken: bool) -> Result<(), BrokerError> {
        let home = home_of(queue.topic.as_str(), self.inboxes.len());
        self.done(
            home,
            Request::Handover(HandoverRequest::Settle(queue, is_taken)),
        )
        .await
    }

    /// Takes a batch from another broker; the inner error says why it was not taken.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub(crate) async fn take_over(
        &self,
        queue: QueueName,
        batch: Batch,
    ) -> Result<Result<(), NotTaken>, BrokerError> {
        let home = home_of(queue.topic.as_str(), self.inboxes.len());
        let request = HandoverRequest::TakeOver(queue, Box::new(batch));
        match self.ask(home, Request::Handover(request)).await? {
            Answer::TakenOver(taken) => Ok(taken),
            _ => Ok(Ok(())),
        }
    }
}
