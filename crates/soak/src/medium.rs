//! A broker's disk for messages: segments of queues, or logs of durable topics. A crash takes part of what was not synced, sectors are torn
//! and reordered, and a process may end in the middle of what it writes.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use disk::{Faults, Simulated, Volume};

use crate::chance::Chance;

/// The disk of one place; outlives its processes.
#[derive(Clone, Debug)]
pub struct Medium(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    disk: Simulated,
    chance: Chance,
    /// So many operations are carried out still, and nothing after them.
    left: Option<usize>,
}

/// What a disk does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ailment {
    /// There is no room for more.
    Full,
    /// It takes nothing.
    Writes,
    /// It confirms nothing, and may lose what was to be confirmed.
    Syncs,
    /// It gives nothing back.
    Reads,
}

impl Medium {
    /// An empty one; what it does where it may do either is drawn from `chance`.
    #[must_use]
    pub fn new(chance: Chance) -> Medium {
        Medium(Arc::new(Mutex::new(Inner {
            disk: Simulated::default(),
            chance,
            left: None,
        })))
    }

    /// What is wrong with it from now on, if anything is.
    pub fn ails(&self, ailment: Option<Ailment>) {
        let inner = &mut *self.lock();
        let used = inner.disk.used();
        inner.disk.faults = match ailment {
            None => Faults::default(),
            Some(Ailment::Full) => Faults {
                full_at: Some(used),
                ..Faults::default()
            },
            Some(Ailment::Writes) => Faults {
                writes_fail: true,
                ..Faults::default()
            },
            Some(Ailment::Syncs) => Faults {
                syncs_fail: true,
                ..Faults::default()
            },
            Some(Ailment::Reads) => Faults {
                reads_fail: true,
                ..Faults::default()
            },
        };
    }

    /// Whoever writes is cut off after so many operations, the last of them in its middle.
    pub fn cut_off_after(&self, operations: usize) {
        self.lock().left = Some(operations);
    }

    /// Somebody else writes from now on.
    pub fn begin(&self) {
        self.lock().left = None;
    }

    /// The host has lost its power.
    pub fn crash(&self) {
        let inner = &mut *self.lock();
        let chance = &mut inner.chance;
        inner.disk.crash(|most| chance.below(most as usize) as u64);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk for one operation that changes it.
    fn change<T>(&self, change: impl FnOnce(&mut Simulated) -> io::Result<T>) -> io::Result<T> {
        let inner = &mut *self.lock();
        match &mut inner.left {
            Some(0) => return Err(io::Error::other("the process has ended")),
            Some(left) => *left -= 1,
            None => {}
        }
        change(&mut inner.disk)
    }
}

impl Volume for Medium {
    fn create(&mut self, name: &str) -> io::Result<()> {
        self.change(|disk| disk.create(name))
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let taken = {
            let inner = &mut *self.lock();
            match inner.left {
                Some(1) => inner.chance.below(bytes.len() + 1),
                _ => bytes.len(),
            }
        };
        self.change(|disk| disk.write_at(name, offset, &bytes[..taken]))?;
        match taken == bytes.len() {
            true => Ok(()),
            false => Err(io::Error::other("the process has ended")),
        }
    }

    fn read_at(&mut self, name: &str, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        self.lock().disk.read_at(name, offset, length)
    }

    fn length(&mut self, name: &str) -> io::Result<u64> {
        self.lock().disk.length(name)
    }

    fn truncate(&mut self, name: &str, length: u64) -> io::Result<()> {
        self.change(|disk| disk.truncate(name, length))
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.change(|disk| disk.sync(name))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.change(|disk| disk.remove(name))
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        self.lock().disk.list()
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        self.change(Volume::sync_folder)
    }
}
