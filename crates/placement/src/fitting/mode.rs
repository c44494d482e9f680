//! The two ways of fitting.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How it is found out what a broker holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// By live windows alone: a binary search over the publishers that stay (SRTM-long, section 4.2).
    Measure,
    /// By replaying one window's arrivals, confirmed by a live window.
    #[default]
    Replay,
}

/// A word that names no [`Mode`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("fit mode {0:?} is unknown: use one of measure, replay")]
pub struct UnknownMode(pub String);

impl Mode {
    /// Both.
    pub const ALL: [Mode; 2] = [Mode::Measure, Mode::Replay];

    /// The word for it in flags and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Mode::Measure => "measure",
            Mode::Replay => "replay",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(word: &str) -> Result<Self, UnknownMode> {
        Mode::ALL
            .into_iter()
            .find(|mode| mode.as_str() == word)
            .ok_or_else(|| UnknownMode(word.to_owned()))
    }
}
