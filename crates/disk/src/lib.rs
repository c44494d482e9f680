//! Messages on disk: segment files that are checked record by record, and a shelf of them for queues.
//!
//! A file belongs to one queue and holds whole *segments*, which go out and come back together. Every record has a checksum that knows
//! its file and its place, so damage costs the records that it hit and no other, and nothing that a publisher sent is ever taken for
//! a record ([`scan`]). Files are reached through a [`Volume`]: a [`Folder`], or a [`Simulated`] one that loses, tears and reorders
//! what was not synced. The [`Shelf`] knows where everything is; it makes that anew from the files whenever it is opened.

mod error;
mod message;
mod record;
mod scan;
mod segment;
mod shelf;
mod volume;

pub use error::DiskError;
pub use message::{MESSAGE_HEAD_BYTES, Message, Stamps};
pub use record::{Kind, RECORD_HEAD_BYTES, Record, Salt};
pub use scan::{Damage, Piece, Scan, scan};
pub use segment::{FORMAT_VERSION, FileName, Owner, PREAMBLE_BYTES};
pub use shelf::{Contents, FileReport, FileView, Kept, Opened, Shelf, ShelfConfig, inspect};
pub use volume::{Faults, Folder, LOCK_NAME, Simulated, Volume};
