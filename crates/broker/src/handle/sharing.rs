//! Requests of shared limits to all reactors.

use topics::{Group, IntervalEnd};

use std::sync::Arc;

use limit::Prolongation;

use super::{Question, Reactors, Request};
use crate::BrokerError;
use crate::sharing::Remotes;

/// Shared limits of all reactors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedLimits<'a>(pub(super) &'a Reactors);

impl SharedLimits<'_> {
    /// Lets all reactors share limits with the brokers of `group`; `None`: nothing of such limits passes.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub(crate) async fn join(self, group: Option<Group>) -> Result<(), BrokerError> {
        self.0.tell_all(|reply| Request::Join(group, reply)).await
    }

    /// Ends an estimate interval of all shared limits; what to tell other brokers of each.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub(crate) async fn collect_estimates(
        self,
        remotes: Remotes,
    ) -> Result<Vec<IntervalEnd>, BrokerError> {
        let remotes = Arc::new(remotes);
        let mut merged = Vec::new();
        for home in 0..self.0.count() {
            let remotes = Arc::clone(&remotes);
            let question = |reply| Request::Survey(Question::CollectEstimates(remotes, reply));
            merged.extend(self.0.ask(home, question).await?);
        }
        Ok(merged)
    }

    /// Leases that have not ended last as if their grants answered report `report`, at all reactors.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub(crate) async fn renew_leases(self, report: u64) -> Result<(), BrokerError> {
        self.prolong(Prolongation::Renewed { report }).await
    }

    /// Lets shares of `round` be used until `until`, at all reactors.
    ///
    /// # Errors
    /// [`BrokerError::Busy`], [`BrokerError::Exiting`].
    pub(crate) async fn hold_leases(
        self,
        round: u64,
        until: clock::Instant,
    ) -> Result<(), BrokerError> {
        self.prolong(Prolongation::Held { round, until }).await
    }

    async fn prolong(self, by: Prolongation) -> Result<(), BrokerError> {
        self.0.tell_all(|reply| Request::Prolong(by, reply)).await
    }
}
