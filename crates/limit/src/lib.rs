//! Rate limits as pure arithmetic: token buckets, their theory and their oracles; how brokers share
//! one.
//!
//! A limit (r, b) bounds the messages (or bytes) that leave in *any* window of Δt seconds by b +
//! r·Δt (SRTM-long, appendix A). [`TokenBucket`] enforces it, [`oracle`] says independently what it
//! should have done, [`Limit`] is how a topic declares it. Over several brokers [`adaptor`] says
//! how a limit is divided into [`Share`]s and [`lease`] how shares move without the limit ever
//! being exceeded. [`theory`] foretells what a limit makes Poisson traffic wait, [`profile`] finds the limit that
//! recorded traffic needs. Time is an argument everywhere; nothing here reads a clock, sleeps or allocates
//! per message.
//!
//! What this crate does not do: it keeps no queue. Messages that wait, wait in their topic; the
//! bucket only says until when.

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
