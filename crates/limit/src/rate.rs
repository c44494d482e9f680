//! The two parameters of a token bucket, as numbers that are known to be sane.
//!
//! A token is one message or one byte, by the limit's [`Unit`](crate::Unit). Both parameters may be
//! fractional: shares of a split limit usually are.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::InvalidLimit;

/// Tokens generated per second: r of a limit (r, b), at least 1e-6 and at most 1e12, or a part of it, which may be smaller.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Rate(f64);

/// Tokens a bucket holds at most: b of a limit (r, b). At least 1, at most 1e12.
///
/// A bucket of less than one token would delay every message, also the one that nobody preceded.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Burst(f64);

impl Rate {
    /// The greatest rate: 1e12 tokens per second.
    pub const MAX: Rate = Rate(1e12);
    /// The least rate of a whole limit: 1e-6 tokens per second, one in twelve days.
    pub const MIN: Rate = Rate(1e-6);
    /// The least part of one: its tokens come later than any clock tells.
    const MIN_PART: f64 = 1e-18;

    /// A rate of `tokens_per_second`.
    ///
    /// # Errors
    /// [`InvalidLimit::Rate`] unless it is at least 1e-18 and at most 1e12; that of a whole limit is at least [`Rate::MIN`].
    pub fn new(tokens_per_second: f64) -> Result<Self, InvalidLimit> {
        if (Self::MIN_PART..=Self::MAX.0).contains(&tokens_per_second) {
            Ok(Rate(tokens_per_second))
        } else {
            Err(InvalidLimit::Rate {
                given: tokens_per_second,
            })
        }
    }

    /// Tokens per second.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl Burst {
    /// The greatest burst: 1e12 tokens.
    pub const MAX: Burst = Burst(1e12);

    /// A burst of `tokens`.
    ///
    /// # Errors
    /// [`InvalidLimit::Burst`] unless it is at least 1 and at most 1e12.
    pub fn new(tokens: f64) -> Result<Self, InvalidLimit> {
        if (1.0..=Self::MAX.0).contains(&tokens) {
            Ok(Burst(tokens))
        } else {
            Err(InvalidLimit::Burst { given: tokens })
        }
    }

    /// Tokens.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Rate {
    /// The bare number of tokens per second.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Burst {
    /// The bare number of tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Rate {
    type Err = InvalidLimit;

    fn from_str(text: &str) -> Result<Self, InvalidLimit> {
        number("rate", text).and_then(Rate::new)
    }
}

impl FromStr for Burst {
    type Err = InvalidLimit;

    fn from_str(text: &str) -> Result<Self, InvalidLimit> {
        number("burst", text).and_then(Burst::new)
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(self.0, serializer)
    }
}

impl Serialize for Burst {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = deserializer.deserialize_any(Number("rate"))?;
        Rate::new(number).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Burst {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = deserializer.deserialize_any(Number("burst"))?;
        Burst::new(number).map_err(de::Error::custom)
    }
}

/// Takes any number and names the field when it gets something else.
struct Number(&'static str);

impl Visitor<'_> for Number {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number for {}", self.0)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<f64, E> {
        Ok(value)
    }

    // Beyond 2^53 the nearest f64 is meant; that is out of both ranges anyway.
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<f64, E> {
        Ok(value as f64)
    }
}

/// Whole numbers go out without a fraction, as people write them.
fn serialize<S: Serializer>(number: f64, serializer: S) -> Result<S::Ok, S::Error> {
    if number.fract() == 0.0 {
        serializer.serialize_u64(number as u64)
    } else {
        serializer.serialize_f64(number)
    }
}

fn number(field: &'static str, text: &str) -> Result<f64, InvalidLimit> {
    text.trim().parse().map_err(|_| InvalidLimit::NotANumber {
        field,
        given: text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_enforced_and_told() {
        for good in [1e-18, 1e-3, 0.5, 1.0, 1e12] {
            assert_eq!(Rate::new(good).map(Rate::get), Ok(good));
        }
        for bad in [
            0.0,
            f64::from_bits(1),
            1e-320,
            9e-19,
            -1.0,
            1.1e12,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ] {
            let text = Rate::new(bad).expect_err("out of range").to_string();
            assert!(
                text.contains("at least 1e-6 and at most 1e12 tokens per second"),
                "{text}"
            );
        }
        for good in [1.0, 2.5, 1e12] {
            assert_eq!(Burst::new(good).map(Burst::get), Ok(good));
        }
        for bad in [0.0, 0.999, -5.0, 1.1e12, f64::NAN, f64::INFINITY] {
            let text = Burst::new(bad).expect_err("out of range").to_string();
            assert!(
                text.contains("at least 1 and at most 1e12 tokens"),
                "{text}"
            );
        }
    }

    #[test]
    fn text_and_back() {
        assert_eq!(
            " 0.5".parse::<Rate>().map(|rate| rate.to_string()),
            Ok("0.5".to_owned())
        );
        assert_eq!(
            "50".parse::<Burst>().map(|burst| burst.to_string()),
            Ok("50".to_owned())
        );
        let text = "fast".parse::<Rate>().expect_err("no number").to_string();
        assert_eq!(text, "rate \"fast\" is not a number");
        assert_eq!(
            "0".parse::<Burst>(),
            Err(InvalidLimit::Burst { given: 0.0 })
        );
    }
}
