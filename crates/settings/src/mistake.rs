//! What is wrong with what a file or the environment says, and where it stands.

use std::fmt;

/// Where something is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a line of a file, counted from 1.
    Line {
        /// The file, as it was named.
        file: String,
        /// The line.
        line: usize,
    },
    /// In a variable of the environment.
    Variable(String),
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where.
    pub place: Place,
    /// The key that it is about, as it was written; empty where the file itself cannot be read.
    pub key: String,
    /// What is wrong, and what would be right.
    pub reason: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line { file, line } => write!(f, "{file}:{line}"),
            Place::Variable(name) => write!(f, "{name} in the environment"),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mistake { place, key, reason } = self;
        match key.as_str() {
            "" => write!(f, "{place}: {reason}"),
            key => write!(f, "{place}: `{key}` {reason}"),
        }
    }
}
