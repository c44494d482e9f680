//! From "belongs to that leader, so far from it" to groups: a star is cut where its members leave a gap.

use crate::GroupIndex;

/// A gap between neighbours in a star that parts them, in tolerances. Members of one group that are spread
/// over the whole tolerance leave far smaller ones.
const PARTING_GAP: f64 = 0.25;

/// A gap separates only if it is also this many standard errors of the neighbours' mean offsets.
const PARTING_ERRORS: f64 = 4.0;

/// To whom a publisher belongs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Membership {
    pub(super) leader: u32,
    /// How much of the leader's sends it shares and how nearly: 1 for all at the same instants.
    pub(super) closeness: f64,
    /// How much later than the leader it sends on average, in tolerances.
    pub(super) offset: f64,
    /// The variance of that average, in tolerances squared.
    pub(super) variance: f64,
}

impl Membership {
    /// Of a leader in its own star.
    pub(super) const fn leading(leader: u32) -> Self {
        Membership {
            leader,
            closeness: f64::INFINITY,
            offset: 0.0,
            variance: 0.0,
        }
    }

    /// Whether two neighbours in a star, `later` the one with the larger offset, are apart.
    fn is_parted_from(&self, later: &Membership) -> bool {
        let error = (self.variance + later.variance).sqrt();
        self.leader != later.leader
            || later.offset - self.offset > PARTING_GAP.max(PARTING_ERRORS * error)
    }
}

/// The groups, of two and more, numbered by their lowest publisher.
pub(super) fn cut(memberships: &[Option<Membership>]) -> Vec<Option<GroupIndex>> {
    let numbered = (0..).zip(memberships);
    let mut members: Vec<(Membership, u32)> = numbered
        .filter_map(|(at, membership)| Some(((*membership)?, at)))
        .collect();
    members.sort_by(|(a, a_at), (b, b_at)| {
        let by_offset = a.offset.total_cmp(&b.offset);
        a.leader.cmp(&b.leader).then(by_offset).then(a_at.cmp(b_at))
    });
    let mut sets: Vec<Vec<u32>> = members
        .chunk_by(|(earlier, _), (later, _)| !earlier.is_parted_from(later))
        .filter(|set| set.len() >= 2)
        .map(|set| set.iter().map(|(_, publisher)| *publisher).collect())
        .collect();
    for set in &mut sets {
        set.sort_unstable();
    }
    sets.sort_unstable();
    let mut group_of = vec![None; memberships.len()];
    for (group, set) in (0..).map(GroupIndex).zip(&sets) {
        for &publisher in set {
            group_of[publisher as usize] = Some(group);
        }
    }
    group_of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_cut_at_gaps_that_are_no_error() {
        // Leader, offset, variance; the group expected.
        let cases = [
            (0, 0.0, 0.0, Some(0)),
            (0, 0.6, 0.0, Some(1)),
            (0, 0.1, 0.0, Some(0)),
            (0, 0.62, 0.0, Some(1)),
            // Alone beyond a gap.
            (0, -0.5, 0.0, None),
            // A gap as wide, of offsets that are not known so well.
            (6, 0.0, 0.01, Some(2)),
            (6, 0.5, 0.01, Some(2)),
            // Nobody else belongs to this one.
            (8, 0.0, 0.0, None),
        ];
        let memberships: Vec<_> = cases
            .iter()
            .map(|&(leader, offset, variance, _)| {
                Some(Membership {
                    leader,
                    closeness: 1.0,
                    offset,
                    variance,
                })
            })
            .collect();
        let expected: Vec<_> = cases
            .iter()
            .map(|(_, _, _, group)| group.map(GroupIndex))
            .collect();
        assert_eq!(cut(&memberships), expected);
    }
}
