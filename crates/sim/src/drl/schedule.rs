//! The queue of events: in order of time and, at equal times, of their creation.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use clock::Instant;
use gossip::Message;

use crate::tcp::{Ack, Segment};

/// What happens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A flow begins.
    Begin { flow: u32 },
    /// A flow ends, whatever it has sent.
    Stop { flow: u32 },
    /// A packet leaves the bottleneck of its flow.
    AtLink { flow: u32, segment: Segment },
    /// A packet comes to its limiter.
    AtLimiter { flow: u32, segment: Segment },
    /// A packet comes to its receiver.
    AtReceiver { flow: u32, segment: Segment },
    /// An acknowledgement comes back.
    AtSender { flow: u32, ack: Ack },
    /// A sender's deadline.
    SenderDue { flow: u32 },
    /// A receiver's deadline.
    ReceiverDue { flow: u32 },
    /// A web transfer begins, and the next one is drawn.
    Web { sessions: u32 },
    /// The end of a limiter's estimate interval.
    Estimate { limiter: u32 },
    /// An update comes to a limiter.
    Update {
        from: u32,
        to: u32,
        message: Message,
    },
    /// Limiters cannot hear each other any more, or can again.
    Cut { cut: bool },
    /// The membership notices.
    Noticed { cut: bool },
}

#[derive(Debug)]
struct Entry {
    at: Instant,
    order: u64,
    event: Event,
}

#[derive(Debug, Default)]
pub(super) struct Schedule {
    entries: BinaryHeap<Reverse<Entry>>,
    order: u64,
}

impl Schedule {
    pub(super) fn add(&mut self, at: Instant, event: Event) {
        self.order += 1;
        let order = self.order;
        self.entries.push(Reverse(Entry { at, order, event }));
    }

    /// The next event, unless it is after `end`.
    pub(super) fn next_until(&mut self, end: Instant) -> Option<(Instant, Event)> {
        if self.entries.peek()?.0.at > end {
            return None;
        }
        let Reverse(entry) = self.entries.pop()?;
        Some((entry.at, entry.event))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}
