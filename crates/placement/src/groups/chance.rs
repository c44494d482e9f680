//! Whether a repeated coincidence can be chance.

/// Decides so that, over all pairs, only a given number of independent ones is taken for dependent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Significance {
    /// The negative logarithm of the probability at which one pair's coincidences are no longer believed.
    least_surprise: f64,
}

impl Significance {
    /// For all pairs of `publishers`, of which `false_pairs` may be mistaken on average.
    pub(super) fn new(publishers: usize, false_pairs: f64) -> Self {
        let pairs = 0.5 * publishers as f64 * publishers as f64;
        Significance {
            least_surprise: (pairs.max(1.0) / false_pairs.max(f64::MIN_POSITIVE)).ln(),
        }
    }

    /// Whether being there at `fraction` of `looks` is too much for an independent one that is there with
    /// probability `by_chance`: by the Chernoff bound, P(at least fraction) ≤ exp(−looks · D(fraction ‖ chance)).
    pub(super) fn is_beyond_chance(&self, fraction: f64, looks: usize, by_chance: f64) -> bool {
        fraction > by_chance
            && looks as f64 * divergence(fraction, by_chance) >= self.least_surprise
    }
}

/// The relative entropy of two coins, in nats.
fn divergence(seen: f64, expected: f64) -> f64 {
    let term = |seen: f64, expected: f64| {
        if seen > 0.0 {
            seen * (seen / expected).ln()
        } else {
            0.0
        }
    };
    term(seen, expected) + term(1.0 - seen, 1.0 - expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_looks_suffice_for_the_unlikely_and_many_are_needed_for_the_likely() {
        let significance = Significance::new(1_000, 0.01);
        let cases = [
            (1.0, 3, 0.002, true),
            (1.0, 2, 0.002, false),
            (0.5, 60, 0.02, true),
            (0.5, 5, 0.02, false),
            (0.5, 128, 0.4, false),
            (0.5, 10_000, 0.4, true),
            // One that sends all the time proves nothing by being there.
            (1.0, 10_000, 1.0, false),
            (1.0, 0, 0.002, false),
        ];
        for (fraction, looks, by_chance, expected) in cases {
            assert_eq!(
                significance.is_beyond_chance(fraction, looks, by_chance),
                expected,
                "{fraction} of {looks} against {by_chance}"
            );
        }
    }

    #[test]
    fn the_bound_is_above_the_binomial_tail() {
        // P(at least 8 of 16 | 0.2), summed term by term.
        let (looks, chance) = (16, 0.2f64);
        let mut tail = 0.0;
        for times in 8..=looks {
            let ways = (0..times).fold(1.0, |ways, i| {
                ways * f64::from(looks - i) / f64::from(i + 1)
            });
            tail += ways * chance.powi(times) * (1.0 - chance).powi(looks - times);
        }
        let bound = (-f64::from(looks) * divergence(0.5, chance)).exp();
        assert!(tail <= bound && bound < 10.0 * tail, "{tail} {bound}");
    }
}
