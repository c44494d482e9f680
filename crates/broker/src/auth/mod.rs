//! Who NSQ clients are, and what they may do: tokens of the access file, and auth servers as nsqd asks them.
//!
//! A token is looked up where it is read. An auth server is asked by a thread of its own, and the connection waits; a line keeps
//! addresses from taking each other's turns. What a client may do stays with its session, so that a message costs no more than
//! comparing the name of its topic.

mod line;
mod question;
mod servers;
mod subject;

use std::time::Duration;

use access::InForce;

pub(crate) use question::{AuthQuestion, Secret};
pub(crate) use servers::{AuthServers, Permitted};

/// Longest secret, in bytes; it goes into a URL.
pub const SECRET_MAX_BYTES: usize = 16 * 1024;

/// The auth servers of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthConfig {
    /// `HOST:PORT`, or a whole URL, of each; one that answers is enough. None: no server is asked.
    pub addresses: Vec<String>,
    /// How they are asked.
    pub method: AuthMethod,
    /// Until a connection stands.
    pub connect_timeout: Duration,
    /// From the connection to the end of the answer.
    pub request_timeout: Duration,
}

/// How an auth server is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthMethod {
    /// GET, with everything in the query.
    #[default]
    Get,
    /// POST of a form, which keeps secrets out of the server's log.
    Post,
}

/// By what clients are let in.
#[derive(Clone, Debug)]
pub struct AuthTerms {
    /// The tokens that there are, where an access file names some.
    pub tokens: Option<InForce>,
    /// Whether auth servers are asked about everything else.
    pub asks_servers: bool,
}

impl Default for AuthConfig {
    fn default() -> AuthConfig {
        AuthConfig {
            addresses: Vec::new(),
            method: AuthMethod::Get,
            connect_timeout: Duration::from_secs(2),
            request_timeout: Duration::from_secs(5),
        }
    }
}
