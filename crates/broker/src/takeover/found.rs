//! What nsqd has left in a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use disk::{Owner, QueueFile};
use serde::Deserialize;
use wire::{ChannelName, TopicName};

use super::io_error;
use crate::BrokerError;
use crate::stats::{Catalog, CatalogChannel, CatalogTopic};

/// Topics and channels with their pauses.
const METADATA: &str = "nsqd.dat";

/// nsqd's files in a folder.
#[derive(Debug, Default)]
pub(super) struct Found {
    folder: PathBuf,
    /// All of them, those that are not read included.
    pub(super) names: Vec<String>,
    /// Queues with their files of messages, by number.
    pub(super) queues: BTreeMap<Owner, QueueFiles>,
}

/// The files of a queue.
#[derive(Debug, Default)]
pub(super) struct QueueFiles {
    /// Where reading goes on.
    pub(super) meta: Option<String>,
    /// Messages.
    pub(super) messages: BTreeMap<u64, String>,
}

/// `nsqd.dat`; a list without entries is `null`.
#[derive(Deserialize)]
struct Metadata {
    topics: Option<Vec<MetadataTopic>>,
}

#[derive(Deserialize)]
struct MetadataTopic {
    name: String,
    #[serde(default)]
    paused: bool,
    channels: Option<Vec<MetadataChannel>>,
}

#[derive(Deserialize)]
struct MetadataChannel {
    name: String,
    #[serde(default)]
    paused: bool,
}

impl Found {
    /// Looks at a folder.
    ///
    /// # Errors
    /// [`BrokerError::Io`] where it cannot be listed.
    pub(super) fn within(folder: &Path) -> Result<Found, BrokerError> {
        let failed = || io_error(format!("list {}", folder.display()));
        let mut found = Found {
            folder: folder.to_owned(),
            ..Found::default()
        };
        for entry in std::fs::read_dir(folder).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            let is_file = entry.file_type().map_err(failed())?.is_file();
            // nsqd's names are text.
            if let (true, Ok(name)) = (is_file, entry.file_name().into_string()) {
                found.note(name);
            }
        }
        Ok(found)
    }

    fn note(&mut self, name: String) {
        match QueueFile::of_name(&name) {
            None if name == METADATA => {}
            None => return,
            Some(QueueFile::Other) => {
                tracing::warn!("{name} is a file of nsqd's that has nothing to be taken over");
            }
            Some(QueueFile::Meta(owner)) => {
                self.queues.entry(owner).or_default().meta = Some(name.clone());
            }
            Some(QueueFile::Messages(owner, number)) => {
                let files = self.queues.entry(owner).or_default();
                files.messages.insert(number, name.clone());
            }
        }
        self.names.push(name);
    }

    /// Whether nsqd has left nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether there may be messages.
    pub(super) fn has_messages(&self) -> bool {
        self.queues.values().any(|files| !files.messages.is_empty())
    }

    /// Where a file is.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Topics and channels that are named: by `nsqd.dat`, and by queues.
    ///
    /// # Errors
    /// [`BrokerError::Io`] where `nsqd.dat` cannot be read.
    pub(super) fn topics(&self) -> Result<Vec<CatalogTopic>, BrokerError> {
        let mut topics = match self.names.iter().any(|name| name == METADATA) {
            true => read_metadata(&self.path(METADATA))?,
            false => Vec::new(),
        };
        for owner in self.queues.keys() {
            let channel = owner.channel.as_ref();
            join(&mut topics, &lone(&owner.topic, channel));
        }
        Ok(topics)
    }
}

fn lone(topic: &TopicName, channel: Option<&ChannelName>) -> CatalogTopic {
    let channels = channel.map(|name| CatalogChannel {
        name: name.to_string(),
        paused: false,
    });
    CatalogTopic {
        name: topic.to_string(),
        channels: channels.into_iter().collect(),
        ..CatalogTopic::default()
    }
}

fn read_metadata(path: &Path) -> Result<Vec<CatalogTopic>, BrokerError> {
    let advice = "repair it, or move it away to take over only what has messages";
    let failed = |reason: String| {
        let what = format!("read {}", path.display());
        io_error(what)(std::io::Error::other(format!("{reason}; {advice}")))
    };
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let metadata: Metadata =
        serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    let mut topics = Vec::new();
    for topic in metadata.topics.into_iter().flatten() {
        let Ok(name) = topic.name.parse::<TopicName>() else {
            tracing::warn!("{METADATA}: topic {:?} has no valid name", topic.name);
            continue;
        };
        let channels = topic.channels.into_iter().flatten().filter_map(|channel| {
            let name = channel.name.parse::<ChannelName>().ok()?;
            (!name.is_ephemeral()).then(|| CatalogChannel {
                name: name.to_string(),
                paused: channel.paused,
            })
        });
        if !name.is_ephemeral() {
            let topic = CatalogTopic {
                name: name.to_string(),
                paused: topic.paused,
                channels: channels.collect(),
                ..CatalogTopic::default()
            };
            join(&mut topics, &topic);
        }
    }
    Ok(topics)
}

/// A catalog with further topics and channels. What it has already stays as it is.
pub(super) fn joined(catalog: &Catalog, topics: Vec<CatalogTopic>) -> Catalog {
    let mut all = catalog.topics.clone();
    for topic in &topics {
        join(&mut all, topic);
    }
    Catalog { topics: all }
}

/// Adds a topic, or its channels where it is known.
fn join(topics: &mut Vec<CatalogTopic>, topic: &CatalogTopic) {
    let at = match topics.binary_search_by(|known| known.name.cmp(&topic.name)) {
        Ok(at) => at,
        Err(at) => {
            let new = CatalogTopic {
                channels: Vec::new(),
                ..topic.clone()
            };
            topics.insert(at, new);
            at
        }
    };
    let channels = &mut topics[at].channels;
    let known: BTreeSet<String> = channels.iter().map(|known| known.name.clone()).collect();
    let new = topic.channels.iter();
    channels.extend(new.filter(|each| !known.contains(&each.name)).cloned());
    channels.sort_by(|a, b| a.name.cmp(&b.name));
}
