//! A topic's declared limit, and its JSON.
//!
//! `{"rate":1000,"burst":50,"unit":"messages","on_exceed":"delay","judged_by":"arrival","sharing":"lease"}`,
//! of which only `rate` and `burst` are required; a limit that is shared by gossip may say how, in
//! `gossip`. A value that cannot be enforced is refused with a text that names the field; nothing
//! is ignored, nothing rounded.

mod gossip;
mod share_policy;

use std::fmt;
use std::str::FromStr;

use clock::Instant;
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

use crate::{Burst, InvalidLimit, Rate, TokenBucket};

pub use gossip::Gossip;
pub use share_policy::SharePolicy;

/// A topic's limit: (r, b), what a token is, and what happens to the excess.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Declared", into = "Declared")]
pub struct Limit {
    /// Tokens per second.
    pub rate: Rate,
    /// Tokens held at most.
    pub burst: Burst,
    /// What a token is.
    pub unit: Unit,
    /// What happens to a message that finds too few tokens.
    pub on_exceed: OnExceed,
    /// The instant that conformance is decided by.
    pub judged_by: JudgedBy,
    /// How brokers share it.
    pub sharing: SharePolicy,
    /// How they gossip about it, where they do.
    pub gossip: Gossip,
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Unit {
    /// One message, whatever its size.
    #[default]
    Messages,
    /// One byte of a message's body.
    Bytes,
}

/// What happens to a message that finds too few tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum OnExceed {
    /// It waits until the bucket holds its tokens.
    #[default]
    Delay,
    /// It is discarded and counted; its publisher is told that all is well.
    Drop,
    /// Its publisher gets an error.
    Reject,
}

/// The instant that conformance is decided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum JudgedBy {
    /// When the kernel received the message (SRTM-long, section 5.2): nothing that arrived within the limit is delayed
    /// because it was read late. Messages that were read late may leave closer together than the limit says.
    #[default]
    Arrival,
    /// When it leaves, on the broker's clock: releases never exceed the limit, and lateness of the broker delays
    /// messages that arrived within it.
    Release,
}

impl Limit {
    /// A limit of `rate` messages per second and bursts of `burst` messages that delays the excess.
    ///
    /// # Errors
    /// [`InvalidLimit`] when either number is out of range.
    pub fn messages(rate: f64, burst: f64) -> Result<Self, InvalidLimit> {
        Ok(Limit {
            rate: Rate::new(rate)?,
            burst: Burst::new(burst)?,
            unit: Unit::Messages,
            on_exceed: OnExceed::Delay,
            judged_by: JudgedBy::Arrival,
            sharing: SharePolicy::Lease,
            gossip: Gossip::default(),
        })
    }

    /// Whether brokers agree on their shares among themselves, and no controller grants any.
    pub fn is_gossiped(&self) -> bool {
        self.sharing != SharePolicy::Lease
    }

    /// Whether its parts go together.
    ///
    /// # Errors
    /// [`InvalidLimit::Rate`] for one below [`Rate::MIN`], [`InvalidLimit::Together`] for a random drop that is to delay,
    /// [`InvalidLimit::Gossip`] and [`InvalidLimit::NotGossiped`] for how it is gossiped about.
    pub fn checked(self) -> Result<Self, InvalidLimit> {
        if self.rate < Rate::MIN {
            let given = self.rate.get();
            return Err(InvalidLimit::Rate { given });
        }
        self.gossip.checked()?;
        match self.sharing {
            SharePolicy::Lease if !self.gossip.is_default() => Err(InvalidLimit::NotGossiped),
            SharePolicy::Grd if self.on_exceed == OnExceed::Delay => Err(InvalidLimit::Together),
            _ => Ok(self),
        }
    }

    /// The bucket that enforces this limit, empty at `now` as at every (re)start.
    pub fn bucket(&self, now: Instant) -> TokenBucket {
        TokenBucket::empty(self.rate, self.burst, now)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limit {
            rate,
            burst,
            unit,
            on_exceed,
            judged_by,
            sharing,
            gossip: _,
        } = self;
        write!(f, "{rate} {unit}/s, burst {burst} {unit}, {on_exceed}")?;
        if *judged_by == JudgedBy::Release {
            f.write_str(", judged by release")?;
        }
        match sharing {
            SharePolicy::Lease => Ok(()),
            policy => write!(f, ", shared by {policy}"),
        }
    }
}

