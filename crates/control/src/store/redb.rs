//! The embedded store: one file, one writer, every commit durable before it returns.
//!
//! A new file gets its name once it is whole, so an empty or cut file was damaged and is never
//! begun anew. Only its owner may read it: it holds keys. After a failed write the file is closed;
//! the next commit opens it again. Opening writes too: a file that cannot be opened for want of
//! room is read into memory until it can. While it is closed it stays locked, so that no other
//! controller takes it over.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use redb::backends::{FileBackend, InMemoryBackend};
use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, StorageBackend,
    TableDefinition, TableError,
};
use serde_json::Value;

use super::{Change, Store, Table};
use crate::ControlError;

/// Who may read and write the file: its owner.
const OWNER_ONLY: u32 = 0o600;

/// Errors of a file that is damaged or not a store.
const DAMAGED: [io::ErrorKind; 2] = [io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof];

/// Errors for want of room.
const NO_ROOM: [io::ErrorKind; 3] = [
    io::ErrorKind::StorageFull,
    io::ErrorKind::QuotaExceeded,
    io::ErrorKind::ReadOnlyFilesystem,
];

/// Opens a file that is a store.
type Opener = Box<dyn Fn(&Path) -> Result<Database, DatabaseError> + Send>;

/// A store in one file.
pub struct RedbStore {
    /// None since a write failed.
    database: Option<Database>,
    /// The content of the file, while it could not be opened yet.
    image: Option<Database>,
    /// Keeps others away while no database is open, which would do that itself.
    guard: Option<File>,
    path: PathBuf,
    opener: Opener,
}

impl RedbStore {
    /// Opens the file, or makes it and the folders that lead to it.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] where another process has it open, where it is no store or a damaged one, an empty one
    /// too, or where the folder cannot be written; a file that is there is left as it is.
    pub fn open(path: &Path) -> Result<RedbStore, ControlError> {
        make_folder(path).map_err(ControlError::Unavailable)?;
        match path.try_exists() {
            Ok(true) => protect(path),
            Ok(false) => make(path),
            Err(error) => Err(DatabaseError::from(error)),
        }
        .map_err(|error| refused(path, &error))?;
        RedbStore::open_with(path, Box::new(|path| builder().open(path)))
    }

    fn open_with(path: &Path, opener: Opener) -> Result<RedbStore, ControlError> {
        let (database, image, guard) = match opener(path) {
            Err(error) if lacks_room(&error) => {
                tracing::error!("{}", refused(path, &error));
                let guarded = guard(path).and_then(|guard| Ok((image(path)?, guard)));
                let (image, guard) = guarded.map_err(|error| refused(path, &error))?;
                (None, Some(image), Some(guard))
            }
            opened => {
                let database = opened.map_err(|error| refused(path, &error))?;
                (Some(database), None, None)
            }
        };
        Ok(RedbStore {
            database,
            image,
            guard,
            path: path.to_owned(),
            opener,
        })
    }

    /// The database; opened, where the file is closed.
    fn reopened(&mut self) -> Result<Database, ControlError> {
        if let Some(database) = self.database.take() {
            return Ok(database);
        }
        // It would keep the database away, too.
        self.guard = None;
        let opened = (self.opener)(&self.path);
        if opened.is_err() {
            self.close();
        }
        opened.map_err(|error| refused(&self.path, &error))
    }

    /// No database has the file open: nobody else is to open it. Another process that was quicker keeps it, and then every commit says so.
    fn close(&mut self) {
        self.guard = guard(&self.path).ok();
    }

    fn failed(&self, what: &str, error: &redb::Error) -> ControlError {
        ControlError::Unavailable(format!("{what} {}: {error}", self.path.display()))
    }
}

impl std::fmt::Debug for RedbStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedbStore")
            .field("database", &self.database)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Store for RedbStore {
    fn load(&self, table: Table) -> Result<Vec<(String, Value)>, ControlError> {
        let database = self.database.as_ref().or(self.image.as_ref());
        let database = database.ok_or(redb::Error::PreviousIo);
        let loaded = database.and_then(|database| read(database, table));
        loaded.map_err(|error| self.failed("reading", &error))
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), ControlError> {
        let database = self.reopened()?;
        self.image = None;
        let written = write(&database, changes);
        let is_usable = match &written {
            Ok(()) => true,
            Err(error) => !matches!(error, redb::Error::Io(_) | redb::Error::PreviousIo),
        };
        // After a failure of its file a database refuses everything, until it is opened anew.
        match is_usable {
            true => self.database = Some(database),
            false => {
                drop(database);
                self.close();
            }
        }
        written.map_err(|error| self.failed("writing", &error))
    }
}

