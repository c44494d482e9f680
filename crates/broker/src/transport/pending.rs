//! Bytes that wait between two layers.

/// A buffer that is taken from at its front, and gives its memory back when it is empty.
#[derive(Debug, Default)]
pub(super) struct Pending {
    bytes: Vec<u8>,
    used: usize,
}

/// An empty buffer keeps so much at most.
const KEPT_BYTES: usize = 1024;

impl Pending {
    /// What waits.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.used == self.bytes.len()
    }

    /// The buffer, to append to.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Takes `count` bytes away from the front.
    pub(super) fn consume(&mut self, count: usize) {
        self.used += count;
        debug_assert!(self.used <= self.bytes.len(), "more than there was");
        if self.is_empty() {
            self.used = 0;
            match self.bytes.capacity() > KEPT_BYTES {
                true => self.bytes = Vec::new(),
                false => self.bytes.clear(),
            }
        }
    }

    /// Takes all.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.drain(..std::mem::take(&mut self.used));
        bytes
    }

    /// Its memory.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}
