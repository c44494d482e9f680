//! The HTTP ports of brokers and controllers, as the commands use them.

use api::{Bounds, Client, Controller, Target};
use client::Tls;
use wire::TopicName;

use crate::error::Failure;
use crate::token_flags::TokenFlags;
use crate::trust_flags::trust;

/// Where a controller's HTTP port is unless a flag says otherwise.
pub(crate) const CONTROLLER: &str = "127.0.0.1:4180";

/// The port at `base`, such as `http://127.0.0.1:4151`; a scheme that is left out is `https` where there is trust. An answer may take
/// 10 s.
///
/// # Errors
/// The token cannot be read.
pub(crate) fn client(base: &str, token: &TokenFlags) -> Result<Client, Failure> {
    let client = Client::trusting(base, Bounds::default(), trust().as_ref());
    Ok(client.with_token(token.token()?))
}

/// The controller's API at `base`, as [`client()`] reads it.
///
/// # Errors
/// The token cannot be read.
pub(crate) fn controller(base: &str, token: &TokenFlags) -> Result<Controller, Failure> {
    Ok(Controller::trusting(base, trust().as_ref()).with_token(token.token()?))
}

/// `/v1/topics/NAME`, the same at brokers and controllers.
pub(crate) fn of_topic(name: &TopicName) -> Target {
    Target::new("/v1/topics").segment(name.as_str())
}

/// How the broker at `address` is spoken to by TLS; `None`: without.
pub(crate) fn tls(address: &str) -> Option<Tls> {
    Some(Tls::new(trust()?, address))
}
