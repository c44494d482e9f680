//! The control plane: registry of brokers, topics and publishers, Load Distributor, TB Adaptor, store,
//! HTTP API, and nsqlookupd's protocol.
//!
//! [`core`] is a pure state machine; [`service`] owns it and carries out what it wants done; [`link_server`] is where
//! brokers dial in.

pub mod core;
pub mod error;
pub mod handle;
pub mod http;
pub mod leadership;
pub mod link_server;
pub mod lookup;
pub mod random;
pub mod service;
pub mod store;

use api::view;

pub use crate::core::{Settings, check_settings};
pub use error::ControlError;
pub use handle::ControlHandle;
