//! The broker's side of one topic's lease.
//!
//! It knows when reports were sent, takes grants, and says what is in force at an instant. It reads
//! no clock: a process that was stopped for long asks afterwards and finds the end of its lease at
//! the instant at which it was, so that the bucket is resized *as of* then:
//!
//! ```text
//! if holder.expires_at() <= now and not yet done: bucket.resize(expires_at, floor)
//! if holder.receive(&grant, now):                 bucket.resize(now, holder.in_force(now))
//! ```
//!
//! While nothing is in force, nothing passes, and the former bucket is paused
//! ([`crate::TokenBucket::pause`]).

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;

use crate::{Grant, Share};

/// Reports remembered at most. A grant that answers an older one is refused; the next report gets
/// another.
const REPORTS_REMEMBERED: usize = 64;

/// By what all leases of a broker last longer that have not ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prolongation {
    /// The controller renews them: none ends before it would if its grant had answered this report.
    Renewed {
        /// The number of the report.
        report: u64,
    },
    /// All brokers of a round vouch for each other: no lease of that round ends before `until`
    /// ([`crate::Vouches::held_until`]).
    Held {
        /// The round; 0 is none.
        round: u64,
        /// The instant.
        until: Instant,
    },
}

/// A broker's knowledge of its share of one topic's limit. Begins with nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaseHolder {
    /// Numbers and instants of the reports sent last, ascending.
    sent: VecDeque<(u64, Instant)>,
    applied: Option<Applied>,
}

/// The grant in force and the instant at which its lease ends.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Applied {
    grant: Grant,
    expires_at: Instant,
}

impl LeaseHolder {
    /// A holder of nothing, as every process begins.
    pub fn new() -> Self {
        LeaseHolder::default()
    }

    /// Notes that the report numbered `report` was sent; call it *before* the report can be
    /// received.
    ///
    /// A number that is not above the last one begins a new connection: reports of the former one
    /// are forgotten, and grants that answer them are refused.
    pub fn report_sent(&mut self, report: u64, now: Instant) {
        if self.sent.back().is_some_and(|&(last, _)| report <= last) {
            self.sent.clear();
        }
        if self.sent.len() == REPORTS_REMEMBERED {
            self.sent.pop_front();
        }
        self.sent.push_back((report, now));
    }

    /// Takes a grant and says whether it is accepted: from `now` on it is in force.
    ///
    /// Refused, without effect, if its (epoch, seq) is not greater than that of the grant in force,
    /// or if the report that it answers is unknown. One whose lease has ended already is accepted:
    /// its floor is in force.
    pub fn receive(&mut self, grant: &Grant, now: Instant) -> bool {
        if (grant.epoch, grant.seq) <= self.confirmation() {
            return false;
        }
        let answered = self
            .sent
            .iter()
            .find(|&&(number, at)| number == grant.answers_report && at <= now);
        let Some(&(_, sent_at)) = answered else {
            return false;
        };
        self.applied = Some(Applied {
            grant: *grant,
            expires_at: sent_at + Duration::from_millis(grant.ttl_ms),
        });
        true
    }

    /// Hears at `now` that leases last longer. One that has ended stays ended.
    pub fn prolong(&mut self, by: Prolongation, now: Instant) {
        let Some(applied) = self.applied.filter(|applied| now < applied.expires_at) else {
            return;
        };
        if let Some(until) = self.prolonged_until(&applied.grant, by, now) {
            self.applied = Some(Applied {
                expires_at: applied.expires_at.max(until),
                ..applied
            });
        }
    }

    /// How long a lease lasts at least by what was heard at `heard_at`, if it means this one.
    fn prolonged_until(
        &self,
        grant: &Grant,
        by: Prolongation,
        heard_at: Instant,
    ) -> Option<Instant> {
        match by {
            Prolongation::Held { round, until } => {
                (round != 0 && round == grant.round).then_some(until)
            }
            Prolongation::Renewed { report } => {
                let mut sent = self.sent.iter();
                let sent = sent.find(|&&(number, at)| number == report && at <= heard_at);
                sent.map(|&(_, sent_at)| sent_at + Duration::from_millis(grant.ttl_ms))
            }
        }
    }

    /// The share that may be used at `now`, at or after the latest grant was received.
    pub fn in_force(&self, now: Instant) -> Option<Share> {
        let applied = self.applied?;
        if now < applied.expires_at {
            applied.grant.share
        } else {
            applied.grant.floor
        }
    }

    /// When the lease ends, or ended; from that instant on [`LeaseHolder::floor`] is in force.
    pub fn expires_at(&self) -> Option<Instant> {
        self.applied.map(|applied| applied.expires_at)
    }

    /// What is in force until the lease ends.
    pub fn share(&self) -> Option<Share> {
        self.applied.and_then(|applied| applied.grant.share)
    }

    /// What is in force once the lease has ended.
    pub fn floor(&self) -> Option<Share> {
        self.applied.and_then(|applied| applied.grant.floor)
    }

    /// When [`LeaseHolder::in_force`] changes next if no grant comes; `None`: never.
    pub fn next_change(&self, now: Instant) -> Option<Instant> {
        let applied = self.applied?;
        let changes = now < applied.expires_at && applied.grant.share != applied.grant.floor;
        changes.then_some(applied.expires_at)
    }

    /// (epoch, seq) of the grant in force, to be sent with each report; (0, 0) before the first.
    pub fn confirmation(&self) -> (u64, u64) {
        self.applied
            .map_or((0, 0), |applied| (applied.grant.epoch, applied.grant.seq))
    }
}
