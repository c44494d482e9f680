//! Errors of messages on disk.

use std::io;

/// Why something is not written or read.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The system refused.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// The operation.
        what: &'static str,
        /// Of what file or folder.
        path: String,
        /// The system's reason.
        source: io::Error,
    },
    /// Another process has the folder.
    #[error("{0} is in use by another process; stop that process, or use another folder")]
    InUse(String),
    /// A file of a later format.
    #[error(
        "{path} has format {found} and this version reads {known} at most; use a later version, or move the file away"
    )]
    Later {
        /// The file.
        path: String,
        /// Its format.
        found: u16,
        /// The latest one known.
        known: u16,
    },
    /// A file of a log, without which nothing may be written to that log.
    #[error(
        "{path}, of the log of a durable topic, cannot be read: {reason}; mend the disk, or move the file away and do without what only it holds"
    )]
    Unreadable {
        /// The file.
        path: String,
        /// The system's reason.
        reason: String,
    },
    /// All files together would have more bytes than they may.
    #[error("the disk budget of {0} bytes is used up")]
    Budget(u64),
    /// The log of a topic would have more bytes than one may.
    #[error("the log of the topic has its part, {0} bytes, of the disk budget")]
    Share(u64),
    /// A record cannot say how long it is.
    #[error("a message of {0} bytes is too long to be kept on disk")]
    TooLong(usize),
    /// There is no such segment.
    #[error("segment {0} is not there")]
    Missing(u64),
}

impl DiskError {
    pub(crate) fn io(what: &'static str, path: &str) -> impl FnOnce(io::Error) -> DiskError {
        let path = path.to_owned();
        move |source| DiskError::Io { what, path, source }
    }
}
