//! The embedded store: one file, one writer, every commit durable before it returns.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition, TableError};
use serde_json::Value;

use super::{Change, Store, Table};
use crate::ControlError;

/// A store in one file.
#[derive(Debug)]
pub struct RedbStore {
    database: Database,
    path: PathBuf,
}

impl RedbStore {
    /// Opens the file, or makes it and the folders that lead to it.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] where another process has it open, where it is no store, or where the folder cannot be
    /// written; a file that is there is left as it is.
    pub fn open(path: &Path) -> Result<RedbStore, ControlError> {
        make_folder(path).map_err(ControlError::Unavailable)?;
        // Damage is found now, as a whole, and not by whoever reads later. It costs one reading of the file.
        let opened = Database::builder()
            .set_check_integrity_on_open(true)
            .create(path);
        let database = opened.map_err(|error| ControlError::Unavailable(explain(path, &error)))?;
        for_owner_alone(path).map_err(ControlError::Unavailable)?;
        Ok(RedbStore {
            database,
            path: path.to_owned(),
        })
    }

    fn failed(&self, what: &str, error: &dyn std::fmt::Display) -> ControlError {
        ControlError::Unavailable(format!("{what} {}: {error}", self.path.display()))
    }
}

impl Store for RedbStore {
    fn load(&self, table: Table) -> Result<Vec<(String, Value)>, ControlError> {
        let fail = |error: &dyn std::fmt::Display| self.failed("reading", error);
        let read = self.database.begin_read().map_err(|error| fail(&error))?;
        let records = match read.open_table(definition(table)) {
            Ok(records) => records,
            Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            Err(error) => return Err(fail(&error)),
        };
        let mut loaded = Vec::new();
        for record in records.iter().map_err(|error| fail(&error))? {
            let (key, value) = record.map_err(|error| fail(&error))?;
            let value = serde_json::from_slice(value.value()).map_err(|error| fail(&error))?;
            loaded.push((key.value().to_owned(), value));
        }
        Ok(loaded)
    }

    fn commit(&mut self, changes: Vec<Change>) -> Result<(), ControlError> {
        let fail = |error: &dyn std::fmt::Display| self.failed("writing", error);
        let write = self.database.begin_write().map_err(|error| fail(&error))?;
        for Change { table, key, value } in changes {
            let mut records = write
                .open_table(definition(table))
                .map_err(|error| fail(&error))?;
            match value {
                Some(value) => {
                    let bytes = serde_json::to_vec(&value).map_err(|error| fail(&error))?;
                    records
                        .insert(key.as_str(), bytes.as_slice())
                        .map_err(|error| fail(&error))?;
                }
                None => {
                    records.remove(key.as_str()).map_err(|error| fail(&error))?;
                }
            }
        }
        write.commit().map_err(|error| fail(&error))
    }
}

fn definition(table: Table) -> TableDefinition<'static, &'static str, &'static [u8]> {
    TableDefinition::new(match table {
        Table::Meta => "meta",
        Table::Topics => "topics",
        Table::Publishers => "publishers",
        Table::Brokers => "brokers",
        Table::Names => "names",
        Table::Channels => "channels",
        Table::Owed => "owed",
    })
}

fn make_folder(path: &Path) -> Result<(), String> {
    let Some(folder) = path.parent() else {
        return Ok(());
    };
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("the folder {} cannot be made: {error}", folder.display()))
}

/// It holds the key of gossip.
fn for_owner_alone(path: &Path) -> Result<(), String> {
    std::fs::set_permissions(path, Permissions::from_mode(0o600))
        .map_err(|error| format!("{} cannot be kept from others: {error}", path.display()))
}

fn explain(path: &Path, error: &DatabaseError) -> String {
    let path = path.display();
    match error {
        DatabaseError::DatabaseAlreadyOpen => format!(
            "{path} is open in another process; stop that controller or choose another --data-dir"
        ),
        DatabaseError::Storage(error) => format!(
            "{path} cannot be opened: {error}; if it is not a store of SRTM choose another --data-dir, \
             otherwise restore it from a copy"
        ),
        error => format!("{path} cannot be opened: {error}"),
    }
}

#[cfg(test)]
mod tests;
