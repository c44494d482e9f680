//! Single moves for publishers of unequal rates, where no exact division exists.
//!
//! A broker is off if it exceeds its room, or misses its target by more than the largest publisher.
//! A move is made when it brings such a broker closer, puts no other one off, and leaves the
//! publisher's group within one publisher of its proportional share. Every move lessens the sum by
//! which brokers are off, so this ends; when no such move is found among the likeliest partners,
//! the rest is for [`super::settle`].

use super::groups::ALONE;
use super::spread::TOLERANCE;
use super::{Choice, Draft, Work};

/// Brokers looked at as the other end of a move: those that have the most to give, or lack the most.
const PARTNERS: usize = 8;

/// Brings sums nearer to their targets and rooms as far as groups allow.
pub(super) fn nudge(choice: &Choice<'_>, draft: &mut Draft, work: &mut Work) {
    let mut nudging = Nudging {
        choice,
        largest: choice.rates.iter().copied().fold(0.0, f64::max),
        deficits: vec![0.0; choice.targets.len()],
        members: Vec::new(),
    };
    let is_off =
        |draft: &Draft, at: usize| nudging.is_over(draft, at) || nudging.is_short(draft, at);
    if !(0..choice.targets.len()).any(|at| is_off(draft, at)) {
        return;
    }
    nudging.members = draft.members();
    for broker in 0..choice.targets.len() {
        while nudging.is_over(draft, broker) && nudging.relieve(broker, draft, work) {}
        while nudging.is_short(draft, broker) && nudging.feed(broker, draft, work) {}
    }
}

struct Nudging<'a> {
    choice: &'a Choice<'a>,
    largest: f64,
    deficits: Vec<f64>,
    members: Vec<Vec<u32>>,
}

impl Nudging<'_> {
    fn is_over(&self, draft: &Draft, at: usize) -> bool {
        draft.sums[at] > self.ceiling(at)
    }

    fn is_short(&self, draft: &Draft, at: usize) -> bool {
        draft.sums[at] < self.floor(at)
    }

    fn ceiling(&self, at: usize) -> f64 {
        let most = self.choice.targets[at] + self.largest;
        most.min(self.choice.rooms[at]) * (1.0 + TOLERANCE)
    }

    fn floor(&self, at: usize) -> f64 {
        (self.choice.targets[at] - self.largest) * (1.0 - TOLERANCE)
    }

    fn relieve(&mut self, from: usize, draft: &mut Draft, work: &mut Work) -> bool {
        let partners = self.by_lack(draft);
        let mut partners = partners.into_iter().filter(|&to| to != from).take(PARTNERS);
        partners.any(|to| self.shift(from, to, draft, work))
    }

    fn feed(&mut self, to: usize, draft: &mut Draft, work: &mut Work) -> bool {
        let partners = self.by_lack(draft);
        let mut partners = partners
            .into_iter()
            .rev()
            .filter(|&from| from != to)
            .take(PARTNERS);
        partners.any(|from| self.shift(from, to, draft, work))
    }

    /// Brokers, first those that lack the most of their target.
    fn by_lack(&self, draft: &Draft) -> Vec<usize> {
        let mut brokers: Vec<usize> = (0..self.members.len()).collect();
        let surplus = |at: usize| draft.sums[at] - self.choice.targets[at];
        brokers.sort_by(|&a, &b| surplus(a).total_cmp(&surplus(b)).then(a.cmp(&b)));
        brokers
    }

    /// Moves one publisher, if there is one that may.
    fn shift(&mut self, from: usize, to: usize, draft: &mut Draft, work: &mut Work) -> bool {
        let most = self.ceiling(to) - draft.sums[to];
        let most = most.min(draft.sums[from] - self.floor(from));
        let (mut last, mut ends) = (ALONE, (0.0, 0.0));
        self.members[from].sort_unstable_by_key(|&at| self.choice.groups.group_of(at));
        for index in 0..self.members[from].len() {
            let publisher = self.members[from][index];
            work.steps += 1;
            if self.choice.rates[publisher as usize] > most {
                continue;
            }
            let group = self.choice.groups.group_of(publisher);
            if group != last && group != ALONE {
                last = group;
                draft.note_deficits(self.choice, group, &mut self.deficits, work);
                ends = (self.deficits[from], self.deficits[to]);
            }
            if group == ALONE || self.keeps_bound(publisher, group, ends) {
                self.members[from].swap_remove(index);
                self.members[to].push(publisher);
                draft.put(self.choice, publisher, to);
                return true;
            }
        }
        false
    }

    /// Whether the group stays within its largest publisher of proportional at both ends.
    fn keeps_bound(&self, publisher: u32, group: u32, ends: (f64, f64)) -> bool {
        let rate = self.choice.rates[publisher as usize];
        // A group lists its members by falling rate.
        let largest = self.choice.rates[self.choice.groups.members(group)[0] as usize];
        ends.0 + rate <= largest && ends.1 - rate >= -largest
    }
}
