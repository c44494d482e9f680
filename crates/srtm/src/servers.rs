//! The HTTP ports of brokers and controllers, as the commands use them.

use api::{Bounds, Client, Target};
use wire::TopicName;

/// Where a controller's HTTP port is unless a flag says otherwise.
pub(crate) const CONTROLLER: &str = "http://127.0.0.1:4180";

/// The port at `base`, such as `http://127.0.0.1:4151`; the scheme may be left out. An answer may take 10 s.
pub(crate) fn client(base: &str) -> Client {
    Client::new(base, Bounds::default())
}

/// `/v1/topics/NAME`, the same at brokers and controllers.
pub(crate) fn of_topic(name: &TopicName) -> Target {
    Target::new("/v1/topics").segment(name.as_str())
}
