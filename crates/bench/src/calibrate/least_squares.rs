//! Least squares with coefficients that cannot be negative, for a handful of columns.
//!
//! The solution is the ordinary one on the columns that it does not set to zero. With four columns there are fifteen
//! such sets, so all of them are tried and the best one without a negative coefficient is taken. Not meant for more.

/// Columns of a problem.
pub const COLUMNS: usize = 4;

/// A pivot below this part of its column's own size means that the columns cannot be told apart.
const SMALLEST_PIVOT: f64 = 1e-9;

/// One observation: `target` is to be the sum of coefficients times `columns`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// What multiplies each coefficient.
    pub columns: [f64; COLUMNS],
    /// What was observed.
    pub target: f64,
}

/// The coefficients, none negative, with the least sum of squared *relative* residuals: an observation counts as much
/// as any other, however large its target is. `None` when nothing can be told: no row with a positive target, or
/// a number that is none.
pub fn fit_non_negative(rows: &[Row]) -> Option<[f64; COLUMNS]> {
    let scaled: Vec<Row> = rows
        .iter()
        .filter(|row| row.target > 0.0)
        .map(|row| Row {
            columns: row.columns.map(|value| value / row.target),
            target: 1.0,
        })
        .collect();
    let finite = |row: &Row| row.columns.iter().all(|value| value.is_finite());
    if scaled.is_empty() || !scaled.iter().all(finite) {
        return None;
    }
    let sets = 1_u32..1 << COLUMNS;
    sets.filter_map(|set| solve(&scaled, set))
        .filter(|found| found.iter().all(|coefficient| *coefficient >= 0.0))
        .min_by(|a, b| squares(&scaled, a).total_cmp(&squares(&scaled, b)))
}

/// What `coefficients` say of a row's target.
pub fn predict(row: &Row, coefficients: &[f64; COLUMNS]) -> f64 {
    row.columns
        .iter()
        .zip(coefficients)
        .map(|(value, coefficient)| value * coefficient)
        .sum()
}

fn squares(rows: &[Row], coefficients: &[f64; COLUMNS]) -> f64 {
    rows.iter()
        .map(|row| (row.target - predict(row, coefficients)).powi(2))
        .sum()
}

/// Ordinary least squares on the columns of `set`, by the normal equations; the other coefficients are 0.
fn solve(rows: &[Row], set: u32) -> Option<[f64; COLUMNS]> {
    let chosen: Vec<usize> = (0..COLUMNS)
        .filter(|column| set >> column & 1 == 1)
        .collect();
    let size = chosen.len();
    let mut matrix = vec![vec![0.0; size + 1]; size];
    for row in rows {
        for (line, &a) in matrix.iter_mut().zip(&chosen) {
            for (cell, &b) in line.iter_mut().zip(&chosen) {
                *cell += row.columns[a] * row.columns[b];
            }
            line[size] += row.columns[a] * row.target;
        }
    }
    let sizes: Vec<f64> = (0..size).map(|place| matrix[place][place]).collect();
    for pivot in 0..size {
        // The matrix is symmetric and not indefinite, so its diagonal holds good pivots.
        if matrix[pivot][pivot] <= SMALLEST_PIVOT * sizes[pivot] {
            return None;
        }
        let pivot_line = matrix[pivot].clone();
        for line in matrix.iter_mut().skip(pivot + 1) {
            let factor = line[pivot] / pivot_line[pivot];
            for (cell, above) in line.iter_mut().zip(&pivot_line) {
                *cell -= factor * above;
            }
        }
    }
    let mut coefficients = [0.0; COLUMNS];
    for place in (0..size).rev() {
        let line = &matrix[place];
        let known: f64 = (place + 1..size)
            .map(|later| line[later] * coefficients[chosen[later]])
            .sum();
        coefficients[chosen[place]] = (line[size] - known) / line[place];
    }
    Some(coefficients)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(truth: [f64; COLUMNS], columns: &[[f64; COLUMNS]]) -> Vec<Row> {
        let row = |columns: &[f64; COLUMNS]| {
            let row = Row {
                columns: *columns,
                target: 0.0,
            };
            Row {
                target: predict(&row, &truth),
                ..row
            }
        };
        columns.iter().map(row).collect()
    }

    const COLUMNS_OF_RUNS: [[f64; COLUMNS]; 6] = [
        [1.0, 1.0, 1.0, 1.0],
        [1.0, 1.0, 6.0, 0.7],
        [1.0, 0.1, 0.1, 0.1],
        [1.0, 0.1, 0.6, 0.08],
        [1.0, 1.0, 25.0, 0.1],
        [1.0, 1.0, 11.0, 0.4],
    ];

    #[test]
    fn a_negative_coefficient_becomes_none_and_the_others_make_up_for_it() {
        let mut rows = rows([5.0, 2.0, 0.0, 0.0], &COLUMNS_OF_RUNS);
        // Cheaper the more connections are ready: no cost that is not negative explains it.
        rows[4].target -= 1.0;
        let found = fit_non_negative(&rows).expect("there are rows");
        assert!(
            found.iter().all(|coefficient| *coefficient >= 0.0),
            "{found:?}"
        );
        assert_eq!(found[2], 0.0, "{found:?}");
        assert!((found[0] - 5.0).abs() < 1.0, "{found:?}");
    }

    #[test]
    fn columns_that_are_alike_are_not_told_apart_but_fitted() {
        let alike = [[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]];
        let found = fit_non_negative(&rows([3.0, 4.0, 0.0, 0.0], &alike)).expect("two rows");
        assert!((found[0] + found[1] - 7.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn nothing_comes_of_nothing() {
        assert_eq!(fit_non_negative(&[]), None);
        for target in [0.0, -1.0, f64::NAN] {
            let row = Row {
                columns: [1.0; COLUMNS],
                target,
            };
            assert_eq!(fit_non_negative(&[row]), None, "{target}");
        }
        let row = Row {
            columns: [f64::NAN; COLUMNS],
            target: 1.0,
        };
        assert_eq!(fit_non_negative(&[row]), None);
    }

    proptest! {
        #[test]
        fn what_is_exact_is_found(
            truth in [1.0..50.0, 0.0..50.0, 0.0..5.0, 0.0..50.0],
        ) {
            let rows = rows(truth, &COLUMNS_OF_RUNS);
            let found = fit_non_negative(&rows).expect("there are rows");
            for (found, truth) in found.iter().zip(truth) {
                prop_assert!((found - truth).abs() < 1e-4, "{found} instead of {truth}");
            }
        }

        #[test]
        fn no_other_coefficients_fit_better(
            targets in proptest::collection::vec(1.0..100.0_f64, 6),
            other in [0.0..80.0, 0.0..80.0, 0.0..8.0, 0.0..80.0],
        ) {
            let rows: Vec<Row> = COLUMNS_OF_RUNS
                .iter()
                .zip(targets)
                .map(|(columns, target)| Row { columns: *columns, target })
                .collect();
            let relative = |coefficients: &[f64; COLUMNS]| -> f64 {
                let error = |row: &Row| (predict(row, coefficients) / row.target - 1.0).powi(2);
                rows.iter().map(error).sum()
            };
            let found = fit_non_negative(&rows).expect("there are rows");
            prop_assert!(relative(&found) <= relative(&other) + 1e-9);
        }
    }
}
