//! The controller's side of one topic's leases, over all its brokers.
//!
//! Events go in with the instant at which they happened ([`Ledger::join`], [`Ledger::report`], …);
//! [`Ledger::plan`] says which grants to send, and is cheap enough to be called after each event
//! and once a second besides.
//!
//! **A limit that shrinks**: the old contract holds until the confirmations arrive. Exposure may
//! exceed the new limit meanwhile, never the greater of the two, and of a silent broker the old
//! floor stays reserved. A change of *unit* needs another ledger and other holders: begin both
//! anew, so that no grant number is compared with an earlier one.
//!
//! **A controller that restarts** goes on under a greater epoch with [`Ledger::restore`]. For that
//! it keeps, durably, its epoch and what each broker may be using ([`Ledger::known`]), the latter
//! before the grants of a plan go out.
//!
//! **A broker that has what nobody granted**, as after a restart of a controller that kept nothing:
//! it is believed, and that much is reserved. While the claims together are within the limit they
//! are renewed; where they exceed it, a claim gives no right, and its broker gets what is free.

mod config;
mod plan;
mod rest;
mod target;

use std::collections::BTreeMap;
use std::sync::Arc;

use clock::Instant;

use super::member::Member;
use super::vouches::Leavers;
use super::{Exposure, Grant};
use crate::{InvalidReport, Limit, Share, Traffic};
pub use config::{LedgerConfig, Mode};
use target::Planned;

/// Brokers of one topic at most; more may not join.
const BROKERS_AT_MOST: usize = 1024;

/// A broker's report about its share of a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Number of the report; ascending on one connection.
    pub number: u64,
    /// [`LeaseHolder::confirmation`](crate::LeaseHolder::confirmation) when it was sent.
    pub confirmed: (u64, u64),
    /// What was in force when it was sent.
    pub held: Option<Share>,
    /// Traffic over the broker's history window.
    pub traffic: Traffic,
}

/// Who may be using how much of one topic's limit, and who gets what next.
#[derive(Clone, Debug)]
pub struct Ledger {
    limit: Limit,
    config: LedgerConfig,
    epoch: u64,
    /// Number of the latest grant.
    seq: u64,
    members: BTreeMap<u32, Member>,
    /// Targets are computed anew with the next plan.
    is_due: bool,
    planned: Option<Planned>,
    /// Until then shares are renewed as they are, unless all brokers that were known have reported.
    settling_until: Option<Instant>,
    /// The round in which grants are made to the brokers on its list; in ascending order.
    round: u64,
    listed: Arc<[u32]>,
    leavers: Leavers,
}

impl Ledger {
    /// The ledger of a topic that no broker serves yet.
    ///
    /// `epoch` is at least 1 and greater than that of any ledger that this topic had before.
    pub fn new(limit: Limit, config: LedgerConfig, epoch: u64) -> Self {
        Ledger {
            limit,
            config,
            epoch,
            seq: 0,
            members: BTreeMap::new(),
            is_due: true,
            planned: None,
            settling_until: None,
            round: 0,
            listed: Arc::default(),
            leavers: Leavers::default(),
        }
    }

    /// Goes on where a former controller ended: `known` is what it kept of [`Ledger::known`].
    ///
    /// That much stays reserved for each broker until it has confirmed a grant of this epoch or is
    /// dead. Until all of them have reported, or one ttl has passed, nothing moves: a broker that
    /// reports has renewed what it holds.
    pub fn restore(
        limit: Limit,
        config: LedgerConfig,
        epoch: u64,
        known: &[(u32, Option<Share>)],
        now: Instant,
    ) -> Self {
        let mut ledger = Ledger::new(limit, config, epoch);
        ledger.members = known
            .iter()
            .map(|&(broker, most)| (broker, Member::restored(most, now)))
            .collect();
        if !known.is_empty() {
            ledger.settling_until = Some(config.lease_end(now));
        }
        ledger
    }

    /// A broker serves the topic; nothing changes for one that does already.
    ///
    /// If it is another life of a member, call [`Ledger::dead`] for the former one first. `false`:
    /// there are 1024 brokers already.
    pub fn join(&mut self, broker: u32, now: Instant) -> bool {
        if let Some(member) = self.members.get_mut(&broker) {
            member.is_leaving = false;
            return true;
        }
        if self.members.len() >= BROKERS_AT_MOST {
            return false;
        }
        self.members.insert(broker, Member::new(self.seq, now));
        true
    }

    /// The same life of a broker has connected anew: the numbers of its reports begin again, and no
    /// report of the former connection is answered any more. Call it, whether the broker is a
    /// member or not, before anything is sent over the new connection.
    pub fn reconnected(&mut self, broker: u32, now: Instant) {
        if let Some(member) = self.members.get_mut(&broker) {
            member.report = None;
            member.heard_at = now;
        }
    }

    /// A broker's report was received at `now`. The same one once more changes nothing.
    ///
    /// # Errors
    /// [`InvalidReport::NotAMember`] from a broker that did not join, and
    /// [`InvalidReport::LaterEpoch`] from one that another controller has taken over; both change
    /// nothing.
    pub fn report(
        &mut self,
        broker: u32,
        report: &Report,
        now: Instant,
    ) -> Result<(), InvalidReport> {
        let (theirs, ours) = (report.confirmed.0, self.epoch);
        if theirs > ours {
            return Err(InvalidReport::LaterEpoch {
                broker,
                theirs,
                ours,
            });
        }
        let member = self
            .members
            .get_mut(&broker)
            .ok_or(InvalidReport::NotAMember { broker })?;
        member.hear(report, ours, self.seq, now);
        if member.is_leaving && member.outstanding.most() == Exposure::default() {
            self.members.remove(&broker);
        }
        Ok(())
    }

