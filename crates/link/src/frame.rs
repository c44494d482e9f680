//! Frames of a link whose ends have proved themselves: a tag, then the message.
//!
//! The tag is over the message and its place in its direction, under a key that only this link has:
//! a frame that was changed, left out, sent again or put elsewhere is refused, and the link ends
//! with it.

use crate::key::are_equal;
use crate::{LinkError, MAX_MESSAGE_BYTES};

/// Bytes that a frame is longer than its message.
pub const TAG_BYTES: usize = blake3::OUT_LEN;

/// Longest frame in bytes.
pub const MAX_FRAME_BYTES: usize = TAG_BYTES + MAX_MESSAGE_BYTES;

/// Seals what one end says.
pub struct Sealer(Direction);

/// Opens what the other end says.
pub struct Opener(Direction);

struct Direction {
    key: [u8; blake3::KEY_LEN],
    next: u64,
}

impl Sealer {
    pub(crate) fn new(key: [u8; blake3::KEY_LEN]) -> Sealer {
        Sealer(Direction { key, next: 0 })
    }

    /// The next frame, with `message` in it.
    #[must_use]
    pub fn seal(&mut self, message: &[u8]) -> Vec<u8> {
        let tag = self.0.tag(message);
        self.0.next += 1;
        [&tag, message].concat()
    }
}

impl Opener {
    pub(crate) fn new(key: [u8; blake3::KEY_LEN]) -> Opener {
        Opener(Direction { key, next: 0 })
    }

    /// The message of the next frame.
    ///
    /// # Errors
    /// [`LinkError::Forged`] where it is not the frame that the other end sealed next; the link is to be closed.
    pub fn open<'a>(&mut self, frame: &'a [u8]) -> Result<&'a [u8], LinkError> {
        let (tag, message) = frame.split_first_chunk().ok_or(LinkError::Forged)?;
        if !are_equal(&self.0.tag(message), tag) {
            return Err(LinkError::Forged);
        }
        self.0.next += 1;
        Ok(message)
    }
}

impl Direction {
    fn tag(&self, message: &[u8]) -> [u8; TAG_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&self.next.to_be_bytes()).update(message);
        *hasher.finalize().as_bytes()
    }
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sealer({})", self.0.next)
    }
}

impl std::fmt::Debug for Opener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Opener({})", self.0.next)
    }
}
