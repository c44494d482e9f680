//! The folder of keys of `srtm up --secure`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ::keys::{FilesOf, KeyFolder, Usage};
use control::random::random_bytes;

use crate::children::Template;
use crate::commands::keys;
use crate::error::Failure;
use crate::secure::{CONTROLLER, OPERATOR};

/// Its name in a data folder.
const FOLDER_NAME: &str = "keys";

/// A folder of keys for all daemons of a machine.
#[derive(Debug)]
pub(crate) struct KeyPlace {
    folder: KeyFolder,
    operator: FilesOf,
    /// Whether it goes with this value.
    is_passing: bool,
}

impl KeyPlace {
    /// The folder `named`, else one in `data_dir`, with certificates of a controller, of so many brokers and of an operator, for `ip` and
    /// the names `hosts`. What is missing is made. Without either folder it is one in the system's folder for temporary files that goes
    /// with this value.
    ///
    /// # Errors
    /// [`Failure::Usage`] saying what cannot be made.
    pub(crate) fn open(
        named: Option<&Path>,
        data_dir: Option<&Path>,
        brokers: u32,
        (ip, hosts): (IpAddr, &[String]),
    ) -> Result<KeyPlace, Failure> {
        let (path, is_passing) = match (named, data_dir) {
            (Some(folder), _) => (folder.to_owned(), false),
            (None, Some(data_dir)) => (data_dir.join(FOLDER_NAME), false),
            (None, None) => {
                let distinct = u64::from_be_bytes(random_bytes()?);
                let name = format!("srtm-keys-{distinct:016x}");
                (std::env::temp_dir().join(name), true)
            }
        };
        let folder = match KeyFolder::open(&path) {
            Ok(folder) => folder,
            Err(_) => keys::make(&path)?,
        };
        let mut names = vec![ip.to_string(), broker::http::hostname()];
        names.extend_from_slice(hosts);
        keys::ensure(&folder, CONTROLLER, Usage::Node, &names)?;
        for number in 0..brokers {
            keys::ensure(&folder, &Template::name(number), Usage::Node, &names)?;
        }
        let operator = keys::ensure(&folder, OPERATOR, Usage::Client, &[])?;
        Ok(KeyPlace {
            folder,
            operator,
            is_passing,
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// The operator's files.
    pub(crate) fn operator(&self) -> &FilesOf {
        &self.operator
    }
}

impl Drop for KeyPlace {
    fn drop(&mut self) {
        if self.is_passing {
            // Somebody may have tidied up before.
            let _ = std::fs::remove_dir_all(self.folder.path());
        }
    }
}
