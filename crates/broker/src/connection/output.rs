//! Bytes on their way to one peer.
//!
//! Frames are appended one behind the other and leave in one system call per loop turn. Messages
//! leave marks, so that the time until the socket took them can be measured.

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;

use super::pace::Pace;
use super::subscriptions::SubscriptionNumber;

/// Bytes an output may hold before a consumer is treated as not ready, where there is memory. One more message always fits.
pub const OUTPUT_FULL_BYTES: usize = 256 * 1024;

/// Answers that fit beside a full output and its last message. So messages alone never keep a connection from being read
/// from: a consumer that is behind still finishes what it has.
const ANSWERS_BYTES: usize = 16 * 1024;

/// A drained output keeps at most this much memory; what is larger is for the next one that needs it.
const KEPT_BYTES: usize = 4 * 1024;

/// Marks at most; newer messages share the last one.
const MARKS_MAX: usize = 64;

/// Unsent bytes of one connection.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    sent: usize,
    /// The largest message since it was last empty.
    largest_bytes: usize,
    marks: VecDeque<Mark>,
    /// Its consumer was told that there is no room.
    pub is_refusing: bool,
    /// What of the memory budget it is charged with.
    pub charged: usize,
    /// How the peer gets on, while its socket takes nothing.
    pace: Option<Pace>,
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
    /// Of which of the connection's subscriptions.
    pub subscription: SubscriptionNumber,
}

impl Output {
    /// The buffer, to append whole frames to.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends a message of a subscription, header and body.
    #[inline]
    pub fn push_message(
        &mut self,
        header: &[u8],
        body: &[u8],
        subscription: SubscriptionNumber,
        now: Instant,
    ) {
        self.bytes.extend_from_slice(header);
        self.bytes.extend_from_slice(body);
        self.largest_bytes = self.largest_bytes.max(header.len() + body.len());
        let end = self.bytes.len();
        let is_full = self.marks.len() >= MARKS_MAX;
        match self.marks.back_mut() {
            Some(mark) if (mark.copied, mark.subscription) == (now, subscription) || is_full => {
                mark.end = end;
                mark.messages += 1;
            }
            _ => self.marks.push_back(Mark {
                end,
                copied: now,
                messages: 1,
                subscription,
            }),
        }
    }

    /// The bytes still to be sent.
    #[must_use]
    pub fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Whether a message more would be too much, where it is full at `full_bytes`.
    #[must_use]
    pub fn is_full(&self, full_bytes: usize) -> bool {
        self.bytes.len() - self.sent >= full_bytes
    }

    /// Memory that it holds for what is to be sent.
    #[must_use]
    pub fn memory(&self) -> usize {
        match self.unsent().is_empty() {
            true => 0,
            false => self.bytes.capacity(),
        }
    }

    /// Whether nothing more may be asked of the broker that is to be answered: it holds what makes a consumer not ready, a
    /// message and some answers, with `owed_bytes` that have not been put in yet.
    #[inline]
    #[must_use]
    pub fn is_over_full(&self, owed_bytes: usize, full_bytes: usize) -> bool {
        let waiting = self.bytes.len() - self.sent + owed_bytes;
        waiting >= full_bytes + self.largest_bytes + ANSWERS_BYTES
    }

    /// Notes that the socket takes nothing at `now`.
    pub fn note_refused(&mut self, now: Instant) {
        let waiting = self.bytes.len() - self.sent;
        match &mut self.pace {
            Some(pace) => pace.renew(now, waiting),
            pace => *pace = Some(Pace::new(now, waiting)),
        }
    }

    /// Whether at `at` the peer had hardly read anything for an interval.
    #[must_use]
    pub fn is_stalled(&self, at: Instant, interval: Duration) -> bool {
        self.pace.is_some_and(|pace| pace.is_lost(at, interval))
    }

    /// Notes that `count` bytes were sent; memory is used anew once all are.
    pub fn advance(&mut self, count: usize) {
        self.sent += count;
        if let Some(pace) = &mut self.pace {
            pace.advance(count);
        }
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
            (self.sent, self.largest_bytes, self.pace) = (0, 0, None);
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
        output.push_message(b"head", b"body", 0, first);
        output.push_message(b"head", b"body", 0, first);
        output.push_message(b"head", b"body", 0, second);
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
        assert!(output.unsent().is_empty() && !output.is_full(OUTPUT_FULL_BYTES));
    }

    #[test]
    fn messages_alone_make_it_full_and_never_over_full() {
        for bytes in [1, 1000, OUTPUT_FULL_BYTES - 9, 5 * 1024 * 1024] {
            let mut output = Output::default();
            while !output.is_full(OUTPUT_FULL_BYTES) {
                output.push_message(b"header", &vec![7; bytes], 0, Instant::ZERO);
            }
            assert!(!output.is_over_full(14, OUTPUT_FULL_BYTES), "{bytes}");
            let answers = (1..).find(|&answers| output.is_over_full(answers, OUTPUT_FULL_BYTES));
            let answers = answers.expect("answers are bounded");
            assert!(answers <= ANSWERS_BYTES + 6 + bytes, "{bytes}: {answers}");
        }
    }

    #[test]
    fn answers_alone_make_it_over_full() {
        let mut output = Output::default();
        while !output.is_over_full(10, OUTPUT_FULL_BYTES) {
            output.bytes().extend_from_slice(&[0; 10]);
        }
        assert!(output.unsent().len() <= OUTPUT_FULL_BYTES + ANSWERS_BYTES);
        output.advance(ANSWERS_BYTES);
        output.settle();
        assert!(!output.is_over_full(10, OUTPUT_FULL_BYTES));
    }

    #[test]
    fn a_peer_that_reads_a_byte_now_and_then_is_stalled() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let interval = Duration::from_secs(1);
        for (count, stalls) in [(0, true), (1, true), (1000, true), (10_000, false)] {
            let mut output = Output::default();
            output.bytes().resize(OUTPUT_FULL_BYTES, 0);
            output.note_refused(at(0));
            for ms in (200..=1000).step_by(200) {
                output.advance(count);
                output.settle();
                output.note_refused(at(ms));
                output.bytes().extend(std::iter::repeat_n(0, count));
            }
            assert_eq!(output.is_stalled(at(1000), interval), stalls, "{count}");
            output.advance(output.unsent().len());
            output.settle();
            assert!(
                !output.is_stalled(at(9000), interval),
                "{count}: it is empty"
            );
        }
    }
}
