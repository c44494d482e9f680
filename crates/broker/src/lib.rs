//! The data plane: reactors, connections, topics, channels, limits in the path, HTTP.
//!
//! The way of a message: `reactor` reads it, `topics` queues it, lets it pass its limit and gives it
//! to channels and consumers, `connection` holds what is on its way out. The crate `topics` is a
//! pure state machine; `sys` holds the system calls; [`Handle`] is the only other way in.
//!
//! The data path never waits for anything but its own sockets: not for HTTP, not for a disk, not for
//! a control plane.

pub mod agent;
pub mod announce;
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
mod sys;
pub mod tls;
mod transport;
pub mod window;

pub use backlog::{BacklogConfig, BacklogState, FOLDER_NAME as BACKLOG_FOLDER};
pub use broker::{Broker, NSQD_VERSION};
pub use config::{ArrivalClock, Config, ControllerLink};
pub use error::BrokerError;
pub use handle::{Declaration, Handle, Operation};
pub use losses::Losses;
pub use reactor::{Attachments, Owner, TaskReport, TaskRow};
