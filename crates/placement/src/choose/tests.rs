//! Groups and sums against their bounds, for publishers of equal and of unequal rates.

use proptest::prelude::*;

use super::*;
use crate::GroupIndex;

/// Publishers with their group, and brokers with targets that sum to all rates.
#[derive(Debug)]
struct Case {
    rates: Vec<f64>,
    groups: Vec<Option<GroupIndex>>,
    targets: Vec<f64>,
    is_exact: bool,
}

impl Case {
    /// Nobody's room is in the way unless `rooms` says so.
    fn chosen(&self, rooms: Option<&[f64]>, work: &mut Work) -> Vec<Option<u32>> {
        let groups = Groups::told(self.groups.iter().copied(), &self.rates, work);
        let ample = vec![1e12; self.targets.len()];
        let choice = Choice {
            rates: &self.rates,
            groups: &groups,
            targets: &self.targets,
            rooms: rooms.unwrap_or(&ample),
            is_exact: self.is_exact,
        };
        choose(&choice, work)
    }

    fn sum_at(&self, chosen: &[Option<u32>], broker: usize, group: Option<GroupIndex>) -> f64 {
        let is_counted = |at: &usize| {
            chosen[*at] == Some(broker as u32) && (group.is_none() || self.groups[*at] == group)
        };
        (0..self.rates.len())
            .filter(is_counted)
            .map(|at| self.rates[at])
            .sum()
    }

    fn greatest(&self, group: Option<GroupIndex>) -> f64 {
        let is_counted = |at: &usize| group.is_none() || self.groups[*at] == group;
        (0..self.rates.len())
            .filter(is_counted)
            .map(|at| self.rates[at])
            .fold(0.0, f64::max)
    }

    /// By how many of its largest publishers a group is off its proportional share at any broker.
    fn worst_group(&self, chosen: &[Option<u32>]) -> f64 {
        let all: f64 = self.rates.iter().sum();
        let mut groups: Vec<_> = self.groups.iter().flatten().copied().collect();
        groups.sort_unstable();
        groups.dedup();
        let mut worst = 0.0f64;
        for group in groups.into_iter().map(Some) {
            let rate: f64 = (0..self.targets.len())
                .map(|at| self.sum_at(chosen, at, group))
                .sum();
            for (broker, target) in self.targets.iter().enumerate() {
                let off = self.sum_at(chosen, broker, group) - rate * target / all;
                worst = worst.max(off.abs() / self.greatest(group));
            }
        }
        worst
    }

    /// By how many of the largest publishers a broker is off its target.
    fn worst_sum(&self, chosen: &[Option<u32>]) -> f64 {
        let off = |(broker, target): (usize, &f64)| {
            (self.sum_at(chosen, broker, None) - target).abs() / self.greatest(None)
        };
        self.targets.iter().enumerate().map(off).fold(0.0, f64::max)
    }
}

/// Publishers of rate 10 whose targets are whole publishers, in unequal parts.
fn equal_case() -> impl Strategy<Value = Case> {
    let parts = prop::collection::vec(0.0..1.0f64, 1..9);
    let groups = prop::collection::vec(prop::option::weighted(0.8, 0u32..12), 1..150);
    (parts, groups).prop_map(|(parts, groups)| {
        let weight: f64 = parts.iter().sum::<f64>().max(1e-9);
        let count = groups.len();
        let mut shares: Vec<usize> = parts
            .iter()
            .map(|part| (part / weight * count as f64).floor() as usize)
            .collect();
        shares[0] += count - shares.iter().sum::<usize>();
        Case {
            rates: vec![10.0; count],
            groups: groups
                .into_iter()
                .map(|group| group.map(GroupIndex))
                .collect(),
            targets: shares
                .into_iter()
                .map(|share| 10.0 * share as f64)
                .collect(),
            is_exact: true,
        }
    })
}

/// Publishers whose rates span a hundredfold.
fn mixed_case() -> impl Strategy<Value = Case> {
    let parts = prop::collection::vec(0.0..1.0f64, 1..9);
    let publisher = (0.0..2.0f64, prop::option::weighted(0.8, 0u32..12));
    (parts, prop::collection::vec(publisher, 1..150)).prop_map(|(parts, publishers)| {
        let rates: Vec<f64> = publishers
            .iter()
            .map(|(power, _)| 10f64.powf(*power))
            .collect();
        let all: f64 = rates.iter().sum();
        let weight: f64 = parts.iter().sum::<f64>() + 1e-6 * parts.len() as f64;
        Case {
            groups: publishers
                .into_iter()
                .map(|(_, group)| group.map(GroupIndex))
                .collect(),
            targets: parts
                .iter()
                .map(|part| (part + 1e-6) / weight * all)
                .collect(),
            rates,
            is_exact: false,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn of_equal_publishers_targets_are_met_and_groups_rounded_up_or_down(case in equal_case()) {
        let chosen = case.chosen(None, &mut Work::default());
        prop_assert!(chosen.iter().all(Option::is_some));
        prop_assert!(case.worst_sum(&chosen) < 1e-6, "sums off by {}", case.worst_sum(&chosen));
        prop_assert!(case.worst_group(&chosen) < 1.0 - 1e-9, "{}", case.worst_group(&chosen));
    }

    /// The same when the targets are all the room there is.
    #[test]
    fn of_equal_publishers_not_even_full_brokers_unbalance_a_group(case in equal_case()) {
        let chosen = case.chosen(Some(&case.targets), &mut Work::default());
        prop_assert!(chosen.iter().all(Option::is_some));
        prop_assert!(case.worst_sum(&chosen) < 1e-6);
        prop_assert!(case.worst_group(&chosen) < 1.0 - 1e-9);
    }

    #[test]
    fn of_unequal_publishers_groups_and_sums_are_within_one(case in mixed_case()) {
        let chosen = case.chosen(None, &mut Work::default());
        prop_assert!(chosen.iter().all(Option::is_some));
        prop_assert!(case.worst_group(&chosen) <= 1.0 + 1e-9, "{}", case.worst_group(&chosen));
        prop_assert!(case.worst_sum(&chosen) <= 1.0 + 1e-9, "{}", case.worst_sum(&chosen));
    }

    #[test]
    fn no_room_is_ever_exceeded(case in mixed_case(), scale in 0.1..1.5f64) {
        let rooms: Vec<f64> = case.targets.iter().map(|target| target * scale).collect();
        let chosen = case.chosen(Some(&rooms), &mut Work::default());
        for (broker, room) in rooms.iter().enumerate() {
            prop_assert!(case.sum_at(&chosen, broker, None) <= room * (1.0 + 1e-6));
        }
        // Whoever is left out fits nowhere.
        for left_out in (0..chosen.len()).filter(|&at| chosen[at].is_none()) {
            for (broker, room) in rooms.iter().enumerate() {
                let sum = case.sum_at(&chosen, broker, None);
                prop_assert!(sum + case.rates[left_out] > room * (1.0 - 1e-6));
            }
        }
    }
}

/// Groups of one rate each, so that a publisher of one never makes up for one of another.
#[test]
fn a_large_publisher_does_not_excuse_a_lopsided_rest() {
    let mut rates = vec![100.0];
    rates.extend([1.0; 300]);
    let case = Case {
        groups: vec![Some(GroupIndex(0)); rates.len()],
        targets: vec![100.0; 4],
        rates,
        is_exact: false,
    };
    let chosen = case.chosen(None, &mut Work::default());
    for broker in 0..4 {
        assert_eq!(case.sum_at(&chosen, broker, None), 100.0);
    }
}
