//! The HTTP APIs from outside: the values that go over them, and one client for all of them.
//!
//! * [`view`] (feature `view`): the inputs and outputs of the controller's API. Server and clients
//!   share it, so that they cannot disagree.
//! * [`Client`] (feature `client`): one question, one answer, blocking, bounded in time and size,
//!   from whichever of several servers leads. [`Target`] names what is asked for and is the only
//!   place where a name is escaped.
//! * [`Controller`] (both features): the controller's API, value for value.

#[cfg(feature = "client")]
mod client;
#[cfg(all(feature = "client", feature = "view"))]
mod controller;
#[cfg(feature = "client")]
mod encryption;
#[cfg(feature = "client")]
mod error;
#[cfg(feature = "client")]
mod servers;
#[cfg(feature = "client")]
mod target;
#[cfg(feature = "client")]
mod token;
#[cfg(feature = "view")]
pub mod view;

#[cfg(feature = "client")]
pub use client::{Answer, Bounds, Client, Method};
#[cfg(all(feature = "client", feature = "view"))]
pub use controller::Controller;
#[cfg(feature = "client")]
pub use credentials::Trust;
#[cfg(feature = "client")]
pub use error::{ApiError, Why};
#[cfg(feature = "client")]
pub use target::Target;
#[cfg(feature = "client")]
pub use token::Token;
