//! The latest epoch of a controller that this broker has obeyed. It is kept in the data folder, so
//! that orders from a deposed controller are ignored after a restart too.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::BrokerError;

/// Its file in the data folder.
pub const EPOCH_NAME: &str = "srtm.epoch";

/// Where it is kept, and what was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochFile {
    path: PathBuf,
    epoch: u64,
}

impl EpochFile {
    /// The one in the data folder `data_path`; without a file no controller was heard of. To be called by who holds the folder's lock.
    ///
    /// # Errors
    /// [`BrokerError::Io`] for a file that cannot be read or is not one number, with its path and what to do.
    pub fn open(data_path: &Path) -> Result<EpochFile, BrokerError> {
        let path = data_path.join(EPOCH_NAME);
        let epoch = read(&path).map_err(|source| BrokerError::Io {
            what: format!("the controller's epoch in {}", path.display()),
            source,
        })?;
        Ok(EpochFile { path, epoch })
    }

    /// What it held when it was opened, or has been written since; 0 where there was none.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Makes a greater one durable: after a crash there is this one or the one before.
    pub(super) fn write(&mut self, epoch: u64) -> io::Result<()> {
        let unfinished = self.path.with_extension("epoch.new");
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let written = options.open(&unfinished).and_then(|mut file| {
            writeln!(file, "{epoch}")?;
            file.sync_all()
        });
        if let Err(error) = written {
            // What is left of it only takes room.
            let _ = fs::remove_file(&unfinished);
            return Err(error);
        }
        fs::rename(&unfinished, &self.path)?;
        if let Some(folder) = self.path.parent() {
            File::open(folder)?.sync_all()?;
        }
        self.epoch = epoch;
        Ok(())
    }
}

fn read(path: &Path) -> io::Result<u64> {
    match fs::read_to_string(path) {
        Ok(text) => text.trim().parse().map_err(|_| {
            let why = "it is not one number; remove the file where the controller's store was not set back";
            io::Error::new(ErrorKind::InvalidData, why)
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::LinkBoard;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("srtm-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("made");
        folder
    }

    #[test]
    fn an_epoch_outlives_the_process() {
        let folder = folder("epoch");
        let mut file = EpochFile::open(&folder).expect("there is none");
        assert_eq!(file.epoch(), 0);
        file.write(7).expect("written");
        file.write(8).expect("written");
        assert_eq!(EpochFile::open(&folder).expect("kept"), file);
        assert_eq!(file.epoch(), 8);
        for text in ["", "eight", "8 9"] {
            fs::write(folder.join(EPOCH_NAME), text).expect("written");
            let error = EpochFile::open(&folder).expect_err(text);
            assert!(error.to_string().contains(EPOCH_NAME), "{error}");
        }
        fs::remove_dir_all(&folder).expect("removed");
        assert!(file.write(9).is_err(), "the folder is gone");
        assert_eq!(file.epoch(), 8);
    }

    #[tokio::test]
    async fn what_cannot_be_kept_is_kept_with_the_next_link() {
        let folder = folder("epoch-board");
        let board = LinkBoard::default();
        board.keep_epoch_in(Some(EpochFile::open(&folder).expect("readable")));
        let kept = || EpochFile::open(&folder).expect("readable").epoch();
        board.keep_epoch(8).await;
        assert_eq!(kept(), 8);
        fs::remove_dir_all(&folder).expect("removed");
        board.keep_epoch(9).await;
        assert_eq!(kept(), 0);
        fs::create_dir_all(&folder).expect("made");
        board.keep_epoch(9).await;
        assert_eq!(kept(), 9);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
