//! The median of samples.

/// The middle value, of an even number the mean of the two in the middle; NaN for none.
#[must_use]
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count => f64::midpoint(values[(count - 1) / 2], values[count / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        for (values, expected) in [
            (vec![3.0], 3.0),
            (vec![5.0, 1.0, 3.0], 3.0),
            (vec![4.0, 1.0], 2.5),
        ] {
            assert_eq!(median(values), expected);
        }
        assert!(median([]).is_nan());
    }
}
