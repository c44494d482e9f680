//! Shares of the reactors' time: what became of them.

use super::{Answer, Handle, Request};
use crate::BrokerError;
use crate::reactor::TaskReport;

impl Handle {
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
}
