//! A broker that finds the others of its limits by itself: its roster, and the notices that it
//! sends and receives.

use std::net::SocketAddr;

use clock::Instant;
use gossip::{Datagram, NoticedLimit, Roster, RosterConfig, SealedMembership, decode};
use link::Sharers;
use topics::IntervalEnd;

use super::agreement::{Agreement, BRANCHES, agree, declared};
use super::sharer::Moment;
use super::{Found, INTERVAL, SharingConfig};

/// The roster, and the limits of this broker as they were last.
#[derive(Debug)]
pub(super) struct Gathering {
    roster: Roster,
    own: Vec<NoticedLimit>,
    generation: u64,
    listed: Vec<SocketAddr>,
    /// Names of `--gossip-join` that have not been found yet. A broker that knows no address counts
    /// nevertheless, so until somebody has been heard there is no list without it.
    unknown: Vec<String>,
}

/// A name of `--gossip-join`, and the address that it stands for at present.
pub type Resolved = (String, SocketAddr);

impl Gathering {
    /// Knows of nobody yet, and begins at this moment.
    ///
    /// # Errors
    /// What is missing, and what to do.
    pub(super) fn new(
        config: &SharingConfig,
        me: Option<SocketAddr>,
        (incarnation, now): Moment,
    ) -> Result<Self, String> {
        let me = me.ok_or(
            "this broker has no gossip address: start it with --gossip-address IP:PORT, as others reach it",
        )?;
        let key = config
            .key
            .clone()
            .ok_or("gossip needs a key: give all brokers the same --gossip-key-file")?;
        let names = config.join.clone();
        let config = RosterConfig {
            me,
            incarnation,
            key,
        };
        Ok(Gathering {
            roster: Roster::new(config, now),
            own: Vec::new(),
            generation: 0,
            listed: Vec::new(),
            unknown: names,
        })
    }

    /// The address of a name has been found.
    pub(super) fn add(&mut self, (name, address): Resolved, now: Instant) {
        self.unknown.retain(|unknown| *unknown != name);
        self.roster.add(address, now);
    }

    /// Names that have no address.
    pub(super) fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// Whether anybody else has limits to share.
    pub(super) fn hears_of_limits(&self, now: Instant) -> bool {
        self.roster.limits(now).next().is_some()
    }

    /// Takes a broker off the roster.
    pub(super) fn forget(&mut self, address: SocketAddr, now: Instant) {
        self.roster.forget(address, now);
    }

    /// Takes a notice; false: it is something else, and for somebody else.
    pub(super) fn take(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) -> bool {
        let Some(sealed) = notice(bytes) else {
            return false;
        };
        self.roster.receive(now, from, sealed);
        true
    }

    /// Compares what this broker was told of limits with what others said.
    pub(super) fn agree(&mut self, now: Instant, ends: &[IntervalEnd]) -> Agreement {
        self.own = declared(ends);
        agree(ends, self.roster.limits(now))
    }

    /// What to send, and to whom.
    pub(super) fn notices(&mut self, now: Instant) -> Vec<(SocketAddr, Vec<u8>)> {
        self.roster.notices(now, &self.own)
    }

    /// When there are notices.
    pub(super) fn next_notice(&self) -> Instant {
        self.roster.next_notice()
    }

    /// What to send when this broker goes.
    pub(super) fn leave(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        self.roster.leave()
    }

    /// The list of brokers, if it is another than before.
    pub(super) fn news(&mut self, now: Instant) -> Option<Sharers> {
        let is_heard = self.roster.others().any(|other| other.heard_at.is_some());
        if !is_heard && !self.unknown.is_empty() {
            return None;
        }
        let listed = self.roster.list(now).filter(|list| *list != self.listed)?;
        self.listed = listed;
        self.generation += 1;
        Some(Sharers {
            generation: self.generation,
            addresses: self.listed.iter().map(SocketAddr::to_string).collect(),
            key: None,
            branches: BRANCHES,
            interval_ms: INTERVAL.as_millis() as u64,
        })
    }

    /// Whether a list is the one that this broker has found last.
    pub(super) fn has_found(&self, sharers: &Sharers) -> bool {
        sharers.key.is_none() && sharers.generation == self.generation
    }

    /// The others on the roster.
    pub(super) fn found(&self, now: Instant) -> Vec<Found> {
        let since = |at: Instant| now.saturating_since(at).as_millis() as u64;
        let others = self.roster.others().map(|other| Found {
            address: other.address,
            heard_ms: other.heard_at.map(since),
        });
        others.collect()
    }

    /// Notices that could not be believed.
    pub(super) fn refused(&self) -> u64 {
        self.roster.refused()
    }
}

fn notice(bytes: &[u8]) -> Option<SealedMembership<'_>> {
    match decode(bytes) {
        Ok(Datagram::Notice(sealed)) => Some(sealed),
        _ => None,
    }
}
