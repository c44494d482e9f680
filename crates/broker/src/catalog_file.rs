//! The catalog on disk: topics, channels, pauses and contracts survive a restart; messages do not.
//!
//! The catalog is one JSON file in the data folder. It is always written whole: to a temporary
//! file, which is synced and renamed over the old one, so a crash leaves either the old or the new
//! catalog. Contracts declared since then are in a journal beside it. Names are stored inside the
//! file and never become paths. A file that cannot be read stops the start: it belongs to the
//! operator and is not overwritten unread. Buckets start empty, because the file holds no tokens.

mod contracts;
mod document;
mod health;
mod journal;
mod keeping;
mod volume;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use link::Contract;
use topics::KnownTopic;

use crate::stats::{Catalog, CatalogTopic};
use crate::{BrokerError, Handle};

use document::broken;
use health::CatalogHealth;
use journal::Journal;

pub use health::CatalogState;
pub use journal::JOURNAL_NAME;
pub use keeping::{KeptCatalog, keep};
pub use volume::{DataFolder, Volume, VolumeFile};

/// Name of the file inside the data folder.
pub const FILE_NAME: &str = "srtm.catalog.json";
/// The file's name while it is being written.
const TEMPORARY_NAME: &str = "srtm.catalog.json.new";

/// The catalog file of one broker, in a folder that is its own for as long as this lives.
#[derive(Debug)]
pub struct CatalogFile<V: Volume = DataFolder> {
    volume: V,
    /// The content of the file and, from the opening, of the journal.
    written: Catalog,
    /// What the journal says differently.
    declared: BTreeMap<String, Contract>,
    /// They may hold something else: a write failed halfway, or another process wrote the journal. So the catalog is to be
    /// written whole.
    is_doubtful: bool,
    generation: u64,
    journal: Journal<V>,
    health: CatalogHealth,
}

/// Puts a contract into force again, without its share where that does not fit.
async fn put_back(
    handle: &Handle,
    name: &wire::TopicName,
    contract: Contract,
) -> Result<(), BrokerError> {
    if contract.is_empty() {
        return Ok(());
    }
    let set = handle.set_contract(name.clone(), contract).await;
    let (Some(share), Err(BrokerError::Refused(reason))) = (contract.cpu_share, &set) else {
        return set;
    };
    tracing::error!("topic {name} does not get its CPU share {share} back: {reason}");
    let without = Contract {
        cpu_share: None,
        ..contract
    };
    match without.is_empty() {
        true => Ok(()),
        false => handle.set_contract(name.clone(), without).await,
    }
}

impl CatalogFile {
    /// Locks `data_path` (made unless it exists) and reads its catalog; without a file it is empty.
    ///
    /// # Errors
    /// [`BrokerError::Io`] when the folder is not usable or in use, and for a file that is not a
    /// catalog, with its path, the line and what to do.
    pub fn open(data_path: &Path) -> Result<CatalogFile, BrokerError> {
        CatalogFile::within(DataFolder::open(data_path)?)
    }

    /// Makes the broker as the file says, in force at once. A limit and a share are in force before their topic can be seen. A share that does
    /// not fit beside the others is left out and said so.
    ///
    /// # Errors
    /// Those of [`Handle`].
    pub async fn restore(&self, handle: &Handle) -> Result<(), BrokerError> {
        for (contract, known) in self.topics() {
            put_back(handle, &known.name, contract).await?;
            // Known from here on: it is not held for anybody's word.
            handle.told().learn(known).await?;
        }
        Ok(())
    }
}

impl<V: Volume> CatalogFile<V> {
    /// Reads the catalog of a folder.
    ///
    /// # Errors
    /// [`BrokerError::Io`] for a file that is not a catalog, with its path, the line and what to do.
    pub fn within(volume: V) -> Result<CatalogFile<V>, BrokerError> {
        let path = volume.path(FILE_NAME);
        let (mut written, generation) = match volume.read(FILE_NAME) {
            Ok(text) => {
                document::parse(&text).map_err(|(line, reason)| broken(&path, line, &reason))?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Catalog::default(), 0),
            Err(error) => return Err(failed("read the catalog", &path, error)),
        };
        let entries = journal::read(&volume, generation)?;
        let is_doubtful = !entries.is_empty();
        for CatalogTopic { name, contract, .. } in entries {
            contracts::put_into(&mut written, &name, contract);
        }
        Ok(CatalogFile {
            volume,
            written,
            declared: BTreeMap::new(),
            is_doubtful,
            generation,
            journal: Journal::default(),
            health: CatalogHealth::default(),
        })
    }

    /// The catalog found at the opening, or saved since.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.written
    }

    /// The topics in the order in which they are put into force: a contract, then its topic with
    /// its channels.
    pub fn topics(&self) -> impl Iterator<Item = (Contract, KnownTopic)> {
        self.written.topics.iter().filter_map(|topic| {
            let channels = topic.channels.iter();
            let channels = channels.filter_map(|each| Some((each.name.parse().ok()?, each.paused)));
            let known = KnownTopic {
                is_paused: topic.paused,
                channels: channels.collect(),
                // Names were checked when the file was read.
                name: topic.name.parse().ok()?,
            };
            Some((topic.contract, known))
        })
    }

    /// Replaces the file unless it holds `catalog` already.
    ///
    /// # Errors
    /// [`BrokerError::Io`] naming the step and the path.
    pub fn save(&mut self, catalog: Catalog) -> Result<(), BrokerError> {
        // Whether it can be written again is found out by writing.
        let is_whole = !self.is_doubtful && self.journal.is_empty();
        if catalog == self.written && is_whole && !self.health.is_failing() {
            return Ok(());
        }
        let saved = self.replace(catalog);
        if saved.is_err() {
            // What is left of it only takes room.
            let _ = self.volume.remove(TEMPORARY_NAME);
        }
        self.health.note(&saved);
        saved
    }

    fn replace(&mut self, catalog: Catalog) -> Result<(), BrokerError> {
        let generation = self.generation + 1;
        let (path, temporary) = (
            self.volume.path(FILE_NAME),
            self.volume.path(TEMPORARY_NAME),
        );
        let text = document::render(&catalog, generation)
            .map_err(|source| failed("render the catalog", &path, source))?;
        let file = self.volume.create(TEMPORARY_NAME);
        let mut file = file.map_err(|source| failed("create the file", &temporary, source))?;
        file.append(text.as_bytes())
            .and_then(|()| file.sync())
            .map_err(|source| failed("write the file", &temporary, source))?;
        // From here until the folder is synced a crash may leave either.
        self.is_doubtful = true;
        self.volume
            .rename(TEMPORARY_NAME, FILE_NAME)
            .map_err(|source| failed("replace the catalog", &path, source))?;
        // A journal of the generation before no longer counts.
        self.generation = generation;
        // A new name is safe only when its folder is.
        self.volume
            .sync()
            .map_err(|source| failed("sync the folder of", &path, source))?;
        self.written = catalog;
        self.is_doubtful = false;
        self.declared.clear();
        self.journal.end(&mut self.volume);
        Ok(())
    }
}

fn failed(step: &str, path: &Path, source: io::Error) -> BrokerError {
    BrokerError::Io {
        what: format!("{step} {}", path.display()),
        source,
    }
}

#[cfg(test)]
mod tests;
