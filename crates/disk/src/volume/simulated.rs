//! A disk in memory that fails as real ones do: a crash of the machine loses, tears and reorders what was not synced.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};

use super::Volume;

/// The unit that a disk writes atomically.
const SECTOR_BYTES: usize = 512;

/// The operations at which it fails, until told otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Bytes of all files at most; what is beyond is refused after a part of it was written.
    pub full_at: Option<u64>,
    /// Every write fails.
    pub writes_fail: bool,
    /// Every read fails.
    pub reads_fail: bool,
    /// Every sync fails, and what was to be synced may be lost.
    pub syncs_fail: bool,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Simulated {
    files: BTreeMap<String, File>,
    /// Files that are there after a crash for certain, with what of them is.
    durable: BTreeMap<String, Vec<u8>>,
    /// The operations at which it fails.
    pub faults: Faults,
}

/// A file as processes see it.
#[derive(Clone, Debug, Default)]
struct File {
    bytes: Vec<u8>,
    /// What of it survives, if the file itself does.
    synced: Vec<u8>,
    /// Sectors that were written since.
    dirty: BTreeSet<usize>,
}

impl Simulated {
    /// A disk with these files, which are synced.
    pub fn with_files(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Simulated {
        let files = files.into_iter();
        let mut disk = Simulated {
            files: files.map(|(name, bytes)| (name, File::of(bytes))).collect(),
            ..Simulated::default()
        };
        disk.durable = disk.all_synced();
        disk
    }

    /// The machine goes down and comes up again. `below` draws a number below its argument; what was not synced survives, or not, by
    /// sectors.
    pub fn crash(&mut self, mut below: impl FnMut(u64) -> u64) {
        let names: BTreeSet<String> = self
            .files
            .keys()
            .chain(self.durable.keys())
            .cloned()
            .collect();
        for name in names {
            let survives = match (
                self.files.contains_key(&name),
                self.durable.contains_key(&name),
            ) {
                (true, true) => true,
                // Made or removed since the folder was synced.
                _ => below(2) == 0,
            };
            let file = self.files.remove(&name);
            if !survives {
                continue;
            }
            let bytes = match file {
                Some(file) => file.after_crash(&mut below),
                None => self.durable.get(&name).cloned().unwrap_or_default(),
            };
            self.files.insert(name, File::of(bytes));
        }
        self.durable = self.all_synced();
    }

    /// A file's bytes, to be damaged by a test.
    pub fn bytes_mut(&mut self, name: &str) -> Option<&mut Vec<u8>> {
        self.files.get_mut(name).map(|file| &mut file.bytes)
    }

    /// Bytes of all files.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.files
            .values()
            .map(|file| file.bytes.len() as u64)
            .sum()
    }

    fn all_synced(&self) -> BTreeMap<String, Vec<u8>> {
        let files = self.files.iter();
        files
            .map(|(name, file)| (name.clone(), file.synced.clone()))
            .collect()
    }

    fn file(&mut self, name: &str) -> io::Result<&mut File> {
        self.files
            .get_mut(name)
            .ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl File {
    fn of(bytes: Vec<u8>) -> File {
        File {
            synced: bytes.clone(),
            bytes,
            dirty: BTreeSet::new(),
        }
    }

    fn note(&mut self, from: usize, to: usize) {
        self.dirty
            .extend(from / SECTOR_BYTES..to.div_ceil(SECTOR_BYTES));
    }

    fn after_crash(self, below: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
        let mut bytes = self.synced;
        for sector in self.dirty {
            let at = sector * SECTOR_BYTES;
            let end = (at + SECTOR_BYTES).min(self.bytes.len());
            if below(2) == 0 || at >= end {
                continue;
            }
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[at..end].copy_from_slice(&self.bytes[at..end]);
        }
        if bytes.len() > self.bytes.len() && below(2) == 0 {
            bytes.truncate(self.bytes.len());
        }
        bytes
    }
}

fn fails(is_failing: bool) -> io::Result<()> {
    match is_failing {
        true => Err(io::Error::other("input/output error")),
        false => Ok(()),
    }
}

impl Volume for Simulated {
    fn create(&mut self, name: &str) -> io::Result<()> {
        fails(self.faults.writes_fail)?;
        let file = self.files.entry(name.to_owned()).or_default();
        file.bytes.clear();
        Ok(())
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (used, faults) = (self.used(), self.faults);
        let file = self.file(name)?;
        fails(faults.writes_fail)?;
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        let grows = (at + bytes.len()).saturating_sub(file.bytes.len()) as u64;
        let room = faults
            .full_at
            .map_or(grows, |full| full.saturating_sub(used));
        let lacking = usize::try_from(grows.saturating_sub(room)).map_err(io::Error::other)?;
        let written = &bytes[..bytes.len().saturating_sub(lacking)];
        let end = at + written.len();
        if file.bytes.len() < end {
            file.bytes.resize(end, 0);
        }
        file.bytes[at..end].copy_from_slice(written);
        file.note(at, end);
        match lacking {
            0 => Ok(()),
            _ => Err(ErrorKind::StorageFull.into()),
        }
    }

    fn read_at(&mut self, name: &str, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        fails(self.faults.reads_fail)?;
        let bytes = &self.file(name)?.bytes;
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        let at = at.min(bytes.len());
        Ok(bytes[at..(at + length).min(bytes.len())].to_vec())
    }

    fn length(&mut self, name: &str) -> io::Result<u64> {
        Ok(self.file(name)?.bytes.len() as u64)
    }

    fn truncate(&mut self, name: &str, length: u64) -> io::Result<()> {
        fails(self.faults.writes_fail)?;
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let file = self.file(name)?;
        file.bytes.truncate(length);
        Ok(())
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        fails(self.faults.syncs_fail)?;
        let file = self.file(name)?;
        file.synced.clone_from(&file.bytes);
        file.dirty.clear();
        if let Some(durable) = self.durable.get_mut(name) {
            durable.clone_from(&self.files[name].synced);
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        fails(self.faults.writes_fail)?;
        self.files
            .remove(name)
            .map(drop)
            .ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        Ok(self.files.keys().cloned().collect())
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        fails(self.faults.syncs_fail)?;
        self.durable = self.all_synced();
        Ok(())
    }
}
