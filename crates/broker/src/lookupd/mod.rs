//! Registration with nsqlookupds, as nsqd registers: lookup finds a broker without a controller,
//! and tells it which channels a new topic has elsewhere.
//!
//! Every lookup is told everything when it is connected to, and from then on every change at once.
//! A new topic passes nothing on before each lookup has been asked for the topic's channels and
//! they have been created; its messages wait in its queue. A lookup that is away is not waited for;
//! one that does not answer, for [`LookupdConfig::request_timeout`] at most.
//!
//! A broker that has a controller does none of this: the controller knows its topics and is the
//! lookup.
//!
//! `registrations` and `registration` are pure; `keeper` holds a connection, `enquiry` asks over
//! HTTP, and [`Registrar`] puts them together.

mod enquiry;
mod keeper;
mod registrar;
mod registration;
mod registrations;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use wire::lookup::Identity;

use crate::{Config, NSQD_VERSION, http};

pub use registrar::Registrar;

/// Lookups that a broker registers with at most.
const LOOKUPDS_MAX: usize = 64;

/// How a broker on its own registers with nsqlookupds. Times are nsqd's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupdConfig {
    /// TCP addresses at the start, `host:port`; empty: it registers nowhere.
    pub tcp_addresses: Vec<String>,
    /// Port that clients are told for NSQ; `None`: the one that is bound.
    pub broadcast_tcp_port: Option<u16>,
    /// Port that clients are told for HTTP; `None`: the one that is bound.
    pub broadcast_http_port: Option<u16>,
    /// Longest wait for a lookup's HTTP to accept a connection.
    pub connect_timeout: Duration,
    /// Longest time that a new topic waits for what lookups say of its channels.
    pub request_timeout: Duration,
}

impl Default for LookupdConfig {
    fn default() -> LookupdConfig {
        LookupdConfig {
            tcp_addresses: Vec::new(),
            broadcast_tcp_port: None,
            broadcast_http_port: None,
            connect_timeout: Duration::from_secs(2),
            request_timeout: Duration::from_secs(5),
        }
    }
}

/// The lookups that a broker registers with, changed while it runs.
#[derive(Clone, Debug)]
pub struct LookupdList(Arc<watch::Sender<Vec<String>>>);

impl LookupdList {
    pub(crate) fn new(tcp_addresses: Vec<String>) -> LookupdList {
        LookupdList(Arc::new(watch::Sender::new(tcp_addresses)))
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Vec<String>> {
        self.0.subscribe()
    }

    /// TCP addresses, `host:port`.
    #[must_use]
    pub fn tcp_addresses(&self) -> Vec<String> {
        self.0.borrow().clone()
    }

    /// Registers with these from now on, and with no others; whether they are addresses.
    pub(crate) fn set(&self, tcp_addresses: Vec<String>) -> bool {
        let is_valid = are_addresses(&tcp_addresses);
        if is_valid {
            self.0.send_replace(tcp_addresses);
        }
        is_valid
    }
}

/// The identity of a broker with these ports, as lookups see it.
#[must_use]
pub fn identity(config: &Config, tcp_port: u16, http_port: u16) -> Identity {
    Identity {
        broadcast_address: config.broadcast_address.clone(),
        hostname: http::hostname(),
        tcp_port: config.lookupd.broadcast_tcp_port.unwrap_or(tcp_port),
        http_port: config.lookupd.broadcast_http_port.unwrap_or(http_port),
        version: String::from(NSQD_VERSION),
    }
}

/// Whether all of them are `host:port`, and not too many.
pub(crate) fn are_addresses(list: &[String]) -> bool {
    let is_address = |text: &String| {
        let parts = text.rsplit_once(':');
        parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
    };
    list.len() <= LOOKUPDS_MAX && list.iter().all(is_address)
}

#[cfg(test)]
mod tests;
