//! Periodic groups whose clocks stand still while they pause.
//!
//! Each group has a clock of its own, so their order is not that of their phases: a heap holds the next turn of each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::ramp::Stretch;
use super::turns::{END_NS, Pauses};

/// The turns of periodic groups that pause.
#[derive(Clone, Debug)]
pub(super) struct Paced {
    period_ns: f64,
    stretch: Stretch,
    on_ns: u64,
    cycle_ns: u64,
    groups: Vec<Group>,
    next: BinaryHeap<Reverse<(u64, u32)>>,
}

/// One group on its way through its intervals.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// When its next turn is, in the time of its own clock.
    turn_ns: f64,
    /// The interval in which it is on, or will be.
    begin_ns: u64,
    end_ns: u64,
    /// What its clock shows when that interval begins.
    clock_ns: f64,
}

impl Paced {
    /// Groups whose first turns are at `phases_ns` of their own clocks.
    pub(super) fn new(
        phases_ns: &[(f64, u32)],
        period_ns: f64,
        stretch: Stretch,
        pauses: Pauses,
    ) -> Self {
        let group = |(index, (turn_ns, _)): (usize, &(f64, u32))| {
            let (begin_ns, end_ns) = pauses.first_on_ns(index);
            Group {
                turn_ns: *turn_ns,
                begin_ns,
                end_ns,
                clock_ns: 0.0,
            }
        };
        let mut paced = Paced {
            period_ns,
            stretch,
            on_ns: pauses.on_ns(),
            cycle_ns: pauses.cycle_ns(),
            groups: phases_ns.iter().enumerate().map(group).collect(),
            next: BinaryHeap::new(),
        };
        for group in 0..paced.groups.len() {
            paced.find_turn(group);
        }
        paced
    }

    /// The next instant and group; `None` when nothing comes any more.
    pub(super) fn next(&mut self) -> Option<(u64, u32)> {
        let Reverse((due_ns, group)) = self.next.pop()?;
        self.groups[group as usize].turn_ns += self.period_ns;
        self.find_turn(group as usize);
        Some((due_ns, group))
    }

    /// Goes to the interval in which the group's next turn falls; a group without one is heard of no more.
    fn find_turn(&mut self, index: usize) {
        let (stretch, group) = (&self.stretch, &mut self.groups[index]);
        loop {
            let begin_own_ns = stretch.own_ns(group.begin_ns);
            let length_ns = stretch.own_ns(group.end_ns) - begin_own_ns;
            let ahead_ns = group.turn_ns - group.clock_ns;
            if ahead_ns < length_ns {
                if let Some(due_ns) = stretch.real_ns(begin_own_ns + ahead_ns) {
                    // Rounding must not carry a turn out of its interval.
                    let due_ns = due_ns.clamp(group.begin_ns, group.end_ns);
                    self.next.push(Reverse((due_ns, index as u32)));
                }
                return;
            }
            let is_constant = stretch.constant_from(group.begin_ns);
            if is_constant && length_ns <= 0.0 {
                return;
            }
            // Intervals that are alike are passed in one step; the first may be a part of one.
            let is_whole = group.end_ns - group.begin_ns == self.on_ns;
            let passed = if is_constant && is_whole {
                ((ahead_ns / length_ns) as u64).max(1)
            } else {
                1
            };
            group.clock_ns += length_ns * passed as f64;
            let skipped_ns = self.cycle_ns.saturating_mul(passed) - self.on_ns;
            group.begin_ns = group.end_ns.saturating_add(skipped_ns);
            group.end_ns = group.begin_ns.saturating_add(self.on_ns);
            if group.begin_ns as f64 >= END_NS {
                return;
            }
        }
    }
}
