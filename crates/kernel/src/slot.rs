//! The slot of one task: its events, and who owns it.
//!
//! One word holds the number of events and the generation of the task, so that one instruction says
//! both whether the task still exists and whether its queue was empty. Whoever counts up from zero,
//! or counts down and not to zero, owns the task: may write to its account, and must put it where
//! it is served (Tempo, figure 3). In a vacant slot, and in that of a task that is leaving, the
//! generation is even and the number never zero: nobody finds it, and nobody comes to own it by an
//! event.

use std::time::Duration;

use clock::Instant;

use crate::account::{Account, TaskStats};
use crate::fifo::NodeIndex;
use crate::sync::{AtomicU32, AtomicU64, Ordering, Tally};

/// The most attempts of a reader to find a task's counters between two changes.
const READS_MAX: usize = 100;

#[derive(Debug)]
pub(crate) struct Slot {
    word: AtomicU64,
    /// The node with which the task is put into a queue. It belongs to the owner.
    node: AtomicU32,
    pub(crate) account: Account,
    /// Departures × time − arrivals × time, in event nanoseconds, wrapping: with the present events' part added it is the
    /// time that all events have spent here.
    area_ns: Tally,
    full: Tally,
}

/// What arriving events found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// There is no such task; the events are not counted.
    Nobody,
    /// The queue had events before them.
    Busy,
    /// The queue was empty: the caller owns the task and has to make it schedulable.
    Idle,
}

/// What departing events left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// The queue is empty: nobody owns the task.
    Empty,
    /// Events are left: whoever served the task still owns it.
    Busy,
    /// The task has been removed meanwhile: whoever served it owns what is left of it.
    Leaving,
}

/// The generation of a task and its number of events, in one machine word.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Word {
    generation: u32,
    events: u32,
}

impl Slot {
    pub(crate) fn vacant(node: NodeIndex) -> Slot {
        let word = Word {
            generation: 0,
            events: 1,
        };
        Slot {
            word: AtomicU64::new(word.to_bits()),
            node: AtomicU32::new(node),
            account: Account::default(),
            area_ns: Tally::default(),
            full: Tally::default(),
        }
    }

    /// Gives the slot, whose account is in order, to a new task; returns its generation.
    pub(crate) fn open(&self) -> u32 {
        self.area_ns.set(0);
        self.full.set(0);
        let word = Word {
            generation: self.read().generation.wrapping_add(1),
            events: 0,
        };
        self.word.store(word.to_bits(), Ordering::Release);
        word.generation
    }

    /// Marks the task as leaving. Says whether the caller owns it now; otherwise its owner will notice.
    pub(crate) fn close(&self) -> bool {
        let leave = |bits| {
            let word = Word::from_bits(bits);
            let left = Word {
                generation: word.generation.wrapping_add(1),
                events: word.events.saturating_add(1),
            };
            Some(left.to_bits())
        };
        let before = self
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, leave);
        before.is_ok_and(|bits| Word::from_bits(bits).events == 0)
    }

    /// Whether `generation` is that of the task here.
    pub(crate) fn is_of(&self, generation: u32) -> bool {
        self.read().generation == generation
    }

    /// The task's generation and number of events; `None` while it is leaving. Only the owner may ask.
    pub(crate) fn occupant(&self) -> Option<(u32, usize)> {
        let word = self.read();
        word.is_live()
            .then_some((word.generation, word.events as usize))
    }

    /// Counts `events` that arrived for the task of `generation`; 4,294,967,295 at once are the most.
    pub(crate) fn arrive(&self, generation: u32, events: usize, now: Instant) -> Arrival {
        let events = u32::try_from(events).unwrap_or(u32::MAX);
        let mut bits = self.word.load(Ordering::Relaxed);
        let before = loop {
            let word = Word::from_bits(bits);
            if word.generation != generation {
                return Arrival::Nobody;
            }
            let more = Word {
                events: word.events.saturating_add(events),
                ..word
            };
            let swapped = self.word.compare_exchange_weak(
                bits,
                more.to_bits(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            match swapped {
                Ok(_) => break word.events,
                Err(other) => bits = other,
            }
        };
        let area_ns = u64::from(events).wrapping_mul(now.as_nanos());
        self.area_ns.add_shared(area_ns.wrapping_neg());
        if before > 0 {
            Arrival::Busy
        } else {
            Arrival::Idle
        }
    }

    /// How many of `events` that were served are still counted. For the owner, before it lets them [depart](Slot::depart).
    pub(crate) fn present(&self, generation: u32, events: usize) -> usize {
        let word = self.read();
        // Of a task that is leaving one is no event.
        let counted = word.events - u32::from(word.generation != generation);
        events.min(counted as usize)
    }

    /// Takes `events` that are [present](Slot::present) off the count. For the owner, who has put everything in order before,
    /// its `node` too: it may be with somebody else already when this returns.
    pub(crate) fn depart(
        &self,
        generation: u32,
        events: usize,
        node: NodeIndex,
        now: Instant,
    ) -> Departure {
        self.node.store(node, Ordering::Relaxed);
        self.area_ns
            .add_shared((events as u64).wrapping_mul(now.as_nanos()));
        let bits = self.word.fetch_sub(events as u64, Ordering::AcqRel);
        let before = Word::from_bits(bits);
        if before.generation != generation {
            Departure::Leaving
        } else if before.events as usize == events {
            Departure::Empty
        } else {
            Departure::Busy
        }
    }

    /// The node with which the task is put into a queue. Only the owner may ask.
    pub(crate) fn node(&self) -> NodeIndex {
        self.node.load(Ordering::Relaxed)
    }

    /// Leaves a node to the next task of this slot. Only the owner may do so.
    pub(crate) fn keep_node(&self, node: NodeIndex) {
        self.node.store(node, Ordering::Relaxed);
    }

    pub(crate) fn note_full(&self) {
        self.full.add_shared(1);
    }

    pub(crate) fn stats(&self, now: Instant) -> TaskStats {
        let (queued_events, sojourn) = self.sojourn(now);
        TaskStats {
            queued_events,
            sojourn,
            full: self.full.get(),
            ..self.account.stats()
        }
    }

    /// Events present, and the time that all events have spent here up to `now`.
    fn sojourn(&self, now: Instant) -> (usize, Duration) {
        let read = || (self.read().events, self.area_ns.get());
        let mut seen = read();
        for _ in 0..READS_MAX {
            // A writer changes one after the other; two readings alike were hardly taken in between.
            let again = read();
            if again == seen {
                break;
            }
            seen = again;
        }
        let (events, area_ns) = seen;
        let present = u64::from(events).wrapping_mul(now.as_nanos());
        let area_ns = area_ns.wrapping_add(present).cast_signed().max(0);
        (
            events as usize,
            Duration::from_nanos(area_ns.unsigned_abs()),
        )
    }

    fn read(&self) -> Word {
        Word::from_bits(self.word.load(Ordering::Acquire))
    }
}

impl Word {
    fn is_live(self) -> bool {
        self.generation % 2 == 1
    }

    fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.events)
    }

    fn from_bits(bits: u64) -> Word {
        Word {
            generation: (bits >> 32) as u32,
            events: bits as u32,
        }
    }
}
