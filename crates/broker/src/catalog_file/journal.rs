//! Contracts declared since the catalog was last written whole, one JSON line each.
//!
//! With many topics the catalog is long, and a contract must be durable before it is confirmed. So
//! it is appended here first, and the catalog takes it in later. Catalog and journal carry a
//! generation number; a journal with another number is outdated and ignored, so a single rename
//! ends it.

use std::io;

use serde::{Deserialize, Serialize};

use super::{Volume, VolumeFile, broken, failed};
use crate::BrokerError;
use crate::stats::CatalogTopic;

/// Name of the journal inside the data folder.
pub const JOURNAL_NAME: &str = "srtm.contracts.jsonl";

/// The journal of one catalog: its file, once something was appended to it.
#[derive(Debug)]
pub(super) struct Journal<V: Volume>(Option<V::File>);

/// The first line.
#[derive(Serialize, Deserialize)]
struct Header {
    generation: u64,
}

/// The contracts that belong to `generation` of the catalog, in the order in which they were declared. A last line without
/// its end was not confirmed to anybody.
///
/// # Errors
/// [`BrokerError::Io`] for a file that cannot be read or is no journal, with its path, the line and what to do.
pub(super) fn read(
    volume: &impl Volume,
    generation: u64,
) -> Result<Vec<CatalogTopic>, BrokerError> {
    let path = volume.path(JOURNAL_NAME);
    let text = match volume.read(JOURNAL_NAME) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("read the contracts", &path, error)),
    };
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = whole.lines().enumerate();
    let Some((_, header)) = lines.next() else {
        return Ok(Vec::new());
    };
    let header: Header =
        serde_json::from_str(header).map_err(|error| broken(&path, 1, &error.to_string()))?;
    if header.generation != generation {
        return Ok(Vec::new());
    }
    let entries = lines.map(|(index, line)| {
        let unfit = |reason: String| broken(&path, index + 1, &reason);
        let entry: CatalogTopic =
            serde_json::from_str(line).map_err(|error| unfit(error.to_string()))?;
        let name = entry.name.parse::<wire::TopicName>();
        name.map_err(|error| unfit(error.to_string()))?;
        Ok(entry)
    });
    entries.collect()
}

impl<V: Volume> Default for Journal<V> {
    fn default() -> Journal<V> {
        Journal(None)
    }
}

impl<V: Volume> Journal<V> {
    /// Makes `entries` durable behind those that are there.
    ///
    /// # Errors
    /// [`BrokerError::Io`] naming the step and the path: the journal may hold any part of them, and is not to be appended to
    /// before the catalog was written.
    pub(super) fn append(
        &mut self,
        volume: &mut V,
        generation: u64,
        entries: &[CatalogTopic],
    ) -> Result<(), BrokerError> {
        let path = volume.path(JOURNAL_NAME);
        let mut lines = Vec::new();
        let is_new = self.0.is_none();
        let written = (|| {
            if is_new {
                write_line(&mut lines, &Header { generation })?;
                self.0 = Some(volume.create(JOURNAL_NAME)?);
            }
            for entry in entries {
                write_line(&mut lines, entry)?;
            }
            let Some(file) = &mut self.0 else {
                return Ok(());
            };
            if file.is_removed()? {
                return Err(io::Error::new(
                    io::ErrorKind::NotFound,
                    "the file was removed",
                ));
            }
            file.append(&lines)?;
            file.sync()
        })();
        written.map_err(|source| failed("write the contract into", &path, source))?;
        let named = match is_new {
            true => volume.sync(),
            false => Ok(()),
        };
        named.map_err(|source| failed("sync the folder of", &path, source))
    }

    /// Whether the catalog holds everything.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The catalog holds everything, under another generation.
    pub(super) fn end(&mut self, volume: &mut V) {
        self.0 = None;
        // Left behind it counts no more.
        let _ = volume.remove(JOURNAL_NAME);
    }
}

fn write_line(lines: &mut Vec<u8>, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *lines, value)?;
    lines.push(b'\n');
    Ok(())
}
