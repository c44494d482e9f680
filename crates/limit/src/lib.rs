//! Rate limits as pure arithmetic: token buckets, their theory and their oracles.
//!
//! A limit (r, b) bounds the messages (or bytes) that leave in *any* window of Δt seconds by
//! b + r·Δt (SRTM-long, appendix A). [`TokenBucket`] enforces it, [`oracle`] says independently what
//! it should have done, [`Limit`] is how a topic declares it. Time is an argument everywhere; nothing
//! here reads a clock, sleeps or allocates per message.
//!
//! What this crate does not do: it keeps no queue. Messages that wait, wait in their topic; the
//! bucket only says until when.

mod bucket;
mod contract;
mod error;
pub mod oracle;
mod rate;

pub use bucket::{Refused, TokenBucket};
pub use contract::{Limit, OnExceed, Unit};
pub use error::InvalidLimit;
pub use rate::{Burst, Rate};
