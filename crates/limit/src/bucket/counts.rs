//! Fixed-point time: `u128` counts of 2⁻⁴⁴ ns since the clock's zero.
//!
//! Fine enough that 1/r is good to 2⁻³⁴ of itself at 10¹² tokens per second, wide enough for 10¹²
//! tokens at 10⁻³ per second (2¹²⁴ counts). Nothing divides except [`per_token`], once per limit.
//! Sums that would leave the range stay at its end, which means "never".

use clock::Instant;

use crate::{Burst, Rate};

/// Fraction bits of a nanosecond.
const FRACTION_BITS: u32 = 44;

/// The longest distinguishable time to fill a bucket, 1.5·10⁸ years. A limit beyond it is enforced
/// with a smaller burst; and the end of the range stays out of reach of every bucket that is merely
/// empty.
const LONGEST_FILL: u128 = 1 << 126;

/// The counts of an instant, exactly.
#[inline]
pub(super) fn at(instant: Instant) -> u128 {
    u128::from(instant.as_nanos()) << FRACTION_BITS
}

/// The first whole nanosecond that is not before `counts`.
#[inline]
pub(super) fn round_up(counts: u128) -> Instant {
    const ALMOST_ONE: u128 = (1 << FRACTION_BITS) - 1;
    let nanos = counts.saturating_add(ALMOST_ONE) >> FRACTION_BITS;
    Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The counts in which `tokens` are generated; exact for whole tokens.
#[inline]
pub(super) fn of(tokens: f64, per_token: u128) -> u128 {
    if tokens == 1.0 {
        return per_token;
    }
    // `as` takes NaN and negative numbers to 0 and holds at the maximum.
    let whole = tokens as u64;
    let counts = u128::from(whole).saturating_mul(per_token);
    let fraction = tokens - whole as f64;
    if fraction == 0.0 {
        counts
    } else {
        counts.saturating_add((fraction * per_token as f64) as u128)
    }
}

/// b/r, the counts in which an empty bucket fills.
pub(super) fn to_fill(burst: Burst, per_token: u128) -> u128 {
    of(burst.get(), per_token).min(LONGEST_FILL)
}

/// 1/r rounded up to the next count, by long division of 10⁹·2⁴⁴ by the rate's exact binary value.
pub(super) fn per_token(rate: Rate) -> u128 {
    const MANTISSA_BITS: u32 = 52;
    const EXPONENT_BIAS: i32 = 1023 + MANTISSA_BITS as i32;
    const COUNTS_PER_SECOND: u128 = 1_000_000_000 << FRACTION_BITS;
    let bits = rate.get().to_bits();
    // rate = mantissa · 2^-shift; the rate is at most 1e12, so shift is positive. None is subnormal.
    let mantissa = u128::from(bits & ((1 << MANTISSA_BITS) - 1) | 1 << MANTISSA_BITS);
    let mut shift = EXPONENT_BIAS - (bits >> MANTISSA_BITS) as i32;
    let mut quotient = COUNTS_PER_SECOND / mantissa;
    let mut remainder = COUNTS_PER_SECOND % mantissa;
    while shift > 0 {
        // The remainder is below 2^53: 64 further bits stay below 2^128.
        let step = shift.min(64);
        let Some(shifted) = quotient.checked_mul(1 << step) else {
            return u128::MAX;
        };
        remainder <<= step;
        quotient = shifted.saturating_add(remainder / mantissa);
        remainder %= mantissa;
        shift -= step;
    }
    quotient.saturating_add(u128::from(remainder > 0))
}

/// `a - b`, held within the range of `i128`.
pub(super) fn difference(a: u128, b: u128) -> i128 {
    let magnitude = i128::try_from(a.abs_diff(b)).unwrap_or(i128::MAX);
    if a < b { -magnitude } else { magnitude }
}

/// `a + b`, held within the range of `u128`.
pub(super) fn sum(a: u128, b: i128) -> u128 {
    let magnitude = b.unsigned_abs();
    if b < 0 {
        a.saturating_sub(magnitude)
    } else {
        a.saturating_add(magnitude)
    }
}

/// The span in which a debt is paid (or, negative, a holding was earned) at one rate, as the span at
/// another; rounded so that no debt shrinks and no holding grows.
pub(super) fn rescale(span: i128, per_token_before: u128, per_token_after: u128) -> i128 {
    /// Three `f64` conversions, a product and a quotient, with room to spare.
    const ROUNDING: f64 = 1.0 / (1u64 << 49) as f64;
    if per_token_before == per_token_after {
        return span;
    }
    let near = span as f64 * (per_token_after as f64 / per_token_before as f64);
    (near + near.abs() * ROUNDING).ceil() as i128
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(tokens_per_second: f64) -> Rate {
        Rate::new(tokens_per_second).expect("in range")
    }

    #[test]
    fn one_over_r_is_the_next_count_above() {
        let second = 1_000_000_000u128 << FRACTION_BITS;
        for whole in [
            1u64,
            2,
            3,
            7,
            10,
            1000,
            999_983,
            1 << 33,
            3_000_000_019,
            1_000_000_000_000,
        ] {
            let expected = second.div_ceil(u128::from(whole));
            assert_eq!(per_token(rate(whole as f64)), expected, "{whole}/s");
        }
        assert_eq!(per_token(rate(0.5)), 2 * second);
        assert_eq!(per_token(rate(2.5)), second * 2 / 5);
        // 1/1024 is exact in binary; 0.001 is a little more than a thousandth.
        assert_eq!(per_token(rate(1.0 / 1024.0)), 1024 * second);
        let thousandth = per_token(rate(0.001));
        assert!(thousandth < 1000 * second && thousandth > 1000 * second - (second >> 40));
    }

    #[test]
    fn rates_too_slow_to_count_never_generate() {
        for slow in [1e-18, 1e-17] {
            assert_eq!(per_token(rate(slow)), u128::MAX, "{slow}/s");
        }
        assert_eq!(of(2.0, u128::MAX), u128::MAX);
        assert_eq!(to_fill(Burst::MAX, u128::MAX), LONGEST_FILL);
    }

    #[test]
    fn costs_are_exact_in_whole_tokens_and_sane_otherwise() {
        assert_eq!(of(1.0, 7), 7);
        assert_eq!(of(1e12, (1 << 84) - 1), 1_000_000_000_000 * ((1 << 84) - 1));
        assert_eq!(of(2.5, 1 << 50), 5 << 49);
        assert_eq!(of(0.0, 7), 0);
        assert_eq!(of(-3.0, 7), 0);
        assert_eq!(of(f64::NAN, 7), 0);
        assert_eq!(of(f64::INFINITY, u128::MAX), u128::MAX);
    }

    #[test]
    fn departures_round_up() {
        assert_eq!(round_up(0), Instant::ZERO);
        assert_eq!(round_up(1), Instant::from_nanos(1));
        assert_eq!(round_up(1 << FRACTION_BITS), Instant::from_nanos(1));
        assert_eq!(round_up((1 << FRACTION_BITS) + 1), Instant::from_nanos(2));
        assert_eq!(round_up(u128::MAX), Instant::MAX);
        assert_eq!(round_up(at(Instant::MAX)), Instant::MAX);
    }

    #[test]
    fn rescaling_gives_nothing_away() {
        for span in [1i128, -1, 1 << 60, -(1 << 60), 1 << 100, -(1 << 100)] {
            for (before, after) in [(3u128, 7u128), (7, 3), (1 << 44, 1 << 50), (10, 1)] {
                let exact = span as f64 * after as f64 / before as f64;
                assert!(
                    rescale(span, before, after) as f64 >= exact,
                    "{span}: {before} to {after}"
                );
            }
            assert_eq!(rescale(span, 5, 5), span);
        }
        assert_eq!(rescale(0, 3, 7), 0);
        assert_eq!(rescale(i128::MAX, 1, u128::MAX), i128::MAX);
        assert_eq!(rescale(-i128::MAX, 1, u128::MAX), i128::MIN);
    }
}
