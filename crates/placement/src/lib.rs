//! The Load Distributor's decisions: how many brokers, which publisher where, and the fit to an SLO.
//!
//! Pure: no clock, no sockets, no global randomness. What it decides on comes in as values; the control
//! plane carries the decisions out and brings back what was measured.

mod publisher;

pub use publisher::{BrokerIndex, BrokerState, GroupIndex, Publisher, PublisherIndex};
