//! The highest rate under a latency promise: bisection over runs that are noisy.
//!
//! A run near the promise is repeated, and two of three decide, so one stall of the machine neither
//! fails a good rate nor passes a bad one. Pure: a closure makes the runs.

use crate::trial::Trial;

/// A run whose p99 is below this part of the promise decides alone.
const CLEARLY_MET: f64 = 0.7;
/// A run that lost its pace and whose p99 is this multiple of the promise decides alone.
const CLEARLY_MISSED: f64 = 10.0;
/// Votes that decide near the promise.
const MAJORITY: usize = 2;
/// The next rate while none has missed the promise.
const STEP_UP: f64 = 1.4;
/// The next rate while none has met it.
const STEP_DOWN: f64 = 0.55;

/// What is searched and how thoroughly. Rates in messages per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchOptions {
    /// Promise: p99 at most this, in microseconds.
    pub slo_p99_us: f64,
    /// The first rate.
    pub start: f64,
    /// No rate below this is tried.
    pub least: f64,
    /// No rate above this is tried.
    pub most: f64,
    /// The search is done when the lowest rate that misses exceeds the highest that meets by this
    /// fraction of it.
    pub tolerance: f64,
    /// Runs at most, repetitions included.
    pub max_runs: usize,
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Knee {
    /// The highest rate at which the promise held; `None` when it held at none.
    pub met: Option<f64>,
    /// The lowest rate above it at which it did not; `None` when it held wherever it was tried.
    pub missed: Option<f64>,
    /// The misses at `missed` may be the generator's.
    pub is_generator_limited: bool,
    /// Whether `met` and `missed` are as close as was asked for.
    pub is_exact: bool,
    /// All runs, in their order.
    pub trials: Vec<Trial>,
}

impl Knee {
    /// The p99 of the runs at `rate`, least and largest.
    pub fn spread_at(&self, rate: f64) -> Option<(f64, f64)> {
        let at_rate = self.trials.iter().filter(|trial| trial.rate == rate);
        at_rate.fold(None, |spread, trial| {
            let (least, most) = spread.unwrap_or((trial.latency_us, trial.latency_us));
            Some((least.min(trial.latency_us), most.max(trial.latency_us)))
        })
    }
}

/// Looks for the highest rate under the promise. `measure` runs one rate and is told the rate.
///
/// # Errors
/// Those of `measure`.
pub fn search<E>(
    options: &SearchOptions,
    mut measure: impl FnMut(f64) -> Result<Trial, E>,
) -> Result<Knee, E> {
    let mut knee = Knee::default();
    let mut rate = options.start.clamp(options.least, options.most);
    while knee.trials.len() < options.max_runs {
        let votes = vote(options, knee.trials.len(), || measure(rate))?;
        if is_met(&votes, options.slo_p99_us) {
            knee.met = Some(rate);
        } else {
            knee.missed = Some(rate);
            let missed = |trial: &&Trial| !trial.meets(options.slo_p99_us);
            knee.is_generator_limited = votes
                .iter()
                .filter(missed)
                .all(|trial| trial.generator_limited);
        }
        knee.trials.extend(votes);
        let Some(next) = next_rate(options, &knee) else {
            knee.is_exact = knee.met.is_some() && knee.missed.is_some();
            break;
        };
        rate = next;
    }
    Ok(knee)
}

/// Runs at one rate until they decide, or no run is left.
fn vote<E>(
    options: &SearchOptions,
    runs_before: usize,
    mut measure: impl FnMut() -> Result<Trial, E>,
) -> Result<Vec<Trial>, E> {
    let mut votes = vec![measure()?];
    if is_clear(&votes[0], options.slo_p99_us) {
        return Ok(votes);
    }
    while runs_before + votes.len() < options.max_runs {
        let met = votes.iter().filter(|trial| trial.meets(options.slo_p99_us));
        let met = met.count();
        if met >= MAJORITY || votes.len() - met >= MAJORITY {
            break;
        }
        votes.push(measure()?);
    }
    Ok(votes)
}

/// Whether one run decides.
fn is_clear(trial: &Trial, slo_p99_us: f64) -> bool {
    if trial.kept_up {
        trial.latency_us <= CLEARLY_MET * slo_p99_us
    } else {
        trial.latency_us > CLEARLY_MISSED * slo_p99_us
    }
}

/// More than half of the votes; a tie, when the runs ended early, is none.
fn is_met(votes: &[Trial], slo_p99_us: f64) -> bool {
    let met = votes.iter().filter(|trial| trial.meets(slo_p99_us)).count();
    2 * met > votes.len()
}

