//! Shares of the reactors' time: what became of them.

use super::{Handle, Question, Request};
use crate::BrokerError;
use crate::reactor::TaskReport;

impl Handle {
    /// How topics have fared as tasks: one report per reactor, in their order.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub async fn tasks(&self) -> Result<Vec<TaskReport>, BrokerError> {
        let question = |reply| Request::Survey(Question::Tasks(reply));
        let reports = self.ask_all(question).await?;
        Ok(reports.into_iter().map(|report| *report).collect())
    }
}
