//! The catalog on disk: topics, channels, pauses, limits and shares outlive a restart, messages do not.
//!
//! One JSON file in the data folder, written whole: to a temporary file, synced, then renamed over
//! the old one, so that a crash leaves either the old or the new catalog. Names stand inside the
//! file and never become paths. A file that cannot be read stops the start: it is the operator's,
//! and it is not overwritten before it was understood. Buckets start empty whatever the file says,
//! since it holds no tokens.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel::Share;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::handle::Kept;
use crate::stats::{Catalog, CatalogTopic};
use crate::{BrokerError, Handle, Operation};

/// Name of the file inside the data folder.
pub const FILE_NAME: &str = "srtm.catalog.json";
const LOCK_NAME: &str = "srtm.lock";
const FORMAT: u32 = 1;

/// Changes that follow each other this closely are written once.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Pause after a write that failed; the next one holds everything that changed meanwhile.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The catalog file of one broker, locked against a second one for as long as this lives.
#[derive(Debug)]
pub struct CatalogFile {
    path: PathBuf,
    temporary: PathBuf,
    /// What the file holds.
    written: Kept,
    _lock: File,
}

/// The file, field for field.
#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    topics: Vec<CatalogTopic>,
    /// Shares of their reactor's time, by topic.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    cpu_shares: BTreeMap<String, f64>,
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
        let written = match fs::read_to_string(&path) {
            Ok(text) => parse(&text).map_err(|(line, reason)| broken(&path, line, &reason))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kept::default(),
            Err(error) => return Err(failed("read the catalog", &path, error)),
        };
        let temporary = data_path.join(format!("{FILE_NAME}.new"));
        Ok(CatalogFile {
            path,
            temporary,
            written,
            _lock: lock,
        })
    }

    /// What the file holds.
    #[must_use]
    pub fn kept(&self) -> &Kept {
        &self.written
    }

    /// Makes the broker as the file says. A limit and a share are in force before their topic can be seen. A share that does
    /// not fit any more, for the broker has fewer threads than it had, is left out and said so.
    ///
    /// # Errors
    /// Those of [`Handle`].
    pub async fn restore(&self, handle: &Handle) -> Result<(), BrokerError> {
        for topic in &self.written.catalog.topics {
            // Names were checked when the file was read.
            let Ok(name) = topic.name.parse::<wire::TopicName>() else {
                continue;
            };
            if topic.limit.is_some() {
                handle.set_limit(name.clone(), topic.limit).await?;
            } else {
                handle.topic(name.clone(), Operation::Create).await?;
            }
            if let Some(&share) = self.written.cpu_shares.get(&topic.name) {
                match handle.set_cpu_share(name.clone(), Some(share)).await {
                    Err(BrokerError::Refused(reason)) => tracing::error!(
                        "topic {name} does not get its share {share} of a reactor's time back: {reason}"
                    ),
                    set => set?,
                }
            }
            if topic.paused {
                handle.topic(name.clone(), Operation::Pause).await?;
            }
            for channel in &topic.channels {
                let Ok(channel_name) = channel.name.parse::<wire::ChannelName>() else {
                    continue;
                };
                handle
                    .channel(name.clone(), channel_name.clone(), Operation::Create)
                    .await?;
                if channel.paused {
                    handle
                        .channel(name.clone(), channel_name, Operation::Pause)
                        .await?;
                }
            }
        }
        Ok(())
    }

    /// Writes every change of the broker's catalog until `stop` completes, and once more then.
    /// A write that fails is logged and tried again.
    pub async fn keep(mut self, handle: Handle, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        let mut stopping = false;
        let mut pause = DEBOUNCE;
        while !stopping {
            tokio::select! {
                () = &mut stop => stopping = true,
                () = handle.changed() => {}
                // A failed write is tried again without waiting for a change.
                () = sleep(pause), if pause == RETRY_PAUSE => {}
            }
            if !stopping && pause == DEBOUNCE {
                tokio::select! {
                    () = &mut stop => stopping = true,
                    () = sleep(DEBOUNCE) => {}
                }
            }
            pause = if self.save_from(&handle).await {
                DEBOUNCE
            } else {
                RETRY_PAUSE
            };
        }
    }

    /// Replaces the file unless it holds `kept` already.
    ///
    /// # Errors
    /// [`BrokerError::Io`] naming the step and the path.
    pub fn save(&mut self, kept: Kept) -> Result<(), BrokerError> {
        if kept == self.written {
            return Ok(());
        }
        let shares = kept.cpu_shares.iter();
        let document = Document {
            version: FORMAT,
            topics: kept.catalog.topics.clone(),
            cpu_shares: shares
                .map(|(topic, share)| (topic.clone(), share.as_f64()))
                .collect(),
        };
        let text = serde_json::to_string_pretty(&document)
            .map_err(|error| failed("render the catalog", &self.path, io::Error::other(error)))?;
        let mut file = File::create(&self.temporary)
            .map_err(|source| failed("create the file", &self.temporary, source))?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.write_all(b"\n"))
            .and_then(|()| file.sync_all())
            .map_err(|source| failed("write the file", &self.temporary, source))?;
        fs::rename(&self.temporary, &self.path)
            .map_err(|source| failed("replace the catalog", &self.path, source))?;
        // The new name is safe only when the folder is.
        let folder = self
            .path
            .parent()
            .map_or(Ok(()), |folder| File::open(folder)?.sync_all());
        folder.map_err(|source| failed("sync the folder of", &self.path, source))?;
        self.written = kept;
        Ok(())
    }

    async fn save_from(&mut self, handle: &Handle) -> bool {
        let saved = match handle.kept().await {
            // A catalog is small and changes seldom: the write may hold this thread for its moment.
            Ok(kept) => tokio::task::block_in_place(|| self.save(kept)),
            Err(error) => Err(error),
        };
        if let Err(error) = &saved {
            tracing::error!(%error, "the catalog is not saved");
        }
        saved.is_ok()
    }
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

