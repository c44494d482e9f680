//! A volume: one flat folder, whose files are reached by name.

mod folder;
mod simulated;
mod syncers;
mod untouched;

use std::io;

pub use folder::{Folder, LOCK_NAME};
pub use simulated::{Faults, Simulated};
pub use untouched::Untouched;

/// A folder of files. A crash of the machine may lose what was written until file and folder are
/// synced; the end of a process does not.
pub trait Volume {
    /// Makes an empty file, or empties one that is there.
    ///
    /// # Errors
    /// The system's.
    fn create(&mut self, name: &str) -> io::Result<()>;

    /// Writes at a place of a file, which grows as need be.
    ///
    /// # Errors
    /// The system's; any part of it may have been written.
    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// So many bytes at a place of a file; fewer where it ends before.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&mut self, name: &str, offset: u64, length: usize) -> io::Result<Vec<u8>>;

    /// Bytes of a file.
    ///
    /// # Errors
    /// The system's.
    fn length(&mut self, name: &str) -> io::Result<u64>;

    /// Cuts a file off.
    ///
    /// # Errors
    /// The system's.
    fn truncate(&mut self, name: &str, length: u64) -> io::Result<()>;

    /// Makes what was written to a file durable.
    ///
    /// # Errors
    /// The system's; what was written since the last sync may be lost then, whatever a later one says.
    fn sync(&mut self, name: &str) -> io::Result<()>;

    /// Syncs these files all at once, where a volume can do that faster than one after the other. The next [`Volume::sync`] of each says
    /// what became of it, unless something was written to it meanwhile.
    fn sync_ahead(&mut self, _names: &[String]) {}

    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    fn remove(&mut self, name: &str) -> io::Result<()>;

    /// The names of all files, in order.
    ///
    /// # Errors
    /// The system's.
    fn list(&mut self) -> io::Result<Vec<String>>;

    /// Makes it durable which files there are.
    ///
    /// # Errors
    /// The system's.
    fn sync_folder(&mut self) -> io::Result<()>;
}
