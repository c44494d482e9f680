//! What waits for time: only topics that something is going on with are looked at, and so many of them at once that nobody
//! waits for a turn of the controller.
//!
//! A topic at rest is not looked at. What ends its rest has it looked at again: a report on it, a publisher that comes or
//! goes, a contract; and what becomes of a broker, which has all topics looked at once ([`Core::look_at_all_shares`]).

use std::ops::Bound;

use clock::Instant;

use super::Core;
use super::turns::Turns;

/// Fits that are looked at between two ticks, at most.
const FITS_MAX: usize = 2048;
/// Topics with publishers that are to move.
const MOVES_MAX: usize = 64;
/// Topics whose shares have not come to rest.
const SHARES_MAX: usize = 1024;
/// Topics of all, where all are looked at.
const ALL_MAX: usize = 1024;

/// Topics with publishers that are to move, in one part.
const MOVES_AT_ONCE: usize = 8;

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
    /// What is still to be looked at before the next tick.
    left: Left,
}

/// How many of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Left {
    fits: usize,
    moves: usize,
    shares: usize,
    all: usize,
}

impl Due {
    /// Whether anything is still to be looked at.
    pub(super) fn is_busy(&self) -> bool {
        self.left != Left::default()
    }
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

    /// Begins what time brings for topics.
    pub(super) fn drive_due(&mut self, now: Instant) {
        self.due.left = Left {
            fits: self.due.fits.len().min(FITS_MAX),
            moves: self.loads.moving.len().min(MOVES_MAX),
            shares: self.due.shares.len().min(SHARES_MAX),
            all: self.due.all.1.min(ALL_MAX),
        };
        self.go_on_due(now);
    }

    /// The next part of it.
    pub(super) fn go_on_due(&mut self, now: Instant) {
        let (left, topics) = (&mut self.due.left, self.sizes.topics);
        let fits = take(&mut left.fits, topics);
        let moves = take(&mut left.moves, MOVES_AT_ONCE);
        let shares = take(&mut left.shares, topics);
        let all = take(&mut left.all, topics);
        let fits = self.due.fits.next(fits);
        let moving = self.loads.moving.next(moves);
        let mut shares = self.due.shares.next(shares);
        shares.extend(self.next_of_all(all));
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

    fn next_of_all(&mut self, at_most: usize) -> Vec<std::sync::Arc<str>> {
        let (last, left) = &mut self.due.all;
        let count = (*left).min(at_most).min(self.topics.len());
        let ahead = (Bound::Excluded(last.as_str()), Bound::Unbounded);
        let ahead = self.topics.range::<str, _>(ahead).map(|(name, _)| name);
        let around = ahead.chain(self.topics.keys()).take(count);
        let names: Vec<std::sync::Arc<str>> = around.map(|name| name.as_str().into()).collect();
        *left = left.saturating_sub(at_most);
        if let Some(name) = names.last() {
            name.as_ref().clone_into(last);
        }
        names
    }
}

/// Takes a part of what is left.
fn take(left: &mut usize, at_most: usize) -> usize {
    let part = (*left).min(at_most);
    *left -= part;
    part
}
