//! A broker's data folder. A crash takes what was not synced, and sometimes nothing can be written.
//! The broker's identity is there too, and never lost.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker::catalog_file::{Volume, VolumeFile};

use crate::chance::Chance;

/// The folder of one place; outlives its processes.
#[derive(Clone, Debug)]
pub struct Folder(Arc<Mutex<Medium>>);

#[derive(Debug)]
struct Medium {
    files: Vec<Bytes>,
    /// As processes see them.
    names: Names,
    /// As a crash would find them, and what happened to them since, in order.
    safe: Names,
    since: Vec<Names>,
    is_full: bool,
    chance: Chance,
}

/// Which file has which name.
type Names = BTreeMap<String, usize>;

/// The content of a file, and how much of it is sure to survive a crash.
#[derive(Debug, Default)]
struct Bytes {
    all: Vec<u8>,
    safe: usize,
}

/// A file that is open.
#[derive(Clone, Debug)]
pub struct Open {
    folder: Folder,
    number: usize,
}

impl Folder {
    /// An empty one; what it does where it may do either is drawn from `chance`.
    #[must_use]
    pub fn new(chance: Chance) -> Folder {
        Folder(Arc::new(Mutex::new(Medium {
            files: Vec::new(),
            names: Names::new(),
            safe: Names::new(),
            since: Vec::new(),
            is_full: false,
            chance,
        })))
    }

    /// Whether there is no room for more.
    pub fn set_full(&self, is_full: bool) {
        self.lock().is_full = is_full;
    }

    /// The host has lost its power: of what was not synced any part from its beginning is left.
    pub fn crash(&self) {
        let mut medium = self.lock();
        let medium = &mut *medium;
        let left = medium.chance.below(medium.since.len() + 1);
        medium.since.truncate(left);
        if let Some(names) = medium.since.pop() {
            medium.safe = names;
        }
        medium.since.clear();
        medium.names = medium.safe.clone();
        for file in &mut medium.files {
            let left = medium.chance.below(file.all.len() - file.safe + 1);
            file.all.truncate(file.safe + left);
            file.safe = file.all.len();
        }
        // Nobody can open the others any more.
        for number in 0..medium.files.len() {
            if !medium.names.values().any(|named| *named == number) {
                medium.files[number] = Bytes::default();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Medium> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Medium {
    fn renamed(&mut self, change: impl FnOnce(&mut Names)) {
        change(&mut self.names);
        self.since.push(self.names.clone());
    }

    /// A full disk takes some things now and then.
    fn refuses(&mut self) -> io::Result<()> {
        match self.is_full && self.chance.happens(0.7) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

impl Volume for Folder {
    type File = Open;

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(name)
    }

    fn read(&self, name: &str) -> io::Result<String> {
        let medium = self.lock();
        let number = medium.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        let bytes = medium.files[*number].all.clone();
        String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    fn create(&mut self, name: &str) -> io::Result<Open> {
        let mut medium = self.lock();
        medium.refuses()?;
        let number = medium.files.len();
        medium.files.push(Bytes::default());
        medium.renamed(|names| {
            names.insert(name.to_owned(), number);
        });
        drop(medium);
        let folder = self.clone();
        Ok(Open { folder, number })
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut medium = self.lock();
        medium.refuses()?;
        let number = medium.names.get(from).copied();
        let number = number.ok_or(io::ErrorKind::NotFound)?;
        medium.renamed(|names| {
            names.remove(from);
            names.insert(to.to_owned(), number);
        });
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        let mut medium = self.lock();
        if !medium.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        medium.renamed(|names| {
            names.remove(name);
        });
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut medium = self.lock();
        medium.refuses()?;
        medium.safe = medium.names.clone();
        medium.since.clear();
        Ok(())
    }
}

impl VolumeFile for Open {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut medium = self.folder.lock();
        let refused = medium.refuses();
        let taken = match refused {
            Ok(()) => bytes.len(),
            Err(_) => medium.chance.below(bytes.len() + 1),
        };
        let file = &mut medium.files[self.number];
        file.all.extend_from_slice(&bytes[..taken]);
        refused
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut medium = self.folder.lock();
        medium.refuses()?;
        let file = &mut medium.files[self.number];
        file.safe = file.all.len();
        Ok(())
    }

    fn is_removed(&self) -> io::Result<bool> {
        let medium = self.folder.lock();
        let mut named = medium.names.values();
        Ok(!named.any(|number| *number == self.number))
    }
}
