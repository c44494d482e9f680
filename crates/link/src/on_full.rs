//! What a full channel of a topic does, as its contract declares it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What becomes of new messages that find the queue of a channel full. Without a word a channel without consumers drops its
/// oldest after a while, and one with consumers blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFull {
    /// They wait in the topic's queue, and once that is full the publishers wait: nothing is lost, and the slowest channel
    /// sets the pace of all.
    Block,
    /// The oldest message that waits in the channel gives way and is counted: the other channels never wait.
    DropOldest,
}

/// A word that is none of [`OnFull`]'s.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is unknown: on_full is one of block, drop_oldest")]
pub struct UnknownOnFull(String);

impl OnFull {
    /// The word for it in JSON and on command lines.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            OnFull::Block => "block",
            OnFull::DropOldest => "drop_oldest",
        }
    }
}

impl fmt::Display for OnFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for OnFull {
    type Err = UnknownOnFull;

    fn from_str(word: &str) -> Result<OnFull, UnknownOnFull> {
        let all = [OnFull::Block, OnFull::DropOldest];
        let found = all.into_iter().find(|each| each.as_str() == word);
        found.ok_or_else(|| UnknownOnFull(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_same_in_json_and_on_command_lines() {
        for each in [OnFull::Block, OnFull::DropOldest] {
            assert_eq!(each.as_str().parse(), Ok(each));
            let json = serde_json::to_value(each).expect("a word");
            assert_eq!(json, each.as_str());
        }
        let error = "disk".parse::<OnFull>().expect_err("not offered");
        assert!(error.to_string().contains("one of block, drop_oldest"));
    }
}
