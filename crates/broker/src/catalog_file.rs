//! The catalog on disk: topics, channels, pauses and contracts outlive a restart, messages do not.
//!
//! One JSON file in the data folder, written whole: to a temporary file, synced, then renamed over
//! the old one, so that a crash leaves either the old or the new catalog; contracts since then stand in
//! a journal beside it. Names stand inside the
//! file and never become paths. A file that cannot be read stops the start: it is the operator's,
//! and it is not overwritten before it was understood. Buckets start empty whatever the file says,
//! since it holds no tokens.

mod contracts;
mod health;
mod journal;
mod keeping;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use link::Contract;
use serde::{Deserialize, Serialize};
use serde_path_to_error::{Path as JsonPath, Segment};
use topics::KnownTopic;

use crate::stats::{Catalog, CatalogTopic};
use crate::{BrokerError, Handle};

use health::CatalogHealth;
use journal::Journal;

pub use health::CatalogState;
pub use journal::JOURNAL_NAME;
pub use keeping::{KeptCatalog, keep};

/// Name of the file inside the data folder.
pub const FILE_NAME: &str = "srtm.catalog.json";
const LOCK_NAME: &str = "srtm.lock";
const FORMAT: u32 = 1;
/// Who may read and write the file: its owner.
const OWNER_ONLY: u32 = 0o600;

/// The catalog file of one broker, locked against a second one for as long as this lives.
#[derive(Debug)]
pub struct CatalogFile {
    path: PathBuf,
    temporary: PathBuf,
    /// What the file holds, with what the journal held when it was opened.
    written: Catalog,
    /// What the journal says otherwise.
    declared: BTreeMap<String, Contract>,
    /// They may hold something else: a write failed halfway, or another process wrote the journal. So the catalog is to be
    /// written whole.
    is_doubtful: bool,
    generation: u64,
    journal: Journal,
    health: CatalogHealth,
    _lock: File,
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

/// The file, field for field.
#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    /// Counts up with each write, so that a journal of before does not count.
    #[serde(default)]
    generation: u64,
    topics: Vec<CatalogTopic>,
}

impl CatalogFile {
    /// Locks `data_path` (made unless it exists) and reads its catalog; without a file it is empty.
    ///
    /// # Errors
    /// [`BrokerError::Io`] when the folder is not usable or in use, and for a file that is not a
    /// catalog, with its path, the line and what to do.
    pub fn open(data_path: &Path) -> Result<CatalogFile, BrokerError> {
        let path = data_path.join(FILE_NAME);
        fs::create_dir_all(data_path)
            .map_err(|source| failed("make the data folder", data_path, source))?;
        let lock = lock(data_path)?;
        let (mut written, generation) = match fs::read_to_string(&path) {
            Ok(text) => parse(&text).map_err(|(line, reason)| broken(&path, line, &reason))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Catalog::default(), 0),
            Err(error) => return Err(failed("read the catalog", &path, error)),
        };
        let journal = Journal::within(data_path);
        let entries = journal.read(generation)?;
        let is_doubtful = !entries.is_empty();
        for CatalogTopic { name, contract, .. } in entries {
            contracts::put_into(&mut written, &name, contract);
        }
        let temporary = data_path.join(format!("{FILE_NAME}.new"));
        Ok(CatalogFile {
            path,
            temporary,
            written,
            declared: BTreeMap::new(),
            is_doubtful,
            generation,
            journal,
            health: CatalogHealth::default(),
            _lock: lock,
        })
    }

    /// What the folder held when it was opened, or has been saved since.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.written
    }

    /// Makes the broker as the file says, in force at once. A limit and a share are in force before their topic can be seen. A share that does
    /// not fit beside the others is left out and said so.
    ///
    /// # Errors
    /// Those of [`Handle`].
    pub async fn restore(&self, handle: &Handle) -> Result<(), BrokerError> {
        for topic in &self.written.topics {
            // Names were checked when the file was read.
            let Ok(name) = topic.name.parse::<wire::TopicName>() else {
                continue;
            };
            put_back(handle, &name, topic.contract).await?;
            let channels = topic.channels.iter();
            let channels = channels.filter_map(|each| Some((each.name.parse().ok()?, each.paused)));
            let known = KnownTopic {
                is_paused: topic.paused,
                channels: channels.collect(),
                name,
            };
            // Known from here on: it is not held for anybody's word.
            handle.told().learn(known).await?;
        }
        Ok(())
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
            let _ = fs::remove_file(&self.temporary);
        }
        self.health.note(&saved);
        saved
    }

    fn replace(&mut self, catalog: Catalog) -> Result<(), BrokerError> {
        let document = Document {
            version: FORMAT,
            generation: self.generation + 1,
            topics: catalog.topics,
        };
        let text = serde_json::to_string_pretty(&document)
            .map_err(|error| failed("render the catalog", &self.path, io::Error::other(error)))?;
        // One that a crash has left may be open to others.
        let _ = fs::remove_file(&self.temporary);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(OWNER_ONLY)
            .open(&self.temporary);
        let mut file = file.map_err(|source| failed("create the file", &self.temporary, source))?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.write_all(b"\n"))
            .and_then(|()| file.sync_all())
            .map_err(|source| failed("write the file", &self.temporary, source))?;
        // From here until the folder is synced a crash may leave either.
        self.is_doubtful = true;
        fs::rename(&self.temporary, &self.path)
            .map_err(|source| failed("replace the catalog", &self.path, source))?;
        // A journal of the generation before no longer counts.
        self.generation = document.generation;
        sync_folder_of(&self.path)?;
        self.written.topics = document.topics;
        self.is_doubtful = false;
        self.declared.clear();
        self.journal.end();
        Ok(())
    }
}

