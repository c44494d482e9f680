//! Rates and sizes as people write them: `"10 Mbps"`, `"1.25 MB/s"`, `75000`.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Bytes per second. A bare number is bytes per second; `bps`, `kbps`, `Mbps` and `Gbps` are bits, `B/s`, `kB/s`, `MB/s`
/// and `GB/s` bytes; all by thousands.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Bandwidth(f64);

/// A rate that is out of range or is not written as a rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} is not a rate: write it as \"10 Mbps\" (bits) or \"1.25 MB/s\" (bytes); it must be at least 1 B/s and at \
     most 1 TB/s. A bare number is bytes per second"
)]
pub struct AmountError {
    given: String,
}

/// Units, each with its bytes per second.
const UNITS: [(&str, f64); 9] = [
    ("", 1.0),
    ("bps", 1.0 / 8.0),
    ("kbps", 1e3 / 8.0),
    ("Mbps", 1e6 / 8.0),
    ("Gbps", 1e9 / 8.0),
    ("B/s", 1.0),
    ("kB/s", 1e3),
    ("MB/s", 1e6),
    ("GB/s", 1e9),
];

impl Bandwidth {
    /// A rate of `bytes_per_s`.
    ///
    /// # Errors
    /// [`AmountError`] unless it is at least 1 and at most 1e12.
    pub fn new(bytes_per_s: f64) -> Result<Bandwidth, AmountError> {
        if (1.0..=1e12).contains(&bytes_per_s) {
            Ok(Bandwidth(bytes_per_s))
        } else {
            Err(AmountError {
                given: bytes_per_s.to_string(),
            })
        }
    }

    /// Bytes per second.
    pub const fn bytes_per_s(self) -> f64 {
        self.0
    }
}

impl FromStr for Bandwidth {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        let error = || AmountError {
            given: text.to_owned(),
        };
        let text = text.trim();
        let unit_at = text.find(|c: char| c.is_ascii_alphabetic());
        let (number, unit) = text.split_at(unit_at.unwrap_or(text.len()));
        let number: f64 = number.trim().parse().map_err(|_| error())?;
        let unit = UNITS.into_iter().find(|(word, _)| *word == unit);
        let (_, bytes_per_s) = unit.ok_or_else(error)?;
        Bandwidth::new(number * bytes_per_s).map_err(|_| error())
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0 * 8.0;
        match bits {
            _ if bits >= 1e9 => write!(f, "{} Gbps", bits / 1e9),
            _ if bits >= 1e6 => write!(f, "{} Mbps", bits / 1e6),
            _ if bits >= 1e3 => write!(f, "{} kbps", bits / 1e3),
            _ => write!(f, "{bits} bps"),
        }
    }
}

impl Serialize for Bandwidth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Bandwidth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

struct Written;

impl Visitor<'_> for Written {
    type Value = Bandwidth;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rate such as \"10 Mbps\", or bytes per second")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Bandwidth, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Bandwidth, E> {
        Bandwidth::new(number).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Bandwidth, E> {
        self.visit_f64(number as f64)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Bandwidth, E> {
        self.visit_f64(number as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        for (text, bytes_per_s) in [
            ("10 Mbps", 1.25e6),
            ("10Mbps", 1.25e6),
            ("1.25 MB/s", 1.25e6),
            ("1250000", 1.25e6),
            ("64 kbps", 8e3),
            ("1 Gbps", 1.25e8),
        ] {
            let rate: Bandwidth = text.parse().expect(text);
            assert_eq!(rate.bytes_per_s(), bytes_per_s, "{text}");
            let again: Bandwidth = rate.to_string().parse().expect("as it was written");
            assert_eq!(again, rate);
        }
        for bad in [
            "", "Mbps", "0", "-1 Mbps", "NaN", "inf", "10 mbps", "10 Mbit", "1e13",
        ] {
            assert!(bad.parse::<Bandwidth>().is_err(), "{bad}");
        }
    }
}
