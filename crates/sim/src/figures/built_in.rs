//! The paper's experiments, built into the program so that they run anywhere.

use super::definition::Figure;
use crate::experiment::ExperimentError;

/// Names and texts of the files in `experiments/`.
pub(super) const FIGURES: [(&str, &str); 7] = [
    ("fig6", include_str!("../../../../experiments/fig6.toml")),
    ("fig7", include_str!("../../../../experiments/fig7.toml")),
    ("fig8", include_str!("../../../../experiments/fig8.toml")),
    ("fig9", include_str!("../../../../experiments/fig9.toml")),
    ("fig10", include_str!("../../../../experiments/fig10.toml")),
    ("fig11", include_str!("../../../../experiments/fig11.toml")),
    (
        "table1",
        include_str!("../../../../experiments/table1.toml"),
    ),
];

/// The names of the figures, in the order of the paper.
#[must_use]
pub fn built_in_names() -> Vec<&'static str> {
    FIGURES.iter().map(|(name, _)| *name).collect()
}

/// All of them, in the order of the paper.
///
/// # Errors
/// [`ExperimentError::Definition`] for a mistake in them.
pub fn built_in() -> Result<Vec<Figure>, ExperimentError> {
    let parse = |(name, text): &(&str, &str)| Figure::parse(name, text);
    FIGURES.iter().map(parse).collect()
}
