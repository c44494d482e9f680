//! The embedded store: one file, one writer, every commit durable before it returns.

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
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] where another process has it open, where it is no store, or where the folder cannot be
    /// written; a file that is there is left as it is.
    pub fn open(path: &Path) -> Result<RedbStore, ControlError> {
        let opened = Database::create(path);
        let database = opened.map_err(|error| ControlError::Unavailable(explain(path, &error)))?;
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
    })
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
mod tests {
    use serde_json::json;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("srtm-store-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        folder
    }

    fn change(key: &str, value: Option<Value>) -> Change {
        Change {
            table: Table::Topics,
            key: key.to_owned(),
            value,
        }
    }

    #[test]
    fn what_was_committed_is_there_after_reopening() {
        let folder = folder("reopen");
        let path = folder.join("controller.redb");
        let mut store = RedbStore::open(&path).expect("a new store");
        assert_eq!(store.load(Table::Topics), Ok(Vec::new()));
        let first = vec![
            change("b", Some(json!({"x": 1}))),
            change("a", Some(json!([2]))),
            change("c", Some(json!(3))),
        ];
        store.commit(first).expect("room");
        store.commit(vec![change("c", None)]).expect("room");
        let busy = RedbStore::open(&path).expect_err("open already");
        assert!(busy.to_string().contains("another process"), "{busy}");
        drop(store);
        let store = RedbStore::open(&path).expect("an old store");
        let expected = vec![
            (String::from("a"), json!([2])),
            (String::from("b"), json!({"x": 1})),
        ];
        assert_eq!(store.load(Table::Topics), Ok(expected));
        assert_eq!(store.load(Table::Brokers), Ok(Vec::new()));
        std::fs::remove_dir_all(folder).expect("ours");
    }

    #[test]
    fn a_foreign_file_is_refused_and_kept() {
        let folder = folder("foreign");
        let path = folder.join("controller.redb");
        let foreign = b"these are not the records that you are looking for".repeat(100);
        std::fs::write(&path, &foreign).expect("ours");
        let error = RedbStore::open(&path).expect_err("no store");
        assert!(
            error
                .to_string()
                .contains("controller.redb cannot be opened"),
            "{error}"
        );
        assert_eq!(std::fs::read(&path).expect("still there"), foreign);
        let nowhere = RedbStore::open(&folder.join("no/such/folder")).expect_err("no folder");
        assert!(
            nowhere.to_string().contains("cannot be opened"),
            "{nowhere}"
        );
        std::fs::remove_dir_all(folder).expect("ours");
    }
}
