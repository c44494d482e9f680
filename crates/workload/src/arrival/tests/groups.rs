//! Who sends together, and how closely.

use super::*;

#[test]
fn groups_are_due_together_and_the_last_may_be_smaller() {
    for class in [poisson(), periodic()] {
        let class = Class {
            count: 10,
            group_publishers: 4,
            ..class
        };
        let sends = first(&class, 3000);
        let mut rest = sends.as_slice();
        let mut seen = [0; 3];
        while rest.len() >= 4 {
            let head = rest[0];
            assert_eq!(head.publisher % 4, 0);
            let members = if head.publisher == 8 { 2 } else { 4 };
            for (offset, send) in (0..).zip(&rest[..members]) {
                assert_eq!(send.at_ns, head.at_ns);
                assert_eq!(send.publisher, head.publisher + offset);
            }
            seen[head.publisher as usize / 4] += 1;
            rest = &rest[members..];
        }
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
    }
}

#[test]
fn members_are_spread_evenly_over_the_interval() {
    for class in [poisson(), periodic()] {
        for spread_ms in [1, 16, 100] {
            let class = Class {
                count: 50,
                rate: 10.0,
                group_publishers: 25,
                spread: Duration::from_millis(spread_ms),
                ..class.clone()
            };
            let together = Class {
                spread: Duration::ZERO,
                ..class.clone()
            };
            // Each member's sends are those of the group, later by its place in it.
            let sends = between(&class, 0.0, 20.0);
            let of = |sends: &[Arrival], publisher: u32| -> Vec<u64> {
                let mine = sends.iter().filter(|send| send.publisher == publisher);
                mine.map(|send| send.at_ns).collect()
            };
            let groups = between(&together, 0.0, 20.0);
            for publisher in 0..50 {
                let place = u64::from(publisher % 25);
                let offset_ns = spread_ms * 1_000_000 * place / 24;
                let expected: Vec<u64> = of(&groups, publisher)
                    .into_iter()
                    .map(|at_ns| at_ns + offset_ns)
                    .filter(|at_ns| *at_ns < 20 * SECOND_NS)
                    .collect();
                assert_eq!(
                    of(&sends, publisher),
                    expected,
                    "{publisher}, {spread_ms} ms"
                );
            }
        }
    }
}

#[test]
fn a_lone_last_member_is_not_late() {
    let class = Class {
        count: 5,
        group_publishers: 4,
        spread: Duration::from_millis(50),
        ..periodic()
    };
    let sends = first(&class, 100);
    let last: Vec<u64> = sends
        .iter()
        .filter(|send| send.publisher == 4)
        .map(|send| send.at_ns)
        .collect();
    let unspread = first(
        &Class {
            spread: Duration::ZERO,
            ..class
        },
        100,
    );
    let expected: Vec<u64> = unspread
        .iter()
        .filter(|send| send.publisher == 4)
        .map(|send| send.at_ns)
        .collect();
    assert!(!last.is_empty());
    assert!(last.iter().zip(&expected).all(|(a, b)| a == b));
}

#[test]
fn what_waits_in_a_spread_is_bounded_by_the_publishers() {
    for class in [poisson(), periodic()] {
        // As long as the gap: every group is always in the middle of its spread.
        let class = Class {
            count: 1000,
            group_publishers: 20,
            spread: Duration::from_millis(100),
            ..class
        };
        let mut arrivals = spec(vec![class.clone()]).arrivals();
        let mut most = 0;
        for _ in 0..200_000 {
            arrivals.next();
            most = most.max(arrivals.classes[0].pending());
        }
        // Half of each group waits in the mean. Poisson groups overlap: their number in the interval varies around 50.
        let bound = match class.arrivals {
            Pattern::Periodic => 1000,
            Pattern::Poisson => 1500,
        };
        assert!((250..=bound).contains(&most), "{most}");
    }
}
