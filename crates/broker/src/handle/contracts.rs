//! What a topic is declared to be entitled to, put into force. [`Handle::declare`] also keeps it.

use kernel::Share;
use limit::Limit;
use wire::TopicName;

use super::{Handle, Request};
use crate::BrokerError;
use crate::reactor::home_of;
use crate::topic::LimitNumber;

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

    /// Puts limit and share of a topic into force as [`Handle::set_limit`] and [`Handle::set_cpu_share`] do, both or
    /// neither; `number` is what gossip knows the limit by. With neither declared the topic must exist.
    ///
    /// # Errors
    /// Those of the two; nothing has changed then.
    pub(crate) async fn set_contract(
        &self,
        topic: TopicName,
        limit: Option<Limit>,
        share: Option<Share>,
        number: Option<LimitNumber>,
    ) -> Result<(), BrokerError> {
        let _declaring = self.declaring.lock().await;
        let home = home_of(topic.as_str(), self.inboxes.len());
        let request = Request::SetContract(topic.clone(), limit, share, number);
        self.done(home, request).await?;
        self.declare_elsewhere(home, &topic, share).await
    }
}
