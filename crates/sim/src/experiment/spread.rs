//! A figure over repeats of a run.

use statistics::median;

/// Mean and deviation over repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Median: what a finding is judged by, since one run in ten may be far off.
    pub median: f64,
    /// Standard deviation of the sample; 0 for one run.
    pub deviation: f64,
    /// Least.
    pub least: f64,
    /// Greatest.
    pub greatest: f64,
}

impl Spread {
    /// Of these values; all 0 for none.
    pub(crate) fn of(values: &[f64]) -> Spread {
        let count = values.len() as f64;
        if values.is_empty() {
            return Spread::default();
        }
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if values.len() > 1 {
            (squares / (count - 1.0)).sqrt()
        } else {
            0.0
        };
        Spread {
            mean,
            median: median(values.iter().copied()),
            deviation,
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            greatest: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}
