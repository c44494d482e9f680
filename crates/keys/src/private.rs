//! Files that only their owner reads, whole as soon as they are there.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::KeysError;

/// Permission bits of everybody who is neither the owner nor of the group.
const OTHERS: u32 = 0o007;

/// Longer files hold no key and no certificate.
const LONGEST_BYTES: u64 = 1 << 20;

/// What a file may be written over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// Nothing.
    Nothing,
    /// What is there.
    Former,
}

/// Makes a folder for its owner alone, with those above it; one that is there stays as it is.
pub(crate) fn folder(path: &Path) -> Result<(), KeysError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(KeysError::io(path))
}

/// Writes a file of the given permission bits.
pub(crate) fn write(path: &Path, text: &str, mode: u32, over: Over) -> Result<(), KeysError> {
    let unfinished = path.with_extension(format!("{}.new", std::process::id()));
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&unfinished);
    let mut file = file.map_err(KeysError::io(&unfinished))?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all());
    let placed = written.and_then(|()| match over {
        // Never over what somebody made meanwhile.
        Over::Nothing => {
            fs::hard_link(&unfinished, path).and_then(|()| fs::remove_file(&unfinished))
        }
        Over::Former => fs::rename(&unfinished, path),
    });
    if placed.is_err() {
        // It may not be there any more.
        let _ = fs::remove_file(&unfinished);
    }
    match placed {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(KeysError::Exists {
            path: path.to_owned(),
            advice: "use another folder, or remove it first",
        }),
        placed => placed.map_err(KeysError::io(path)),
    }
}

/// Reads a file that is short.
pub(crate) fn read(path: &Path) -> Result<String, KeysError> {
    let about = fs::metadata(path).map_err(KeysError::io(path))?;
    if about.len() > LONGEST_BYTES {
        return Err(KeysError::Unread {
            path: path.to_owned(),
            reason: String::from("it is too long for a key"),
        });
    }
    fs::read_to_string(path).map_err(KeysError::io(path))
}

/// Reads a secret, which others must not be able to.
pub(crate) fn secret(path: &Path) -> Result<String, KeysError> {
    let about = fs::metadata(path).map_err(KeysError::io(path))?;
    if about.permissions().mode() & OTHERS != 0 {
        return Err(KeysError::Open(path.display().to_string()));
    }
    read(path)
}
