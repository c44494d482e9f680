//! Random gaps of a Poisson process.

use clock::Xoshiro256PlusPlus;
use rand::Rng;

/// A gap of mean `mean_ns`, exponentially distributed, in nanoseconds.
#[inline]
pub(crate) fn exponential_ns(random: &mut Xoshiro256PlusPlus, mean_ns: f64) -> f64 {
    // (0, 1]: the logarithm is finite.
    let uniform = ((random.next_u64() >> 11) + 1) as f64 * (1.0 / (1_u64 << 53) as f64);
    -uniform.ln() * mean_ns
}
