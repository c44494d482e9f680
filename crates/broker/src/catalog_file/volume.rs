//! The files below a catalog: the operations required of a file system, and the folder that
//! provides them.
//!
//! Content is safe once its file is synced, a name once its folder is. Before that a crash may
//! leave the old or the new state, and of appended bytes any prefix.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::failed;
use crate::BrokerError;

const LOCK_NAME: &str = "srtm.lock";
/// Who may read and write the files: their owner.
const OWNER_ONLY: u32 = 0o600;

/// The files of one data folder.
pub trait Volume: fmt::Debug {
    /// One that was made here.
    type File: VolumeFile;

    /// Where a file of that name is, for those who are to mend it.
    fn path(&self, name: &str) -> PathBuf;

    /// What is in a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] where there is none, and the system's.
    fn read(&self, name: &str) -> io::Result<String>;

    /// Makes a file with nothing in it, in place of one that is there.
    ///
    /// # Errors
    /// The system's.
    fn create(&mut self, name: &str) -> io::Result<Self::File>;

    /// Puts a file in the place of another one.
    ///
    /// # Errors
    /// The system's.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    fn remove(&mut self, name: &str) -> io::Result<()>;

    /// Makes all names safe.
    ///
    /// # Errors
    /// The system's.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file that is written.
pub trait VolumeFile: fmt::Debug {
    /// Writes at its end.
    ///
    /// # Errors
    /// The system's; a part may be written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes what was written safe.
    ///
    /// # Errors
    /// The system's.
    fn sync(&mut self) -> io::Result<()>;

    /// Whether it has no name any more.
    ///
    /// # Errors
    /// The system's.
    fn is_removed(&self) -> io::Result<bool>;
}

/// A folder of the file system, locked against a second broker for as long as this lives.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    _locks: [File; 2],
}

impl DataFolder {
    /// Locks the folder, which is made unless it exists, against other brokers and against nsqd.
    ///
    /// # Errors
    /// [`BrokerError::Io`] when it is not usable or in use.
    pub fn open(path: &Path) -> Result<DataFolder, BrokerError> {
        fs::create_dir_all(path).map_err(|source| failed("make the data folder", path, source))?;
        Ok(DataFolder {
            path: path.to_path_buf(),
            _locks: [lock(path)?, lock_as_nsqd(path)?],
        })
    }
}

impl Volume for DataFolder {
    type File = File;

    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn read(&self, name: &str) -> io::Result<String> {
        fs::read_to_string(self.path(name))
    }

    fn create(&mut self, name: &str) -> io::Result<File> {
        let path = self.path(name);
        // One that a crash has left may be open to others.
        let _ = fs::remove_file(&path);
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true);
        options.mode(OWNER_ONLY).open(path)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn sync(&mut self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

impl VolumeFile for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }

    fn is_removed(&self) -> io::Result<bool> {
        Ok(self.metadata()?.nlink() == 0)
    }
}

fn lock(data_path: &Path) -> Result<File, BrokerError> {
    let path = data_path.join(LOCK_NAME);
    let file = File::create(&path).map_err(|source| failed("create the lock", &path, source))?;
    let reason = "another broker uses this data folder; give each broker its own";
    locked(file, data_path, reason)
}

/// nsqd locks the folder itself: neither starts where the other one runs.
fn lock_as_nsqd(data_path: &Path) -> Result<File, BrokerError> {
    let folder = File::open(data_path).map_err(|source| failed("open", data_path, source))?;
    let reason = "nsqd uses this data folder; stop it, or use another folder";
    locked(folder, data_path, reason)
}

fn locked(file: File, data_path: &Path, reason: &'static str) -> Result<File, BrokerError> {
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            let busy = io::Error::new(io::ErrorKind::ResourceBusy, reason);
            Err(failed("lock", data_path, busy))
        }
        Err(fs::TryLockError::Error(source)) => Err(failed("lock", data_path, source)),
    }
}