fn next_rate(options: &SearchOptions, knee: &Knee) -> Option<f64> {
    match (knee.met, knee.missed) {
        (Some(met), Some(missed)) if missed - met <= options.tolerance * met => None,
        (Some(met), Some(missed)) => Some((met * missed).sqrt()),
        (Some(met), None) if met >= options.most => None,
        (Some(met), None) => Some((met * STEP_UP).min(options.most)),
        (None, Some(missed)) if missed <= options.least => None,
        (None, Some(missed)) => Some((missed * STEP_DOWN).max(options.least)),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    const SLO_US: f64 = 1000.0;

    fn options() -> SearchOptions {
        SearchOptions {
            slo_p99_us: SLO_US,
            start: 30_000.0,
            least: 200.0,
            most: 200_000.0,
            tolerance: 0.05,
            max_runs: 40,
        }
    }

    /// A server with one queue: the latency grows without bound towards `saturation`.
    fn trial(rate: f64, saturation: f64) -> Trial {
        let kept_up = rate < saturation;
        Trial {
            rate,
            latency_us: if kept_up {
                100.0 / (1.0 - rate / saturation)
            } else {
                1e6
            },
            kept_up,
            generator_limited: false,
        }
    }

    fn find(options: &SearchOptions, mut measure: impl FnMut(f64) -> Trial) -> Knee {
        let measured = search(options, |rate| Ok::<_, Infallible>(measure(rate)));
        measured.expect("measuring cannot fail")
    }

    proptest! {
        #[test]
        fn the_knee_is_found_wherever_it_is(saturation in 500.0..200_000.0_f64, start in 200.0..200_000.0_f64) {
            let options = SearchOptions { start, ..options() };
            let knee = find(&options, |rate| trial(rate, saturation));
            // p99 is 1 ms at 0.9 of the saturation.
            let (met, missed) = (knee.met.expect("met"), knee.missed.expect("missed"));
            prop_assert!(met <= 0.9 * saturation && 0.9 * saturation <= missed);
            prop_assert!(knee.is_exact && missed <= 1.05 * met);
        }

        #[test]
        fn runs_are_bounded_and_what_is_found_brackets_the_knee(
            saturation in 500.0..200_000.0_f64,
            max_runs in 1_usize..12,
        ) {
            let options = SearchOptions { max_runs, ..options() };
            let knee = find(&options, |rate| trial(rate, saturation));
            prop_assert!(knee.trials.len() <= max_runs);
            prop_assert!(knee.met.is_none_or(|met| met <= 0.9 * saturation));
            prop_assert!(knee.missed.is_none_or(|missed| missed >= 0.9 * saturation));
        }
    }

    #[test]
    fn one_stall_does_not_decide() {
        for stalled_run in 0..6 {
            let mut run = 0;
            let knee = find(&options(), |rate| {
                let stalled = run == stalled_run;
                run += 1;
                let trial = trial(rate, 50_000.0);
                if stalled {
                    Trial {
                        latency_us: 5_000.0,
                        ..trial
                    }
                } else {
                    trial
                }
            });
            let met = knee.met.expect("met");
            assert!((42_000.0..=45_000.0).contains(&met), "{stalled_run}: {met}");
        }
    }

    #[test]
    fn far_from_the_promise_one_run_is_enough() {
        let narrow = SearchOptions {
            max_runs: 1,
            ..options()
        };
        assert_eq!(find(&narrow, |rate| trial(rate, 1e6)).met, Some(30_000.0));
        let knee = find(&narrow, |rate| trial(rate, 20_000.0));
        assert_eq!((knee.met, knee.missed), (None, Some(30_000.0)));
        assert!(!knee.is_exact);
    }

    #[test]
    fn a_tie_at_the_last_run_counts_as_missed() {
        let narrow = SearchOptions {
            max_runs: 2,
            ..options()
        };
        let mut p99_us = [900.0, 1100.0].into_iter();
        let knee = find(&narrow, |rate| Trial {
            latency_us: p99_us.next().expect("two runs"),
            ..trial(rate, 1e6)
        });
        assert_eq!((knee.met, knee.missed), (None, Some(30_000.0)));
        assert_eq!(knee.spread_at(30_000.0), Some((900.0, 1100.0)));
        assert_eq!(knee.spread_at(1.0), None);
    }

    #[test]
    fn the_bounds_of_the_search_are_kept() {
        let knee = find(&options(), |rate| trial(rate, 1e9));
        assert_eq!((knee.met, knee.missed), (Some(200_000.0), None));
        let knee = find(&options(), |rate| trial(rate, 1.0));
        assert_eq!((knee.met, knee.missed), (None, Some(200.0)));
        assert!(!knee.is_exact);
    }

    #[test]
    fn a_generator_that_cannot_follow_is_told() {
        let knee = find(&options(), |rate| Trial {
            generator_limited: rate > 40_000.0,
            ..trial(rate, 50_000.0)
        });
        assert!(knee.is_generator_limited);
        let knee = find(&options(), |rate| trial(rate, 50_000.0));
        assert!(!knee.is_generator_limited);
    }

    #[test]
    fn a_failed_measurement_ends_the_search() {
        assert_eq!(search(&options(), |_| Err::<Trial, _>("gone")), Err("gone"));
    }
}
