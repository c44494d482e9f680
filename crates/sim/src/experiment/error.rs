//! Why an experiment cannot be run.

use std::io;

use thiserror::Error;

use crate::SimError;

/// Why an experiment cannot be run.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// A definition that makes no sense.
    #[error("{file}, line {line}: {text}")]
    Definition {
        /// The file, or the name of the built-in figure.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong, and what to write instead.
        text: String,
    },
    /// A name that no figure and no panel has.
    #[error("there is no experiment {name:?}; there are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// All names.
        known: String,
    },
    /// One run failed.
    #[error("{run}: {source}")]
    Run {
        /// Which.
        run: String,
        /// Why.
        source: SimError,
    },
    /// A line in a file of results that is none.
    #[error("{path}, line {line}: {text}; remove the file or run with --fresh")]
    Results {
        /// The file.
        path: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        text: String,
    },
    /// There are no results to be judged.
    #[error("there is no {path}: run srtm experiment {name} first")]
    NoResults {
        /// The experiment.
        name: String,
        /// Where its results would be.
        path: String,
    },
    /// An interrupted run had another definition, seed or version.
    #[error(
        "{path} was begun with another definition, seed or version; finish it with those, or discard it with --fresh"
    )]
    OtherSettings {
        /// The file.
        path: String,
    },
    /// A file could not be read or written.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
}

impl ExperimentError {
    /// For `map_err`: what was tried with a file.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| ExperimentError::Io {
            what: what.into(),
            source,
        }
    }
}
