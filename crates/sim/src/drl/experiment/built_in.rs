//! The experiments of DRL's evaluation, built into the program so that they run anywhere.

use super::definition::Study;
use crate::experiment::ExperimentError;

/// A name and the text of `experiments/NAME.toml`.
macro_rules! definitions {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../../../../experiments/", $name, ".toml")))),+]
    };
}

const DEFINITIONS: [(&str, &str); 10] = definitions![
    "drl-baseline",
    "drl-join",
    "drl-web",
    "drl-bottleneck",
    "drl-rtt",
    "drl-flows",
    "drl-limiters",
    "drl-service",
    "drl-updates",
    "drl-cut",
];

/// All of them, in the order of the paper.
///
/// # Errors
/// [`ExperimentError::Definition`] for a mistake in them.
pub fn built_in() -> Result<Vec<Study>, ExperimentError> {
    parse_all(&DEFINITIONS)
}

/// Definitions of these names and texts.
///
/// # Errors
/// [`ExperimentError::Definition`] for a mistake in them.
pub fn parse_all<S: AsRef<str>>(texts: &[(S, S)]) -> Result<Vec<Study>, ExperimentError> {
    let parse = |(name, text): &(S, S)| Study::parse(name.as_ref(), text.as_ref());
    texts.iter().map(parse).collect()
}
