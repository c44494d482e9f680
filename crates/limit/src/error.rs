//! What can be wrong with a declared limit.

/// A declared limit that cannot be enforced, with a text for the person who declared it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidLimit {
    /// The rate is not a number in its range.
    #[error(
        "rate {given} is out of range: it must be greater than 0 and at most 1e12 tokens per second"
    )]
    Rate {
        /// What was given.
        given: f64,
    },
    /// The burst is not a number in its range.
    #[error("burst {given} is out of range: it must be at least 1 and at most 1e12 tokens")]
    Burst {
        /// What was given.
        given: f64,
    },
    /// A field that takes one of a few words holds another.
    #[error("{field} {given:?} is unknown: {field} is one of {expected}")]
    Word {
        /// The field.
        field: &'static str,
        /// What was given.
        given: String,
        /// The words it takes.
        expected: &'static str,
    },
    /// A word that should be a number is none.
    #[error("{field} {given:?} is not a number")]
    NotANumber {
        /// The field.
        field: &'static str,
        /// What was given.
        given: String,
    },
}
