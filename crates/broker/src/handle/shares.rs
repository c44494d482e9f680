//! Shares of the reactors' time: declared to all of them, one declaration at a time, and what became of them.

use kernel::Share;
use wire::TopicName;

use super::{Answer, Handle, Request};
use crate::BrokerError;
use crate::reactor::{TaskReport, home_of};

impl Handle {
    /// Entitles a topic to a share of the time of every reactor, or with `None` to an equal part of what others
    /// leave.
    ///
    /// # Errors
    /// [`BrokerError::Refused`] where the shares of all topics would exceed the whole, or the topic's home has more topics than
    /// can have shares; [`BrokerError::TopicNotFound`] where a share is to be taken from a topic that is not there.
    pub async fn set_cpu_share(
        &self,
        topic: TopicName,
        share: Option<Share>,
    ) -> Result<(), BrokerError> {
        let _declaring = self.declaring.lock().await;
        let home = home_of(topic.as_str(), self.inboxes.len());
        let request = Request::SetCpuShare(topic.clone(), share);
        self.done(home, request).await?;
        self.declare_elsewhere(home, &topic, share).await
    }

    /// How topics have fared as tasks: one report per reactor, in their order.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub async fn tasks(&self) -> Result<Vec<TaskReport>, BrokerError> {
        let mut reports = Vec::new();
        for answer in self.ask_all(|| Request::Tasks).await? {
            if let Answer::Tasks(report) = answer {
                reports.push(*report);
            }
        }
        Ok(reports)
    }

    /// Tells all reactors but `home`, which has agreed, what a topic is entitled to.
    pub(super) async fn declare_elsewhere(
        &self,
        home: usize,
        topic: &TopicName,
        share: Option<Share>,
    ) -> Result<(), BrokerError> {
        for reactor in (0..self.inboxes.len()).filter(|&reactor| reactor != home) {
            let request = Request::SetCpuShare(topic.clone(), share);
            self.done(reactor, request).await?;
        }
        Ok(())
    }
}
