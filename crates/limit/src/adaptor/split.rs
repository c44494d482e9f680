//! A limit divided over brokers by their traffic.

use super::Traffic;
use super::division::divide;
use crate::{Burst, Limit, Rate, Share};

/// Part of the even share of the rate that a broker has at least, however idle it is.
const LEAST_OF_EVEN_RATE: f64 = 0.01;

/// What must change by more than this, relative to what it was, to be worth the moving.
const HYSTERESIS: f64 = 0.05;

/// Factor by which a broker that already has a share counts more than one without, where not all
/// can have one.
const HOLDER_BONUS: f64 = 2.0;

/// One broker's claim on a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Claim {
    /// What arrives there.
    pub traffic: Traffic,
    /// It gets at least this, as far as the limit suffices.
    pub floor: Option<Share>,
    /// It has a share now.
    pub is_holder: bool,
}

/// Divides a limit: r_l in proportion to mean rates, b_l in proportion to greatest backlogs
/// (SRTM-long, section 5.4); where all are zero, evenly.
///
/// Every share is at least its floor, in burst at least `batch_tokens` and one token, in rate at
/// least 1 % of the even share. Floors beyond the limit are cut in proportion. The shares add up to
/// exactly the limit.
///
/// Where the burst is too small to give each broker one batch, as many as fit get a share, at least
/// one: those with the highest mean rates, in which present holders count double so that shares do
/// not change hands for little. The others get `None`.
pub fn split(limit: &Limit, claims: &[Claim], batch_tokens: f64) -> Vec<Option<Share>> {
    let batch = least_burst(limit.burst, batch_tokens);
    let chosen = choose(claims, (limit.burst.get() / batch) as usize);
    let of = |quantity: fn(&Claim) -> f64| -> Vec<f64> {
        chosen.iter().map(|&at| quantity(&claims[at])).collect()
    };
    let floor_rates = of(|claim| claim.floor.map_or(0.0, |floor| floor.rate.get()));
    let floor_bursts = of(|claim| claim.floor.map_or(0.0, |floor| floor.burst.get()));

    let rates = parts(
        limit.rate.get(),
        &of(|claim| claim.traffic.mean_rate()),
        &floor_rates,
        least_rate(limit.rate, chosen.len()),
    );
    let bursts = parts(
        limit.burst.get(),
        &of(|claim| claim.traffic.max_backlog()),
        &floor_bursts,
        batch,
    );

    let mut shares = vec![None; claims.len()];
    for ((&at, rate), burst) in chosen.iter().zip(rates).zip(bursts) {
        shares[at] = share(rate, burst);
    }
    shares
}

/// Whether a share differs from the present one by more than 5 % in rate or burst, or one of them
/// is none.
pub fn is_worth_moving(present: Option<Share>, wanted: Option<Share>) -> bool {
    let (Some(present), Some(wanted)) = (present, wanted) else {
        return present != wanted;
    };
    let differs = |present: f64, wanted: f64| (wanted - present).abs() > HYSTERESIS * present;
    differs(present.rate.get(), wanted.rate.get())
        || differs(present.burst.get(), wanted.burst.get())
}

/// The burst that every share has at least: one batch, one token, and no more than there is.
pub(crate) fn least_burst(limit: Burst, batch_tokens: f64) -> f64 {
    batch_tokens.max(1.0).min(limit.get())
}

/// The least rate of every share of a limit over this many brokers.
pub(crate) fn least_rate(limit: Rate, brokers: usize) -> f64 {
    LEAST_OF_EVEN_RATE * limit.get() / brokers.max(1) as f64
}

/// The claims that get a share, in order of position: all if they fit, else those that count most.
fn choose(claims: &[Claim], fit: usize) -> Vec<usize> {
    let mut chosen: Vec<usize> = (0..claims.len()).collect();
    if fit < claims.len() {
        let counts = |at: usize| {
            let claim = &claims[at];
            let bonus = if claim.is_holder { HOLDER_BONUS } else { 1.0 };
            (claim.traffic.mean_rate() * bonus, claim.is_holder)
        };
        chosen.sort_by(|&a, &b| {
            let ((a_rate, a_holds), (b_rate, b_holds)) = (counts(a), counts(b));
            b_rate.total_cmp(&a_rate).then(b_holds.cmp(&a_holds))
        });
        chosen.truncate(fit);
        chosen.sort_unstable();
    }
    chosen
}

/// One quantity divided, each part at least `least` and, as far as the whole suffices, its floor.
fn parts(whole: f64, weights: &[f64], floors: &[f64], least: f64) -> Vec<f64> {
    // What remains above the least parts bounds the floors: they never push another below its
    // least.
    let above = |floor: &f64| (floor - least).max(0.0);
    let remains = (whole - least * weights.len() as f64).max(0.0);
    let asked: f64 = floors.iter().map(above).sum();
    // A hair less than fits, so that rounding does not cut the least parts.
    let granted = if asked > remains {
        remains / asked * (1.0 - 1e-12)
    } else {
        1.0
    };
    let least: Vec<f64> = floors
        .iter()
        .map(|floor| least + above(floor) * granted)
        .collect();
    divide(whole, weights, &least)
}

/// A part is a share unless rounding took it out of range, which then gets nothing.
fn share(rate: f64, burst: f64) -> Option<Share> {
    Some(Share {
        rate: Rate::new(rate).ok()?,
        burst: Burst::new(burst).ok()?,
    })
}
