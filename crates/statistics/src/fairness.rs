//! Jain's fairness index ("Cloud Control with Distributed Rate Limiting", section 4.1).

/// (Σ x)² / (k Σ x²): 1 where all k rates are equal, 1/k where one has everything. 1 for none at all, as nobody is treated
/// worse than another.
///
/// High values can hide a lot: nine of ten flows with equal rates and one with nothing have 0.9.
pub fn jain(rates: impl IntoIterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for rate in rates {
        count += 1.0;
        sum += rate;
        squares += rate * rate;
    }
    if squares > 0.0 {
        sum * sum / (count * squares)
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_parts_are_fair_and_one_for_all_is_not() {
        for (rates, expected) in [
            (&[2.0, 2.0, 2.0][..], 1.0),
            (&[1.0, 0.0, 0.0, 0.0], 0.25),
            (&[0.0, 0.0], 1.0),
            (&[], 1.0),
            // Nine of ten have equal parts and one has nothing.
            (&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0], 0.9),
        ] {
            assert_eq!(jain(rates.iter().copied()), expected, "{rates:?}");
        }
    }
}
