//! Classes of packets by prefix, protocol and port. The first class that a packet matches counts.

use serde::{Deserialize, Serialize};

use crate::address::{PortRange, Prefix};
use crate::packet::Header;

/// The transport protocol of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Which packets belong to a class. What is left empty matches all of them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Match {
    /// Prefixes of source addresses.
    #[serde(default)]
    pub sources: Vec<Prefix>,
    /// Prefixes of destination addresses.
    #[serde(default)]
    pub destinations: Vec<Prefix>,
    /// The protocol of the packets.
    #[serde(default)]
    pub protocol: Option<Protocol>,
    /// Ranges of destination ports.
    #[serde(default)]
    pub ports: Vec<PortRange>,
}

impl Match {
    /// Whether a packet belongs to the class. A later fragment has no ports and counts as matching any; otherwise
    /// whoever fragments packets would have no limit.
    pub fn covers(&self, header: &Header) -> bool {
        let any = |prefixes: &[Prefix], address| {
            prefixes.is_empty() || prefixes.iter().any(|prefix| prefix.contains(address))
        };
        let ports = self.ports.is_empty()
            || header
                .ports
                .map_or(self.protocol_has_ports(header), |(_, to)| {
                    self.ports.iter().any(|range| range.contains(to))
                });
        let protocol = self.protocol.is_none_or(|protocol| match protocol {
            Protocol::Tcp => header.protocol == TCP,
            Protocol::Udp => header.protocol == UDP,
        });
        protocol
            && ports
            && any(&self.destinations, header.destination)
            && any(&self.sources, header.source)
    }

    fn protocol_has_ports(&self, header: &Header) -> bool {
        matches!(header.protocol, TCP | UDP)
    }
}

const TCP: u8 = 6;
const UDP: u8 = 17;

#[cfg(test)]
mod tests {
    use super::*;

    fn header(to: &str, protocol: u8, ports: Option<(u16, u16)>) -> Header {
        Header {
            source: "10.1.0.1".parse().expect("an address"),
            destination: to.parse().expect("an address"),
            protocol,
            ports,
            length: 1500,
        }
    }

    fn matching(text: &str) -> Match {
        toml::from_str(text).expect("a match")
    }

    #[test]
    fn classes_cover_what_they_say() {
        let web =
            matching("destinations = ['10.2.0.0/16']\nprotocol = 'tcp'\nports = [80, '8000-8999']");
        for (to, protocol, ports, covered) in [
            ("10.2.0.1", TCP, Some((5, 80)), true),
            ("10.2.0.1", TCP, Some((5, 8500)), true),
            ("10.2.0.1", TCP, Some((80, 5)), false),
            ("10.3.0.1", TCP, Some((5, 80)), false),
            ("10.2.0.1", UDP, Some((5, 80)), false),
            ("10.2.0.1", TCP, None, true),
        ] {
            let header = header(to, protocol, ports);
            assert_eq!(web.covers(&header), covered, "{header:?}");
        }
        assert!(matching("").covers(&header("::1", 1, None)));
        let from = matching("sources = ['10.1.0.0/24']\nports = [53]");
        assert!(from.covers(&header("10.2.0.1", UDP, Some((9, 53)))));
        assert!(
            !from.covers(&header("10.2.0.1", 1, None)),
            "ICMP has no ports"
        );
    }
}
