//! Why keys cannot be made or read.

use std::io;
use std::path::{Path, PathBuf};

/// Why a certificate or a folder of keys could not be made, or is of no use.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// It is there, and nothing is overwritten.
    #[error("{} is there already, and keys are never overwritten; {advice}", .path.display())]
    Exists {
        /// The file or folder.
        path: PathBuf,
        /// What to do instead.
        advice: &'static str,
    },
    /// Everybody on the machine can read a secret.
    #[error("{0}: everybody on this machine can read the key; run chmod 600 {0}")]
    Open(String),
    /// A name that is none.
    #[error(
        "{0:?} is not a name; use 1 to 64 letters, digits, dots, dashes and underscores, and begin with a letter or digit"
    )]
    Name(String),
    /// A host that no certificate can be for.
    #[error(
        "{host:?} is not a host: {reason}; use a name such as broker.example, or an IP address"
    )]
    Host {
        /// As it was given.
        host: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A certificate or its key cannot be made.
    #[error("making a certificate: {0}")]
    Unmade(String),
    /// A file holds no certificate.
    #[error("{}: {reason}", .path.display())]
    Unread {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl KeysError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> KeysError {
        let path = path.to_owned();
        move |source| KeysError::Io { path, source }
    }
}

impl From<rcgen::Error> for KeysError {
    fn from(error: rcgen::Error) -> KeysError {
        KeysError::Unmade(error.to_string())
    }
}
