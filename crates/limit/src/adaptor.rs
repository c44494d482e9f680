//! The TB Adaptor's arithmetic: from traffic to shares (SRTM-long, section 5.4).
//!
//! Each broker keeps a [`History`] of a topic: 10 s in steps of 1 s by default, of which it reports
//! the mean rate and the greatest backlog, [`Traffic`]. The controller divides the limit by them
//! ([`split`]): r_l in proportion to the mean rates, b_l in proportion to the backlogs. Small
//! changes are not worth a grant ([`is_worth_moving`]).
//!
//! *Backlog* is the unfinished work U of the bucket's queue (appendix A), in tokens: what waits for
//! tokens plus what the bucket is short of being full. For nothing to wait, b_l must be at least
//! that.
//!
//! It does not decide when a share may be used; that is [`crate::lease`].

mod division;
mod history;
mod split;

pub use history::{History, HistoryLength};
pub use split::{Claim, is_worth_moving, split};

pub(crate) use division::round_down;
pub(crate) use split::{least_burst, least_rate};

use serde::{Deserialize, Serialize};

use crate::InvalidReport;

/// A topic's traffic at one broker over its history window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Reported")]
pub struct Traffic {
    mean_rate: f64,
    max_backlog: f64,
}

impl Traffic {
    /// The greatest rate or backlog that is believed.
    pub const MAX: f64 = 1e15;

    /// Traffic as measured, or as told by a broker.
    ///
    /// # Errors
    /// [`InvalidReport::Absurd`] unless both are numbers from 0 to [`Traffic::MAX`].
    pub fn new(mean_rate: f64, max_backlog: f64) -> Result<Self, InvalidReport> {
        for (field, given) in [("mean_rate", mean_rate), ("max_backlog", max_backlog)] {
            if !(0.0..=Self::MAX).contains(&given) {
                return Err(InvalidReport::Absurd { field, given });
            }
        }
        Ok(Traffic {
            mean_rate,
            max_backlog,
        })
    }

    /// Tokens per second asked for, whether they were granted or not.
    pub fn mean_rate(&self) -> f64 {
        self.mean_rate
    }

    /// Tokens of unfinished work at its greatest.
    pub fn max_backlog(&self) -> f64 {
        self.max_backlog
    }
}

/// The JSON object, not yet checked.
#[derive(Deserialize)]
struct Reported {
    mean_rate: f64,
    max_backlog: f64,
}

impl TryFrom<Reported> for Traffic {
    type Error = InvalidReport;

    fn try_from(reported: Reported) -> Result<Self, InvalidReport> {
        Traffic::new(reported.mean_rate, reported.max_backlog)
    }
}

#[cfg(test)]
mod tests;
