//! The file that keeps a calibration: `srtm.calibration.json` in a broker's data folder.
//!
//! The broker tells the controller of it. It is replaced whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ::model::{Calibration, CalibrationError};

use crate::error::BenchError;

/// Name of the file in the data folder.
pub const FILE_NAME: &str = "srtm.calibration.json";
/// A file larger than this is none of ours.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The file in the data folder `folder`.
pub fn path(folder: &Path) -> PathBuf {
    folder.join(FILE_NAME)
}

/// Reads the file in the data folder `folder`; `None` when there is none.
///
/// # Errors
/// When there is a file that cannot be read or is no calibration that can be used. The text names the file and says
/// what to do.
pub fn read(folder: &Path) -> Result<Option<Calibration>, BenchError> {
    let path = path(folder);
    let failed = |source| BenchError::Io {
        what: format!("read {}", path.display()),
        source,
    };
    let broken = |error| failed(io::Error::new(io::ErrorKind::InvalidData, error));
    let text = match fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Ok(file) if file.len() > MAX_FILE_BYTES => {
            return Err(broken(CalibrationError::Broken("too large".to_owned())));
        }
        Ok(_) | Err(_) => fs::read_to_string(&path).map_err(failed)?,
    };
    Calibration::parse(&text).map(Some).map_err(broken)
}

/// Replaces the file in the data folder `folder`, which is made when it is not there; the file's name. A crash leaves
/// the old file or the new one.
///
/// # Errors
/// When a step fails; it is named.
pub fn write(calibration: &Calibration, folder: &Path) -> Result<PathBuf, BenchError> {
    let path = path(folder);
    let temporary = path.with_extension("json.new");
    let step = |what: &str, path: &Path| BenchError::io(format!("{what} {}", path.display()));
    fs::create_dir_all(folder).map_err(step("make the folder", folder))?;
    let mut file = File::create(&temporary).map_err(step("make", &temporary))?;
    file.write_all(calibration.text().as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(step("write", &temporary))?;
    fs::rename(&temporary, &path).map_err(step("replace", &path))?;
    // The new name is safe only when the folder is.
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(step("sync the folder", folder))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::env;

    use ::model::{Fit, Machine, ServiceModel};

    use super::*;

    /// A folder of this test alone, gone with the value.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path =
                env::temp_dir().join(format!("srtm-calibration-{}-{name}", std::process::id()));
            fs::create_dir_all(&path)
                .expect("the system's folder for temporary files can be written");
            Self(path)
        }

        fn holding(name: &str, text: &str) -> Self {
            let folder = Self::new(name);
            fs::write(path(&folder.0), text).expect("the folder is there");
            folder
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _left_behind = fs::remove_dir_all(&self.0);
        }
    }

    fn calibration(mcap: f64) -> Calibration {
        Calibration {
            version: Calibration::VERSION,
            at_s: 1_700_000_000,
            machine: Machine {
                cpu: "Fast One".to_owned(),
                cores: 2,
                kernel: "6.1".to_owned(),
            },
            slo_p99_us: 1000.0,
            mcap,
            missed: None,
            model: ServiceModel::default(),
            fit: Fit::default(),
            runs: Vec::new(),
        }
    }

    #[test]
    fn what_was_written_is_read_and_written_over() {
        let folder = Folder::new("round-trip");
        let inner = folder.0.join("made/on/the/way");
        assert_eq!(read(&inner).expect("no file is fine"), None);
        for mcap in [54_321.5, 1.0] {
            let written = calibration(mcap);
            let path = write(&written, &inner).expect("the folder can be written");
            assert_eq!(path, inner.join(FILE_NAME));
            assert_eq!(read(&inner).expect("it is whole"), Some(written));
        }
        let files = fs::read_dir(&inner).expect("the folder is there").count();
        assert_eq!(files, 1, "the temporary file is gone");
    }

    #[test]
    fn a_file_that_is_none_is_named_and_says_what_to_do() {
        let large = " ".repeat(MAX_FILE_BYTES as usize + 1);
        let cases = [
            ("text", "mcap = 5", "no calibration"),
            ("version", "{\"version\": 2}", "version 2 instead of 1"),
            ("large", &large, "too large"),
        ];
        for (name, text, expected) in cases {
            let folder = Folder::holding(name, text);
            let error = read(&folder.0).expect_err(name).to_string();
            for part in [expected, FILE_NAME, "srtm calibrate"] {
                assert!(error.contains(part), "{name}: {error}");
            }
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = Folder::holding("file", "");
        let under_a_file = path(&folder.0).join("x");
        let error = write(&calibration(1.0), &under_a_file)
            .expect_err("no folder")
            .to_string();
        assert!(error.contains("make the folder"), "{error}");
    }
}
