//! The control plane: registry of brokers, topics and publishers, Load Distributor, TB Adaptor,
//! store, HTTP API, and nsqlookupd's protocol.
//!
//! [`core`] is a pure state machine; [`service`] owns it and carries out its effects; brokers dial
//! in at [`link_server`].

pub mod core;
pub mod error;
#[cfg(test)]
#[path = "../../http/fixtures/every_route.rs"]
mod every_route;
pub mod handle;
pub mod http;
pub mod leadership;
pub mod link_server;
pub mod lookup;
mod proof;
pub mod random;
pub mod service;
pub mod store;

use api::view;

pub use crate::core::{Settings, check_settings};
pub use error::ControlError;
pub use handle::ControlHandle;
pub use proof::LinkProof;
