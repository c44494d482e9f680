//! Where a broker's pass probability falls through one half, and how certain that is.
//!
//! A run at a rate either meets the goal or misses it. The probability of meeting it only falls as
//! the rate rises; nothing else is assumed of its shape. It is estimated by isotonic regression
//! (pool adjacent violators: Ayer, Brunk, Ewing, Reid and Silverman, 1955), and interpolated
//! between two rates on their logarithm. The *knee* is the rate at which one half of the runs pass.
//! Its interval is a percentile interval (Efron) of a bootstrap that draws the runs of each rate
//! anew from a smoothed fit, as is done for psychometric thresholds (Wichmann and Hill, 2001):
//! plain resampling would call a handful of equal runs certain. Each draw places the knee anywhere
//! between the two rates that enclose it, since no run tells where in between.
//!
//! Pure: the random stream is an argument.

use clock::uniform;
use rand::Rng;
use serde::Serialize;

/// The pass probability at the knee.
const HALF: f64 = 0.5;
/// Runs met and runs missed that each pool of the smoothed fit is given beside its own (Jeffreys' prior).
const PRIOR_RUNS: f64 = 0.5;

/// The runs at one rate that count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tally {
    /// Messages per second.
    pub rate: f64,
    /// Runs that met the goal.
    pub met: u32,
    /// Runs that missed it.
    pub missed: u32,
}

/// The kind of interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Confidence {
    /// Probability that the interval holds the knee, 0 to 1.
    pub level: f64,
    /// Draws of the bootstrap.
    pub draws: u32,
}

/// A knee with its interval, in messages per second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// The rate at which half of the runs pass.
    pub knee: f64,
    /// Lower end of the interval; 0 when the rates that were run do not bound it.
    pub low: f64,
    /// Upper end of the interval; infinite when the rates that were run do not bound it.
    pub high: f64,
    /// The knees of the bootstrap, in the order in which they were drawn.
    #[serde(skip)]
    draws: Vec<f64>,
}

/// Rates of one pass probability.
#[derive(Debug, Clone, Copy)]
struct Pool {
    rates: usize,
    met: f64,
    runs: f64,
    /// Logarithms of the lowest and the highest of the rates.
    first_ln_rate: f64,
    last_ln_rate: f64,
}

/// Where a fit falls through one half; logarithms of rates.
#[derive(Debug, Clone, Copy)]
struct Crossing {
    /// By interpolation.
    at: f64,
    /// The rates that enclose it.
    from: f64,
    to: f64,
}

/// Estimates the knee from `tallies`, whose rates rise and which hold at least one run each. `None` when the fit does
/// not fall through one half within them.
pub fn estimate(
    tallies: &[Tally],
    confidence: Confidence,
    random: &mut impl Rng,
) -> Option<Estimate> {
    let knee = crossing(&pooled(tallies, rises))?.at.exp();
    let smoothed = smoothed_probabilities(tallies);
    let draws: Vec<f64> = (0..confidence.draws)
        .map(|_| drawn_knee(tallies, &smoothed, random))
        .collect();
    let (low, high) = percentile_interval(&draws, confidence.level);
    Some(Estimate {
        knee,
        low: low.min(knee),
        high: high.max(knee),
        draws,
    })
}

/// The pass probability at each of `tallies`, whose rates rise: the falling sequence nearest to the parts that passed.
pub fn pass_probabilities(tallies: &[Tally]) -> Vec<f64> {
    spread(&pooled(tallies, rises), Pool::probability)
}

impl Estimate {
    /// This knee as a multiple of `base`: the ratio of the two and its interval at `level`, from the draws of both.
    pub fn ratio_to(&self, base: &Self, level: f64) -> (f64, f64, f64) {
        let ratios: Vec<f64> = self
            .draws
            .iter()
            .zip(&base.draws)
            .map(|(ours, theirs)| ours / theirs)
            .filter(|ratio| !ratio.is_nan())
            .collect();
        let ratio = self.knee / base.knee;
        let (low, high) = percentile_interval(&ratios, level);
        (ratio, low.min(ratio), high.max(ratio))
    }
}

