//! When each publisher is due to send: a pure function of the workload and its seed.
//!
//! Groups are the unit: all publishers of a group are due at the same instant (a group of one is a publisher on its
//! own). Poisson groups are drawn as one process of the summed rate with the group picked at random, which is the
//! same process as one per group and needs no queue. Periodic groups have random phases within one period.

use clock::{Xoshiro256PlusPlus, stream};
use rand::Rng;

use crate::workload::{Arrivals, Workload};

/// One publisher's turn to send a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Send {
    /// Nanoseconds since the start of the run.
    pub due_ns: u64,
    /// Index of the publisher.
    pub publisher: u32,
}

/// The sends of a run in order of time; never ends.
#[derive(Debug)]
pub struct Schedule {
    groups: Groups,
    group_publishers: u32,
    publishers: u32,
    /// The group whose members are being handed out: instant, next member, end.
    due_ns: u64,
    next_member: u32,
    end_member: u32,
}

#[derive(Debug)]
enum Groups {
    Poisson {
        random: Xoshiro256PlusPlus,
        groups: u32,
        mean_gap_ns: f64,
        time_ns: f64,
    },
    Periodic {
        phases_ns: Vec<(f64, u32)>,
        period_ns: f64,
        turn: u64,
        position: usize,
    },
}

impl Schedule {
    /// The schedule of `workload`.
    pub fn new(workload: &Workload) -> Self {
        let mut random = stream(workload.seed, "schedule");
        let groups = workload.publishers.div_ceil(workload.group_publishers);
        let period_ns = 1e9 * f64::from(workload.batch_messages) / workload.rate_per_publisher;
        let groups = match workload.arrivals {
            Arrivals::Poisson => Groups::Poisson {
                random,
                groups,
                mean_gap_ns: period_ns / f64::from(groups),
                time_ns: 0.0,
            },
            Arrivals::Periodic => {
                let mut phases_ns: Vec<(f64, u32)> = (0..groups)
                    .map(|group| (uniform(&mut random) * period_ns, group))
                    .collect();
                phases_ns.sort_by(|a, b| a.0.total_cmp(&b.0));
                Groups::Periodic {
                    phases_ns,
                    period_ns,
                    turn: 0,
                    position: 0,
                }
            }
        };
        Self {
            groups,
            group_publishers: workload.group_publishers,
            publishers: workload.publishers,
            due_ns: 0,
            next_member: 0,
            end_member: 0,
        }
    }

    /// The next send.
    #[inline]
    pub fn next_send(&mut self) -> Send {
        if self.next_member == self.end_member {
            let (due_ns, group) = self.groups.next();
            self.due_ns = due_ns;
            self.next_member = group * self.group_publishers;
            self.end_member = (self.next_member + self.group_publishers).min(self.publishers);
        }
        let send = Send {
            due_ns: self.due_ns,
            publisher: self.next_member,
        };
        self.next_member += 1;
        send
    }
}

impl Groups {
    fn next(&mut self) -> (u64, u32) {
        match self {
            Self::Poisson {
                random,
                groups,
                mean_gap_ns,
                time_ns,
            } => {
                // 1 - u lies in (0, 1], so the logarithm is finite.
                *time_ns -= (1.0 - uniform(random)).ln() * *mean_gap_ns;
                let group = ((random.next_u64() >> 32) * u64::from(*groups)) >> 32;
                (*time_ns as u64, group as u32)
            }
            Self::Periodic {
                phases_ns,
                period_ns,
                turn,
                position,
            } => {
                let (phase_ns, group) = phases_ns[*position];
                let due_ns = *turn as f64 * *period_ns + phase_ns;
                *position += 1;
                if *position == phases_ns.len() {
                    *position = 0;
                    *turn += 1;
                }
                (due_ns as u64, group)
            }
        }
    }
}

