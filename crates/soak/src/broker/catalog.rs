//! Topics, channels, pauses and contracts over a restart: the product's own [`CatalogFile`] on a
//! simulated disk, written at the same moments (`broker/catalog_file/{keeping,contracts}.rs`).

use std::time::Duration;

use broker::catalog_file::CatalogFile;
use broker::stats::Catalog;
use broker::{BrokerError, DeclaredContract};
use clock::Instant;

use super::ground::Ground;
use crate::folder::Folder;
use crate::outside::Outside;

/// Changes of the catalog that follow each other this closely are written once.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// A catalog that could not be written is tried again after so long.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The file, and when it is written next.
pub(super) struct Keeping {
    /// `None`: the broker has no data folder.
    file: Option<CatalogFile<Folder>>,
    save_at: Option<Instant>,
    wait: Wait,
}

/// Whether the agent waits until the catalog is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Nobody,
    Somebody,
    Over,
}

impl Keeping {
    /// Creates what the folder holds, and keeps later changes in it.
    pub(super) fn restore(
        folder: Option<&Folder>,
        ground: &mut Ground,
        out: &mut Outside,
    ) -> Keeping {
        let file = folder.map(|folder| CatalogFile::within(folder.clone()));
        let file = match file.transpose() {
            Ok(file) => file,
            Err(error) => {
                let place = ground.place;
                let what = format!("broker {place} does not start again: {error}");
                out.books.breaks("contracts", what);
                None
            }
        };
        if let Some(file) = &file {
            let kept = &file.catalog().topics;
            let restarted = out.books.contracts.restarted(ground.place, kept);
            out.books.check("contracts", restarted);
            let now = ground.local(out.net.now);
            for (contract, known) in file.topics() {
                let declared = DeclaredContract {
                    maker: None,
                    topic: known.name.clone(),
                    contract,
                    number: None,
                };
                if !contract.is_empty() {
                    let _ = put_into_force(ground, &declared, now);
                }
                let _ = ground.table.learn(&known);
            }
        }
        if file.is_none() {
            out.books.contracts.forgotten(ground.place);
        }
        Keeping {
            file,
            save_at: None,
            wait: Wait::Nobody,
        }
    }

    pub(super) fn next_at(&self) -> Option<Instant> {
        self.save_at
    }

    /// Something has changed.
    pub(super) fn changed(&mut self, now: Instant) {
        self.save_at.get_or_insert(now + DEBOUNCE);
    }

    /// The agent waits until all that is here by now is written.
    pub(super) fn awaited(&mut self, now: Instant) {
        match self.file {
            Some(_) => {
                self.wait = Wait::Somebody;
                self.changed(now);
            }
            None => self.wait = Wait::Over,
        }
    }

    /// Whether it has waited long enough; only once.
    pub(super) fn is_wait_over(&mut self) -> bool {
        let is_over = self.wait == Wait::Over;
        if is_over {
            self.wait = Wait::Nobody;
        }
        is_over
    }

    /// Writes the catalog as the table has it, if it is time.
    pub(super) fn drive(&mut self, ground: &Ground, now: Instant) {
        if self.save_at.is_some_and(|at| at <= now) {
            self.save_at = match self.save(ground) {
                Ok(()) => {
                    if self.wait == Wait::Somebody {
                        self.wait = Wait::Over;
                    }
                    None
                }
                Err(_) => Some(now + AGAIN_AFTER),
            };
        }
    }

    fn save(&mut self, ground: &Ground) -> Result<(), BrokerError> {
        let mut topics = ground.catalog();
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        for topic in &mut topics {
            topic.channels.sort_by(|a, b| a.name.cmp(&b.name));
        }
        match &mut self.file {
            Some(file) => file.save(Catalog { topics }),
            None => Ok(()),
        }
    }
}

/// Puts contracts on disk first, then into force; one outcome for each, and why they are not kept.
/// Those that cannot be kept are in force nevertheless.
pub(super) fn declare(
    ground: &mut Ground,
    keeping: &mut Keeping,
    contracts: &[DeclaredContract],
    out: &Outside,
) -> (Vec<Result<(), BrokerError>>, Option<BrokerError>) {
    let now = ground.local(out.net.now);
    let mut unkept = None;
    if let Some(file) = &mut keeping.file {
        unkept = file.write_ahead(contracts).err();
    }
    let forced = contracts
        .iter()
        .map(|each| put_into_force(ground, each, now));
    let outcomes: Vec<_> = forced.collect();
    let is_refused = outcomes.iter().any(Result::is_err);
    if unkept.is_some() || (is_refused && keeping.save(ground).is_err()) {
        keeping.changed(out.net.now);
    }
    (outcomes, unkept)
}

/// As `broker/reactor/hosted/contract.rs` does; nobody declares shares of time here.
fn put_into_force(
    ground: &mut Ground,
    declared: &DeclaredContract,
    now: Instant,
) -> Result<(), BrokerError> {
    let (topic, contract) = (&declared.topic, declared.contract);
    let table = &mut ground.table;
    if contract.is_empty() && table.find(topic.as_str()).is_none() {
        return Err(BrokerError::TopicNotFound(topic.to_string()));
    }
    let made = table.find_or_create(topic.as_str());
    let key = made.map_err(|refusal| BrokerError::Refused(refusal.to_string()))?;
    table.set_on_full(key, contract.on_full);
    table.set_durability(key, contract.durability);
    table.set_shared_limit(key, contract.limit, declared.number, now);
    Ok(())
}
