//! What somebody says of a setting, and whose word counts.

use std::collections::BTreeSet;
use std::fmt;

use super::definition::{Setting, Takes};
use super::mistake::Place;

/// Who says what a setting is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A flag.
    Flag,
    /// The environment or a file.
    Placed(Place),
    /// Nobody.
    Default,
}

/// What a file or the environment says of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The setting's key.
    pub key: String,
    /// Its values: of a switch `true` or `false`, of a value one, of a list any number.
    pub values: Vec<String>,
    /// Where it stands.
    pub place: Place,
}

impl Said {
    /// The same on a command line.
    #[must_use]
    pub fn arguments(&self, setting: &Setting) -> Vec<String> {
        let flag = &setting.flag;
        match setting.takes {
            Takes::Switch if self.values.iter().any(|value| value == "true") => {
                vec![format!("--{flag}")]
            }
            Takes::Switch => Vec::new(),
            Takes::Value | Takes::List => {
                let values = self.values.iter();
                values.map(|value| format!("--{flag}={value}")).collect()
            }
        }
    }
}

/// What counts beside the flags `given` (their keys): what the environment says of other settings, and what the file says
/// of those that neither names. A list counts as a whole.
#[must_use]
pub fn layered(given: &BTreeSet<String>, environment: Vec<Said>, file: Vec<Said>) -> Vec<Said> {
    let mut counting: Vec<Said> = Vec::new();
    for said in environment.into_iter().chain(file) {
        let is_said = given.contains(&said.key) || counting.iter().any(|by| by.key == said.key);
        if !is_said {
            counting.push(said);
        }
    }
    counting
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag => f.write_str("flag"),
            Origin::Placed(place) => place.fmt(f),
            Origin::Default => f.write_str("default"),
        }
    }
}
