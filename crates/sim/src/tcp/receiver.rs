//! The receiver: which segments it has, and when to acknowledge them.
//!
//! Every second segment is answered, or the first one after 40 ms. Answered at once are segments
//! that are out of order, fill a gap or were there before, and the first segments of a transfer and
//! after a long pause, when the sender may be at its smallest window.

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;

use super::{Ack, Content, Segment};

/// How long one segment waits for a second.
const DELAYED_ACK: Duration = Duration::from_millis(40);

/// Acknowledgements in a row that are not delayed.
const QUICK_ACKS: u32 = 16;

/// A pause after which acknowledgements are quick again: a sender's shortest timeout at usual round trips.
const LONG_PAUSE: Duration = Duration::from_millis(240);

/// The receiving end of one transfer.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// All below is there.
    next: u32,
    /// Whether segments `next + 1`, `next + 2`, … are there.
    beyond: VecDeque<bool>,
    /// Segments in order that were not answered.
    unanswered: u32,
    quick: u32,
    last_answered: u32,
    last_arrival: Instant,
    echo: Instant,
    answer_at: Instant,
    received_bytes: u64,
}

impl Default for Receiver {
    fn default() -> Self {
        Receiver {
            next: 0,
            beyond: VecDeque::new(),
            unanswered: 0,
            quick: QUICK_ACKS,
            last_answered: 0,
            last_arrival: Instant::ZERO,
            echo: Instant::ZERO,
            answer_at: Instant::MAX,
            received_bytes: 0,
        }
    }
}

impl Receiver {
    /// Takes a segment; the answer, if it does not wait.
    pub fn receive(&mut self, now: Instant, segment: Segment) -> Option<Ack> {
        let Content::Data { number, bytes } = segment.content else {
            self.echo = segment.sent_at;
            return Some(self.answer(None, false));
        };
        if now - self.last_arrival > LONG_PAUSE {
            self.quick = QUICK_ACKS;
        }
        self.last_arrival = now;
        if number <= self.last_answered {
            self.echo = segment.sent_at;
        }
        if self.holds(number) {
            self.quick = QUICK_ACKS;
            return Some(self.answer(None, true));
        }
        self.received_bytes += u64::from(bytes);
        if number > self.next {
            self.keep(number);
            return Some(self.answer(Some(number), false));
        }
        let filled_gap = !self.beyond.is_empty();
        self.advance();
        self.unanswered += 1;
        if filled_gap || self.unanswered >= 2 || self.quick > 0 {
            return Some(self.answer(None, false));
        }
        self.answer_at = now + DELAYED_ACK;
        None
    }

    /// The answer that waited, if it has waited long enough.
    pub fn expire(&mut self, now: Instant) -> Option<Ack> {
        (now >= self.answer_at).then(|| self.answer(None, false))
    }

    /// When to call [`Receiver::expire`]; [`Instant::MAX`] for never.
    pub fn deadline(&self) -> Instant {
        self.answer_at
    }

    /// Payload that is there, bytes; each once.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    fn holds(&self, number: u32) -> bool {
        let beyond = number.checked_sub(self.next + 1);
        number < self.next
            || beyond.is_some_and(|at| self.beyond.get(at as usize).copied().unwrap_or(false))
    }

    fn keep(&mut self, number: u32) {
        let at = (number - self.next - 1) as usize;
        if self.beyond.len() <= at {
            self.beyond.resize(at + 1, false);
        }
        self.beyond[at] = true;
    }

    fn advance(&mut self) {
        self.next += 1;
        // Ends with the place of the segment that is now the next one.
        while self.beyond.pop_front() == Some(true) {
            self.next += 1;
        }
    }

    fn answer(&mut self, sacked: Option<u32>, duplicate: bool) -> Ack {
        self.unanswered = 0;
        self.quick = self.quick.saturating_sub(1);
        self.answer_at = Instant::MAX;
        self.last_answered = self.next;
        Ack {
            cumulative: self.next,
            sacked,
            duplicate,
            echo: self.echo,
        }
    }
}
