//! What one broker may be using: the grant that it confirmed last, or any one sent after it.

use clock::Instant;

use super::Exposure;
use super::vouches::Leavers;

/// Grants remembered one by one; beyond that the oldest two count as one that allows what either
/// did.
const GRANTS_REMEMBERED: usize = 64;

/// The grants that one broker may have in force, by ascending number.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outstanding {
    grants: Vec<Allowed>,
    /// The share that the broker claims without a grant for it, and the last grant before its
    /// claim.
    claimed: Option<(u64, Exposure)>,
}

/// What a grant allows its holder, in the view of the ledger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Allowed {
    /// The grant's number; 0 for what another epoch granted.
    pub(super) seq: u64,
    pub(super) share: Exposure,
    /// Never more than the share.
    pub(super) floor: Exposure,
    /// By now the holder has seen the lease end.
    pub(super) ends_at: Instant,
    /// The round in which it was made.
    pub(super) round: u64,
    /// Its round is over, so the end of the lease counts.
    pub(super) is_over: bool,
}

impl Outstanding {
    /// The most that may be in use at `now`.
    pub(super) fn exposure(&self, now: Instant) -> Exposure {
        self.granted(now).max(self.claimed())
    }

    /// The most that may be in use at `now` by what was granted.
    pub(super) fn granted(&self, now: Instant) -> Exposure {
        let grants = self.grants.iter();
        grants.fold(Exposure::default(), |most, grant| most.max(grant.at(now)))
    }

    /// The most that may be in use, leases or no leases.
    pub(super) fn most(&self) -> Exposure {
        let grants = self.grants.iter();
        grants.fold(self.claimed(), |most, grant| most.max(grant.share))
    }

    /// Notes who has left the rounds of `holder`'s shares.
    pub(super) fn end_rounds(&mut self, holder: u32, leavers: &Leavers) {
        for grant in &mut self.grants {
            grant.is_over |= leavers.have_ended(holder, grant.round);
        }
    }

    /// A grant was sent; its number is greater than all before.
    pub(super) fn sent(&mut self, grant: Allowed) {
        // One that allows no more than a later one does is superseded no later than that.
        self.grants.retain(|earlier| !grant.covers(earlier));
        if self.grants.len() == GRANTS_REMEMBERED {
            let oldest = self.grants.remove(0);
            self.grants[0] = self.grants[0].or(oldest);
        }
        self.grants.push(grant);
    }

    /// The broker was told that leases which had not ended at `since` last until `until` at least.
    pub(super) fn renewed(&mut self, since: Instant, until: Instant) {
        for grant in &mut self.grants {
            if grant.ends_at > since {
                grant.ends_at = grant.ends_at.max(until);
            }
        }
    }

    /// The grant numbered `seq` was not sent. It may stand for earlier ones, which allow no more than `kept`.
    pub(super) fn take_back(&mut self, seq: u64, kept: Exposure) {
        for grant in self.grants.iter_mut().filter(|grant| grant.seq == seq) {
            grant.share = grant.share.min(kept);
            grant.floor = grant.floor.min(kept);
        }
    }

    /// The grant numbered `seq` was in force: none before it can be any more.
    pub(super) fn confirmed(&mut self, seq: u64) {
        self.grants.retain(|grant| grant.seq >= seq);
        self.claimed = self.claimed.filter(|&(last, _)| last >= seq);
    }

    /// A former controller granted up to `share`, which may be in force until any grant of this
    /// one is.
    pub(super) fn restored(&mut self, share: Exposure) {
        self.grants.push(Allowed {
            seq: 0,
            share,
            floor: share,
            ends_at: Instant::MAX,
            round: 0,
            is_over: true,
        });
    }

    /// The broker has `share` though this ledger did not grant it; so it is until a later grant than
    /// `seq` is in force.
    pub(super) fn claim(&mut self, seq: u64, share: Exposure) {
        self.claimed = Some((seq, share.max(self.claimed())));
    }

    fn claimed(&self) -> Exposure {
        self.claimed.map_or(Exposure::default(), |(_, share)| share)
    }
}

impl Allowed {
    fn at(&self, now: Instant) -> Exposure {
        if now < self.ends_at || !self.is_over {
            self.share
        } else {
            self.floor
        }
    }

