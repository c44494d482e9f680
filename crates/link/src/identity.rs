//! The identity of the broker that has a name.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::key::{digits, hex};

/// Bytes of an identity.
pub(crate) const IDENTITY_BYTES: usize = 16;

/// Random bytes that a broker draws once and keeps in its data folder; without one it is another broker at every start. A
/// name belongs to who came with it first, until that one is dead for certain. No secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(pub [u8; IDENTITY_BYTES]);

impl Identity {
    /// The identity of 32 hexadecimal digits; `None` for anything else.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Identity> {
        digits(text.trim()).map(Identity)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl Serialize for Identity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Identity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Identity::from_hex(&text)
            .ok_or_else(|| D::Error::custom("an identity is 32 hexadecimal digits"))
    }
}
