//! Sent and received messages, one by one, shared by the threads of a run.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hdrhistogram::Histogram;

use crate::stamp::Stamp;

/// Messages of one run at most.
pub const MESSAGES_MAX: usize = 64 << 20;

/// The ledger of a run.
#[derive(Debug)]
pub struct Board {
    /// Set once: the sender has stopped.
    pub is_silent: AtomicBool,
    /// Set once: the receiver is to stop.
    pub is_over: AtomicBool,
    sent: AtomicU64,
    received: AtomicU64,
    /// How often each message came, by sequence number.
    counts: Vec<AtomicU8>,
    /// How late each message was given to its publisher's connection, by sequence number.
    late_us: Vec<AtomicU32>,
    latency: Mutex<Latency>,
    /// Messages that were due before this instant do not count for `heard_ns`.
    mark_ns: AtomicU64,
    /// When the first message of each publisher came that was due after the mark; 0: none yet.
    heard_ns: Vec<AtomicU64>,
}

/// Where the time between a message's schedule and its subscriber went, in microseconds. The parts add up to the whole for each
/// message; their percentiles need not.
#[derive(Clone, Debug)]
pub struct Latency {
    /// From the instant that the schedule says to the subscribing program.
    pub whole: Histogram<u64>,
    /// Due, and not yet given to the publisher's connection: the generator's own lateness.
    pub late: Histogram<u64>,
    /// From there to the subscriber's kernel: what a service can promise, and what brokers report as `end_to_end`.
    /// Where several segments were read at once, up to the newest of them.
    pub service: Histogram<u64>,
    /// In the subscriber's kernel, and not yet read by its program.
    pub unread: Histogram<u64>,
}

impl Latency {
    fn new() -> Latency {
        let histogram =
            || Histogram::new_with_bounds(1, 120_000_000, 3).expect("constant bounds are valid");
        Latency {
            whole: histogram(),
            late: histogram(),
            service: histogram(),
            unread: histogram(),
        }
    }
}

/// How a run came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    /// Messages that the publishers took.
    pub sent: u64,
    /// Messages that never came.
    pub lost: u64,
    /// Messages that came again.
    pub duplicated: u64,
}

impl Board {
    /// For this many publishers and at most this many messages.
    pub fn new(publishers: usize, messages: usize) -> Board {
        let counts = messages.min(MESSAGES_MAX);
        Board {
            is_silent: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            counts: (0..counts).map(|_| AtomicU8::new(0)).collect(),
            late_us: (0..counts).map(|_| AtomicU32::new(0)).collect(),
            latency: Mutex::new(Latency::new()),
            mark_ns: AtomicU64::new(u64::MAX),
            heard_ns: (0..publishers).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Numbers for a batch of messages; `None` when the run has used them up.
    pub fn number(&self, messages: u64) -> Option<u64> {
        let first = self.sent.load(Ordering::Relaxed);
        if first + messages > self.counts.len() as u64 {
            return None;
        }
        self.sent.store(first + messages, Ordering::Relaxed);
        Some(first)
    }

    /// Notes a message that came.
    pub fn receive(&self, stamp: &Stamp, received_ns: u64) {
        self.received.fetch_add(1, Ordering::Relaxed);
        if let Some(count) = self.counts.get(stamp.sequence as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(heard) = self.heard_ns.get(stamp.publisher as usize)
            && stamp.scheduled_ns >= self.mark_ns.load(Ordering::Relaxed)
            && heard.load(Ordering::Relaxed) == 0
        {
            heard.store(received_ns, Ordering::Relaxed);
        }
    }

    /// From now on it is noted when each publisher is heard of first.
    pub fn mark(&self, now_ns: u64) {
        self.mark_ns.store(u64::MAX, Ordering::Relaxed);
        for heard in &self.heard_ns {
            heard.store(0, Ordering::Relaxed);
        }
        self.mark_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Notes how late the messages `first..first + messages` are given to their publisher's connection.
    pub fn send(&self, first: u64, messages: u64, scheduled_ns: u64, now_ns: u64) {
        let late_us = now_ns.saturating_sub(scheduled_ns) / 1000;
        let late_us = u32::try_from(late_us).unwrap_or(u32::MAX);
        for late in self
            .late_us
            .iter()
            .skip(first as usize)
            .take(messages as usize)
        {
            late.store(late_us, Ordering::Relaxed);
        }
    }

    /// Notes the latency of a message that the subscriber's kernel had at `arrived_ns` and its program at `read_ns`.
    pub fn latency(&self, stamp: &Stamp, arrived_ns: u64, read_ns: u64) {
        let late_us = self.late_us.get(stamp.sequence as usize);
        let late_us = late_us.map_or(0, |late| u64::from(late.load(Ordering::Relaxed)));
        let arrived_us = arrived_ns.saturating_sub(stamp.scheduled_ns) / 1000;
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        let whole_us = read_ns.saturating_sub(stamp.scheduled_ns) / 1000;
        latency.whole.saturating_record(whole_us);
        latency.late.saturating_record(late_us);
        let service_us = arrived_us.saturating_sub(late_us);
        latency.service.saturating_record(service_us);
        let unread_us = read_ns.saturating_sub(arrived_ns) / 1000;
        latency.unread.saturating_record(unread_us);
    }

    /// Latencies since the last call.
    pub fn take_latency(&self) -> Latency {
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *latency, Latency::new())
    }

    /// When the first message of this publisher came that was due after the mark.
    pub fn heard_ns(&self, publisher: u32) -> Option<u64> {
        let heard_ns = self.heard_ns[publisher as usize].load(Ordering::Relaxed);
        (heard_ns > 0).then_some(heard_ns)
    }

    /// Messages sent and received so far.
    pub fn traffic(&self) -> (u64, u64) {
        (
            self.sent.load(Ordering::Relaxed),
            self.received.load(Ordering::Relaxed),
        )
    }

    /// Counts the messages whose number was given out.
    pub fn tally(&self) -> Tally {
        let sent = self.sent.load(Ordering::Relaxed);
        let mut tally = Tally {
            sent,
            lost: 0,
            duplicated: 0,
        };
        for count in &self.counts[..sent as usize] {
            match count.load(Ordering::Relaxed) {
                0 => tally.lost += 1,
                times => tally.duplicated += u64::from(times - 1),
            }
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_latency_add_up_to_the_whole() {
        let board = Board::new(1, 3);
        let stamp = |sequence| Stamp {
            run: 0,
            publisher: 0,
            sequence,
            scheduled_ns: 1_000_000,
        };
        board.send(0, 2, 1_000_000, 1_300_000);
        board.latency(&stamp(1), 3_000_000, 3_250_000);
        let latency = board.take_latency();
        let only = |histogram: &Histogram<u64>| (histogram.len(), histogram.max());
        assert_eq!(only(&latency.late), (1, 300));
        // Three significant digits.
        assert_eq!(only(&latency.service), (1, 1700));
        assert_eq!(only(&latency.unread), (1, 250));
        assert_eq!(only(&latency.whole), (1, 2250 + 1));
        assert!(board.take_latency().whole.is_empty());
        // A number that was never given out, and a clock that was set back between two looks.
        board.latency(&stamp(9), 500_000, 400_000);
        assert_eq!(only(&board.take_latency().whole), (1, 0));
    }
}
