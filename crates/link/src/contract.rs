//! The contract of a topic: what every broker promises it and holds it to.

use kernel::CpuShare;
use limit::Limit;
use serde::{Deserialize, Serialize};

use crate::{Durability, OnFull};

/// A topic's contract as brokers keep it, declared as a whole: what is absent is not in force. The promise of a latency (SLO) is not in
/// it: the controller keeps that by where publishers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contract {
    /// Rate, burst, unit, what becomes of what exceeds them, and how brokers share them; over all brokers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Part of the time of each of a broker's threads, above 0 and at most 1; `None`: an equal part of what others leave.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "crate::cpu_share"
    )]
    pub cpu_share: Option<CpuShare>,
    /// What becomes of a full channel; `None`: by whether it has consumers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_full: Option<OnFull>,
    /// Where a message is once its publisher hears that it was accepted.
    #[serde(default, skip_serializing_if = "Durability::is_memory")]
    pub durability: Durability,
}

impl Contract {
    /// Of a limit alone.
    #[must_use]
    pub fn of_limit(limit: Limit) -> Contract {
        Contract {
            limit: Some(limit),
            ..Contract::default()
        }
    }

    /// Whether nothing is declared.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Contract::default()
    }
}
