//! What the ledger knows of one broker.

use clock::Instant;

use super::outstanding::Outstanding;
use super::{Exposure, Report};
use crate::{Share, Traffic};

/// One broker in the view of the ledger.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) outstanding: Outstanding,
    /// Grants numbered above this were sent to this life of the broker.
    pub(super) joined_after_seq: u64,
    /// When it joined, connected or reported last.
    pub(super) heard_at: Instant,
    /// The latest report of this connection.
    pub(super) report: Option<Heard>,
    /// When the history of its traffic began; `None` before the first report.
    pub(super) known_since: Option<Instant>,
    pub(super) traffic: Traffic,
    /// The share that it reported to have in force.
    pub(super) held: Option<Share>,
    pub(super) weight: f64,
    /// The share that it is to get as soon as it is free.
    pub(super) target: Option<Share>,
    /// The latest grant.
    pub(super) sent: Option<Sent>,
    /// The latest grant that it has confirmed; 0: none.
    pub(super) confirmed_seq: u64,
    pub(super) is_leaving: bool,
    /// A former controller knew it, and it has not reported to this one.
    pub(super) is_awaited: bool,
}

/// A grant that was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sent {
    pub(super) seq: u64,
    pub(super) share: Option<Share>,
    pub(super) floor: Option<Share>,
    pub(super) round: u64,
}

/// A report that was received.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Heard {
    pub(super) number: u64,
    pub(super) received_at: Instant,
    pub(super) is_answered: bool,
}

impl Member {
    pub(super) fn new(joined_after_seq: u64, now: Instant) -> Self {
        Member {
            outstanding: Outstanding::default(),
            joined_after_seq,
            heard_at: now,
            report: None,
            known_since: None,
            traffic: Traffic::default(),
            held: None,
            weight: 0.0,
            target: None,
            sent: None,
            confirmed_seq: 0,
            is_leaving: false,
            is_awaited: false,
        }
    }

    /// One that a former controller knew: it may hold `most`, and has long had its traffic.
    pub(super) fn restored(most: Option<Share>, now: Instant) -> Self {
        let mut member = Member::new(0, now);
        member.outstanding.restored(Exposure::from(most));
        member.is_awaited = true;
        member.known_since = Some(Instant::ZERO);
        member
    }

    /// The grant numbered `seq` was not sent: the latest report is still to be answered.
    pub(super) fn take_back(&mut self, seq: u64, kept: Exposure) {
        self.outstanding.take_back(seq, kept);
        self.sent = None;
        self.report = self.report.map(|heard| Heard {
            is_answered: false,
            ..heard
        });
    }

    /// Takes a report; `epoch` and `last_seq` are the ledger's.
    ///
    /// One that was overtaken by a later one does no harm: it is answered for as long as if it had
    /// just been sent, which is how long the broker believes in the answer at most.
    pub(super) fn hear(&mut self, report: &Report, epoch: u64, last_seq: u64, now: Instant) {
        let is_again = self.report.is_some_and(|last| report.number == last.number);
        if is_again {
            return;
        }
        self.heard_at = now;
        self.report = Some(Heard {
            number: report.number,
            received_at: now,
            is_answered: false,
        });
        self.known_since.get_or_insert(now);
        self.traffic = report.traffic;
        self.held = report.held;
        self.is_awaited = false;

        let (its_epoch, seq) = report.confirmed;
        let is_ours = its_epoch == epoch && seq > self.joined_after_seq && seq <= last_seq;
        if is_ours {
            self.confirmed_seq = seq;
            self.outstanding.confirmed(seq);
        } else {
            // Whoever granted it, it is in use, and counts until a grant of ours is in force.
            let held = Exposure::from(report.held);
            if !self.outstanding.most().covers(held) {
                self.outstanding.claim(self.joined_after_seq, held);
            }
        }
    }

    /// A later report did not name the topic. A grant that is not confirmed, or belongs to a round
    /// before this one, is to be sent again.
    pub(super) fn hear_nothing_new(&mut self, number: u64, round: u64, now: Instant) {
        let is_as_it_is = self.is_confirmed() && self.is_of(round);
        let Some(report) = self.report.as_mut().filter(|last| number > last.number) else {
            return;
        };
        report.number = number;
        report.received_at = now;
        report.is_answered &= is_as_it_is;
        self.heard_at = now;
    }

    /// Whether the latest grant was made in this round.
    pub(super) fn is_of(&self, round: u64) -> bool {
        self.sent.is_none_or(|sent| sent.round == round)
    }

    /// Whether it has confirmed the latest grant.
    pub(super) fn is_confirmed(&self) -> bool {
        self.sent.is_none_or(|sent| sent.seq == self.confirmed_seq)
    }
}
