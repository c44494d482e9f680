//! The rules by which a topic's publishers are distributed: SRTM's own and the baselines.
//!
//! The baselines are kept because the worth of each principle is a comparison (SRTM-long, sections
//! 6.2 to 6.4); an operator may also choose one of them for a topic.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How publishers are distributed over brokers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Load balancing: evenly over all brokers that are available (section 6.2).
    Lb,
    /// Concentration: the fewest brokers, whose total loads, other topics included, are made equal
    /// (section 6.2).
    Conc,
    /// The fewest brokers; the topic's least rate at any of them is as high as it can be (section 6.3).
    MaxMin,
    /// As [`Policy::MaxMin`], and every correlation group is split in the same proportion as the topic
    /// (section 4.3).
    #[default]
    Srtm,
}

/// A word that names no [`Policy`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("policy {0:?} is unknown: use one of {words}", words = Policy::ALL.map(Policy::as_str).join(", "))]
pub struct UnknownPolicy(pub String);

impl Policy {
    /// All of them, each adding a principle to the one before.
    pub const ALL: [Policy; 4] = [Policy::Lb, Policy::Conc, Policy::MaxMin, Policy::Srtm];

    /// Whether it divides every correlation group over the brokers; the others know no groups.
    #[must_use]
    pub const fn divides_groups(self) -> bool {
        match self {
            Policy::Lb | Policy::Conc | Policy::MaxMin => false,
            Policy::Srtm => true,
        }
    }

    /// Whether it takes all brokers that are available; the others take as few as have room.
    #[must_use]
    pub const fn takes_all_brokers(self) -> bool {
        match self {
            Policy::Lb => true,
            Policy::Conc | Policy::MaxMin | Policy::Srtm => false,
        }
    }

    /// Whether it makes the total loads of its brokers equal, other topics included; the others look at their own topic only.
    #[must_use]
    pub const fn levels_total_load(self) -> bool {
        match self {
            Policy::Conc => true,
            Policy::Lb | Policy::MaxMin | Policy::Srtm => false,
        }
    }

    /// The word for it in flags, JSON and results.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Policy::Lb => "lb",
            Policy::Conc => "conc",
            Policy::MaxMin => "max-min",
            Policy::Srtm => "srtm",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(word: &str) -> Result<Self, UnknownPolicy> {
        Policy::ALL
            .into_iter()
            .find(|policy| policy.as_str() == word)
            .ok_or_else(|| UnknownPolicy(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_reads_back_from_its_word() {
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!(Policy::default(), Policy::Srtm);
    }

    #[test]
    fn an_unknown_word_is_refused_by_name() {
        let refused = "maxmin".parse::<Policy>().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "policy \"maxmin\" is unknown: use one of lb, conc, max-min, srtm"
        );
    }
}
