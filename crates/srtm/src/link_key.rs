//! The file with the key by which a controller and its brokers prove themselves to each other.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use control::random::random_bytes;
use link::LinkKey;

use crate::error::Failure;

/// Its name in a controller's data folder.
const FILE_NAME: &str = "link.key";

/// Longer files hold no key.
const LONGEST_BYTES: u64 = 4096;

/// Permission bits of everybody who is neither the owner nor of the group.
const OTHERS: u32 = 0o007;

/// A controller's key and where its brokers find it.
#[derive(Debug)]
pub(crate) struct KeyFile {
    /// The key.
    pub(crate) key: LinkKey,
    /// The file that holds it.
    pub(crate) path: PathBuf,
    /// Whether the file goes with this value.
    is_passing: bool,
}

impl KeyFile {
    /// The key in the file `named`, else in `data_dir`; one that is not there is made. Without either a file is made in the
    /// system's folder for temporary files that goes with this value.
    pub(crate) fn open(named: Option<&Path>, data_dir: Option<&Path>) -> Result<KeyFile, Failure> {
        let (path, is_passing) = match (named, data_dir) {
            (Some(file), _) => (file.to_owned(), false),
            (None, Some(folder)) => (folder.join(FILE_NAME), false),
            (None, None) => {
                let distinct = u64::from_be_bytes(random_bytes()?);
                let name = format!("srtm-link-{distinct:016x}.key");
                (std::env::temp_dir().join(name), true)
            }
        };
        if !path.exists() {
            make(&path).map_err(Failure::io(format!("making the key {}", path.display())))?;
        }
        let key = read(&path).map_err(Failure::Usage)?;
        Ok(KeyFile {
            key,
            path,
            is_passing,
        })
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        if self.is_passing {
            // Somebody may have tidied up before.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The key in the file of a flag.
pub(crate) fn named(path: &str) -> Result<LinkKey, String> {
    read(Path::new(path))
}

fn read(path: &Path) -> Result<LinkKey, String> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| format!("{shown}: {error}"))?;
    let about = file
        .metadata()
        .map_err(|error| format!("{shown}: {error}"))?;
    if about.mode() & OTHERS != 0 {
        return Err(format!(
            "{shown}: everybody on this machine can read the key; run chmod 600 {shown}"
        ));
    }
    if about.len() > LONGEST_BYTES {
        return Err(format!("{shown}: {}", link::InvalidKey));
    }
    let text = io::read_to_string(file).map_err(|error| format!("{shown}: {error}"))?;
    LinkKey::from_hex(&text).map_err(|error| format!("{shown}: {error}"))
}

/// Makes a file with a new key that is whole as soon as it is there, for its owner alone.
fn make(path: &Path) -> io::Result<()> {
    let key = LinkKey::new(random_bytes().map_err(io::Error::other)?);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let unfinished = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&unfinished)?;
    let written = writeln!(file, "{}", key.to_hex()).and_then(|()| file.sync_all());
    // Whoever made one meanwhile was first, and theirs is the key.
    let placed = written.and_then(|()| match std::fs::hard_link(&unfinished, path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    });
    std::fs::remove_file(&unfinished)?;
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("srtm-key-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("made");
        folder
    }

    #[test]
    fn a_key_is_made_once_and_for_its_owner_alone() {
        let folder = folder("made");
        let first = KeyFile::open(None, Some(&folder)).expect("made");
        let about = std::fs::metadata(&first.path).expect("there");
        assert_eq!(about.mode() & 0o777, 0o600);
        let again = KeyFile::open(Some(&first.path), None).expect("there");
        assert_eq!(again.key, first.key);
        assert_eq!(std::fs::read_dir(&folder).expect("there").count(), 1);
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn without_a_folder_the_key_goes_with_its_controller() {
        let passing = KeyFile::open(None, None).expect("made");
        let path = passing.path.clone();
        assert_eq!(named(&path.display().to_string()), Ok(passing.key.clone()));
        drop(passing);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_no_secret_is_no_key() {
        let folder = folder("refused");
        let path = folder.join("a.key");
        let good = format!("{}\n", LinkKey::new([9; 32]).to_hex());
        for (text, mode, expected) in [
            (good.as_str(), 0o644, "chmod 600"),
            ("secret", 0o600, "64 hexadecimal digits"),
            ("", 0o600, "64 hexadecimal digits"),
        ] {
            let _ = std::fs::remove_file(&path);
            let mut file = OpenOptions::new();
            let file = file.write(true).create_new(true).mode(mode).open(&path);
            file.expect("made")
                .write_all(text.as_bytes())
                .expect("written");
            let error = named(&path.display().to_string()).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
        assert!(named("/nowhere/link.key").is_err());
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
