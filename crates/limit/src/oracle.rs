//! What a token bucket should have done, computed another way.
//!
//! Equation (2) of SRTM-long, literally: unfinished work U in whole units of 10⁻¹⁵ token, served
//! while time passes, and a message delayed by (U − b)/r when U, its own work included, exceeds b.
//! Tests compare the bucket with it, and a load generator compares a live run with it: both the
//! departures that should have happened and the windows that must not have been exceeded.
//!
//! Integer arithmetic throughout. Rates and bursts are taken to the nearest 10⁻⁶, which is exact
//! for every limit written with at most six decimals. Not meant for the data path.

use std::time::Duration;

use clock::Instant;

use crate::{Burst, Rate};

/// A bucket's tokens at the beginning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// Tokens held, at most the burst; negative for a debt.
    pub tokens: f64,
    /// When they are held.
    pub at: Instant,
}

/// When messages leave a bucket that delays: equation (2), first come first served.
///
/// `arrivals` in the order in which they were queued; a stamp earlier than its predecessor's keeps
/// its place. `costs` in tokens. A departure is rounded up to the next nanosecond.
///
/// # Panics
/// When there are not as many costs as arrivals.
pub fn gd1_departures(
    arrivals: &[Instant],
    costs: &[u64],
    rate: Rate,
    burst: Burst,
    start: Held,
) -> Vec<Instant> {
    assert_eq!(arrivals.len(), costs.len(), "one cost for each arrival");
    let per_nano = units_per_nano(rate);
    let burst_units = units(burst.get());
    let mut unfinished = burst_units - units(start.tokens);
    let mut at = start.at;
    let mut previous = Instant::ZERO;
    let departures = arrivals.iter().zip(costs).map(|(&arrival, &cost)| {
        let passed_ns = i128::from((arrival.max(at)).as_nanos() - at.as_nanos());
        at = at.max(arrival);
        unfinished =
            (unfinished - per_nano * passed_ns).max(0) + i128::from(cost) * UNITS_PER_TOKEN;
        let waits_ns = (unfinished - burst_units)
            .max(0)
            .unsigned_abs()
            .div_ceil(per_nano.unsigned_abs());
        let conforms = if waits_ns == 0 {
            arrival
        } else {
            later(at, waits_ns)
        };
        previous = previous.max(conforms);
        previous
    });
    departures.collect()
}

/// By how many messages the worst window exceeds its allowance: the greatest, over all closed windows
/// [s, t] between two departures, of the messages in it minus (r·(t − s) + b). At most 0 when the
/// limit held.
///
/// `departures` in time order. Departures that were rounded up to whole nanoseconds may exceed by up
/// to r · 1 ns. Without departures the answer is that of an empty window, −b.
pub fn window_excess(departures: &[Instant], rate: Rate, burst: Burst) -> f64 {
    worst_window(
        departures.iter().map(|&departure| (departure, 1)),
        rate,
        burst,
    )
}

/// [`window_excess`] in tokens, for messages that cost `costs` tokens each.
///
/// # Panics
/// When there are not as many costs as departures.
pub fn window_excess_in_tokens(
    departures: &[Instant],
    costs: &[u64],
    rate: Rate,
    burst: Burst,
) -> f64 {
    assert_eq!(departures.len(), costs.len(), "one cost for each departure");
    worst_window(
        departures.iter().copied().zip(costs.iter().copied()),
        rate,
        burst,
    )
}

/// S of Proposition 1 when all have left: the sum of all delays, departure minus arrival.
pub fn sum_of_delays(arrivals: &[Instant], departures: &[Instant]) -> Duration {
    sum_of_delays_until(arrivals, departures, Instant::MAX)
}

/// S(t) of Proposition 1 (SRTM-long, appendix A): the sum of the delays accrued up to `t` by all
/// messages that have arrived, those that still wait included.
pub fn sum_of_delays_until(arrivals: &[Instant], departures: &[Instant], t: Instant) -> Duration {
    let delays = arrivals
        .iter()
        .zip(departures)
        .map(|(&arrival, &departure)| departure.min(t) - arrival);
    delays.fold(Duration::ZERO, Duration::saturating_add)
}

/// Work is counted in units of 10⁻¹⁵ token: a rate in 10⁻⁶ tokens per second is then a whole number
/// of units per nanosecond.
const UNITS_PER_TOKEN: i128 = 1_000_000_000_000_000;
const MICRO: f64 = 1e6;

fn units(tokens: f64) -> i128 {
    (tokens * MICRO).round() as i128 * (UNITS_PER_TOKEN / 1_000_000)
}

fn units_per_nano(rate: Rate) -> i128 {
    ((rate.get() * MICRO).round() as i128).max(1)
}

fn later(at: Instant, nanos: u128) -> Instant {
    Instant::from_nanos(
        at.as_nanos()
            .saturating_add(u64::try_from(nanos).unwrap_or(u64::MAX)),
    )
}

/// One pass: a window that ends here is worst when it begins where (tokens before it) − r·s was least.
fn worst_window(departures: impl Iterator<Item = (Instant, u64)>, rate: Rate, burst: Burst) -> f64 {
    let per_nano = units_per_nano(rate);
    let (mut left, mut least, mut worst) = (0i128, i128::MAX, 0i128);
    for (departure, cost) in departures {
        let allowed = per_nano * i128::from(departure.as_nanos());
        least = least.min(left - allowed);
        left += i128::from(cost) * UNITS_PER_TOKEN;
        worst = worst.max(left - allowed - least);
    }
    (worst - units(burst.get())) as f64 / UNITS_PER_TOKEN as f64
}

#[cfg(test)]
mod tests;
