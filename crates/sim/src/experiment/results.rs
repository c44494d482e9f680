//! Files of results: `NAME.jsonl`, and while a run lasts `NAME.jsonl.part`.
//!
//! The part begins with a line that says what its records belong to; records are appended as they
//! come. An interrupted run goes on from there: an incomplete last line is cut off. When all are
//! there they are sorted, written beside the old file and renamed over it, so a file without
//! `.part` is always whole.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::ExperimentError;

/// A folder of results.
#[derive(Clone, Debug)]
pub struct Results {
    folder: PathBuf,
}

/// The first line of a part.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Heading {
    belongs_to: String,
}

/// A part that grows.
pub(super) struct Part {
    path: PathBuf,
    file: File,
}

impl Results {
    /// The results in `folder`, which need not exist yet.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Results {
            folder: folder.into(),
        }
    }

    /// The file of an experiment's records; quick runs have one of their own.
    #[must_use]
    pub fn path(&self, experiment: &str, quick: bool) -> PathBuf {
        self.file(experiment, quick, "jsonl")
    }

    /// The file of what depends on the machine and the hour.
    #[must_use]
    pub fn meta_path(&self, experiment: &str, quick: bool) -> PathBuf {
        self.file(experiment, quick, "meta.json")
    }

    /// Writes a whole file: beside the old one first, then renamed over it.
    ///
    /// # Errors
    /// [`ExperimentError::Io`].
    pub fn replace(&self, path: &Path, text: &str) -> Result<(), ExperimentError> {
        fs::create_dir_all(&self.folder)
            .map_err(ExperimentError::io(self.folder.display().to_string()))?;
        let beside = with_ending(path, ".tmp");
        let write = || {
            let mut file = File::create(&beside)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, path)
        };
        write().map_err(ExperimentError::io(path.display().to_string()))
    }

    /// The records of a finished experiment; `None` if there is no file.
    ///
    /// # Errors
    /// [`ExperimentError::Results`] for a file that is none, [`ExperimentError::Io`].
    pub fn records<R: DeserializeOwned>(
        &self,
        experiment: &str,
        quick: bool,
    ) -> Result<Option<Vec<R>>, ExperimentError> {
        let path = self.path(experiment, quick);
        let Some(text) = read_if_there(&path)? else {
            return Ok(None);
        };
        if !text.is_empty() && !text.ends_with('\n') {
            let line = text.lines().count();
            return Err(not_results(&path, line, "the line has no end"));
        }
        parse(&path, &text, 1).map(Some)
    }

    /// Writes the records of a whole experiment and removes the part.
    pub(super) fn finish<R: Serialize>(
        &self,
        experiment: &str,
        quick: bool,
        records: &[R],
    ) -> Result<(), ExperimentError> {
        let path = self.path(experiment, quick);
        let text: String = records.iter().map(line).collect();
        self.replace(&path, &text)?;
        let part = with_ending(&path, ".part");
        fs::remove_file(&part).map_err(ExperimentError::io(part.display().to_string()))
    }

    /// Begins or resumes a part; returns the records that it has already.
    pub(super) fn part<R: DeserializeOwned>(
        &self,
        experiment: &str,
        quick: bool,
        belongs_to: &str,
        fresh: bool,
    ) -> Result<(Part, Vec<R>), ExperimentError> {
        let path = with_ending(&self.path(experiment, quick), ".part");
        let text = if fresh { None } else { read_if_there(&path)? };
        // What follows the last line end was being written when the run was interrupted.
        let whole = text.as_deref().map_or("", |text| {
            &text[..text.rfind('\n').map_or(0, |last| last + 1)]
        });
        let records = match whole.split_once('\n') {
            None => Vec::new(),
            Some((heading, rest)) => {
                let heading: Heading = serde_json::from_str(heading)
                    .map_err(|error| not_results(&path, 1, &error.to_string()))?;
                if heading.belongs_to != belongs_to {
                    let path = path.display().to_string();
                    return Err(ExperimentError::OtherSettings { path });
                }
                parse(&path, rest, 2)?
            }
        };
        fs::create_dir_all(&self.folder)
            .map_err(ExperimentError::io(self.folder.display().to_string()))?;
        let open = || {
            let mut file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)?;
            file.set_len(whole.len() as u64)?;
            std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0))?;
            if whole.is_empty() {
                let belongs_to = belongs_to.to_owned();
                file.write_all(line(&Heading { belongs_to }).as_bytes())?;
            }
            Ok(file)
        };
        let file = open().map_err(ExperimentError::io(path.display().to_string()))?;
        Ok((Part { path, file }, records))
    }

    fn file(&self, experiment: &str, quick: bool, ending: &str) -> PathBuf {
        let mark = if quick { ".quick" } else { "" };
        self.folder.join(format!("{experiment}{mark}.{ending}"))
    }
}

impl Part {
    /// Appends records and hands them to the system.
    pub(super) fn append<R: Serialize>(&mut self, records: &[R]) -> Result<(), ExperimentError> {
        let text: String = records.iter().map(line).collect();
        self.file
            .write_all(text.as_bytes())
            .map_err(ExperimentError::io(self.path.display().to_string()))
    }
}

/// A value as a line of JSON.
fn line(value: &impl Serialize) -> String {
    // Only maps with keys that are no strings fail, and there are none.
    let json = serde_json::to_string(value).unwrap_or_default();
    json + "\n"
}

fn parse<R: DeserializeOwned>(
    path: &Path,
    text: &str,
    first: usize,
) -> Result<Vec<R>, ExperimentError> {
    let record = |(number, line): (usize, &str)| {
        serde_json::from_str(line)
            .map_err(|error| not_results(path, first + number, &error.to_string()))
    };
    text.lines().enumerate().map(record).collect()
}

fn not_results(path: &Path, line: usize, text: &str) -> ExperimentError {
    ExperimentError::Results {
        path: path.display().to_string(),
        line,
        text: format!("not a row of results: {text}"),
    }
}

fn read_if_there(path: &Path) -> Result<Option<String>, ExperimentError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ExperimentError::io(path.display().to_string())(error)),
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}
