//! The secret that a controller and its brokers share.

use std::fmt;

/// Bytes of a key.
const KEY_BYTES: usize = blake3::KEY_LEN;

/// The secret of one cluster: who knows it is one of its brokers or its controller. `Debug` does not show it.
#[derive(Clone)]
pub struct LinkKey([u8; KEY_BYTES]);

/// A text that is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key of the link is 64 hexadecimal digits, such as `openssl rand -hex 32` prints")]
pub struct InvalidKey;

impl LinkKey {
    /// A key of random bytes.
    #[must_use]
    pub fn new(bytes: [u8; KEY_BYTES]) -> LinkKey {
        LinkKey(bytes)
    }

    /// The key of 64 hexadecimal digits, with blanks and line ends around them.
    ///
    /// # Errors
    /// [`InvalidKey`] for anything else: what is easier to remember is easier to guess.
    pub fn from_hex(text: &str) -> Result<LinkKey, InvalidKey> {
        digits(text.trim()).map(LinkKey).ok_or(InvalidKey)
    }

    /// The 64 digits that [`LinkKey::from_hex`] reads: the secret itself.
    #[must_use]
    pub fn to_hex(&self) -> String {
        hex(&self.0)
    }

    /// A key of its own for one purpose, over what both ends have said.
    pub(crate) fn derived(&self, purpose: &str, said: &[&[u8]]) -> [u8; KEY_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&blake3::derive_key(purpose, &self.0));
        for part in said {
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }
}

impl fmt::Debug for LinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkKey(…)")
    }
}

impl PartialEq for LinkKey {
    fn eq(&self, other: &LinkKey) -> bool {
        are_equal(&self.0, &other.0)
    }
}

/// Whether two secrets or tags are equal; takes equally long wherever they differ.
pub(crate) fn are_equal(one: &[u8; KEY_BYTES], other: &[u8; KEY_BYTES]) -> bool {
    blake3::Hash::from_bytes(*one) == blake3::Hash::from_bytes(*other)
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of exactly this many hexadecimal digits.
pub(crate) fn digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_64_digits_and_are_not_shown() {
        let text = "00ff".repeat(16);
        let key = LinkKey::from_hex(&format!(" {text}\n")).expect("a key");
        assert_eq!(key.to_hex(), text);
        assert_eq!(key, LinkKey::from_hex(&text.to_uppercase()).expect("a key"));
        assert!(key != LinkKey::new([0; 32]));
        assert_eq!(format!("{key:?}"), "LinkKey(…)");
        for bad in [
            "",
            "secret",
            &text[1..],
            &format!("{text}0"),
            &"é".repeat(32),
        ] {
            assert_eq!(LinkKey::from_hex(bad), Err(InvalidKey), "{bad}");
        }
    }
}
