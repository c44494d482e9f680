//! Contracts are durable before they are in force, and so before anybody is told of them.
//!
//! The file comes first: a contract that is in force and cannot be written would have to be taken
//! back, but the messages that passed meanwhile could not. A crash between the two steps leaves a
//! contract in force that nobody was told of.

use std::time::Duration;

use link::Contract;

use super::keeping::Keeping;
use super::{CatalogFile, Volume};
use crate::handle::DeclaredContract;
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
    pub async fn declare(&self, contracts: Vec<DeclaredContract>) -> Vec<Result<(), BrokerError>> {
        let (outcomes, _) = self.keep_and_force(contracts, Unkept::Refused).await;
        outcomes
    }

    /// The same for contracts that a controller keeps and tells again after a restart: those that cannot be written are in force
    /// all the same, for without them their topics would pass what the limit forbids. They are written once that is possible. One
    /// outcome for each, in their order, and why they are not kept.
    ///
    /// # Errors
    /// In an outcome: those of [`Handle::declare`] but [`BrokerError::NotKept`].
    pub(crate) async fn obey(
        &self,
        contracts: Vec<DeclaredContract>,
    ) -> (Vec<Result<(), BrokerError>>, Option<BrokerError>) {
        self.keep_and_force(contracts, Unkept::InForce).await
    }

    /// One outcome for each contract, and why they are not kept.
    async fn keep_and_force(
        &self,
        contracts: Vec<DeclaredContract>,
        unkept: Unkept,
    ) -> (Vec<Result<(), BrokerError>>, Option<BrokerError>) {
        let (handle, count) = (self.clone(), contracts.len());
        // A task of its own: who asked may go meanwhile, and what has begun must not be left half done.
        let task = tokio::spawn(async move {
            let mut keeping = handle.kept.keeping.lock().await;
            let failure = keeping.write_ahead(&contracts).err();
            let outcomes = match &failure {
                Some(error) if unkept == Unkept::Refused => refusals(contracts.len(), error),
                _ => put_all_into_force(&handle, &mut keeping, contracts).await,
            };
            if failure.is_some() {
                // The file may hold either; the reactors know.
                handle.changed.notify_one();
            }
            (outcomes, failure)
        });
        let exiting = |_| (refusals(count, &BrokerError::Exiting), None);
        task.await.unwrap_or_else(exiting)
    }
}

/// The fate of contracts that cannot be kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unkept {
    /// Nothing changes.
    Refused,
    /// They are in force nevertheless.
    InForce,
}

/// The outcome of each where nothing has changed.
fn refusals(count: usize, error: &BrokerError) -> Vec<Result<(), BrokerError>> {
    let refusal = |_| match error {
        BrokerError::Exiting => Err(BrokerError::Exiting),
        _ => Err(BrokerError::NotKept(error.to_string())),
    };
    (0..count).map(refusal).collect()
}

async fn put_all_into_force(
    handle: &Handle,
    keeping: &mut Keeping,
    contracts: Vec<DeclaredContract>,
) -> Vec<Result<(), BrokerError>> {
    let mut outcomes = Vec::with_capacity(contracts.len());
    for contract in contracts {
        outcomes.push(put_into_force(handle, contract).await);
    }
    if outcomes.iter().any(Result::is_err) && !keeping.save_all(handle).await {
        handle.changed.notify_one();
    }
    outcomes
}

async fn put_into_force(handle: &Handle, contract: DeclaredContract) -> Result<(), BrokerError> {
    loop {
        match handle.put_into_force(contract.clone()).await {
            Err(BrokerError::Busy(_)) => tokio::time::sleep(BUSY_PAUSE).await,
            outcome => return outcome,
        }
    }
}

impl Keeping {
    /// Makes `contracts` durable. Writing them may hold this thread for its moment.
    fn write_ahead(&mut self, contracts: &[DeclaredContract]) -> Result<(), BrokerError> {
        match self {
            Keeping::Nowhere => Ok(()),
            Keeping::In(file) => tokio::task::block_in_place(|| file.write_ahead(contracts)),
            Keeping::Ended => Err(BrokerError::Exiting),
        }
    }
}

impl<V: Volume> CatalogFile<V> {
    /// Makes `contracts` durable, before they are in force. Appends them to the journal unless they are kept already; where it is
    /// not to be appended to, the catalog is written whole, as it will be with them.
    ///
    /// # Errors
    /// [`BrokerError::Io`] naming the step and the path: a crash may leave any of them.
    pub fn write_ahead(&mut self, contracts: &[DeclaredContract]) -> Result<(), BrokerError> {
        let news = contracts.iter().filter(|each| !self.holds(each));
        let entries: Vec<CatalogTopic> = news.filter_map(DeclaredContract::entry).collect();
        if entries.is_empty() && !self.is_doubtful {
            return Ok(());
        }
        if self.is_doubtful || self.health.is_failing() {
            let mut catalog = self.written.clone();
            let declared = self
                .declared
                .iter()
                .map(|(name, contract)| (name, *contract));
            let entries = entries.iter().map(|each| (&each.name, each.contract));
            for (name, contract) in declared.chain(entries) {
                put_into(&mut catalog, name, contract);
            }
            return self.save(catalog);
        }
        let appended = self
            .journal
            .append(&mut self.volume, self.generation, &entries);
        self.health.note(&appended);
        self.is_doubtful = appended.is_err() && !self.journal.is_empty();
        appended?;
        let declared = entries.into_iter().map(|each| (each.name, each.contract));
        self.declared.extend(declared);
        Ok(())
    }

    /// Whether a crash now would leave this contract.
    fn holds(&self, declared: &DeclaredContract) -> bool {
        match self.declared.get(declared.topic.as_str()) {
            Some(contract) => *contract == declared.contract,
            None => declared.is_in(&self.written),
        }
    }
}

impl DeclaredContract {
    fn is_in(&self, catalog: &Catalog) -> bool {
        let topics = &catalog.topics;
        match topics.binary_search_by(|topic| topic.name.as_str().cmp(self.topic.as_str())) {
            Ok(at) => topics[at].contract == self.contract,
            Err(_) => self.contract.is_empty(),
        }
    }

    /// How it is kept; a topic that is not kept has none.
    fn entry(&self) -> Option<CatalogTopic> {
        let entry = CatalogTopic {
            name: self.topic.to_string(),
            contract: self.contract,
            ..CatalogTopic::default()
        };
        (!self.topic.is_ephemeral()).then_some(entry)
    }
}

/// Declares `contract` for a topic of the catalog; a missing topic is created, unless nothing is
/// declared of it.
pub(super) fn put_into(catalog: &mut Catalog, name: &str, contract: Contract) {
    let topics = &mut catalog.topics;
    let at = match topics.binary_search_by(|topic| topic.name.as_str().cmp(name)) {
        Ok(at) => at,
        Err(_) if contract.is_empty() => return,
        Err(at) => {
            let topic = CatalogTopic {
                name: name.to_owned(),
                ..CatalogTopic::default()
            };
            topics.insert(at, topic);
            at
        }
    };
    topics[at].contract = contract;
}
