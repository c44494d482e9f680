//! A secret that endpoints share, and the tags that prove it.
//!
//! A tag is the first 16 bytes of BLAKE3 keyed with the secret, over everything before it. It proves that the sender
//! knows the secret and that nothing was changed on the way. It hides nothing, and it does not prove that the bytes are
//! new: whoever recorded them can send them again.

use std::fmt;

use crate::tag::{are_equal, tag_of};

/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;

/// A shared secret. Its `Debug` does not show it.
#[derive(Clone)]
pub struct Key([u8; blake3::KEY_LEN]);

impl Key {
    /// The key of a passphrase: any text; the tags are as hard to forge as the text is to guess.
    #[must_use]
    pub fn from_text(text: &str) -> Key {
        // Names the purpose, so that one passphrase in two programs gives two keys. It may never change.
        Key(blake3::derive_key(
            "srtm tempo announcements and hellos, version 1",
            text.as_bytes(),
        ))
    }

    pub(crate) fn tag(&self, bytes: &[u8]) -> [u8; TAG_BYTES] {
        tag_of(&blake3::keyed_hash(&self.0, bytes))
    }

    /// Whether `signed` ends in the tag of what is before it; says what that is. Takes equally long wherever a wrong tag
    /// differs.
    pub(crate) fn verified<'a>(&self, signed: &'a [u8]) -> Option<&'a [u8]> {
        let (bytes, tag) = signed.split_last_chunk::<TAG_BYTES>()?;
        are_equal(*tag, self.tag(bytes)).then_some(bytes)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}
