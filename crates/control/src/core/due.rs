//! What waits for time: only topics that something is going on with are looked at, and so many of them at once that nobody
//! waits for a turn of the controller.
//!
//! A topic at rest is not looked at. What ends its rest has it looked at again: a report on it, a publisher that comes or
//! goes, a contract; and what becomes of a broker, which has all topics looked at once ([`Core::look_at_all_shares`]).

use std::ops::Bound;

use clock::Instant;

use super::Core;
use super::turns::Turns;

/// Fits that are looked at in one turn, at most.
const FITS_AT_ONCE: usize = 2048;
/// Topics with publishers that are to move.
const MOVES_AT_ONCE: usize = 64;
/// Topics whose shares have not come to rest.
const SHARES_AT_ONCE: usize = 1024;
/// Topics of all, where all are looked at.
const ALL_AT_ONCE: usize = 1024;

/// What has been looked at so far: it grows with what changes, not with what there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Publishers, to place or to move them.
    pub publishers: u64,
    /// Topics, because time has passed.
    pub topics: u64,
    /// Topics that reports named.
    pub reported: u64,
}

/// Topics that wait for time.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// With a fit that goes on.
    pub(super) fits: Turns,
    /// With shares that have not come to rest.
    pub(super) shares: Turns,
    /// The last one that was looked at because all are, and how many are still to be.
    all: (String, usize),
}

impl Core {
    /// What has been looked at so far.
    #[must_use]
    pub fn work(&self) -> Work {
        self.work
    }

    /// Has the shares of all topics looked at once, a part of them with each turn.
    pub(super) fn look_at_all_shares(&mut self) {
        self.due.all.1 = self.topics.len();
    }

    /// Does what time brings for topics.
    pub(super) fn drive_due(&mut self, now: Instant) {
        let fits = self.due.fits.next(FITS_AT_ONCE);
        let moving = self.loads.moving.next(MOVES_AT_ONCE);
        let mut shares = self.due.shares.next(SHARES_AT_ONCE);
        shares.extend(self.next_of_all());
        self.work.topics += (fits.len() + moving.len() + shares.len()) as u64;
        for name in fits {
            self.drive_fit(&name, now);
        }
        for name in moving {
            self.drive_moves(&name, now);
        }
        for name in shares {
            self.drive_shares(&name, now);
        }
    }

    fn next_of_all(&mut self) -> Vec<std::sync::Arc<str>> {
        let (last, left) = &mut self.due.all;
        let count = (*left).min(ALL_AT_ONCE).min(self.topics.len());
        let ahead = (Bound::Excluded(last.as_str()), Bound::Unbounded);
        let ahead = self.topics.range::<str, _>(ahead).map(|(name, _)| name);
        let around = ahead.chain(self.topics.keys()).take(count);
        let names: Vec<std::sync::Arc<str>> = around.map(|name| name.as_str().into()).collect();
        *left = left.saturating_sub(ALL_AT_ONCE);
        if let Some(name) = names.last() {
            name.as_ref().clone_into(last);
        }
        names
    }
}
