//! Packet limiter for real TCP traffic (DRL, section 4.2).
//!
//! Packets come in through TUN devices or NFQUEUE and are forwarded or dropped at once, never
//! queued. One direction is limited, from the sources to the sinks; the other, acknowledgements
//! above all, passes. One process stands for any number of *sites*; each has its own
//! [`limit::sharing::Limiter`] per class of traffic and takes part in the gossip on its own, like a
//! separate machine.
//!
//! The core is pure: [`packet`] reads headers, [`class`] matches packets to limits, [`Router`]
//! decides, and [`emulate`] holds packets back for testbeds that want a network's delays and
//! bandwidths. [`Service`] is the shell around it: one thread with one epoll instance that reads
//! the clock once per turn. HTTP and the record have threads of their own.
//!
//! It shapes nothing, marks nothing and reassembles nothing; addresses and routes are the
//! operator's.

pub mod address;
pub mod amount;
pub mod class;
pub mod config;
mod delay_queue;
pub mod emulate;
mod error;
pub mod fabric;
mod http;
mod nfqueue;
pub mod packet;
mod record;
mod router;
mod service;
mod site;
mod slots;
mod sys;

pub use config::Config;
pub use error::LimiterError;
pub use router::{Counters, Port, Route, Router, Side};
pub use service::{Service, Stop};
pub use site::{Passed, Standing};
