//! The control plane: registry of brokers, topics and publishers, Load Distributor, TB Adaptor, store,
//! HTTP API, and nsqlookupd's protocol.

pub mod error;
pub mod handle;
pub mod store;
pub mod view;

pub use error::ControlError;
pub use handle::ControlHandle;
