//! How the steps of a distribution grow with its size, counted and not timed.

use super::*;

/// How publishers of a question differ and how much room there is for them.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Publishers per group; 0: no groups; 1: sizes from 1 to 12.
    group_size: u32,
    is_equal: bool,
    /// Capacity over rate.
    room: f64,
}

fn question_of(policy: Policy, shape: Shape, publishers: u32, brokers: u32) -> Asked {
    let rate_of = |at: u32| {
        if shape.is_equal {
            10.0
        } else {
            1.0 + f64::from(at * 7919 % 97)
        }
    };
    let group_of = |at: u32| match shape.group_size {
        0 => None,
        1 => Some((f64::from(at * 31 % publishers) * 3.0).powf(0.8) as u32),
        size => Some(at * 31 % publishers / size),
    };
    let publishers: Vec<Publisher> = (0..publishers)
        .map(|at| publisher(rate_of(at), group_of(at)))
        .collect();
    let asked: f64 = publishers
        .iter()
        .map(|publisher| publisher.rate.get())
        .sum();
    let share = shape.room * asked / f64::from(brokers);
    let brokers = (0..brokers).map(|at| broker(share * (0.5 + f64::from(at % 11) / 10.0), 0.0));
    let mut asked = Asked::new(policy, publishers, brokers.collect());
    asked.k_min = asked.brokers.len();
    asked
}

fn steps(asked: &Asked) -> u64 {
    let question = Question {
        policy: asked.policy,
        publishers: &asked.publishers,
        placed: &asked.placed,
        brokers: &asked.brokers,
        full: &asked.full,
        k_min: asked.k_min,
    };
    let mut work = Work::default();
    // Where the room is too small, the partial answer is work as well.
    let _ = distribute_counting(&question, &mut work);
    work.steps
}

#[test]
fn work_grows_with_publishers_times_logarithm() {
    let mut shapes = Vec::new();
    for group_size in [0, 1, 2, 25, 1_000] {
        for is_equal in [true, false] {
            for room in [1.5, 1.0005, 0.8] {
                shapes.push(Shape {
                    group_size,
                    is_equal,
                    room,
                });
            }
        }
    }
    for policy in Policy::ALL {
        for &shape in &shapes {
            for (publishers, brokers) in [(1_100u32, 11u32), (4_400, 33), (17_600, 99)] {
                let steps = steps(&question_of(policy, shape, publishers, brokers));
                let (n, k) = (f64::from(publishers), f64::from(brokers));
                let bound = 4.0 * n * (n.log2() + k.log2());
                let is_within = (steps as f64) < bound;
                assert!(
                    is_within,
                    "{policy}, {shape:?}, {publishers} over {brokers}: {steps} steps"
                );
            }
        }
    }
}
