//! Contracts are durable before they are in force, and so before anybody is told that they are.
//!
//! The file goes first: a contract that is in force and cannot be written would have to be taken back, and what passed
//! meanwhile could not. A crash between the two leaves a contract in force that nobody was told of.

use std::time::Duration;

use super::CatalogFile;
use super::keeping::Keeping;
use crate::handle::Declaration;
use crate::stats::{Catalog, CatalogTopic};
use crate::{BrokerError, Handle};

/// A reactor whose inbox is full is asked again after so long.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

impl Handle {
    /// Writes contracts to the data folder, if the broker has one, and puts them into force. One outcome for each, in
    /// their order.
    ///
    /// # Errors
    /// In an outcome: [`BrokerError::NotKept`] where they cannot be written; [`BrokerError::TopicNotFound`] where nothing
    /// is declared of a topic that is not there; [`BrokerError::Refused`] where a share does not fit, or a topic;
    /// [`BrokerError::Exiting`]. The contract before stays then.
    pub async fn declare(&self, contracts: Vec<Declaration>) -> Vec<Result<(), BrokerError>> {
        let (handle, count) = (self.clone(), contracts.len());
        // A task of its own: who asked may go meanwhile, and what has begun must not be left half done.
        let declaring = tokio::spawn(async move { declare_all(&handle, contracts).await });
        let exiting = |_| (0..count).map(|_| Err(BrokerError::Exiting)).collect();
        declaring.await.unwrap_or_else(exiting)
    }
}

async fn declare_all(handle: &Handle, contracts: Vec<Declaration>) -> Vec<Result<(), BrokerError>> {
    let mut keeping = handle.kept.keeping.lock().await;
    if let Err(error) = keeping.write_ahead(handle, &contracts).await {
        // The file may hold either; the reactors know.
        handle.changed.notify_one();
        let reason = error.to_string();
        let not_kept = contracts.iter().map(|_| match &error {
            BrokerError::Exiting => Err(BrokerError::Exiting),
            _ => Err(BrokerError::NotKept(reason.clone())),
        });
        return not_kept.collect();
    }
    let mut outcomes = Vec::with_capacity(contracts.len());
    for contract in contracts {
        outcomes.push(put_into_force(handle, contract).await);
    }
    if outcomes.iter().any(Result::is_err) && !keeping.save_all(handle).await {
        handle.changed.notify_one();
    }
    outcomes
}

async fn put_into_force(handle: &Handle, contract: Declaration) -> Result<(), BrokerError> {
    loop {
        match handle.put_into_force(contract.clone()).await {
            Err(BrokerError::Busy(_)) => tokio::time::sleep(BUSY_PAUSE).await,
            outcome => return outcome,
        }
    }
}

impl Keeping {
    /// Writes the catalog as it will be with `contracts`, unless the file says so already.
    async fn write_ahead(
        &mut self,
        handle: &Handle,
        contracts: &[Declaration],
    ) -> Result<(), BrokerError> {
        match self {
            Keeping::Nowhere => return Ok(()),
            Keeping::In(file) if file.holds(contracts) => return Ok(()),
            Keeping::In(_) | Keeping::Ended => {}
        }
        let mut catalog = loop {
            match handle.catalog().await {
                Err(BrokerError::Busy(_)) => tokio::time::sleep(BUSY_PAUSE).await,
                catalog => break catalog?,
            }
        };
        for contract in contracts {
            contract.put_into(&mut catalog);
        }
        self.save(catalog)
    }
}

impl CatalogFile {
    /// Whether a crash now would leave these contracts.
    fn holds(&self, contracts: &[Declaration]) -> bool {
        !self.is_doubtful && contracts.iter().all(|each| each.is_in(&self.written))
    }
}

impl Declaration {
    fn is_in(&self, catalog: &Catalog) -> bool {
        let topics = &catalog.topics;
        match topics.binary_search_by(|topic| topic.name.as_str().cmp(self.topic.as_str())) {
            Ok(at) => topics[at].contract == self.contract,
            Err(_) => self.contract.is_empty(),
        }
    }

    fn put_into(&self, catalog: &mut Catalog) {
        let topics = &mut catalog.topics;
        let at = topics.binary_search_by(|topic| topic.name.as_str().cmp(self.topic.as_str()));
        let at = match at {
            Ok(at) => at,
            Err(_) if self.contract.is_empty() || self.topic.is_ephemeral() => return,
            Err(at) => {
                let name = self.topic.to_string();
                let topic = CatalogTopic {
                    name,
                    ..CatalogTopic::default()
                };
                topics.insert(at, topic);
                at
            }
        };
        topics[at].contract = self.contract;
    }
}
