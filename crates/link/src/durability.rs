//! What a topic declares to become of its messages when a broker dies.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a message is once its publisher hears that it was accepted.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// In the memory of the broker, which loses it when it is killed.
    #[default]
    Memory,
    /// In a file: it outlives the broker's process, but perhaps not a crash of the machine.
    Disk,
    /// In a file that the disk has confirmed: it outlives a crash of the machine.
    Fsync,
}

/// A word that is none of [`Durability`]'s.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is unknown: durability is one of memory, disk, fsync")]
pub struct UnknownDurability(String);

/// What is never kept was to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "durability {0} is not for an ephemeral topic, which is never on disk: take a name without #ephemeral, or memory"
)]
pub struct NeverKept(Durability);

impl Durability {
    /// All of them, the weakest first.
    pub const ALL: [Durability; 3] = [Durability::Memory, Durability::Disk, Durability::Fsync];

    /// The word for it in JSON and on command lines.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Durability::Memory => "memory",
            Durability::Disk => "disk",
            Durability::Fsync => "fsync",
        }
    }

    /// Whether a topic may be declared so.
    ///
    /// # Errors
    /// [`NeverKept`] for an ephemeral topic that is to be more than in memory.
    pub const fn check(self, is_ephemeral: bool) -> Result<(), NeverKept> {
        match self {
            Durability::Disk | Durability::Fsync if is_ephemeral => Err(NeverKept(self)),
            _ => Ok(()),
        }
    }

    /// Whether messages are only in memory, as they are without a word.
    #[must_use]
    pub const fn is_memory(&self) -> bool {
        matches!(self, Durability::Memory)
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Durability {
    type Err = UnknownDurability;

    fn from_str(word: &str) -> Result<Durability, UnknownDurability> {
        let found = Durability::ALL
            .into_iter()
            .find(|each| each.as_str() == word);
        found.ok_or_else(|| UnknownDurability(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_same_in_json_and_on_command_lines() {
        for each in Durability::ALL {
            assert_eq!(each.as_str().parse(), Ok(each));
            let json = serde_json::to_value(each).expect("a word");
            assert_eq!(json, each.as_str());
        }
        assert_eq!(Durability::default(), Durability::Memory);
        let error = "raid".parse::<Durability>().expect_err("not offered");
        assert!(error.to_string().contains("one of memory, disk, fsync"));
    }

    #[test]
    fn only_what_is_kept_is_durable() {
        for each in Durability::ALL {
            assert_eq!(each.check(false), Ok(()));
            assert_eq!(each.check(true).is_ok(), each.is_memory());
        }
        let error = Durability::Disk.check(true).expect_err("ephemeral");
        assert!(error.to_string().contains("take a name without #ephemeral"));
    }
}
