//! Which group of a class is due when.

use std::time::Duration;

use clock::{Xoshiro256PlusPlus, uniform};
use rand::Rng;

use super::paced::Paced;
use super::ramp::Stretch;
use crate::{Class, Pattern};

/// Where time ends: a century and a half on, so that sums of instants and spans do not overflow.
pub(super) const END_NS: f64 = (1_u64 << 62) as f64;

/// The turns of a class's groups in order of time.
#[derive(Clone, Debug)]
pub(super) enum Turns {
    Poisson {
        random: Xoshiro256PlusPlus,
        groups: u32,
        mean_gap_ns: f64,
        /// In the class's own time.
        time_ns: f64,
        stretch: Stretch,
        pauses: Pauses,
    },
    Periodic {
        phases_ns: Vec<(f64, u32)>,
        period_ns: f64,
        turn: u64,
        position: usize,
        stretch: Stretch,
    },
    /// Periodic with pauses.
    Paced(Paced),
}

/// On for a while, off for a while, each group at a phase of its own.
#[derive(Clone, Debug)]
pub(super) struct Pauses {
    on_ns: u64,
    cycle_ns: u64,
    /// How far each group is in its cycle at the beginning; empty without pauses.
    phases_ns: Vec<u64>,
}

impl Turns {
    pub(super) fn new(class: &Class, mut random: Xoshiro256PlusPlus) -> Self {
        let pauses = Pauses::new(class, &mut random);
        let groups = class.groups();
        let period_ns = 1e9 * f64::from(class.batch_messages.max(1)) / class.rate;
        let stretch = Stretch::new(class.ramp);
        if class.arrivals == Pattern::Poisson {
            return Turns::Poisson {
                random,
                groups,
                mean_gap_ns: period_ns / f64::from(groups),
                time_ns: 0.0,
                stretch,
                pauses,
            };
        }
        let phase = |group| (uniform(&mut random) * period_ns, group);
        let mut phases_ns: Vec<(f64, u32)> = (0..groups).map(phase).collect();
        if !pauses.phases_ns.is_empty() {
            return Turns::Paced(Paced::new(&phases_ns, period_ns, stretch, pauses));
        }
        phases_ns.sort_by(|a, b| a.0.total_cmp(&b.0));
        Turns::Periodic {
            phases_ns,
            period_ns,
            turn: 0,
            position: 0,
            stretch,
        }
    }

    /// The next instant and group; `None` when nothing comes any more.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(u64, u32)> {
        match self {
            Turns::Poisson {
                random,
                groups,
                mean_gap_ns,
                time_ns,
                stretch,
                pauses,
            } => loop {
                // 1 - u lies in (0, 1], so the logarithm is finite.
                *time_ns -= (1.0 - uniform(random)).ln() * *mean_gap_ns;
                let group = (((random.next_u64() >> 32) * u64::from(*groups)) >> 32) as u32;
                let due_ns = stretch.real_ns(*time_ns)?;
                if pauses.is_on(due_ns, group) {
                    return Some((due_ns, group));
                }
            },
            Turns::Periodic {
                phases_ns,
                period_ns,
                turn,
                position,
                stretch,
            } => {
                let (phase_ns, group) = phases_ns[*position];
                let due_ns = stretch.real_ns(*turn as f64 * *period_ns + phase_ns)?;
                *position += 1;
                if *position == phases_ns.len() {
                    *position = 0;
                    *turn += 1;
                }
                Some((due_ns, group))
            }
            Turns::Paced(paced) => paced.next(),
        }
    }
}

impl Pauses {
    fn new(class: &Class, random: &mut Xoshiro256PlusPlus) -> Self {
        let (on_ns, off_ns) = (nanos(class.on), nanos(class.off));
        let cycle_ns = on_ns.saturating_add(off_ns);
        let has_pauses = on_ns > 0 && off_ns > 0;
        let mut phase = || (uniform(random) * cycle_ns as f64) as u64;
        Pauses {
            on_ns,
            cycle_ns,
            phases_ns: if has_pauses {
                (0..class.groups()).map(|_| phase()).collect()
            } else {
                Vec::new()
            },
        }
    }

    #[inline]
    fn is_on(&self, at_ns: u64, group: u32) -> bool {
        let Some(phase_ns) = self.phases_ns.get(group as usize) else {
            return true;
        };
        (at_ns + phase_ns) % self.cycle_ns < self.on_ns
    }

    /// The first interval in which a group is on.
    pub(super) fn first_on_ns(&self, group: usize) -> (u64, u64) {
        let phase_ns = self.phases_ns[group];
        if phase_ns < self.on_ns {
            return (0, self.on_ns - phase_ns);
        }
        let begin_ns = self.cycle_ns - phase_ns;
        (begin_ns, begin_ns + self.on_ns)
    }

    pub(super) fn on_ns(&self) -> u64 {
        self.on_ns
    }

    pub(super) fn cycle_ns(&self) -> u64 {
        self.cycle_ns
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