/// A number in [0, 1) with 53 random bits.
fn uniform(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sends(workload: &Workload, count: usize) -> Vec<Send> {
        let mut schedule = Schedule::new(workload);
        (0..count).map(|_| schedule.next_send()).collect()
    }

    fn poisson() -> Workload {
        Workload {
            publishers: 100,
            rate_per_publisher: 10.0,
            ..Workload::default()
        }
    }

    fn periodic() -> Workload {
        Workload {
            arrivals: Arrivals::Periodic,
            ..poisson()
        }
    }

    #[test]
    fn the_seed_decides_the_schedule() {
        for workload in [poisson(), periodic()] {
            let other = Workload {
                seed: 2,
                ..workload.clone()
            };
            assert_eq!(sends(&workload, 500), sends(&workload, 500));
            assert_ne!(sends(&workload, 500), sends(&other, 500));
        }
    }

    #[test]
    fn time_never_runs_backwards() {
        for workload in [poisson(), periodic()] {
            assert!(
                sends(&workload, 20_000)
                    .windows(2)
                    .all(|pair| pair[0].due_ns <= pair[1].due_ns)
            );
        }
    }

    #[test]
    fn rates_are_those_asked_for() {
        for (workload, tolerance) in [(poisson(), 0.02), (periodic(), 0.001)] {
            let count = 50_000;
            let last = sends(&workload, count)[count - 1];
            let expected_ns = count as f64 / workload.offered_per_second() * 1e9;
            let error = (last.due_ns as f64 / expected_ns - 1.0).abs();
            assert!(error < tolerance, "{:?}: off by {error}", workload.arrivals);
        }
    }

    #[test]
    fn batches_divide_the_number_of_sends() {
        let workload = Workload {
            batch_messages: 5,
            ..periodic()
        };
        let last = sends(&workload, 1000)[999];
        assert!((last.due_ns as f64 / 5e9 - 1.0).abs() < 0.01, "{last:?}");
    }

    #[test]
    fn poisson_gaps_are_exponential_and_publishers_uniform() {
        let sends = sends(&poisson(), 100_000);
        let gaps: Vec<f64> = sends
            .windows(2)
            .map(|pair| (pair[1].due_ns - pair[0].due_ns) as f64)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        let coefficient_of_variation = variance.sqrt() / mean;
        assert!(
            (coefficient_of_variation - 1.0).abs() < 0.02,
            "{coefficient_of_variation}"
        );
        let mut counts = [0_f64; 100];
        for send in &sends {
            counts[send.publisher as usize] += 1.0;
        }
        // Chi-square with 99 degrees of freedom: 99.9 % of draws lie below 149.
        let chi_square: f64 = counts
            .iter()
            .map(|count| (count - 1000.0).powi(2) / 1000.0)
            .sum();
        assert!(chi_square < 149.0, "{chi_square}");
    }

    #[test]
    fn periodic_publishers_keep_their_gap_and_differ_in_phase() {
        let sends = sends(&periodic(), 1000);
        let mine: Vec<u64> = sends
            .iter()
            .filter(|send| send.publisher == 7)
            .map(|send| send.due_ns)
            .collect();
        assert_eq!(mine.len(), 10);
        assert!(
            mine.windows(2)
                .all(|pair| (pair[1] - pair[0]).abs_diff(100_000_000) <= 1)
        );
        let mut phases: Vec<u64> = sends[..100].iter().map(|send| send.due_ns).collect();
        phases.dedup();
        assert_eq!(phases.len(), 100);
    }

    #[test]
    fn groups_are_due_together_and_the_last_may_be_smaller() {
        for workload in [poisson(), periodic()] {
            let workload = Workload {
                publishers: 10,
                group_publishers: 4,
                ..workload
            };
            let sends = sends(&workload, 3000);
            let mut rest = sends.as_slice();
            let mut seen = [0; 3];
            while rest.len() >= 4 {
                let first = rest[0];
                assert_eq!(first.publisher % 4, 0);
                let members = if first.publisher == 8 { 2 } else { 4 };
                for (offset, send) in rest[..members as usize].iter().enumerate() {
                    assert_eq!(send.due_ns, first.due_ns);
                    assert_eq!(send.publisher, first.publisher + offset as u32);
                }
                seen[first.publisher as usize / 4] += 1;
                rest = &rest[members as usize..];
            }
            assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
        }
    }
}
