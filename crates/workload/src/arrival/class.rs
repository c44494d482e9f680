//! The sends of one class: its groups' turns, member by member.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use clock::Xoshiro256PlusPlus;

use super::Arrival;
use super::turns::{Turns, nanos};
use crate::Class;

/// The sends of one class in order of time.
#[derive(Clone, Debug)]
pub(super) struct ClassArrivals {
    turns: Turns,
    first_publisher: u32,
    publishers: u32,
    group_publishers: u32,
    messages: u16,
    spread_ns: u64,
    /// The group whose members are being handed out, if it is synchronised: instant, next member, end.
    due_ns: u64,
    next_member: u32,
    end_member: u32,
    /// Members of spread groups that are due later than the group's first.
    pending: BinaryHeap<Reverse<(u64, u32)>>,
    /// The group that comes next, where groups are spread.
    next_group: Option<(u64, u32)>,
}

impl ClassArrivals {
    pub(super) fn new(class: &Class, first_publisher: u32, random: Xoshiro256PlusPlus) -> Self {
        let mut arrivals = ClassArrivals {
            turns: Turns::new(class, random),
            first_publisher,
            publishers: class.count,
            group_publishers: class.group_publishers.max(1),
            messages: class.batch_messages.max(1),
            spread_ns: nanos(class.spread),
            due_ns: 0,
            next_member: 0,
            end_member: 0,
            pending: BinaryHeap::new(),
            next_group: None,
        };
        if arrivals.spread_ns > 0 {
            arrivals.next_group = arrivals.turns.next();
        }
        arrivals
    }

    fn members(&self, group: u32) -> (u32, u32) {
        let first = group * self.group_publishers;
        (first, (first + self.group_publishers).min(self.publishers))
    }

    /// Members of spread groups that wait for their instants.
    #[cfg(test)]
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The next member of a group that sends all at once.
    #[inline]
    fn next_together(&mut self) -> Option<(u64, u32)> {
        if self.next_member == self.end_member {
            let (due_ns, group) = self.turns.next()?;
            self.due_ns = due_ns;
            (self.next_member, self.end_member) = self.members(group);
        }
        self.next_member += 1;
        Some((self.due_ns, self.next_member - 1))
    }

    /// The next member where groups are spread over an interval.
    fn next_spread(&mut self) -> Option<(u64, u32)> {
        while let Some((due_ns, group)) = self.next_group {
            if self
                .pending
                .peek()
                .is_some_and(|Reverse((first, _))| *first <= due_ns)
            {
                break;
            }
            let (first, end) = self.members(group);
            let gaps = u64::from((end - first).saturating_sub(1).max(1));
            for member in first..end {
                let offset_ns = self.spread_ns * u64::from(member - first) / gaps;
                self.pending.push(Reverse((due_ns + offset_ns, member)));
            }
            self.next_group = self.turns.next();
        }
        self.pending.pop().map(|Reverse(due)| due)
    }
}

impl Iterator for ClassArrivals {
    type Item = Arrival;

    #[inline]
    fn next(&mut self) -> Option<Arrival> {
        let (at_ns, member) = if self.spread_ns == 0 {
            self.next_together()?
        } else {
            self.next_spread()?
        };
        Some(Arrival {
            at_ns,
            publisher: self.first_publisher + member,
            messages: self.messages,
        })
    }
}
