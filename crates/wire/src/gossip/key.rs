//! The secret that limiters share, and the tags of a path.

use core::net::{IpAddr, SocketAddr};
use std::fmt;

use crate::tag::{are_equal, tag_of};

/// A secret that all limiters of a limit know. Its `Debug` does not show it.
#[derive(Clone)]
pub struct Key([u8; blake3::KEY_LEN]);

/// A text that is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It has another length.
    #[error("a key of {0} hexadecimal digits: it must have 64, for 32 bytes")]
    Length(usize),
    /// It has other letters.
    #[error("letter {0} of the key is not a hexadecimal digit")]
    Digit(usize),
    /// Anybody could guess it.
    #[error("the passphrase is empty")]
    Empty,
}

/// One end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it receives, and what its datagrams come from.
    pub address: SocketAddr,
    /// Which of its lives this is: greater after every start. 0 where it is not known.
    pub incarnation: u64,
}

/// Tags datagrams of one sender's incarnation to one receiver's.
#[derive(Clone)]
pub struct Path([u8; blake3::KEY_LEN]);

impl Key {
    /// The key of a passphrase: any text, without spaces and line ends around it. The tags are as hard to forge as the text
    /// is to guess.
    ///
    /// # Errors
    /// [`KeyError::Empty`].
    pub fn from_passphrase(text: &str) -> Result<Key, KeyError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(KeyError::Empty);
        }
        // Names the purpose, so that one passphrase in two programs gives two keys. It may never change.
        Ok(Key(blake3::derive_key(
            "srtm gossip between limiters, version 1",
            text.as_bytes(),
        )))
    }

    /// The key of 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`KeyError`] for anything else.
    pub fn from_hex(text: &str) -> Result<Key, KeyError> {
        let mut key = [0; blake3::KEY_LEN];
        if let Some(at) = text.bytes().position(|byte| !byte.is_ascii_hexdigit()) {
            return Err(KeyError::Digit(at));
        }
        if text.len() != 2 * key.len() {
            return Err(KeyError::Length(text.len()));
        }
        for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digit = |at: usize| char::from(digits[at]).to_digit(16).unwrap_or(0) as u8;
            *byte = digit(0) << 4 | digit(1);
        }
        Ok(Key(key))
    }

    /// The key of those who go by this list: who has another one, or its addresses in another order, has another key.
    #[must_use]
    pub fn among(&self, list: &[SocketAddr]) -> Key {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(b"srtm gossip among a list, version 1");
        for &address in list {
            let mut bytes = [0; ENDPOINT_BYTES];
            let incarnation = 0;
            Endpoint {
                address,
                incarnation,
            }
            .put(&mut bytes);
            hasher.update(&bytes);
        }
        Key(*hasher.finalize().as_bytes())
    }

    /// The path between two endpoints. Addresses of IPv4 count as the IPv6 addresses that they are mapped to.
    pub fn path(&self, from: Endpoint, to: Endpoint) -> Path {
        let mut bytes = [0; 2 * ENDPOINT_BYTES];
        let (first, second) = bytes.split_at_mut(ENDPOINT_BYTES);
        from.put(first);
        to.put(second);
        Path(*blake3::keyed_hash(&self.0, &bytes).as_bytes())
    }
}

const ENDPOINT_BYTES: usize = 16 + 2 + 8;

impl Endpoint {
    fn put(&self, out: &mut [u8]) {
        let ip = match self.address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        out[..16].copy_from_slice(&ip.octets());
        out[16..18].copy_from_slice(&self.address.port().to_be_bytes());
        out[18..].copy_from_slice(&self.incarnation.to_be_bytes());
    }
}

impl Path {
    /// The first `N` bytes of the tag of these parts, one after the other.
    pub(super) fn tag<const N: usize>(&self, parts: &[&[u8]]) -> [u8; N] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for part in parts {
            hasher.update(part);
        }
        tag_of(&hasher.finalize())
    }

    /// Whether `tag` is that of these parts; takes equally long wherever a wrong one differs.
    pub(super) fn verifies<const N: usize>(&self, parts: &[&[u8]], tag: &[u8; N]) -> bool {
        are_equal(self.tag(parts), *tag)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Path(…)")
    }
}
