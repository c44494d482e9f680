//! Shares beyond the end of their leases: kept for as long as all others vouch that nobody hands
//! out anew.
//!
//! The controller numbers *rounds*. Each is a list of brokers, and each grant belongs to the round
//! in which it was made. A broker *vouches* for the round that it was told last, and for no other:
//! so while all brokers of a round vouch for it, none of them has heard of another. A broker that
//! asked all others of its round, and was answered by each, keeps its shares of that round for
//! [`VOUCHED`] from when it asked the first of them.
//!
//! Before the ledger takes such a share for given up, it begins another round and waits until one
//! broker of the old one, other than the holder, has *left* it: it was told the new round, and the
//! time for which it had vouched has passed ([`Vouches::left`]). The holder needed an answer from
//! every broker of its round, this one included, and it can only have asked before this one left.
//! So it has nothing left to rely on. A broker that hears nobody is down to its floors when its
//! leases end, or [`VOUCHED`] after it last asked; none of this ever lets a share grow.
//!
//! Assumptions, beside those of the leases: a broker is told of rounds in their order, and what was
//! told to a former life of it is not told to the next; an answer is matched with the very question
//! of this life that it answers.

use std::time::Duration;

use clock::Instant;

/// How long a broker's word counts from when it was asked for.
pub const VOUCHED: Duration = Duration::from_secs(2);

/// How much longer a broker lets pass before it says that it has left a round: for clocks that run apart.
const DRIFT: Duration = Duration::from_millis(50);

/// Rounds that a broker may be leaving at the same time; of more of them the oldest wait for later ones.
const LEAVING_AT_MOST: usize = 8;

/// Times on the list that are remembered of one broker, at most.
const STAYS_MAX: usize = 4;

/// What one broker vouches for, and what it hears from others. Begins in no round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vouches {
    round: u64,
    /// When each other broker of the round was asked that has answered; by its place on the list.
    asked_at: Vec<Option<Instant>>,
    /// All before this one are left.
    left: u64,
    /// Rounds that were told, and when those before them are left.
    leaving: Vec<(u64, Instant)>,
}

impl Vouches {
    /// A broker that was told nothing, as every process begins.
    pub fn new() -> Self {
        Vouches::default()
    }

    /// The round that this broker vouches for; 0 for none.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// The controller began a round with this many brokers beside this one. A round that is not
    /// later than the present one changes nothing.
    pub fn told(&mut self, round: u64, others: usize, now: Instant) {
        if round <= self.round {
            return;
        }
        self.left = self.left(now);
        self.leaving.retain(|&(_, at)| at > now);
        // Also where this process has vouched for nothing: one before it may have.
        let left_at = now + VOUCHED + DRIFT;
        if self.leaving.len() == LEAVING_AT_MOST {
            self.leaving.pop();
        }
        self.leaving.push((round, left_at));
        self.round = round;
        self.asked_at.clear();
        self.asked_at.resize(others, None);
    }

    /// Whether this broker vouches for a round when it is asked.
    pub fn vouches_for(&self, round: u64) -> bool {
        round != 0 && round == self.round
    }

    /// The broker at place `other` vouches for `round`, asked at `asked_at`.
    pub fn answered(&mut self, round: u64, other: usize, asked_at: Instant) {
        if round != self.round {
            return;
        }
        if let Some(latest) = self.asked_at.get_mut(other) {
            *latest = (*latest).max(Some(asked_at));
        }
    }

    /// Until when shares of the present round may be used; `None` where not all have vouched, or there is nobody to.
    pub fn held_until(&self) -> Option<Instant> {
        let mut first: Option<Instant> = None;
        for asked_at in &self.asked_at {
            let asked_at = (*asked_at)?;
            first = Some(first.map_or(asked_at, |first| first.min(asked_at)));
        }
        first.map(|first| first + VOUCHED)
    }

    /// The round before which nothing is left at `now` of what this broker has vouched for.
    pub fn left(&self, now: Instant) -> u64 {
        let over = self.leaving.iter().filter(|&&(_, at)| at <= now);
        over.map(|&(round, _)| round).fold(self.left, u64::max)
    }
}

/// Who has left which rounds, as the controller was told.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Leavers {
    /// Broker, the first round of one of its times on the list, and the round before which it has left all of that time.
    left: Vec<(u32, u64, u64)>,
}

