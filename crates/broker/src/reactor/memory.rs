//! Memory of a reactor: what its messages and connections hold, who waits for room, and what is
//! given back to the system.

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;
use topics::{Account, MemoryBudget, Part, TopicTable};

use super::shared::Shared;
use crate::connection::{ConnectionKey, OUTPUT_FULL_BYTES};
use crate::sys;

/// While somebody waits for memory, a reactor checks at this interval whether others have freed
/// some.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// What was not needed for about this long is given back.
const TRIM_INTERVAL: Duration = Duration::from_secs(1);

/// A trim is not done in one go; its pieces are so far apart.
const PIECE_INTERVAL: Duration = Duration::from_millis(1);

/// The allocator gives pages back to the system when this many bytes have been freed.
const FREED_BYTES: u64 = 32 * 1024 * 1024;

/// The cost grows with the heap, so a reactor asks for it at most this often.
const TRIM_HEAP_INTERVAL: Duration = Duration::from_secs(5);

/// An output is full when it holds this part of what is free; the more there are, the earlier.
const OUTPUT_PARTS: u64 = 16;

/// So much is never too much for one.
const OUTPUT_LEAST_BYTES: usize = 16 * 1024;

/// The books of a reactor.
#[derive(Debug)]
pub(super) struct Memory {
    /// Large commands that are not complete, or wait.
    pub(super) input: Account,
    /// Small ones, and beginnings.
    pub(super) pieces: Account,
    /// Bytes on their way to peers.
    pub(super) output: Account,
    /// What an output is full with.
    pub(super) output_full_bytes: usize,
    /// When to look again.
    pub(super) look_at: Option<Instant>,
    trim_at: Instant,
    trim_heap_at: Instant,
    /// Connections whose commands wait for memory.
    pub(super) waiting: VecDeque<ConnectionKey>,
}

impl Memory {
    /// Nothing is held yet.
    pub(super) fn new(budget: &MemoryBudget) -> Memory {
        Memory {
            input: Account::new(budget, Part::Input),
            pieces: Account::new(budget, Part::Pieces),
            output: Account::new(budget, Part::Output),
            output_full_bytes: OUTPUT_FULL_BYTES,
            look_at: None,
            trim_at: Instant::ZERO,
            trim_heap_at: Instant::ZERO,
            waiting: VecDeque::new(),
        }
    }
}

impl Memory {
    /// Gives back what is not needed, a piece at a time, if it is time.
    pub(super) fn trim(&mut self, table: &mut TopicTable, shared: &Shared, now: Instant) {
        if now < self.trim_at {
            return;
        }
        let pause = match table.trim() {
            true => PIECE_INTERVAL,
            false => TRIM_INTERVAL,
        };
        self.trim_at = now + pause;
        if now >= self.trim_heap_at && shared.memory.has_freed(FREED_BYTES) {
            self.trim_heap_at = now + TRIM_HEAP_INTERVAL;
            // Locked memory stays.
            if shared.config.realtime.is_none() {
                trim_heap();
            }
        }
    }

    /// Tells the others what is held here, and hears of them; sees to it that somebody looks after it when there is need.
    pub(super) fn tell(&mut self, table: &mut TopicTable, budget: &MemoryBudget, now: Instant) {
        table.tell_memory();
        self.input.tell();
        self.pieces.tell();
        self.output.tell();
        let most = usize::try_from(self.output.free() / OUTPUT_PARTS).unwrap_or(usize::MAX);
        self.output_full_bytes = most.clamp(OUTPUT_LEAST_BYTES, OUTPUT_FULL_BYTES);
        let waits = table.waits_for_memory() || !self.waiting.is_empty();
        let has_spare = table.has_spare_memory() || budget.is_freed(FREED_BYTES);
        let next = match (waits, has_spare) {
            (true, _) => now + LOOK_INTERVAL,
            (false, true) => self.trim_at.max(now),
            (false, false) => return self.look_at = None,
        };
        // However often it is asked for, it does not move away.
        let asked = self.look_at.filter(|&at| at > now);
        self.look_at = Some(asked.map_or(next, |at| at.min(next)));
    }
}

/// Has the allocator give pages back. Aside: it takes its time, in which only who allocates waits.
fn trim_heap() {
    let thread = std::thread::Builder::new().name(String::from("trim"));
    if let Err(error) = thread.spawn(sys::trim_heap) {
        tracing::debug!("giving memory back: {error}");
    }
}
