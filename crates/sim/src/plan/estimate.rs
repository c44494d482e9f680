//! A mean of independent runs with its confidence interval.

use serde::Serialize;

/// The 97.5th percentile of Student's t distribution by degrees of freedom, from 1.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The same beyond the table.
const T_975_MANY: f64 = 1.96;

/// A mean of independent runs, and the interval that holds the true one with 95 % confidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// Mean of the runs.
    pub mean: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end; of a single run both are the mean.
    pub high: f64,
}

impl Estimate {
    /// Of one value per run (Student's t); zero without runs.
    #[must_use]
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.collect();
        let n = values.len();
        if n == 0 {
            return Estimate::default();
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let half = match n {
            1 => 0.0,
            _ => {
                let t = T_975.get(n - 2).copied().unwrap_or(T_975_MANY);
                t * (squares / (n - 1) as f64 / n as f64).sqrt()
            }
        };
        Estimate {
            mean,
            low: (mean - half).max(0.0),
            high: mean + half,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // Mean 3, standard deviation sqrt(2.5), t(4) = 2.776.
        let estimate = Estimate::of([1.0, 2.0, 3.0, 4.0, 5.0].into_iter());
        let half = 2.776 * (2.5f64 / 5.0).sqrt();
        assert_eq!(estimate.mean, 3.0);
        assert!((estimate.high - 3.0 - half).abs() < 1e-12);
        assert!((estimate.low - 3.0 + half).abs() < 1e-12);
    }

    #[test]
    fn one_run_has_no_interval_and_none_is_nothing() {
        let one = Estimate::of([7.0].into_iter());
        assert_eq!((one.mean, one.low, one.high), (7.0, 7.0, 7.0));
        assert_eq!(Estimate::of([].into_iter()), Estimate::default());
    }
}
