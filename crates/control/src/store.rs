//! What survives a restart of the controller, behind a small trait.
//!
//! Records are JSON under a table and a key, so that an embedded file and a cluster store (etcd)
//! can both hold them. A commit is atomic: all of its changes or none.

mod memory;
mod redb;

pub use self::memory::MemoryStore;
pub use self::redb::RedbStore;

use serde_json::Value;

use crate::ControlError;

/// The tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Epoch and settings.
    Meta,
    /// Topics by name.
    Topics,
    /// The most that each broker may be using of a limit, by topic.
    Shares,
    /// Publishers by `topic/id`.
    Publishers,
    /// Brokers by name.
    Brokers,
    /// Identifiers of topics by name.
    Names,
    /// Channels and pauses by topic.
    Channels,
    /// Deletions that a broker is still to be told, by `broker/topic` or `broker/topic/channel`.
    Owed,
}

/// One record set (`Some`) or removed (`None`).
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Where.
    pub table: Table,
    /// Which.
    pub key: String,
    /// What.
    pub value: Option<Value>,
}

/// Keeps records.
pub trait Store: Send {
    /// All records of a table, ordered by key.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] where the medium cannot be read, naming it.
    fn load(&self, table: Table) -> Result<Vec<(String, Value)>, ControlError>;

    /// Makes changes durable, all or none. May be tried again after it has failed.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] where the medium cannot be written, naming it. What was kept before is still kept.
    fn commit(&mut self, changes: &[Change]) -> Result<(), ControlError>;
}
