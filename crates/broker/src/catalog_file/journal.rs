//! Contracts declared since the catalog was last written whole, a JSON line each.
//!
//! With many topics a catalog is long, and a contract must be durable before it is confirmed: it is appended here, and the
//! catalog takes it in by and by. Catalog and journal bear the same generation; a journal of another one is of before and
//! counts no more, so that one rename ends it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{OWNER_ONLY, broken, failed, sync_folder_of};
use crate::BrokerError;
use crate::stats::CatalogTopic;

/// Name of the journal inside the data folder.
pub const JOURNAL_NAME: &str = "srtm.contracts.jsonl";

/// The journal of one catalog.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    /// Open once something was appended to it.
    file: Option<File>,
}

/// The first line.
#[derive(Serialize, Deserialize)]
struct Header {
    generation: u64,
}

impl Journal {
    /// The one of the catalog in `data_path`.
    pub(super) fn within(data_path: &Path) -> Journal {
        Journal {
            path: data_path.join(JOURNAL_NAME),
            file: None,
        }
    }

    /// The contracts that belong to `generation` of the catalog, in the order in which they were declared. A last line without
    /// its end was not confirmed to anybody.
    ///
    /// # Errors
    /// [`BrokerError::Io`] for a file that cannot be read or is no journal, with its path, the line and what to do.
    pub(super) fn read(&self, generation: u64) -> Result<Vec<CatalogTopic>, BrokerError> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed("read the contracts", &self.path, error)),
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut lines = whole.lines().enumerate();
        let Some((_, header)) = lines.next() else {
            return Ok(Vec::new());
        };
        let header: Header = serde_json::from_str(header)
            .map_err(|error| broken(&self.path, 1, &error.to_string()))?;
        if header.generation != generation {
            return Ok(Vec::new());
        }
        let entries = lines.map(|(index, line)| {
            let unfit = |reason: String| broken(&self.path, index + 1, &reason);
            let entry: CatalogTopic =
                serde_json::from_str(line).map_err(|error| unfit(error.to_string()))?;
            let name = entry.name.parse::<wire::TopicName>();
            name.map_err(|error| unfit(error.to_string()))?;
            Ok(entry)
        });
        entries.collect()
    }

    /// Makes `entries` durable behind those that are there.
    ///
    /// # Errors
    /// [`BrokerError::Io`] naming the step and the path: the journal may hold any part of them, and is not to be appended to
    /// before the catalog was written.
    pub(super) fn append(
        &mut self,
        generation: u64,
        entries: &[CatalogTopic],
    ) -> Result<(), BrokerError> {
        let mut lines = Vec::new();
        let is_new = self.file.is_none();
        let written = (|| {
            if is_new {
                write_line(&mut lines, &Header { generation })?;
                let mut options = OpenOptions::new();
                let options = options.write(true).create(true).truncate(true);
                self.file = Some(options.mode(OWNER_ONLY).open(&self.path)?);
            }
            for entry in entries {
                write_line(&mut lines, entry)?;
            }
            let Some(file) = &mut self.file else {
                return Ok(());
            };
            if file.metadata()?.nlink() == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::NotFound,
                    "the file was removed",
                ));
            }
            file.write_all(&lines)?;
            file.sync_data()
        })();
        written.map_err(|source| failed("write the contract into", &self.path, source))?;
        match is_new {
            true => sync_folder_of(&self.path),
            false => Ok(()),
        }
    }

    /// Whether the catalog holds everything.
    pub(super) fn is_empty(&self) -> bool {
        self.file.is_none()
    }

    /// The catalog holds everything, under another generation.
    pub(super) fn end(&mut self) {
        self.file = None;
        // Left behind it counts no more.
        let _ = fs::remove_file(&self.path);
    }
}

fn write_line(lines: &mut Vec<u8>, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *lines, value)?;
    lines.push(b'\n');
    Ok(())
}
