//! Exchanges that bring the brokers' sums to their targets and leave every group within its bound.
//!
//! For publishers of equal rates and targets in whole publishers an assignment exists that meets every
//! target exactly and has of every group at every broker its proportional share rounded down or up: the
//! fractional division is a flow through groups and brokers, and flows have integral points. So while a
//! broker has too much there is a chain of moves, each within one group from a broker where the group's share
//! was rounded up to one where it was rounded down, that ends at a broker with too little. The shortest one
//! is searched for and carried out.
//!
//! Publishers of unequal rates have no such law; for them there is [`super::nudge`].

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

use super::groups::ALONE;
use super::spread::TOLERANCE;
use super::{Choice, Draft, Work};

/// Brings every sum to its target as far as groups allow.
pub(super) fn balance(choice: &Choice<'_>, draft: &mut Draft, work: &mut Work) {
    let Some(&rate) = choice.rates.first() else {
        return;
    };
    let surplus = |draft: &Draft, at: usize| (draft.sums[at] - choice.targets[at]) / rate;
    let is_off = |at: usize| surplus(draft, at).abs() > 0.5;
    if !(0..choice.targets.len()).any(is_off) {
        return;
    }
    let mut exchange = Exchange {
        choice,
        rate,
        members: draft.members(),
        deficits: vec![0.0; choice.targets.len()],
    };
    for broker in 0..choice.targets.len() {
        while surplus(draft, broker) > 0.5 {
            let Some(chain) = exchange.chain_from(broker, draft, work) else {
                break;
            };
            exchange.carry_out(&chain, draft);
        }
    }
}

/// A publisher leaves one broker for another.
#[derive(Clone, Copy)]
struct Move {
    publisher: u32,
    from: usize,
    to: usize,
}

struct Exchange<'a> {
    choice: &'a Choice<'a>,
    rate: f64,
    /// By broker: its publishers.
    members: Vec<Vec<u32>>,
    /// By broker: what the group at hand lacks there of its proportional share; negative: has beyond it.
    deficits: Vec<f64>,
}

impl Exchange<'_> {
    /// The shortest chain of moves from a broker to one that has too little, last move first.
    fn chain_from(&mut self, from: usize, draft: &Draft, work: &mut Work) -> Option<Vec<Move>> {
        let mut reached_by: Vec<Option<Move>> = vec![None; self.members.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            let mut seen = FxHashSet::default();
            for index in 0..self.members[at].len() {
                let publisher = self.members[at][index];
                let group = self.choice.groups.group_of(publisher);
                work.steps += 1;
                if !seen.insert(group) || !self.may_leave(group, at, draft, work) {
                    continue;
                }
                for to in 0..self.members.len() {
                    work.steps += 1;
                    let is_known = to == from || reached_by[to].is_some();
                    if is_known || self.deficits[to] <= self.rate * TOLERANCE {
                        continue;
                    }
                    reached_by[to] = Some(Move {
                        publisher,
                        from: at,
                        to,
                    });
                    if draft.sums[to] < self.choice.targets[to] - 0.5 * self.rate {
                        return Some(chain_to(to, from, &reached_by));
                    }
                    queue.push_back(to);
                }
            }
        }
        None
    }

    /// Whether a group's share at a broker was rounded up. Notes its deficits at all brokers.
    fn may_leave(&mut self, group: u32, at: usize, draft: &Draft, work: &mut Work) -> bool {
        if group == ALONE {
            self.deficits.copy_from_slice(self.choice.targets);
            return true;
        }
        draft.note_deficits(self.choice, group, &mut self.deficits, work);
        self.deficits[at] < -self.rate * TOLERANCE
    }

    fn carry_out(&mut self, chain: &[Move], draft: &mut Draft) {
        for step in chain {
            self.members[step.from].retain(|&member| member != step.publisher);
            self.members[step.to].push(step.publisher);
            draft.put(self.choice, step.publisher, step.to);
        }
    }
}

fn chain_to(end: usize, start: usize, reached_by: &[Option<Move>]) -> Vec<Move> {
    let mut chain = Vec::new();
    let mut at = end;
    while at != start
        && let Some(step) = reached_by[at]
    {
        chain.push(step);
        at = step.from;
    }
    chain
}
