//! Figures of samples, each with one definition.
//!
//! Pure. Users keep their samples as they like (sorted, counted, in buckets): [`nearest_rank`] says
//! which sample is meant.

mod fairness;
mod median;
mod rank;

pub use fairness::jain;
pub use median::median;
pub use rank::{nearest_rank, percentile_of};
