//! Who sends together with whom, arranged for spreading.

use std::ops::Range;

use crate::GroupIndex;

use super::Work;

/// The publishers to be placed in the order in which they are: groups of two and more by falling rate of
/// the group, then everybody else.
pub(crate) struct Groups {
    /// Group by group, in each by falling rate; at the end those without.
    members: Vec<u32>,
    /// Where each group is in `members`.
    ranges: Vec<Range<usize>>,
    /// By publisher: its place in `ranges`; `ALONE` for those without.
    group_of: Vec<u32>,
}

/// Stands for the group of a publisher that has none.
pub(super) const ALONE: u32 = u32::MAX;

impl Groups {
    /// Nobody is known to send with anybody; publishers are taken as they are numbered.
    pub(crate) fn blind(publishers: usize) -> Self {
        Groups {
            members: (0..publishers as u32).collect(),
            ranges: Vec::new(),
            group_of: vec![ALONE; publishers],
        }
    }

    /// The groups as they were told or inferred. A group of one is none.
    pub(crate) fn told(
        group_of: impl Iterator<Item = Option<GroupIndex>>,
        rates: &[f64],
        work: &mut Work,
    ) -> Self {
        let told: Vec<Option<GroupIndex>> = group_of.collect();
        let mut members: Vec<u32> = (0..told.len() as u32).collect();
        members.sort_by(|&a, &b| {
            work.steps += 1;
            let (a, b) = (a as usize, b as usize);
            let larger_first = rates[b].total_cmp(&rates[a]);
            told[a].cmp(&told[b]).then(larger_first).then(a.cmp(&b))
        });
        let is_one_group = |a: &u32, b: &u32| {
            told[*a as usize].is_some() && told[*a as usize] == told[*b as usize]
        };
        let mut chunks: Vec<(&[u32], f64)> = members
            .chunk_by(is_one_group)
            .map(|chunk| (chunk, chunk.iter().map(|&at| rates[at as usize]).sum()))
            .collect();
        chunks.sort_by(|(a, a_rate), (b, b_rate)| {
            work.steps += 1;
            let groups_first = (b.len() > 1).cmp(&(a.len() > 1));
            groups_first
                .then(b_rate.total_cmp(a_rate))
                .then(a[0].cmp(&b[0]))
        });
        Self::arranged(&chunks, told.len())
    }

    fn arranged(chunks: &[(&[u32], f64)], publishers: usize) -> Self {
        let mut arranged = Groups {
            members: Vec::with_capacity(publishers),
            ranges: Vec::new(),
            group_of: vec![ALONE; publishers],
        };
        for (chunk, _) in chunks {
            let start = arranged.members.len();
            arranged.members.extend_from_slice(chunk);
            if chunk.len() > 1 {
                for &member in *chunk {
                    arranged.group_of[member as usize] = arranged.ranges.len() as u32;
                }
                arranged.ranges.push(start..arranged.members.len());
            }
        }
        arranged
    }

    /// The groups of two and more, each by falling rate.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.ranges.iter().map(|range| &self.members[range.clone()])
    }

    /// Those that send on their own.
    pub(super) fn alone(&self) -> &[u32] {
        let start = self.ranges.last().map_or(0, |range| range.end);
        &self.members[start..]
    }

    /// The number of a publisher's group, or [`ALONE`].
    pub(super) fn group_of(&self, publisher: u32) -> u32 {
        self.group_of[publisher as usize]
    }

    /// The members of a group by its number.
    pub(super) fn members(&self, group: u32) -> &[u32] {
        &self.members[self.ranges[group as usize].clone()]
    }
}