    /// Whether it allows everything, at any instant, that `earlier` does.
    fn covers(&self, earlier: &Allowed) -> bool {
        // A round may end for one and not for the other.
        let ends_no_earlier = earlier.is_over || earlier.round == self.round;
        ends_no_earlier
            && self.ends_at >= earlier.ends_at
            && self.share.covers(earlier.share)
            && self.floor.covers(earlier.floor)
    }

    /// What allows all that either does, superseded with the later of them.
    fn or(self, other: Allowed) -> Allowed {
        let share = self.share.max(other.share);
        let (is_over, is_alike) = (self.is_over && other.is_over, self.round == other.round);
        Allowed {
            seq: self.seq.max(other.seq),
            share,
            // What is of two rounds has no end that could be told.
            floor: match is_over || is_alike {
                true => self.floor.max(other.floor),
                false => share,
            },
            ends_at: self.ends_at.max(other.ends_at),
            round: self.round,
            is_over,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(of: f64) -> Exposure {
        Exposure {
            rate: of,
            burst: of,
        }
    }

    fn allowed(seq: u64, share: f64, floor: f64, ends_at_ns: u64) -> Allowed {
        Allowed {
            seq,
            share: both(share),
            floor: both(floor),
            ends_at: Instant::from_nanos(ends_at_ns),
            round: 0,
            is_over: true,
        }
    }

    #[test]
    fn a_smaller_grant_frees_nothing_before_it_is_confirmed_or_the_lease_ends() {
        let at = Instant::from_nanos;
        let mut outstanding = Outstanding::default();
        outstanding.sent(allowed(1, 8.0, 4.0, 100));
        outstanding.sent(allowed(2, 5.0, 2.0, 200));
        assert_eq!(outstanding.exposure(at(99)), both(8.0));
        assert_eq!(outstanding.exposure(at(100)), both(5.0));
        assert_eq!(outstanding.exposure(at(200)), both(4.0));
        assert_eq!(outstanding.most(), both(8.0));
        outstanding.confirmed(1);
        assert_eq!(outstanding.exposure(at(0)), both(8.0));
        outstanding.confirmed(2);
        assert_eq!(outstanding.exposure(at(0)), both(5.0));
        assert_eq!(outstanding.exposure(at(200)), both(2.0));
    }

    #[test]
    fn memory_is_bounded_and_forgets_nothing_that_counts() {
        let mut outstanding = Outstanding::default();
        // Ever smaller shares under ever longer leases: none covers another.
        for seq in 1..=1000u64 {
            outstanding.sent(allowed(seq, 2000.0 - seq as f64, 0.0, 1000 + seq));
        }
        assert_eq!(outstanding.grants.len(), GRANTS_REMEMBERED);
        assert_eq!(outstanding.exposure(Instant::ZERO), both(1999.0));
        outstanding.confirmed(999);
        assert_eq!(outstanding.exposure(Instant::ZERO), both(1001.0));
    }

    #[test]
    fn what_is_taken_back_counts_no_more_than_what_was_kept() {
        let at = Instant::from_nanos;
        let mut outstanding = Outstanding::default();
        outstanding.sent(allowed(1, 3.0, 1.0, 100));
        outstanding.sent(allowed(2, 8.0, 4.0, 200));
        outstanding.take_back(2, both(3.0));
        assert_eq!(outstanding.exposure(at(0)), both(3.0));
        assert_eq!(outstanding.exposure(at(200)), both(3.0));
        outstanding.take_back(7, both(0.0));
        assert_eq!(outstanding.exposure(at(0)), both(3.0));
    }

    #[test]
    fn what_another_granted_or_the_broker_claims_stays_until_a_grant_of_ours_is_in_force() {
        let mut outstanding = Outstanding::default();
        outstanding.restored(both(4.0));
        outstanding.claim(0, both(7.0));
        outstanding.claim(0, both(3.0));
        outstanding.sent(allowed(1, 2.0, 1.0, 100));
        assert_eq!(outstanding.exposure(Instant::MAX), both(7.0));
        assert_eq!(outstanding.granted(Instant::MAX), both(4.0));
        outstanding.confirmed(1);
        assert_eq!(outstanding.exposure(Instant::ZERO), both(2.0));
    }
}
