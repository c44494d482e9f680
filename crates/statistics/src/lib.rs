//! Figures of samples, each with one definition.
//!
//! Pure. What keeps samples (sorted, counted, in buckets) is its users' matter: [`nearest_rank`] says which of them is meant.

mod fairness;
mod median;
mod rank;

pub use fairness::jain;
pub use median::median;
pub use rank::{nearest_rank, percentile_of};
