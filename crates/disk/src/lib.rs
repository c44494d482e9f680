//! Messages on disk: segment files that are checked record by record, and a shelf of them for
//! queues.
//!
//! A file belongs to one queue and holds whole *segments*, which go out and come back together. Every record has a checksum that knows
//! its file and its place, so damage costs the records that it hit and no other, and nothing that a publisher sent is ever taken for
//! a record ([`scan`]). Files are reached through a [`Volume`]: a [`Folder`], or a [`Simulated`] one that loses, tears and reorders
//! what was not synced. The [`Shelf`] knows where everything is; it makes that anew from the files whenever it is opened.
//!
//! What a topic has accepted is in [`Logs`], where its contract says so: a row of files of its own, with all that became of its messages.

mod diskqueue;
mod error;
mod log;
mod message;
mod record;
mod scan;
mod segment;
mod shelf;
mod volume;

pub use diskqueue::{Progress, QueueFile, QueuePiece, QueueRecords, QueuedMessage};
pub use error::DiskError;
pub use log::{
    Entry, Logged, Logs, LogsConfig, LogsOpened, OWN_QUEUE, ReadMessage, Standing, Step, Steps,
    Waiting,
};
pub use message::{MESSAGE_HEAD_BYTES, Message, Stamps};
pub use record::{Kind, RECORD_HEAD_BYTES, Record, Salt};
pub use scan::{Damage, Piece, Scan, scan};
pub use segment::{FORMAT_VERSION, FileName, Owner, PREAMBLE_BYTES};
pub use shelf::{Contents, FileReport, FileView, Kept, Opened, Shelf, ShelfConfig, inspect};
pub use volume::{Faults, Folder, LOCK_NAME, Simulated, Untouched, Volume};
