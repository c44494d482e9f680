//! What waits for time. Only active topics are looked at, and only so many at once that nobody
//! waits for a turn of the controller.
//!
//! A topic at rest is not looked at. A report on it, a publisher that comes or goes, or a contract
//! ends its rest; a change of a broker has all topics looked at once ([`Due::look_at_all`]).

use std::ops::Bound;
use std::sync::Arc;

use super::topics::Topics;
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

/// Work so far: it grows with changes, not with the number of topics.
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
    /// What remains to be looked at before the next tick.
    left: Left,
    pub(super) work: Work,
}

/// Topics that are looked at in one part.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) fits: Vec<Arc<str>>,
    pub(super) moving: Vec<Arc<str>>,
    pub(super) shares: Vec<Arc<str>>,
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
    /// Has the shares of all topics, this many, looked at once, a part of them with each turn.
    pub(super) fn look_at_all(&mut self, topics: usize) {
        self.all.1 = topics;
    }

    /// Begins the work that time brings for topics; this many have publishers that are to move.
    pub(super) fn begin(&mut self, moving: usize) {
        self.left = Left {
            fits: self.fits.len().min(FITS_MAX),
            moves: moving.min(MOVES_MAX),
            shares: self.shares.len().min(SHARES_MAX),
            all: self.all.1.min(ALL_MAX),
        };
    }

    /// The next part, at most this many topics of a kind.
    pub(super) fn next(&mut self, topics: &mut Topics, at_most: usize) -> Part {
        let left = &mut self.left;
        let fits = take(&mut left.fits, at_most);
        let moves = take(&mut left.moves, MOVES_AT_ONCE);
        let shares = take(&mut left.shares, at_most);
        let all = take(&mut left.all, at_most);
        let mut part = Part {
            fits: self.fits.next(fits),
            moving: topics.loads.moving.next(moves),
            shares: self.shares.next(shares),
        };
        part.shares.extend(self.next_of_all(topics, all));
        self.work.topics += (part.fits.len() + part.moving.len() + part.shares.len()) as u64;
        part
    }

    fn next_of_all(&mut self, topics: &Topics, at_most: usize) -> Vec<Arc<str>> {
        let topics = topics.all();
        let (last, left) = &mut self.all;
        let count = (*left).min(at_most).min(topics.len());
        let ahead = (Bound::Excluded(last.as_str()), Bound::Unbounded);
        let ahead = topics.range::<str, _>(ahead).map(|(name, _)| name);
        let around = ahead.chain(topics.keys()).take(count);
        let names: Vec<Arc<str>> = around.map(|name| name.as_str().into()).collect();
        *left = left.saturating_sub(at_most);
        if let Some(name) = names.last() {
            name.as_ref().clone_into(last);
        }
        names
    }

    /// Whether anything is still to be looked at.
    pub(super) fn is_busy(&self) -> bool {
        self.left != Left::default()
    }
}

/// Takes a part of what is left.
fn take(left: &mut usize, at_most: usize) -> usize {
    let part = (*left).min(at_most);
    *left -= part;
    part
}
