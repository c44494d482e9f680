//! Announcements made once for all topics of a table, and heard by each when it is looked at.
//!
//! So a hundred thousand topics at rest cost nothing. A topic hears each announcement as of the
//! instant at which it was made, before anything depends on it, so it ends up where it would be if
//! it had heard everything at once. Only a limited number is kept. Before the oldest is forgotten,
//! all topics are told to hear them, in slices ([`super::settling`]). A topic that missed some all
//! the same has the latest.

use std::collections::VecDeque;

use clock::Instant;

use super::lease::Prolongations;
use super::sharing::Groups;

/// Words that are kept; the oldest goes first.
const KEPT_MAX: usize = 64;

/// What a limiter hears when its topic is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    /// By what all leases were prolonged.
    pub prolongations: &'a Prolongations,
    /// The brokers that share limits.
    pub groups: &'a Groups,
}

/// The latest announcements of one kind, and their number so far. The table owns them; a topic
/// remembers how many it has heard.
#[derive(Debug)]
pub struct Words<T> {
    said: u64,
    latest: VecDeque<(Instant, T)>,
}

impl<T> Default for Words<T> {
    fn default() -> Self {
        Words {
            said: 0,
            latest: VecDeque::new(),
        }
    }
}

impl<T: Copy> Words<T> {
    /// Says one at `now`; gives how many were said, this one included.
    pub fn say(&mut self, word: T, now: Instant) -> u64 {
        if self.latest.len() == KEPT_MAX {
            self.latest.pop_front();
        }
        self.latest.push_back((now, word));
        self.said += 1;
        self.said
    }

    /// How many were said.
    #[inline]
    #[must_use]
    pub fn said(&self) -> u64 {
        self.said
    }

    /// Those that were said after the first `heard`, as far as they are kept.
    pub fn since(&self, heard: u64) -> impl Iterator<Item = (Instant, T)> {
        let unheard = usize::try_from(self.said - heard).unwrap_or(usize::MAX);
        let known = self.latest.len().saturating_sub(unheard);
        self.latest.range(known..).copied()
    }
}