/// The catalog in `text`, or the line and what is wrong there.
fn parse(text: &str) -> Result<Kept, (usize, String)> {
    let document: Document =
        serde_json::from_str(text).map_err(|error| (error.line(), error.to_string()))?;
    if document.version != FORMAT {
        return Err((
            1,
            format!(
                "version {} is not {FORMAT}, the one this broker reads",
                document.version
            ),
        ));
    }
    for topic in &document.topics {
        topic
            .name
            .parse::<wire::TopicName>()
            .map_err(|error| (line_of(text, &topic.name), error.to_string()))?;
        for channel in &topic.channels {
            let valid = channel.name.parse::<wire::ChannelName>();
            valid.map_err(|error| (line_of(text, &channel.name), error.to_string()))?;
        }
    }
    Ok(Kept {
        cpu_shares: shares(text, &document)?,
        catalog: Catalog {
            topics: document.topics,
        },
    })
}

fn shares(text: &str, document: &Document) -> Result<BTreeMap<String, Share>, (usize, String)> {
    let shares = document.cpu_shares.iter().map(|(name, &value)| {
        let broken = |reason: String| (last_line_of(text, name), reason);
        if !document.topics.iter().any(|topic| topic.name == *name) {
            return Err(broken(format!("cpu_shares: there is no topic {name}")));
        }
        let share = Share::new(value);
        let share = share.map_err(|error| broken(format!("cpu_shares: {name}: {error}")))?;
        Ok((name.clone(), share))
    });
    shares.collect()
}

/// The first line that holds `name` as a JSON string.
fn line_of(text: &str, name: &str) -> usize {
    let quoted = serde_json::Value::from(name).to_string();
    text.lines()
        .position(|line| line.contains(&quoted))
        .map_or(1, |index| index + 1)
}

/// The last such line: shares stand behind their topics.
fn last_line_of(text: &str, name: &str) -> usize {
    let quoted = serde_json::Value::from(name).to_string();
    let holds = text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.contains(&quoted));
    holds.last().map_or(1, |(index, _)| index + 1)
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
