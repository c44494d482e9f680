//! Rate limits as pure arithmetic: token buckets, their theory and their oracles, and how brokers
//! share a limit.
//!
//! A limit (r, b) bounds the messages (or bytes) that leave in *any* window of Δt seconds by b +
//! r·Δt (SRTM-long, appendix A). [`TokenBucket`] enforces it, [`oracle`] computes independently
//! what it should have done, and [`Limit`] is how a topic declares it. Over several brokers
//! [`adaptor`] divides a limit into [`Share`]s, and [`lease`] moves shares without the limit ever
//! being exceeded. [`theory`] predicts how long a limit makes Poisson traffic wait; [`profile`]
//! finds the limit that recorded traffic needs. Time is an argument everywhere; nothing here reads
//! a clock, sleeps or allocates per message.
//!
//! This crate keeps no queue. Messages wait in their topic; the bucket only says until when.

pub mod adaptor;
mod bucket;
mod contract;
mod error;
pub mod lease;
pub mod oracle;
pub mod profile;
mod rate;
mod share;
pub mod sharing;
pub mod theory;

pub use adaptor::{History, Traffic};
pub use bucket::{Refused, TokenBucket};
pub use contract::{Gossip, JudgedBy, Limit, OnExceed, SharePolicy, Unit};
pub use error::{InvalidLimit, InvalidReport};
pub use lease::{
    Exposure, Grant, LeaseHolder, Ledger, LedgerConfig, Mode, Prolongation, Report, VOUCHED,
    Vouches,
};
pub use profile::{
    AccessDelays, Advice, FitQuestion, Profile, ProfileError, UnderLimit, fit_bucket,
};
pub use rate::{Burst, Rate};
pub use share::Share;
