//! The data plane: reactors, connections, topics, channels, limits in the path, HTTP.
//!
//! The way of a message: `reactor` reads it, `topics` queues it, applies its limit and hands it to
//! channels and consumers, and `connection` holds the bytes on their way out. The crate `topics` is
//! a pure state machine, `sys` holds the system calls, and [`Handle`] is the only other way in.
//!
//! The data path waits for nothing but its own sockets: not for HTTP, a disk or a control plane.

pub mod agent;
pub mod announce;
pub mod auth;
mod backlog;
mod broker;
pub mod catalog_file;
mod config;
mod connection;
mod error;
mod handle;
pub mod handover;
pub mod http;
pub mod lookupd;
mod losses;
mod memory;
mod reactor;
mod session;
pub mod sharing;
pub mod stats;
pub mod statsd;
mod sys;
pub mod takeover;
pub mod tls;
mod transport;
pub mod window;

pub use backlog::{
    BacklogConfig, BacklogHealth, BacklogState, FOLDER_NAME as BACKLOG_FOLDER, Found, Keeper,
    LOGS_FOLDER_NAME as LOGS_FOLDER, Recovered,
};
pub use broker::{Broker, NSQD_VERSION};
pub use config::{ArrivalClock, Config, ControllerLink, ProcessingConfig};
pub use error::BrokerError;
pub use handle::{DeclaredContract, Handle, Operation};
pub use losses::Losses;
pub use reactor::{Attachments, Owner, TaskReport, TaskRow};
pub use transport::codec;