impl Pool {
    fn of(tally: &Tally) -> Self {
        let runs = f64::from(tally.met + tally.missed);
        Self {
            rates: 1,
            met: f64::from(tally.met),
            runs,
            first_ln_rate: tally.rate.ln(),
            last_ln_rate: tally.rate.ln(),
        }
    }

    fn probability(&self) -> f64 {
        self.met / self.runs
    }

    fn join(&mut self, other: &Self) {
        self.rates += other.rates;
        self.met += other.met;
        self.runs += other.runs;
        self.last_ln_rate = other.last_ln_rate;
    }
}

/// Whether neighbours are pooled: a probability must not rise, and rates that pass exactly half of their runs are one
/// place, in whose middle the knee lies.
fn rises(left: f64, right: f64) -> bool {
    left < right || (left == HALF && right == HALF)
}

/// Pools neighbours until no pair has probabilities that `violate` the order, left before right.
fn pooled(tallies: &[Tally], violate: impl Fn(f64, f64) -> bool) -> Vec<Pool> {
    let mut pools: Vec<Pool> = Vec::with_capacity(tallies.len());
    for tally in tallies {
        let mut last = Pool::of(tally);
        while let Some(left) = pools.last() {
            if !violate(left.probability(), last.probability()) {
                break;
            }
            let mut left = *left;
            pools.pop();
            left.join(&last);
            last = left;
        }
        pools.push(last);
    }
    pools
}

/// One value for each rate of the pools.
fn spread(pools: &[Pool], value: impl Fn(&Pool) -> f64) -> Vec<f64> {
    pools
        .iter()
        .flat_map(|pool| std::iter::repeat_n(value(pool), pool.rates))
        .collect()
}

/// The probabilities that the bootstrap draws from. Equal neighbours are pooled as well, so that runs far from the
/// knee support each other and are not smoothed into doubt.
fn smoothed_probabilities(tallies: &[Tally]) -> Vec<f64> {
    let pools = pooled(tallies, |left, right| left <= right);
    spread(&pools, |pool| {
        (pool.met + PRIOR_RUNS) / (pool.runs + 2.0 * PRIOR_RUNS)
    })
}

/// Where the pools fall through one half; `None` when they do not.
fn crossing(pools: &[Pool]) -> Option<Crossing> {
    let passing = pools.partition_point(|pool| pool.probability() >= HALF);
    let below = pools.get(passing.checked_sub(1)?)?;
    let above = pools.get(passing)?;
    let to = above.first_ln_rate;
    if below.probability() > HALF {
        let from = below.last_ln_rate;
        let fallen = (below.probability() - HALF) / (below.probability() - above.probability());
        let at = from + fallen * (to - from);
        return Some(Crossing { at, from, to });
    }
    // Exactly half of the runs: anywhere in this pool, whose middle is the best guess.
    let from = match passing.checked_sub(2) {
        Some(place) => pools[place].last_ln_rate,
        None => below.first_ln_rate,
    };
    let at = f64::midpoint(below.first_ln_rate, below.last_ln_rate);
    Some(Crossing { at, from, to })
}

/// The knee of runs drawn anew; 0 or infinite when it lies outside the rates.
fn drawn_knee(tallies: &[Tally], probabilities: &[f64], random: &mut impl Rng) -> f64 {
    let drawn: Vec<Tally> = tallies
        .iter()
        .zip(probabilities)
        .map(|(tally, probability)| {
            let runs = tally.met + tally.missed;
            let met = (0..runs).filter(|_| uniform(random) < *probability).count() as u32;
            Tally {
                rate: tally.rate,
                met,
                missed: runs - met,
            }
        })
        .collect();
    let pools = pooled(&drawn, rises);
    match crossing(&pools) {
        Some(Crossing { from, to, .. }) => (from + uniform(random) * (to - from)).exp(),
        None if pools.first().is_some_and(|pool| pool.probability() >= HALF) => f64::INFINITY,
        None => 0.0,
    }
}

/// The range that leaves as many of `values` below as above it and holds the part `level` of them.
fn percentile_interval(values: &[f64], level: f64) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else {
        return (0.0, f64::INFINITY);
    };
    let tail = (1.0 - level) / 2.0 * last as f64;
    let outside = tail.floor() as usize;
    (sorted[outside], sorted[last - outside])
}

#[cfg(test)]
mod tests;
