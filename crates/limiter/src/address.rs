//! Addresses of both families as one kind of number, prefixes of them, and ranges of ports.
//!
//! An IPv4 address counts as the IPv6 address that it is mapped to, so a prefix is one comparison whatever the family.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Addresses whose first bits are the same, `10.2.0.0/16`; an address alone stands for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prefix {
    first: u128,
    bits: u8,
}

/// Ports from one to another, both included: `80` or `1024-2047`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "PortsText", into = "String")]
pub struct PortRange {
    first: u16,
    last: u16,
}

/// Why a text is no address, prefix or range of ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text is neither an address nor a prefix.
    #[error("{given:?} is not a prefix: write it as 10.2.0.0/16, 10.2.0.1 or 2001:db8::/32")]
    Prefix {
        /// The text.
        given: String,
    },
    /// Bits behind the prefix's end are set, which is most likely a slip.
    #[error("{given:?} has bits set beyond its length: write it as {meant}")]
    Loose {
        /// The text.
        given: String,
        /// The prefix that contains the address.
        meant: Prefix,
    },
    /// The text is no range of ports.
    #[error("{given:?} is not a range of ports: write one as 80 or \"1024-2047\"")]
    Ports {
        /// The text.
        given: String,
    },
}

/// The most specific of many prefixes that an address lies in, found in a few look-ups.
#[derive(Clone, Debug, Default)]
pub struct PrefixTable {
    /// Tables by length of the prefix, the longest first.
    lengths: Vec<(u8, FxHashMap<u128, usize>)>,
}

/// An address as a number: IPv4 as the IPv6 address that it is mapped to.
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl Prefix {
    /// The first `bits` bits of `address`, or `None` if it has fewer.
    pub fn new(address: IpAddr, bits: u8) -> Option<Prefix> {
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = (bits <= all).then_some(bits + (128 - all))?;
        Some(Prefix {
            first: number(address) & mask(bits),
            bits,
        })
    }

    /// Whether the prefix contains `address`.
    pub fn contains(self, address: IpAddr) -> bool {
        number(address) & mask(self.bits) == self.first
    }

    /// The prefix of the same length `steps` further, as `10.2.0.1/32` is one step from `10.2.0.0/32`; `None` beyond
    /// the last address.
    pub fn step(self, steps: u32) -> Option<Prefix> {
        let width = 1u128.checked_shl(u32::from(128 - self.bits))?;
        let first = self.first.checked_add(width.checked_mul(steps.into())?)?;
        Some(Prefix { first, ..self })
    }
}

impl PrefixTable {
    /// A table of prefixes and what they stand for. Of equal prefixes the first counts.
    pub fn new(entries: impl IntoIterator<Item = (Prefix, usize)>) -> PrefixTable {
        let mut table = PrefixTable::default();
        for (prefix, meaning) in entries {
            let at = table
                .lengths
                .iter()
                .position(|(bits, _)| *bits == prefix.bits);
            let at = at.unwrap_or_else(|| {
                table.lengths.push((prefix.bits, FxHashMap::default()));
                table.lengths.len() - 1
            });
            table.lengths[at].1.entry(prefix.first).or_insert(meaning);
        }
        table
            .lengths
            .sort_by_key(|(bits, _)| std::cmp::Reverse(*bits));
        table
    }

    /// The entry of the longest prefix that contains `address`.
    pub fn find(&self, address: IpAddr) -> Option<usize> {
        let address = number(address);
        let mut found = self.lengths.iter();
        found.find_map(|(bits, prefixes)| prefixes.get(&(address & mask(*bits))).copied())
    }
}

impl PortRange {
    /// Whether `port` is in the range.
    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

/// The first `bits` of 128 bits.
fn mask(bits: u8) -> u128 {
    let behind = 128 - u32::from(bits.min(128));
    u128::MAX.checked_shl(behind).unwrap_or(0)
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = std::net::Ipv6Addr::from_bits(self.first);
        match address.to_ipv4_mapped() {
            Some(v4) if self.bits >= 96 => write!(f, "{v4}/{}", self.bits - 96),
            _ => write!(f, "{address}/{}", self.bits),
        }
    }
}

impl FromStr for Prefix {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = || AddressError::Prefix {
            given: text.to_owned(),
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| error())?;
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(all), |bits| bits.parse().map_err(|_| error()))?;
        let prefix = Prefix::new(address, bits).ok_or_else(error)?;
        if prefix.first != number(address) {
            return Err(AddressError::Loose {
                given: text.to_owned(),
                meant: prefix,
            });
        }
        Ok(prefix)
    }
}

impl TryFrom<String> for Prefix {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        text.parse()
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> String {
        prefix.to_string()
    }
}

/// A range of ports as it may stand in a file.
#[derive(Deserialize)]
#[serde(untagged)]
enum PortsText {
    One(u16),
    Text(String),
}

impl TryFrom<PortsText> for PortRange {
    type Error = AddressError;

    fn try_from(text: PortsText) -> Result<Self, AddressError> {
        let text = match text {
            PortsText::One(port) => {
                return Ok(PortRange {
                    first: port,
                    last: port,
                });
            }
            PortsText::Text(text) => text,
        };
        let (first, last) = text.split_once('-').unwrap_or((&text, &text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(PortRange { first, last }),
            _ => Err(AddressError::Ports { given: text }),
        }
    }
}

impl From<PortRange> for String {
    fn from(ports: PortRange) -> String {
        ports.to_string()
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn prefixes_are_read_and_hold_what_they_say() {
        for (text, inside, outside) in [
            ("10.2.0.0/16", "10.2.255.1", "10.3.0.0"),
            ("10.2.0.7", "10.2.0.7", "10.2.0.6"),
            ("0.0.0.0/0", "255.255.255.255", "2001:db8::1"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"),
            ("::/0", "10.1.1.1", ""),
        ] {
            let prefix: Prefix = text.parse().expect(text);
            assert!(prefix.contains(address(inside)), "{text} {inside}");
            if !outside.is_empty() {
                assert!(!prefix.contains(address(outside)), "{text} {outside}");
            }
            let again: Prefix = prefix.to_string().parse().expect("as it was written");
            assert_eq!(again, prefix);
        }
        for bad in ["", "10.2.0.0/33", "10.2/16", "::/129", "10.2.0.0/-1", "web"] {
            assert!(
                matches!(bad.parse::<Prefix>(), Err(AddressError::Prefix { .. })),
                "{bad}"
            );
        }
        let error = "10.2.0.1/16".parse::<Prefix>().expect_err("bits behind");
        assert!(error.to_string().contains("10.2.0.0/16"), "{error}");
    }

    #[test]
    fn the_longest_prefix_counts() {
        let entries = ["10.0.0.0/8", "10.2.0.0/16", "10.2.0.1/32", "10.2.0.0/16"];
        let entries = entries.iter().enumerate();
        let table = PrefixTable::new(entries.map(|(i, text)| (text.parse().expect(text), i)));
        for (text, meaning) in [
            ("10.2.0.1", Some(2)),
            ("10.2.0.2", Some(1)),
            ("10.9.9.9", Some(0)),
            ("11.0.0.0", None),
        ] {
            assert_eq!(table.find(address(text)), meaning, "{text}");
        }
    }

    #[test]
    fn prefixes_step_by_their_width() {
        let block: Prefix = "10.2.0.0/24".parse().expect("a prefix");
        assert_eq!(
            block.step(3).map(|p| p.to_string()),
            Some("10.2.3.0/24".into())
        );
        let all: Prefix = "::/0".parse().expect("a prefix");
        assert_eq!(all.step(1), None);
    }
}