impl Leavers {
    /// A broker that was on the lists of rounds from `since` on has left all of them before `left`.
    pub(super) fn has_left(&mut self, broker: u32, since: u64, left: u64) {
        let is_known = |known: &&mut (u32, u64, u64)| (known.0, known.1) == (broker, since);
        match self.left.iter_mut().find(is_known) {
            Some(known) => known.2 = known.2.max(left),
            None => {
                // Of each broker the times of longest ago give way.
                let its = |known: &&(u32, u64, u64)| known.0 == broker;
                if self.left.iter().filter(its).count() == STAYS_MAX {
                    let first = self.left.iter().position(|known| known.0 == broker);
                    first.map(|first| self.left.remove(first));
                }
                self.left.push((broker, since, left));
            }
        }
    }

    /// Whether `holder` cannot keep a share of `round`: it belongs to no round, or another broker
    /// has left its round.
    pub(super) fn have_ended(&self, holder: u32, round: u64) -> bool {
        let has_left = |&(broker, since, left): &(u32, u64, u64)| {
            broker != holder && since <= round && round < left
        };
        round == 0 || self.left.iter().any(has_left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_share_is_held_while_all_others_vouch() {
        let mut vouches = Vouches::new();
        assert_eq!(vouches.held_until(), None);
        vouches.told(7, 2, at_ms(0));
        assert!(vouches.vouches_for(7) && !vouches.vouches_for(6) && !vouches.vouches_for(0));
        vouches.answered(7, 0, at_ms(100));
        assert_eq!(vouches.held_until(), None, "one has not answered");
        vouches.answered(7, 1, at_ms(300));
        assert_eq!(vouches.held_until(), Some(at_ms(2100)));
        vouches.answered(7, 0, at_ms(50));
        vouches.answered(6, 0, at_ms(900));
        vouches.answered(7, 2, at_ms(900));
        assert_eq!(
            vouches.held_until(),
            Some(at_ms(2100)),
            "late, of another round, a stranger"
        );
        vouches.told(8, 1, at_ms(1000));
        assert_eq!((vouches.held_until(), vouches.round()), (None, 8));
        vouches.told(7, 1, at_ms(1000));
        assert_eq!(vouches.round(), 8, "rounds only grow");
        vouches.told(9, 0, at_ms(1000));
        assert_eq!(vouches.held_until(), None, "nobody is there to vouch");
    }

    #[test]
    fn a_round_is_left_when_the_time_is_over_for_which_it_was_vouched_for() {
        let mut vouches = Vouches::new();
        vouches.told(3, 1, at_ms(0));
        assert_eq!(
            vouches.left(at_ms(2049)),
            0,
            "a former life may have vouched"
        );
        vouches.told(5, 1, at_ms(1000));
        let left = [2049, 2050, 3049, 3050].map(|ms| vouches.left(at_ms(ms)));
        assert_eq!(left, [0, 3, 3, 5]);
        for round in 6..40 {
            vouches.told(round, 1, at_ms(4000 + round));
        }
        assert_eq!(vouches.left(at_ms(6050 + 6)), 6);
        assert_eq!(vouches.left(at_ms(6050 + 39)), 39);
        assert!(vouches.leaving.len() <= LEAVING_AT_MOST);
    }

    #[test]
    fn one_other_broker_of_the_round_ends_it() {
        let mut leavers = Leavers::default();
        assert!(leavers.have_ended(1, 0) && !leavers.have_ended(1, 4));
        leavers.has_left(1, 2, 9);
        assert!(!leavers.have_ended(1, 4), "not itself");
        leavers.has_left(2, 5, 9);
        assert!(!leavers.have_ended(1, 4), "it was not of that round");
        assert!(leavers.have_ended(1, 5) && leavers.have_ended(1, 8) && !leavers.have_ended(1, 9));
        // It was on the list of rounds 2 and 3 before.
        leavers.has_left(2, 2, 4);
        assert!(leavers.have_ended(1, 3) && !leavers.have_ended(1, 4));
        for stay in 10..30 {
            leavers.has_left(2, stay, stay + 1);
        }
        assert!(leavers.have_ended(1, 29) && !leavers.have_ended(1, 3));
        assert_eq!(leavers.left.len(), 1 + STAYS_MAX);
    }
}
