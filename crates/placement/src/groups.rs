//! Correlation groups found in arrival stamps, when nobody declared them.
//!
//! SRTM relies on keys that users give (SRTM-long, section 4.3), since measuring correlation of all
//! against all is costly. Less is needed: who sends at the same instants as whom, over and over.
//! For one publisher, that takes a sample of its sends and a look at what else arrived within a
//! tolerance around each. A publisher that is there at half of them, and far more often than its
//! rate makes likely, belongs to it.
//!
//! So groups are stars. A publisher that belongs to nobody yet leads, those that keep company with
//! it join, and one that is closer in time to a later leader changes over. Leaders are compared
//! with all, members with leaders only: memory is linear in arrivals and time nearly so, even for
//! one group of all. Members of one group are at most two tolerances apart, where chains of pairs
//! could join everybody.
//!
//! Periodic groups whose phases happen to be near do send together for as long as they last. Where
//! their offsets from the leader leave a clear gap they are told apart nevertheless, since two
//! groups each split in proportion are split in proportion together, and the reverse does not hold.
//! With less of a gap they are one group, and rightly so. Publishers that follow each other at a
//! distance beyond the tolerance are not found.

mod chance;
mod sends;
mod stars;

use crate::{GroupIndex, PublisherIndex};

use chance::Significance;
use sends::Sends;
use stars::Membership;

/// What counts as sending together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InferConfig {
    /// Sends are together if their arrivals differ by at most so much, in nanoseconds. Choose it like the
    /// jitter within a group: a smaller one misses companions, a larger one sees more of them by chance.
    pub tolerance_ns: u64,
    /// The least fraction of its sends at which a publisher's companion is there too. Of two it is the
    /// one that sends less whose sends count.
    pub least_together: f64,
    /// Pairs of independent publishers that are put together in a whole trace, on average at most.
    pub false_pairs: f64,
}

impl Default for InferConfig {
    /// A tolerance of 1 ms, half of all sends, and one false pair in a hundred traces.
    fn default() -> Self {
        InferConfig {
            tolerance_ns: 1_000_000,
            least_together: 0.5,
            false_pairs: 0.01,
        }
    }
}

/// The groups of publishers that send together in a trace of `(at_ns, publisher)`.
///
/// Groups have two members or more and are numbered from 0 by their lowest publisher; everybody else has
/// `None`. Arrivals may be in any order; those of publishers not below `publishers` are ignored. Several
/// arrivals of a publisher within the tolerance are one send: a batch, or a message in pieces.
#[must_use]
pub fn infer_groups(
    arrivals: &[(u64, PublisherIndex)],
    publishers: usize,
    config: InferConfig,
) -> Vec<Option<GroupIndex>> {
    let sends = Sends::new(arrivals, publishers, config.tolerance_ns);
    let mut search = Search {
        significance: Significance::new(publishers, config.false_pairs),
        company: vec![Company::default(); publishers],
        memberships: vec![None; publishers],
        sends: &sends,
        config,
    };
    // Of two it is the rarer one's sends that count, so the rarest lead.
    let mut by_sends: Vec<u32> = (0..publishers as u32).collect();
    by_sends.sort_by_key(|&publisher| sends.count(publisher));
    for publisher in by_sends {
        if search.memberships[publisher as usize].is_none() {
            search.lead(publisher);
        }
    }
    stars::cut(&search.memberships)
}

/// Sends of a leader that are looked at to see whether there is anybody at all.
const GLANCES: usize = 16;

/// Sends of a leader that are looked at to decide who belongs to it.
const LOOKS: usize = 128;

/// Of the glances, the fraction of `least_together` at which a publisher becomes a candidate.
const CANDIDATE: f64 = 0.6;

struct Search<'a> {
    sends: &'a Sends,
    config: InferConfig,
    significance: Significance,
    company: Vec<Company>,
    memberships: Vec<Option<Membership>>,
}