impl Unit {
    /// The tokens that a message with a body of `body_bytes` costs.
    pub fn cost(self, body_bytes: usize) -> f64 {
        match self {
            Unit::Messages => 1.0,
            // Exact up to 2^53 bytes.
            Unit::Bytes => body_bytes as f64,
        }
    }

    /// The word for it in JSON and on command lines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Unit::Messages => "messages",
            Unit::Bytes => "bytes",
        }
    }
}

impl OnExceed {
    /// The word for it in JSON and on command lines.
    pub const fn as_str(self) -> &'static str {
        match self {
            OnExceed::Delay => "delay",
            OnExceed::Drop => "drop",
            OnExceed::Reject => "reject",
        }
    }
}

impl FromStr for Unit {
    type Err = InvalidLimit;

    fn from_str(word: &str) -> Result<Self, InvalidLimit> {
        one_of(
            "unit",
            &[Unit::Messages, Unit::Bytes],
            Unit::as_str,
            "messages, bytes",
            word,
        )
    }
}

impl FromStr for OnExceed {
    type Err = InvalidLimit;

    fn from_str(word: &str) -> Result<Self, InvalidLimit> {
        let all = [OnExceed::Delay, OnExceed::Drop, OnExceed::Reject];
        one_of(
            "on_exceed",
            &all,
            OnExceed::as_str,
            "delay, drop, reject",
            word,
        )
    }
}

impl JudgedBy {
    /// The word for it in JSON and on command lines.
    pub const fn as_str(self) -> &'static str {
        match self {
            JudgedBy::Arrival => "arrival",
            JudgedBy::Release => "release",
        }
    }

    /// Whether it is the value of a limit that does not set one.
    fn is_default(&self) -> bool {
        *self == JudgedBy::default()
    }
}

impl FromStr for JudgedBy {
    type Err = InvalidLimit;

    fn from_str(word: &str) -> Result<Self, InvalidLimit> {
        let all = [JudgedBy::Arrival, JudgedBy::Release];
        one_of(
            "judged_by",
            &all,
            JudgedBy::as_str,
            "arrival, release",
            word,
        )
    }
}

/// The JSON object, field for field.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    rate: Rate,
    burst: Burst,
    #[serde(default)]
    unit: Unit,
    #[serde(default)]
    on_exceed: OnExceed,
    #[serde(default, skip_serializing_if = "JudgedBy::is_default")]
    judged_by: JudgedBy,
    #[serde(default)]
    sharing: SharePolicy,
    #[serde(default, skip_serializing_if = "Gossip::is_default")]
    gossip: Gossip,
}

impl TryFrom<Declared> for Limit {
    type Error = InvalidLimit;

    fn try_from(declared: Declared) -> Result<Self, InvalidLimit> {
        let Declared {
            rate,
            burst,
            unit,
            on_exceed,
            judged_by,
            sharing,
            gossip,
        } = declared;
        let limit = Limit {
            rate,
            burst,
            unit,
            on_exceed,
            judged_by,
            sharing,
            gossip,
        };
        limit.checked()
    }
}

impl From<Limit> for Declared {
    fn from(limit: Limit) -> Self {
        let Limit {
            rate,
            burst,
            unit,
            on_exceed,
            judged_by,
            sharing,
            gossip,
        } = limit;
        Declared {
            rate,
            burst,
            unit,
            on_exceed,
            judged_by,
            sharing,
            gossip,
        }
    }
}

/// Display, and the JSON string, of a type that is a word.
macro_rules! word {
    ($type:ty) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?
                    .parse()
                    .map_err(de::Error::custom)
            }
        }
    };
}

word!(Unit);
word!(OnExceed);
word!(JudgedBy);
word!(SharePolicy);

fn one_of<T: Copy>(
    field: &'static str,
    all: &[T],
    as_str: fn(T) -> &'static str,
    expected: &'static str,
    word: &str,
) -> Result<T, InvalidLimit> {
    let found = all.iter().copied().find(|&each| as_str(each) == word);
    found.ok_or_else(|| InvalidLimit::Word {
        field,
        given: word.to_owned(),
        expected,
    })
}

#[cfg(test)]
mod tests;
