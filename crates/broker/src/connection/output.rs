//! Bytes on their way to one peer.
//!
//! Frames are copied behind each other and leave in one system call per loop turn. Messages leave
//! marks, so that the time until the socket took them can be measured.

use std::collections::VecDeque;

use clock::Instant;

/// Bytes a consumer's output may hold before it is treated as not ready. One more message always
/// fits, so the bound is this plus one largest message.
pub const OUTPUT_FULL_BYTES: usize = 256 * 1024;

/// A drained output keeps at most this much memory; what is larger is for the next one that needs it.
const KEPT_BYTES: usize = 4 * 1024;

/// Marks at most; newer messages share the last one.
const MARKS_MAX: usize = 64;

/// Unsent bytes of one connection.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    sent: usize,
    marks: VecDeque<Mark>,
    /// Since when bytes wait that the client allowed to wait (`output_buffer_timeout`).
    pub waiting_since: Option<Instant>,
}

/// Messages copied at one instant, complete when `end` bytes of the buffer have been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    end: usize,
    /// When they were copied.
    pub copied: Instant,
    /// How many.
    pub messages: u32,
}

impl Output {
    /// The buffer, to append whole frames to.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends a message, header and body.
    #[inline]
    pub fn push_message(&mut self, header: &[u8], body: &[u8], now: Instant) {
        self.bytes.extend_from_slice(header);
        self.bytes.extend_from_slice(body);
        let end = self.bytes.len();
        let is_full = self.marks.len() >= MARKS_MAX;
        match self.marks.back_mut() {
            Some(mark) if mark.copied == now || is_full => {
                mark.end = end;
                mark.messages += 1;
            }
            _ => self.marks.push_back(Mark {
                end,
                copied: now,
                messages: 1,
            }),
        }
    }

    /// What is still to be sent.
    #[must_use]
    pub fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Whether a message more would be too much.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes.len() - self.sent >= OUTPUT_FULL_BYTES
    }

    /// Notes that `count` bytes were sent; memory is used anew once all are.
    pub fn advance(&mut self, count: usize) {
        self.sent += count;
        assert!(self.sent <= self.bytes.len(), "more sent than there was");
    }

    /// The next group of messages that have been sent whole.
    pub fn pop_sent(&mut self) -> Option<Mark> {
        if self.marks.front()?.end <= self.sent {
            self.marks.pop_front()
        } else {
            None
        }
    }

    /// Whether it could use a buffer of somebody else's.
    #[must_use]
    pub fn wants_buffer(&self) -> bool {
        self.bytes.capacity() == 0
    }

    /// Lends it an empty buffer.
    pub fn lend(&mut self, buffer: Vec<u8>) {
        self.bytes = buffer;
    }

    /// Gives away a large buffer that is empty.
    pub fn take_spare(&mut self) -> Option<Vec<u8>> {
        let is_spare = self.bytes.is_empty() && self.bytes.capacity() > KEPT_BYTES;
        is_spare.then(|| std::mem::take(&mut self.bytes))
    }

    /// Makes room anew after a flush. Marks must have been popped before.
    pub fn settle(&mut self) {
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent > OUTPUT_FULL_BYTES / 2 {
            self.bytes.drain(..self.sent);
            for mark in &mut self.marks {
                mark.end -= self.sent;
            }
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_up_when_their_last_byte_is_sent() {
        let mut output = Output::default();
        let (first, second) = (Instant::from_nanos(1), Instant::from_nanos(2));
        output.push_message(b"head", b"body", first);
        output.push_message(b"head", b"body", first);
        output.push_message(b"head", b"body", second);
        output.advance(15);
        assert_eq!(output.pop_sent(), None);
        output.advance(1);
        assert_eq!(
            output.pop_sent().map(|mark| (mark.copied, mark.messages)),
            Some((first, 2))
        );
        assert_eq!(
            (output.pop_sent(), output.unsent()),
            (None, &b"headbody"[..])
        );
        output.advance(8);
        assert_eq!(
            output.pop_sent().map(|mark| (mark.copied, mark.messages)),
            Some((second, 1))
        );
        output.settle();
        assert!(output.unsent().is_empty() && !output.is_full());
    }
}
