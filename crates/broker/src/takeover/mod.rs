//! nsqd's data folder, taken over once: what its queues have on disk is put into ours, and its files are moved aside.
//!
//! What is there at any instant is whole, whenever a crash comes:
//!
//! 1. Messages are copied into segments of a folder of their own below that of ours (`STAGED`), and synced. nsqd's files are as they were,
//!    and a next start begins anew.
//! 2. The folder is renamed (`TAKEN`): from here on the segments count and nsqd's files do not.
//! 3. nsqd's files are moved to [`ASIDE`], the segments to ours. A next start goes on with that before it does anything else.

mod copying;
mod found;
mod moving;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use disk::{Folder, Logs, LogsConfig, Untouched};

use crate::backlog::{BacklogConfig, LOGS_FOLDER_NAME};
use crate::catalog_file::CatalogFile;
use crate::stats::Catalog;
use crate::{BrokerError, sys};
use found::Found;

/// Where nsqd's files are moved to, in the data folder.
pub const ASIDE: &str = "nsqd-taken";
/// Segments that do not count yet, in the folder of ours.
const STAGED: &str = "nsqd.staged";
/// And those that do.
const TAKEN: &str = "nsqd.taken";

/// What was taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// Messages.
    pub messages: usize,
    /// Queues of topics and channels that had some.
    pub queues: usize,
    /// Topics that `nsqd.dat` or a queue named.
    pub topics: usize,
    /// Places of files that could not be read; each is logged.
    pub damages: usize,
}

/// Where everything is.
#[derive(Debug)]
struct Places {
    /// nsqd's and ours.
    data: PathBuf,
    /// Our segments.
    segments: PathBuf,
}

impl Places {
    fn staged(&self) -> PathBuf {
        self.segments.join(STAGED)
    }

    fn taken(&self) -> PathBuf {
        self.segments.join(TAKEN)
    }

    fn aside(&self) -> PathBuf {
        self.data.join(ASIDE)
    }
}

/// Takes over what nsqd has left in the folder of `catalog`, if it has left anything, before queues are opened. `backlog` says how
/// messages are kept on disk.
///
/// # Errors
/// [`BrokerError::Io`] and [`BrokerError::Disk`] with the file and what to do: `nsqd.dat` cannot be read, there is no room, or messages are
/// to be taken over and none are to be kept on disk. nsqd's files are as they were then, or the next start goes on.
pub fn take_over(
    data_path: &Path,
    catalog: &mut CatalogFile,
    backlog: Option<&BacklogConfig>,
) -> Result<Option<TakenOver>, BrokerError> {
    let found = Found::within(data_path)?;
    let Some(config) = backlog else {
        return match found.has_messages() {
            true => Err(not_kept(data_path)),
            false => Ok(None),
        };
    };
    let places = Places {
        data: data_path.to_owned(),
        segments: config.folder.clone(),
    };
    if places.taken().exists() {
        tracing::info!("going on with taking over nsqd's messages");
        moving::finish(&places, &found)?;
        return Ok(None);
    }
    if found.is_empty() {
        return Ok(None);
    }
    refuse_durable(&places, &found, catalog.catalog())?;
    let topics = found.topics()?;
    let seed = sys::random().map_err(io_error("drawing a number for files"))?;
    let mut taken = copying::copy(&places, &found, config, u64::from_le_bytes(seed))?;
    taken.topics = topics.len();
    // Topics without messages do no harm if nsqd's are not taken over after all.
    catalog.save(found::joined(catalog.catalog(), topics))?;
    moving::commit(&places)?;
    moving::finish(&places, &found)?;
    let TakenOver {
        messages,
        queues,
        topics,
        ..
    } = taken;
    let aside = places.aside();
    tracing::info!(
        "took over {topics} topics from nsqd, with {messages} messages of {queues} queues; its files are in {} now",
        aside.display()
    );
    Ok(Some(taken))
}

/// What a durable topic has is in its log, and nothing is put into that from elsewhere: its segments would count for nothing.
fn refuse_durable(places: &Places, found: &Found, catalog: &Catalog) -> Result<(), BrokerError> {
    let declared = catalog.topics.iter();
    let declared = declared.filter(|topic| !topic.contract.durability.is_memory());
    let mut durable: BTreeSet<String> = declared.map(|topic| topic.name.clone()).collect();
    let logs = places.segments.join(LOGS_FOLDER_NAME);
    if logs.exists() {
        let config = LogsConfig {
            file_bytes_max: u64::MAX,
            bytes_max: u64::MAX,
        };
        // Nothing is written, so the seed is of no use.
        let (_, opened) = Logs::open(Untouched(Folder::open(&logs)?), config, 0)?;
        durable.extend(opened.topics.iter().map(|log| log.topic.to_string()));
    }
    let with_messages = found.queues.iter();
    let mut with_messages = with_messages.filter(|(_, files)| !files.messages.is_empty());
    let refused = with_messages.find(|(owner, _)| durable.contains(owner.topic.as_str()));
    let Some((owner, _)) = refused else {
        return Ok(());
    };
    let topic = &owner.topic;
    let reason = format!(
        "topic {topic} is durable here, and nsqd has left messages of it: move {topic}.diskqueue.* and {topic}:*.diskqueue.* away to \
         start, or declare it memory before nsqd's files come here"
    );
    Err(BrokerError::Io {
        what: format!("take over {}", places.data.display()),
        source: io::Error::other(reason),
    })
}

fn not_kept(data_path: &Path) -> BrokerError {
    let reason = "nsqd has left messages here, which need a place on disk: allow a --disk-budget, or move nsqd's files away to start \
                  without them";
    BrokerError::Io {
        what: format!("take over {}", data_path.display()),
        source: io::Error::other(reason),
    }
}

fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> BrokerError {
    let what = what.into();
    move |source| BrokerError::Io { what, source }
}

#[cfg(test)]
mod tests;