fn read(database: &Database, table: Table) -> Result<Vec<(String, Value)>, redb::Error> {
    let read = database.begin_read()?;
    let records = match read.open_table(definition(table)) {
        Ok(records) => records,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut loaded = Vec::new();
    for record in records.iter()? {
        let (key, value) = record?;
        let value = serde_json::from_slice(value.value())
            .map_err(|error| redb::Error::Corrupted(error.to_string()))?;
        loaded.push((key.value().to_owned(), value));
    }
    Ok(loaded)
}

fn write(database: &Database, changes: &[Change]) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    for Change { table, key, value } in changes {
        let mut records = write.open_table(definition(*table))?;
        match value {
            Some(value) => {
                records.insert(key.as_str(), value.to_string().as_bytes())?;
            }
            None => {
                records.remove(key.as_str())?;
            }
        }
    }
    Ok(write.commit()?)
}

/// Damage is found when a file is opened, as a whole, and not by whoever reads later. It costs one reading of the file.
fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_check_integrity_on_open(true);
    builder
}

/// The content of a file, in memory.
fn image(path: &Path) -> Result<Database, DatabaseError> {
    let bytes = fs::read(path)?;
    let memory = InMemoryBackend::new();
    memory.set_len(bytes.len() as u64)?;
    memory.write(0, &bytes)?;
    builder().create_with_backend(memory)
}

/// Locks a file that no database has open, for as long as it is held; as a database does.
fn guard(path: &Path) -> Result<File, DatabaseError> {
    let file = File::open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(DatabaseError::DatabaseAlreadyOpen),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

fn lacks_room(error: &DatabaseError) -> bool {
    matches!(error, DatabaseError::Storage(redb::StorageError::Io(error)) if NO_ROOM.contains(&error.kind()))
}

/// Makes a store beside its place and moves it there once it is whole.
fn make(path: &Path) -> Result<(), DatabaseError> {
    let mut unfinished = path.to_owned().into_os_string();
    unfinished.push(".new");
    let unfinished = PathBuf::from(unfinished);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(OWNER_ONLY)
        .open(&unfinished)?;
    drop(builder().create_with_backend(FileBackend::new(file)?)?);
    fs::rename(&unfinished, path)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    Ok(File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?)
}

/// Takes a file that others may read away from them.
fn protect(path: &Path) -> Result<(), DatabaseError> {
    let is_open_to_others = fs::metadata(path)?.permissions().mode() & 0o077 != 0;
    match is_open_to_others {
        true => Ok(fs::set_permissions(
            path,
            Permissions::from_mode(OWNER_ONLY),
        )?),
        false => Ok(()),
    }
}

fn definition(table: Table) -> TableDefinition<'static, &'static str, &'static [u8]> {
    TableDefinition::new(match table {
        Table::Meta => "meta",
        Table::Topics => "topics",
        Table::Shares => "shares",
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

fn refused(path: &Path, error: &DatabaseError) -> ControlError {
    let shown = path.display();
    let length = fs::metadata(path).map(|file| file.len());
    ControlError::Unavailable(match error {
        DatabaseError::DatabaseAlreadyOpen => format!(
            "{shown} is open in another process; stop that controller or choose another --data-dir"
        ),
        DatabaseError::Storage(redb::StorageError::Io(error))
            if !DAMAGED.contains(&error.kind()) =>
        {
            format!("{shown} cannot be opened: {error}; make room, or let it be read and written")
        }
        _ if matches!(length, Ok(0)) => format!(
            "{shown} cannot be opened: it is empty, so what it held is lost; restore it from a copy, or move it away to \
             begin without contracts and publishers"
        ),
        error => format!(
            "{shown} cannot be opened: {error}; if it is not a store of SRTM choose another --data-dir, otherwise restore \
             it from a copy, or move it away to begin without contracts and publishers"
        ),
    })
}

#[cfg(test)]
mod tests;
