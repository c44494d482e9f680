//! What a topic is declared to be entitled to, put into force. [`Handle::declare`] also keeps it.

use limit::Limit;
use link::OnFull;
use wire::TopicName;

use super::{Handle, Request};
use crate::BrokerError;
use crate::catalog_file::Contract;
use crate::reactor::home_of;

impl Handle {
    /// Puts a limit on a topic, resizes the one in force, or takes it away with `None`.
    ///
    /// # Errors
    /// [`BrokerError::TopicNotFound`] where a limit is to be taken from a topic that is not there.
    pub async fn set_limit(
        &self,
        topic: TopicName,
        limit: Option<Limit>,
    ) -> Result<(), BrokerError> {
        let home = home_of(topic.as_str(), self.inboxes.len());
        self.done(home, Request::SetLimit(topic, limit)).await
    }

    /// Declares what becomes of a topic's full channels; made unless it exists.
    ///
    /// # Errors
    /// [`BrokerError::Refused`] where no more topics may be made.
    pub async fn set_on_full(
        &self,
        topic: TopicName,
        on_full: Option<OnFull>,
    ) -> Result<(), BrokerError> {
        let home = home_of(topic.as_str(), self.inboxes.len());
        self.done(home, Request::SetOnFull(topic, on_full)).await
    }

    /// Puts everything that is declared of a topic into force as [`Handle::set_limit`], [`Handle::set_cpu_share`] and
    /// [`Handle::set_on_full`] do, all or nothing. With nothing declared the topic must exist.
    ///
    /// # Errors
    /// Those of the three; nothing has changed then.
    pub(crate) async fn set_contract(&self, contract: Contract) -> Result<(), BrokerError> {
        let _declaring = self.declaring.lock().await;
        let (topic, share) = (contract.topic.clone(), contract.cpu_share);
        let home = home_of(topic.as_str(), self.inboxes.len());
        self.done(home, Request::SetContract(Box::new(contract)))
            .await?;
        self.declare_elsewhere(home, &topic, share).await
    }
}
