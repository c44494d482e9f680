//! Which controller leads: it alone decides, writes and gives orders. Others answer questions and
//! name the leader.
//!
//! Each leading controller has a number of its own, its epoch, greater than those of all that led
//! before. Every order to a broker carries it ([`link::Order`]), and brokers that have heard a
//! later one ignore the order: a deposed controller that has not noticed yet changes nothing.

use crate::ControlError;

/// Says whether this process leads. Asked with every turn of the controller's loop, so it answers from memory.
pub trait Leadership: Send {
    /// How it stands now.
    fn standing(&self) -> Standing;
}

/// Whether a process leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does, in the life of this number.
    Leads {
        /// Greater than that of any life that led before.
        epoch: u64,
    },
    /// It does not, or not any more.
    Follows {
        /// The leader, where it is known.
        leader: Option<Leader>,
    },
}

/// The controller that leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Where it listens for brokers, `host:port`.
    pub link: String,
    /// URL of its HTTP API.
    pub http: String,
}

/// The process that has the embedded store open: nobody else can, so it leads until it ends.
#[derive(Clone, Copy, Debug)]
pub struct Alone {
    /// Number of its life.
    pub epoch: u64,
}

impl Leadership for Alone {
    fn standing(&self) -> Standing {
        Standing::Leads { epoch: self.epoch }
    }
}

/// The number of the next life: greater than the last one that was kept, and `least` at least, for one that could not be kept.
#[must_use]
pub fn next_epoch(kept: Option<u64>, least: u64) -> u64 {
    kept.unwrap_or(0).saturating_add(1).max(least)
}

/// What whoever wants something changed is told.
pub(crate) fn elsewhere(leader: Option<&Leader>) -> ControlError {
    let text = match leader {
        Some(leader) => format!(
            "this controller does not lead, so nothing is changed here; ask the leader at {}",
            leader.http
        ),
        None => String::from(
            "this controller does not lead, so nothing is changed here, and it does not know the leader; ask another one, or try again in a moment",
        ),
    };
    let leader = leader.map(|leader| leader.http.clone());
    ControlError::Elsewhere { text, leader }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_life_has_a_greater_number_kept_or_not() {
        assert_eq!(next_epoch(None, 0), 1);
        assert_eq!(next_epoch(Some(7), 0), 8);
        assert_eq!(next_epoch(Some(7), 1_800_000_000), 1_800_000_000);
        assert_eq!(
            next_epoch(Some(1_800_000_000), 1_800_000_000),
            1_800_000_001
        );
    }
}
