//! How often a thread looks for work before it sleeps.
//!
//! Falling asleep and being woken costs more than many looks, so looks pay where work is usually
//! near, and are wasted where it is not. The success of recent looks decides how often a thread
//! looks (Tempo, section on sleeping). On one core nobody puts work in while somebody looks, so
//! there nobody looks.

/// Most looks before one sleep: some tens of microseconds, about what a sleep and a wake-up cost.
pub const LOOKS_MAX: u32 = 1_000;

/// A share of hits below this is not worth a look.
const HITS_MIN: u32 = WHOLE / 16;

/// After this many sleeps without a look a thread looks as often as it may, since work may come faster by then.
const SLEEPS_PER_PROBE: u32 = 32;

/// The share of hits is counted in parts of this, and moves by an eighth at a time.
const WHOLE: u32 = 1 << 16;
const WEIGHT: u32 = 8;

/// What one thread has seen of its looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spin {
    is_worth_it: bool,
    hits: u32,
    sleeps: u32,
}

impl Spin {
    /// Starts counting, for a thread on a machine with `cores` cores.
    pub fn new(cores: usize) -> Spin {
        Spin {
            is_worth_it: cores > 1,
            hits: WHOLE / 2,
            sleeps: 0,
        }
    }

    /// How often to look for work now, before sleeping: 0 to [`LOOKS_MAX`].
    pub fn looks(&self) -> u32 {
        if !self.is_worth_it {
            return 0;
        }
        if self.hits < HITS_MIN {
            return if self.sleeps >= SLEEPS_PER_PROBE {
                LOOKS_MAX
            } else {
                0
            };
        }
        (u64::from(LOOKS_MAX) * u64::from(self.hits) / u64::from(WHOLE)) as u32
    }

    /// Notes what came of `looks`, as many as [`looks`](Spin::looks) said, or fewer where work was found.
    pub fn note(&mut self, looks: u32, found: bool) {
        if looks == 0 {
            self.sleeps = self.sleeps.saturating_add(1);
            return;
        }
        self.sleeps = 0;
        if found {
            // A probe that finds work is believed at once, or it would be the last for long.
            self.hits = self.hits.max(HITS_MIN) + (WHOLE - self.hits.max(HITS_MIN)) / WEIGHT;
        } else {
            self.hits -= self.hits / WEIGHT;
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    /// Looks before each of `sleeps` sleeps, where work would come after `gap` looks.
    fn spin(spin: &mut Spin, gap: u32, sleeps: usize) -> Vec<u32> {
        let mut history = Vec::new();
        for _ in 0..sleeps {
            let looks = spin.looks();
            history.push(looks);
            spin.note(looks.min(gap), gap < looks);
        }
        history
    }

    #[test]
    fn looks_follow_what_they_find() {
        struct Case {
            what: &'static str,
            cores: usize,
            gap: u32,
            mean_looks: std::ops::RangeInclusive<u32>,
        }
        let cases = [
            Case {
                what: "one core",
                cores: 1,
                gap: 1,
                mean_looks: 0..=0,
            },
            Case {
                what: "work is near",
                cores: 2,
                gap: 10,
                mean_looks: LOOKS_MAX * 9 / 10..=LOOKS_MAX,
            },
            Case {
                what: "work is half as far as the first look reaches",
                cores: 8,
                gap: LOOKS_MAX / 4,
                mean_looks: LOOKS_MAX * 9 / 10..=LOOKS_MAX,
            },
            Case {
                what: "work is far",
                cores: 2,
                gap: LOOKS_MAX * 100,
                mean_looks: 1..=LOOKS_MAX / 25,
            },
        ];
        for case in cases {
            let history = spin(&mut Spin::new(case.cores), case.gap, 200);
            let mean = history[100..].iter().sum::<u32>() / 100;
            assert!(
                case.mean_looks.contains(&mean),
                "{}: {history:?}",
                case.what
            );
            assert!(history.iter().all(|&looks| looks <= LOOKS_MAX));
        }
    }

    #[test]
    fn where_nothing_is_found_looks_cost_next_to_nothing() {
        let history = spin(&mut Spin::new(4), LOOKS_MAX * 2, 10_000);
        let mean = history.iter().sum::<u32>() / 10_000;
        assert!(mean <= LOOKS_MAX / 25, "{mean} looks per sleep");
    }

    #[test]
    fn a_change_is_noticed_both_ways() {
        let mut thread = Spin::new(2);
        spin(&mut thread, LOOKS_MAX * 2, 100);
        let history = spin(&mut thread, 5, 200);
        assert!(history[199] > LOOKS_MAX / 2, "{history:?}");
        let history = spin(&mut thread, LOOKS_MAX * 2, 100);
        assert!(
            history[30..].iter().filter(|&&looks| looks > 0).count() <= 3,
            "{history:?}"
        );
    }
}
