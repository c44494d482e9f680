//! Addresses on a command line: `host:port`, `:port` for all interfaces, names looked up.

use std::net::{SocketAddr, ToSocketAddrs};

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenAddress(pub(crate) SocketAddr);

impl std::str::FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ListenAddress, String> {
        let with_host = if text.starts_with(':') {
            format!("0.0.0.0{text}")
        } else {
            text.to_owned()
        };
        let mut found = with_host.to_socket_addrs().map_err(|error| {
            format!("{text:?} is not an address: {error}; write host:port, as in 127.0.0.1:4150")
        })?;
        found
            .next()
            .map(ListenAddress)
            .ok_or_else(|| format!("{text:?} has no address"))
    }
}

impl std::fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_may_be_missing_but_not_ports() {
        for (text, expected) in [
            ("127.0.0.1:0", "127.0.0.1:0"),
            (":4150", "0.0.0.0:4150"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(
                text.parse::<ListenAddress>()
                    .map(|address| address.to_string()),
                Ok(expected.to_owned())
            );
        }
        for text in ["", "127.0.0.1", "4150", "127.0.0.1:port", "127.0.0.1:65536"] {
            let error = text.parse::<ListenAddress>().expect_err(text);
            assert!(error.contains("write host:port"), "{error}");
        }
    }
}
