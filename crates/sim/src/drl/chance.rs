//! Random numbers of the simulated world.

use clock::{Xoshiro256PlusPlus, uniform};

/// A number from `least` to `most`, whose chance to exceed x falls as x to the power of −`shape`.
pub(super) fn bounded_pareto(
    random: &mut Xoshiro256PlusPlus,
    shape: f64,
    least: f64,
    most: f64,
) -> f64 {
    let cut_off = 1.0 - (least / most).powf(shape);
    let drawn = 1.0 - uniform(random) * cut_off;
    (least * drawn.powf(-1.0 / shape)).min(most)
}
