//! Names of topics and channels.
//!
//! The rule is nsqd's: 1 to 64 bytes of `.`, `-`, `_`, ASCII letters and digits, and optionally the
//! ending `#ephemeral` (counted in the 64, and not the whole name). [`is_valid_name`] answers it
//! without allocating, for commands; [`TopicName`] and [`ChannelName`] hold a name that passed.
//! They do not say whether such a topic or channel exists.

use crate::WireError;
use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Longest name, `#ephemeral` included.
pub const MAX_NAME_BYTES: usize = 64;

const EPHEMERAL_SUFFIX: &str = "#ephemeral";

/// Whether `name` is a valid name of a topic or of a channel; the rule is the same for both.
#[inline]
pub fn is_valid_name(name: &[u8]) -> bool {
    if name.len() > MAX_NAME_BYTES {
        return false;
    }
    let stem = name
        .strip_suffix(EPHEMERAL_SUFFIX.as_bytes())
        .unwrap_or(name);
    !stem.is_empty() && stem.iter().all(|&byte| IS_NAME_BYTE[usize::from(byte)])
}

static IS_NAME_BYTE: [bool; 256] = name_bytes();

const fn name_bytes() -> [bool; 256] {
    let mut allowed = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let ascii = byte as u8;
        allowed[byte] = ascii.is_ascii_alphanumeric() || matches!(ascii, b'.' | b'_' | b'-');
        byte += 1;
    }
    allowed
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $invalid:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            #[inline]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Whether the name ends in `#ephemeral`: what it names vanishes with its last user.
            pub fn is_ephemeral(&self) -> bool {
                self.0.ends_with(EPHEMERAL_SUFFIX)
            }
        }

        impl FromStr for $name {
            type Err = WireError;

            fn from_str(name: &str) -> Result<$name, WireError> {
                if is_valid_name(name.as_bytes()) { Ok($name(name.into())) } else { Err(WireError::$invalid) }
            }
        }

        impl TryFrom<&str> for $name {
            type Error = WireError;

            fn try_from(name: &str) -> Result<$name, WireError> {
                name.parse()
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    };
}

name_type! {
    /// A valid topic name. Cloning counts a reference; maps keyed by it can be asked with a `&str`.
    TopicName, InvalidTopicName
}

name_type! {
    /// A valid channel name. Cloning counts a reference; maps keyed by it can be asked with a `&str`.
    ChannelName, InvalidChannelName
}

#[cfg(test)]
mod tests {
    use super::{ChannelName, TopicName, is_valid_name};
    use crate::WireError;
    use std::collections::HashMap;

    #[test]
    fn follows_nsqd() {
        let longest = "a".repeat(64);
        let longest_ephemeral = format!("{}#ephemeral", "a".repeat(54));
        for name in [
            "a",
            ".",
            "..",
            "-",
            "_",
            "A.b-C_9",
            "test#ephemeral",
            &longest,
            &longest_ephemeral,
        ] {
            assert!(is_valid_name(name.as_bytes()), "{name}");
        }
        let too_long = "a".repeat(65);
        let too_long_ephemeral = format!("{}#ephemeral", "a".repeat(55));
        for name in [
            "",
            " ",
            "a b",
            "a\n",
            "#ephemeral",
            "a#ephemera",
            "a#ephemeral#ephemeral",
            "a#",
            "a#Ephemeral",
            "a/b",
            "a,b",
            "é",
            "a\0",
            "test:ephemeral",
            &too_long,
            &too_long_ephemeral,
        ] {
            assert!(!is_valid_name(name.as_bytes()), "{name:?}");
        }
        assert!(!is_valid_name(b"\xff"));
    }

    #[test]
    fn names_are_keys_that_text_can_ask_for() {
        let topic: TopicName = "temperature".parse().expect("valid");
        let counts = HashMap::from([(topic.clone(), 1)]);
        assert_eq!(counts.get("temperature"), Some(&1));
        assert!(!topic.is_ephemeral());
        assert!(
            "tail#ephemeral"
                .parse::<ChannelName>()
                .expect("valid")
                .is_ephemeral()
        );
        assert_eq!(
            "a b".parse::<ChannelName>(),
            Err(WireError::InvalidChannelName)
        );
        assert_eq!(TopicName::try_from(""), Err(WireError::InvalidTopicName));
    }
}