    /// A broker is proved dead: its process has ended and cannot pass another message. All that it
    /// could use is free.
    pub fn dead(&mut self, broker: u32) {
        self.members.remove(&broker);
    }

    /// A broker no longer serves the topic. Its share is withdrawn, and is free when it has
    /// confirmed that.
    pub fn leave(&mut self, broker: u32) {
        if let Some(member) = self.members.get_mut(&broker) {
            member.is_leaving = true;
            member.target = None;
        }
    }

    /// Another limit, in the same unit. See the module for one that shrinks.
    pub fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    /// Grants are made in `round` from now on: brokers that are `listed`, in ascending order, and hear all others that are, may hold on
    /// to their shares when leases end. Nobody else may: nobody who could end a round has a broker on its list that is not there.
    pub fn begin_round(&mut self, round: u64, listed: Arc<[u32]>) {
        (self.round, self.listed) = (round, listed);
    }

    /// The round in which a broker is granted something; 0 where it may not hold on to it.
    fn round_of(&self, broker: u32) -> u64 {
        match self.listed.binary_search(&broker) {
            Ok(_) => self.round,
            Err(_) => 0,
        }
    }

    /// A broker that is or was on the lists of rounds from `since` on says that it has left those before `left`
    /// ([`Vouches::left`](crate::Vouches::left)): nobody else holds on to a share of them any more.
    pub fn has_left(&mut self, broker: u32, since: u64, left: u64) {
        self.leavers.has_left(broker, since, left);
        for (&holder, member) in &mut self.members {
            member.outstanding.end_rounds(holder, &self.leavers);
        }
    }

    /// The weights by which the limit is divided while there is no traffic, or always
    /// ([`Mode::Frozen`]): placement's quotas. Brokers that are not named have weight 0, and a
    /// weight that is not a number above 0 counts as 0.
    pub fn set_weights(&mut self, weights: &[(u32, f64)]) {
        for member in self.members.values_mut() {
            member.weight = 0.0;
        }
        for &(broker, weight) in weights {
            if let Some(member) = self.members.get_mut(&broker) {
                let is_sane = (0.0..=Traffic::MAX).contains(&weight);
                member.weight = if is_sane { weight } else { 0.0 };
            }
        }
        self.is_due = true;
    }

    /// Whether shares follow the traffic.
    pub fn set_mode(&mut self, mode: Mode) {
        self.is_due |= mode != self.config.mode;
        self.config.mode = mode;
    }

    /// The largest batch that is published to the topic, in tokens: no share has a smaller burst.
    pub fn set_batch(&mut self, batch_tokens: f64) {
        self.is_due |= batch_tokens != self.config.batch_tokens;
        self.config.batch_tokens = batch_tokens;
    }

    /// The grants to send now, smaller shares first: an answer to every report that has none, and
    /// another to the latest report where the share has changed since. Only free tokens are given
    /// out.
    pub fn plan(&mut self, now: Instant) -> Vec<(u32, Grant)> {
        self.retarget(now);
        self.grants(now, None)
    }

    /// As [`Ledger::plan`], while nothing can be kept: no broker is granted more than `kept`, the
    /// use recorded last of [`Ledger::known`], allows. What a broker lacks there it gets later.
    pub fn plan_within(
        &mut self,
        kept: &BTreeMap<u32, Option<Share>>,
        now: Instant,
    ) -> Vec<(u32, Grant)> {
        self.retarget(now);
        self.grants(now, Some(kept))
    }

    /// A grant of the latest plan is not sent, because it could not be kept: its broker may be
    /// using no more than `kept`, its last record.
    pub fn take_back(&mut self, broker: u32, seq: u64, kept: Option<Share>) {
        if let Some(member) = self.members.get_mut(&broker) {
            member.take_back(seq, kept.into());
        }
    }

    /// The sum over all brokers of the most that each may be using at `now`.
    ///
    /// Never more than the limit, as long as the limit has not shrunk and no broker claims a share
    /// that this ledger did not know of.
    pub fn exposure(&self, now: Instant) -> Exposure {
        let each = self.members.values();
        each.map(|member| member.outstanding.exposure(now))
            .fold(Exposure::default(), Exposure::plus)
    }

    /// The most that one broker may be using at `now`.
    pub fn exposure_of(&self, broker: u32, now: Instant) -> Exposure {
        let member = self.members.get(&broker);
        member.map_or(Exposure::default(), |member| {
            member.outstanding.exposure(now)
        })
    }

    /// What each broker may be using at `now` or, without further grants, at any later instant: to
    /// be kept durably after each plan, *before* its grants are sent.
    pub fn known(&self, now: Instant) -> Vec<(u32, Option<Share>)> {
        let each = self.members.iter();
        each.map(|(&broker, member)| (broker, member.outstanding.exposure(now).to_share()))
            .collect()
    }

    /// The share that each broker was granted last, for people to look at.
    pub fn granted(&self) -> Vec<(u32, Option<Share>)> {
        let each = self.members.iter();
        each.map(|(&broker, member)| (broker, member.sent.and_then(|sent| sent.share)))
            .collect()
    }

    /// The share that each broker is to have once it is free.
    pub fn targets(&self) -> Vec<(u32, Option<Share>)> {
        let each = self.members.iter();
        each.map(|(&broker, member)| (broker, member.target))
            .collect()
    }

    /// The limit.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// The life of the controller.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}
