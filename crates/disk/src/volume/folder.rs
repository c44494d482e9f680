//! A folder of the system, locked against a second process.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::Volume;
use super::syncers::Syncers;
use crate::DiskError;

/// The file that a process holds locked while it has the folder. It stays.
pub const LOCK_NAME: &str = "lock";

/// Messages are their owner's business.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// Files that are kept open at most.
const OPEN_MAX: usize = 32;

/// A folder of this process's own, as long as this lives.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Files that were used last, the latest at the end.
    open: Vec<(String, File)>,
    /// Started when several files are to be synced at once.
    syncers: Option<Syncers>,
    /// What became of files that were synced ahead, until somebody asks.
    ahead: HashMap<String, io::Result<()>>,
    _lock: File,
}

impl Folder {
    /// Makes the folder if need be and takes it for this process.
    ///
    /// # Errors
    /// [`DiskError::InUse`] where another process has it, [`DiskError::Io`] where it cannot be made or locked.
    pub fn open(path: &Path) -> Result<Folder, DiskError> {
        let shown = path.display().to_string();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(FOLDER_MODE);
        builder
            .create(path)
            .map_err(DiskError::io("make the folder", &shown))?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(path.join(LOCK_NAME))
            .map_err(DiskError::io("open the lock of", &shown))?;
        match lock.try_lock() {
            Ok(()) => Ok(Folder {
                path: path.to_owned(),
                open: Vec::new(),
                syncers: None,
                ahead: HashMap::new(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(DiskError::InUse(shown)),
            Err(TryLockError::Error(source)) => Err(DiskError::io("lock", &shown)(source)),
        }
    }

    fn file(&mut self, name: &str) -> io::Result<&File> {
        let known = self.open.iter().position(|(known, _)| known == name);
        let entry = match known {
            Some(at) => self.open.remove(at),
            None => {
                let mut options = OpenOptions::new();
                let file = options.read(true).write(true).open(self.path.join(name))?;
                (name.to_owned(), file)
            }
        };
        Ok(self.keep_open(entry))
    }

    fn keep_open(&mut self, entry: (String, File)) -> &File {
        if self.open.len() >= OPEN_MAX {
            self.open.remove(0);
        }
        self.open.push(entry);
        &self.open[self.open.len() - 1].1
    }

    /// Something is written to a file: that it was synced means no more. That it could not be is kept.
    fn touch(&mut self, name: &str) {
        if let Some(Ok(())) = self.ahead.get(name) {
            self.ahead.remove(name);
        }
    }

    fn close(&mut self, name: &str) {
        self.open.retain(|(known, _)| known != name);
    }
}

impl Volume for Folder {
    fn create(&mut self, name: &str) -> io::Result<()> {
        self.close(name);
        self.ahead.remove(name);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(true);
        let file = options.mode(FILE_MODE).open(self.path.join(name))?;
        self.keep_open((name.to_owned(), file));
        Ok(())
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.touch(name);
        self.file(name)?.write_all_at(bytes, offset)
    }

    fn read_at(&mut self, name: &str, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let file = self.file(name)?;
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match file.read_at(&mut bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    fn length(&mut self, name: &str) -> io::Result<u64> {
        Ok(self.file(name)?.metadata()?.len())
    }

    fn truncate(&mut self, name: &str, length: u64) -> io::Result<()> {
        self.touch(name);
        self.file(name)?.set_len(length)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        match self.ahead.remove(name) {
            Some(result) => result,
            None => self.file(name)?.sync_data(),
        }
    }

    fn sync_ahead(&mut self, names: &[String]) {
        if self.syncers.is_none() {
            self.syncers = Syncers::start().ok();
        }
        let files = names
            .iter()
            .map(|name| Some((name, self.file(name).ok()?.try_clone().ok()?)));
        // Those that cannot be opened are not synced here, and whoever syncs them hears why.
        let (names, files): (Vec<&String>, Vec<File>) =
            files.collect::<Vec<_>>().into_iter().flatten().unzip();
        let Some(syncers) = &self.syncers else { return };
        let results = syncers.sync(files);
        self.ahead.extend(names.into_iter().cloned().zip(results));
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.close(name);
        self.ahead.remove(name);
        fs::remove_file(self.path.join(name))
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            // Other names are nobody's here.
            names.extend(entry?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_synced_ahead_counts_until_something_is_written() {
        let path = std::env::temp_dir().join(format!("srtm-folder-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        let mut folder = Folder::open(&path).expect("a folder");
        let names = ["a", "b", "c", "none"].map(String::from);
        for name in &names[..3] {
            folder.create(name).expect("made");
            folder.write_at(name, 0, b"x").expect("written");
        }
        folder.sync_ahead(&names);
        let synced = |folder: &Folder| {
            let mut synced: Vec<_> = folder.ahead.keys().cloned().collect();
            synced.sort();
            synced.concat()
        };
        assert_eq!(synced(&folder), "abc");
        folder.write_at("a", 1, b"y").expect("written");
        folder.sync("b").expect("synced ahead");
        assert_eq!(synced(&folder), "c");
        folder.remove("c").expect("removed");
        assert_eq!(synced(&folder), "");
        folder.sync("a").expect("synced");
        assert!(folder.sync("none").is_err());
        // A failure is not forgotten because something was written after it: what came before may be lost.
        let failed = Err(io::Error::other("the disk"));
        folder.ahead.insert("a".to_owned(), failed);
        folder.write_at("a", 2, b"z").expect("written");
        assert!(folder.sync("a").is_err());
        assert!(folder.sync("a").is_ok(), "told once");
        fs::remove_dir_all(&path).expect("it was there");
    }
}
