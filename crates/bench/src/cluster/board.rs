//! What was sent and what came back, message by message, shared by the threads of a run.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
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
    latency_us: Mutex<Histogram<u64>>,
    /// Messages that were due before this instant do not count for `heard_ns`.
    mark_ns: AtomicU64,
    /// When the first message of each publisher came that was due after the mark; 0: none yet.
    heard_ns: Vec<AtomicU64>,
}

/// How a run came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    /// Messages that the publishers took.
    pub sent: u64,
    /// Messages that never came.
    pub lost: u64,
    /// Messages that came again.
    pub duplicated: u64,
}

impl Board {
    /// For so many publishers and at most so many messages.
    pub fn new(publishers: usize, messages: usize) -> Board {
        let counts = messages.min(MESSAGES_MAX);
        Board {
            is_silent: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            counts: (0..counts).map(|_| AtomicU8::new(0)).collect(),
            latency_us: Mutex::new(new_histogram()),
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

    /// Notes a latency.
    pub fn latency(&self, us: u64) {
        self.latency_us
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .saturating_record(us);
    }

    /// Latencies since the last call, in microseconds.
    pub fn take_latency(&self) -> Histogram<u64> {
        let mut histogram = self
            .latency_us
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *histogram, new_histogram())
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

fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 120_000_000, 3).expect("constant bounds are valid")
}
