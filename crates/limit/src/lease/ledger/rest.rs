//! Topics at rest: brokers need not name them in each report, and leases are renewed all at once.
//!
//! A report that does not name a topic says that nothing has changed there ([`Ledger::unchanged`]).
//! Shares whose targets do not change are not granted again. Instead the broker is told that all
//! leases which have not ended there last as if each grant answered a later report
//! ([`Prolongation::Renewed`](crate::Prolongation::Renewed)), and whoever keeps the ledger tells it
//! so before asking it for anything ([`Ledger::renewed`]).

use clock::Instant;

use super::super::member::Member;
use super::Ledger;

impl Ledger {
    /// A broker's report numbered `number`, received at `now`, did not name the topic: nothing has changed there since the
    /// last report that did.
    pub fn unchanged(&mut self, broker: u32, number: u64, now: Instant) {
        let round = self.round_of(broker);
        if let Some(member) = self.members.get_mut(&broker) {
            member.hear_nothing_new(number, round, now);
        }
    }

    /// A broker has just reported and uses nothing. Where it has what it was granted last, it is not granted that again: its
    /// lease is renewed with all others.
    pub fn rest(&mut self, broker: u32) {
        let round = self.round_of(broker);
        let Some(member) = self.members.get_mut(&broker) else {
            return;
        };
        let has_it = member.sent.is_some_and(|sent| sent.share == member.held);
        let is_as_it_is = member.is_confirmed() && member.is_of(round);
        if is_as_it_is
            && has_it
            && let Some(report) = &mut member.report
        {
            report.is_answered = true;
        }
    }

    /// A broker was told time and again that its leases are renewed: first at `since`, never more than a lease apart, and
    /// last for the report that was received at `received_at`.
    pub fn renewed(&mut self, broker: u32, since: Instant, received_at: Instant) {
        let until = self.config.lease_end(received_at);
        if let Some(member) = self.members.get_mut(&broker) {
            member.outstanding.renewed(since, until);
        }
    }

    /// Whether time alone changes nothing any more, as long as those brokers are heard of of which `is_heard` says so:
    /// everybody has what it is to have and has confirmed it, or is gone for so long that nothing of it ends any more.
    pub fn is_at_rest(&self, now: Instant, is_heard: impl Fn(u32) -> bool) -> bool {
        let is_planned = self.settling_until.is_none() && !self.is_due && self.planned.is_some();
        let mut members = self.members.iter();
        is_planned
            && members.all(|(&broker, member)| self.rests(broker, member, is_heard(broker), now))
    }

    fn rests(&self, broker: u32, member: &Member, is_heard: bool, now: Instant) -> bool {
        if now >= self.config.lease_end(member.heard_at) {
            let outstanding = &member.outstanding;
            return outstanding.exposure(now) == outstanding.exposure(Instant::MAX);
        }
        let has_its_share = member.sent.and_then(|sent| sent.share) == member.target;
        let is_answered = member.report.is_some_and(|report| report.is_answered);
        is_heard
            && is_answered
            && has_its_share
            && member.is_of(self.round_of(broker))
            && member.is_confirmed()
            && !member.is_leaving
    }
}