/// A new name is safe only when its folder is.
fn sync_folder_of(path: &Path) -> Result<(), BrokerError> {
    let folder = path
        .parent()
        .map_or(Ok(()), |folder| File::open(folder)?.sync_all());
    folder.map_err(|source| failed("sync the folder of", path, source))
}

fn lock(data_path: &Path) -> Result<File, BrokerError> {
    let path = data_path.join(LOCK_NAME);
    let file = File::create(&path).map_err(|source| failed("create the lock", &path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            let reason = "another broker uses this data folder; give each broker its own";
            Err(failed(
                "lock",
                data_path,
                io::Error::new(io::ErrorKind::ResourceBusy, reason),
            ))
        }
        Err(fs::TryLockError::Error(source)) => Err(failed("lock", &path, source)),
    }
}

/// The catalog in `text` and its generation, or the line and what is wrong there.
fn parse(text: &str) -> Result<(Catalog, u64), (usize, String)> {
    if text.trim().is_empty() {
        let lost = "the file is empty, so what it held is lost";
        return Err((1, lost.to_owned()));
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let document: Document = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| unfit(text, error.path(), error.inner()))?;
    json.end()
        .map_err(|error| (error.line(), error.to_string()))?;
    if document.version != FORMAT {
        return Err((
            1,
            format!(
                "version {} is not {FORMAT}, the one this broker reads",
                document.version
            ),
        ));
    }
    let mut topics = BTreeSet::new();
    for topic in &document.topics {
        if !topics.insert(topic.name.as_str()) {
            let reason = format!("topic {} is named twice", topic.name);
            return Err((last_line_of(text, &topic.name), reason));
        }
        let mut channels = BTreeSet::new();
        topic
            .name
            .parse::<wire::TopicName>()
            .map_err(|error| (line_of(text, &topic.name), error.to_string()))?;
        for channel in &topic.channels {
            let valid = channel.name.parse::<wire::ChannelName>();
            valid.map_err(|error| (line_of(text, &channel.name), error.to_string()))?;
            if !channels.insert(channel.name.as_str()) {
                let twice = format!(
                    "channel {} of topic {} is named twice",
                    channel.name, topic.name
                );
                return Err((last_line_of(text, &channel.name), twice));
            }
        }
    }
    let mut topics = document.topics;
    topics.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((Catalog { topics }, document.generation))
}

/// The line of a value that cannot be, and why: with its topic and its field where JSON itself is whole.
fn unfit(text: &str, path: &JsonPath, error: &serde_json::Error) -> (usize, String) {
    let plain = (error.line(), error.to_string());
    let (Some(Segment::Seq { index }), Some(Segment::Map { key })) =
        (path.iter().nth(1), path.iter().next_back())
    else {
        return plain;
    };
    let document = serde_json::from_str(text).unwrap_or(serde_json::Value::Null);
    let Some(topic) = document["topics"][*index]["name"].as_str() else {
        return plain;
    };
    // A value is judged after what follows it was looked at, which may stand on a later line.
    let name = serde_json::Value::from(key.as_str()).to_string();
    let before = text.lines().take(error.line()).enumerate();
    let named = before.filter(|(_, line)| line.contains(&name)).last();
    let line = named.map_or(error.line(), |(index, _)| index + 1);
    let (place, reason) = (path.to_string(), &plain.1);
    let field = place.split_once("].").map_or(&*place, |(_, field)| field);
    let reason = reason
        .rsplit_once(" at line ")
        .map_or(&**reason, |(why, _)| why);
    (line, format!("topic {topic}: {field}: {reason}"))
}

/// The first line that holds `name` as a JSON string.
fn line_of(text: &str, name: &str) -> usize {
    let quoted = serde_json::Value::from(name).to_string();
    text.lines()
        .position(|line| line.contains(&quoted))
        .map_or(1, |index| index + 1)
}

/// The last such line.
fn last_line_of(text: &str, name: &str) -> usize {
    let quoted = serde_json::Value::from(name).to_string();
    let lines = text.lines().enumerate();
    let found = lines.filter(|(_, line)| line.contains(&quoted)).last();
    found.map_or(1, |(index, _)| index + 1)
}

fn broken(path: &Path, line: usize, reason: &str) -> BrokerError {
    let advice = "repair it, or move it away to start without topics and limits";
    let what = format!("{}, line {line}", path.display());
    BrokerError::Io {
        what,
        source: io::Error::new(io::ErrorKind::InvalidData, format!("{reason}; {advice}")),
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
