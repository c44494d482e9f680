//! The broker's identity: drawn once and kept in the data folder.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use link::Identity;

use crate::{BrokerError, sys};

/// Its file in the data folder.
const FILE_NAME: &str = "srtm.identity";

/// The identity of the broker with this data folder, which is drawn where there is none yet; without a folder another one with
/// every call. To be called by who holds the folder's lock.
///
/// # Errors
/// [`BrokerError::Io`] naming the file.
pub fn identity(data_path: Option<&Path>) -> Result<Identity, BrokerError> {
    let Some(folder) = data_path else {
        let drawn = sys::random().map(Identity);
        return drawn.map_err(|source| BrokerError::Io {
            what: String::from("drawing an identity"),
            source,
        });
    };
    let path = folder.join(FILE_NAME);
    kept(&path).map_err(|source| BrokerError::Io {
        what: format!("the broker's identity in {}", path.display()),
        source,
    })
}

fn kept(path: &Path) -> io::Result<Identity> {
    match std::fs::read_to_string(path) {
        Ok(text) => Identity::from_hex(&text).ok_or_else(|| {
            io::Error::other("it is not 32 hexadecimal digits; remove the file for a new one")
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let identity = Identity(sys::random()?);
            let unfinished = path.with_extension("identity.new");
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(&unfinished)?;
            writeln!(file, "{identity}")?;
            file.sync_all()?;
            std::fs::rename(&unfinished, path)?;
            Ok(identity)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_drawn_once_per_folder() {
        let folder = std::env::temp_dir().join(format!("srtm-identity-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("made");
        let first = identity(Some(&folder)).expect("drawn");
        assert_eq!(identity(Some(&folder)).expect("kept"), first);
        assert_ne!(identity(None).expect("drawn"), first);
        std::fs::write(folder.join(FILE_NAME), "me").expect("written");
        let error = identity(Some(&folder)).expect_err("no identity");
        assert!(error.to_string().contains(FILE_NAME), "{error}");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