/// How often a publisher was there at the sends looked at, and how far from them, in tolerances.
#[derive(Clone, Copy, Default)]
struct Company {
    times: u32,
    /// The look at which it was there last, from 1.
    last_look: u32,
    /// How much later it was at that look.
    last_offset: f64,
    /// Sums over all looks of the offset, of its amount and of its square.
    offsets: f64,
    distances: f64,
    squares: f64,
}

impl Search<'_> {
    /// Makes a publisher a leader and finds those that belong to it.
    fn lead(&mut self, leader: u32) {
        self.memberships[leader as usize] = Some(Membership::leading(leader));
        let (glances, seen) = self.look(leader, GLANCES);
        let enough = CANDIDATE * self.config.least_together * glances as f64;
        let is_candidate = |&at: &u32| f64::from(self.company[at as usize].times) >= enough;
        let has_candidate = glances > 0 && seen.iter().any(is_candidate);
        self.forget(&seen);
        if !has_candidate {
            return;
        }
        let (looks, seen) = self.look(leader, LOOKS);
        for &publisher in &seen {
            let company = self.company[publisher as usize];
            let offer = company.membership(leader, looks);
            let present = &self.memberships[publisher as usize];
            let is_closer = present.is_none_or(|present| offer.closeness > present.closeness);
            if is_closer && self.is_together(publisher, company.times, looks) {
                self.memberships[publisher as usize] = Some(offer);
            }
        }
        self.forget(&seen);
    }

    fn is_together(&self, publisher: u32, times: u32, looks: usize) -> bool {
        let fraction = f64::from(times) / looks as f64;
        let by_chance = self
            .sends
            .chance_within(publisher, self.config.tolerance_ns);
        fraction >= self.config.least_together
            && self
                .significance
                .is_beyond_chance(fraction, looks, by_chance)
    }

    /// Looks around at most `most` of a publisher's sends, spread evenly over the trace, and notes who is
    /// there. How many those were, and whom there is a note of.
    fn look(&mut self, around: u32, most: usize) -> (usize, Vec<u32>) {
        let count = self.sends.count(around);
        let looks = count.min(most);
        let mut seen = Vec::new();
        for look in 0..looks {
            let send = self.sends.nth_of(around, look * count / looks);
            for (later_ns, publisher) in self.sends.around(send, self.config.tolerance_ns) {
                if publisher == around {
                    continue;
                }
                let offset = later_ns as f64 / self.config.tolerance_ns.max(1) as f64;
                let company = &mut self.company[publisher as usize];
                if company.times == 0 {
                    seen.push(publisher);
                }
                company.note(look as u32 + 1, offset);
            }
        }
        (looks, seen)
    }

    fn forget(&mut self, seen: &[u32]) {
        for &publisher in seen {
            self.company[publisher as usize] = Company::default();
        }
    }
}

impl Company {
    /// Notes a send seen at a look; of several at one look the closest counts.
    fn note(&mut self, look: u32, offset: f64) {
        if self.last_look != look {
            self.times += 1;
            self.last_look = look;
        } else if offset.abs() < self.last_offset.abs() {
            self.add(self.last_offset, -1.0);
        } else {
            return;
        }
        self.last_offset = offset;
        self.add(offset, 1.0);
    }

    fn add(&mut self, offset: f64, weight: f64) {
        self.offsets += weight * offset;
        self.distances += weight * offset.abs();
        self.squares += weight * offset * offset;
    }

    /// The membership in the group of the leader whose sends were looked at.
    fn membership(&self, leader: u32, looks: usize) -> Membership {
        let times = f64::from(self.times);
        let mean = self.offsets / times;
        Membership {
            leader,
            closeness: (times - self.distances) / looks as f64,
            offset: mean,
            variance: (self.squares / times - mean * mean).max(0.0) / times,
        }
    }
}

#[cfg(test)]
mod tests;
