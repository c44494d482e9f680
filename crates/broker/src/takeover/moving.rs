//! Files are moved so that at every instant either nsqd's count or ours.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use disk::{FileName, LOCK_NAME};

use super::found::Found;
use super::{Places, io_error};
use crate::BrokerError;

/// Makes the staged segments count, and nsqd's files not.
///
/// # Errors
/// [`BrokerError::Io`]; which of them count, the next start sees.
pub(super) fn commit(places: &Places) -> Result<(), BrokerError> {
    rename(&places.staged(), &places.taken())?;
    sync(&places.segments)
}

/// Moves nsqd's files aside and the segments to ours, after [`commit`]. May be done again.
///
/// # Errors
/// [`BrokerError::Io`]; the next start goes on.
pub(super) fn finish(places: &Places, found: &Found) -> Result<(), BrokerError> {
    let aside = places.aside();
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&aside);
    made.map_err(io_error(format!("make {}", aside.display())))?;
    for name in &found.names {
        rename(&found.path(name), &free_path(&aside, name))?;
    }
    sync(&aside)?;
    sync(&places.data)?;
    let taken = places.taken();
    for name in segments_in(&taken)? {
        rename(&taken.join(&name), &places.segments.join(&name))?;
    }
    // What is not in both folders may be in neither.
    sync(&places.segments)?;
    let _ = fs::remove_file(taken.join(LOCK_NAME));
    fs::remove_dir(&taken).map_err(io_error(format!("remove {}", taken.display())))?;
    sync(&places.segments)
}

/// The name in the folder, or one with a number where a former file has that.
fn free_path(folder: &Path, name: &str) -> PathBuf {
    let numbered = (1..).map(|number: u32| folder.join(format!("{name}.{number}")));
    let mut paths = std::iter::once(folder.join(name)).chain(numbered);
    let free = paths.find(|path| !path.exists());
    free.unwrap_or_else(|| folder.join(name))
}

fn segments_in(folder: &Path) -> Result<Vec<String>, BrokerError> {
    let failed = || io_error(format!("list {}", folder.display()));
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed())? {
        // Ours are text.
        if let Ok(name) = entry.map_err(failed())?.file_name().into_string()
            && name.parse::<FileName>().is_ok()
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn rename(from: &Path, to: &Path) -> Result<(), BrokerError> {
    let what = format!("move {} to {}", from.display(), to.display());
    match fs::rename(from, to) {
        // It was moved before a crash.
        Err(error) if error.kind() == ErrorKind::NotFound && to.exists() => Ok(()),
        renamed => renamed.map_err(io_error(what)),
    }
}

fn sync(folder: &Path) -> Result<(), BrokerError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error: io::Error| io_error(format!("sync {}", folder.display()))(error))
}
