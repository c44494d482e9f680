//! The headers of an IP packet, as far as a limiter looks at them.
//!
//! Every packet that reaches a limiter was written by somebody else, so nothing about it is
//! believed: whatever does not add up is [`Odd`], and the router decides about it. IPv6 extension
//! headers are not walked: their packets have an unknown protocol and no ports.

use std::hash::Hasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustc_hash::FxHasher;

use crate::address::number;

/// What a limiter looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The address of the sender.
    pub source: IpAddr,
    /// The address of the receiver.
    pub destination: IpAddr,
    /// The protocol's number at IANA: 6 is TCP, 17 is UDP. For IPv6 it is the first next header.
    pub protocol: u8,
    /// Source and destination port of TCP, UDP, DCCP, UDP-Lite and SCTP; later fragments have none.
    pub ports: Option<(u16, u16)>,
    /// The length of the packet in bytes, with its IP header.
    pub length: u16,
}

/// Why the headers of a packet cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Odd {
    /// The packet is neither IPv4 nor IPv6.
    Version,
    /// The packet is shorter than its headers.
    Truncated,
    /// Its length field differs from the number of bytes that came.
    Length,
}

impl Odd {
    /// All reasons, in the order of [`Odd::index`].
    pub const ALL: [Odd; 3] = [Odd::Version, Odd::Truncated, Odd::Length];

    /// The place of this reason in a table of counters.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The label of this reason in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Odd::Version => "version",
            Odd::Truncated => "truncated",
            Odd::Length => "length",
        }
    }
}

impl Header {
    /// Reads the headers of `packet`, which begins with its IP header.
    ///
    /// # Errors
    /// [`Odd`], with what does not add up.
    pub fn parse(packet: &[u8]) -> Result<Header, Odd> {
        Header::parse_head(packet, packet.len())
    }

    /// Reads the headers of a packet of `length` bytes of which only the beginning is there.
    ///
    /// # Errors
    /// [`Odd`], with what does not add up.
    pub fn parse_head(head: &[u8], length: usize) -> Result<Header, Odd> {
        let length = u16::try_from(length).map_err(|_| Odd::Length)?;
        match head.first().map(|first| first >> 4) {
            None => Err(Odd::Truncated),
            Some(4) => Header::parse_v4(head, length),
            Some(6) => Header::parse_v6(head, length),
            Some(_) => Err(Odd::Version),
        }
    }

    /// A hash of the flow: all its packets have the same one, and packets of other flows hardly ever do.
    pub fn flow(&self) -> u64 {
        let (source_port, destination_port) = self.ports.unwrap_or((0, 0));
        let mut hasher = FxHasher::default();
        hasher.write_u128(number(self.source));
        hasher.write_u128(number(self.destination));
        let ports = (u64::from(source_port) << 16) | u64::from(destination_port);
        hasher.write_u64((u64::from(self.protocol) << 32) | ports);
        hasher.finish()
    }

    fn parse_v4(packet: &[u8], length: u16) -> Result<Header, Odd> {
        let head: &[u8; 20] = packet.first_chunk().ok_or(Odd::Truncated)?;
        let header_bytes = usize::from(head[0] & 0x0f) * 4;
        if length != u16::from_be_bytes([head[2], head[3]]) {
            return Err(Odd::Length);
        }
        if header_bytes < head.len() || header_bytes > packet.len() {
            return Err(Odd::Truncated);
        }
        let fragment_offset = u16::from_be_bytes([head[6], head[7]]) & 0x1fff;
        let protocol = head[9];
        let ports = if fragment_offset == 0 {
            ports(protocol, &packet[header_bytes..])
        } else {
            None
        };
        Ok(Header {
            source: Ipv4Addr::new(head[12], head[13], head[14], head[15]).into(),
            destination: Ipv4Addr::new(head[16], head[17], head[18], head[19]).into(),
            protocol,
            ports,
            length,
        })
    }

    fn parse_v6(packet: &[u8], length: u16) -> Result<Header, Odd> {
        let (head, rest) = packet.split_first_chunk::<40>().ok_or(Odd::Truncated)?;
        let payload_bytes = u16::from_be_bytes([head[4], head[5]]);
        if length.checked_sub(head.len() as u16) != Some(payload_bytes) {
            return Err(Odd::Length);
        }
        let address = |at: usize| {
            let bytes = head[at..at + 16].try_into().unwrap_or([0u8; 16]);
            IpAddr::from(Ipv6Addr::from(bytes))
        };
        let protocol = head[6];
        Ok(Header {
            source: address(8),
            destination: address(24),
            protocol,
            ports: ports(protocol, rest),
            length,
        })
    }
}

/// The ports at the beginning of a transport header, where the protocol has them.
fn ports(protocol: u8, transport: &[u8]) -> Option<(u16, u16)> {
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    const DCCP: u8 = 33;
    const SCTP: u8 = 132;
    const UDP_LITE: u8 = 136;
    if !matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE) {
        return None;
    }
    let [a, b, c, d] = transport.first_chunk()?;
    Some((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])))
}

#[cfg(test)]
mod tests;
