//! Memory of a reactor: what its messages and its connections hold, who waits for room, what is given back to the system.

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;
use topics::{Account, MemoryBudget, Part};

use super::Reactor;
use super::peers::Peers;
use crate::connection::{ConnectionKey, OUTPUT_FULL_BYTES, Pause};
use crate::sys;

/// A reactor with somebody who waits for memory looks so often whether there is some: others may have freed it.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// What was not needed for about so long is given back.
const TRIM_INTERVAL: Duration = Duration::from_secs(1);

/// A trim is not done in one go; its pieces are so far apart.
const PIECE_INTERVAL: Duration = Duration::from_millis(1);

/// The allocator gives pages back to the system when so much has been freed.
const FREED_BYTES: u64 = 32 * 1024 * 1024;

/// That costs more the more there is, so a reactor asks for it so often at most.
const TRIM_HEAP_INTERVAL: Duration = Duration::from_secs(5);

/// A command that is cut in two may have so much memory without asking.
const SMALL_COMMAND_BYTES: usize = 16 * 1024;

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
    /// What is on its way to peers.
    pub(super) output: Account,
    /// What an output is full with.
    pub(super) output_full_bytes: usize,
    /// When to look again.
    pub(super) look_at: Option<Instant>,
    trim_at: Instant,
    trim_heap_at: Instant,
    /// Connections whose commands wait for memory.
    waiting: VecDeque<ConnectionKey>,
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

impl Reactor {
    /// Lets those go on for whom there is memory, and gives back what is not needed.
    pub(super) fn offer_memory(&mut self) {
        if self
            .peers
            .memory
            .look_at
            .is_none_or(|at| at > self.time.now)
        {
            return;
        }
        self.topics.table.offer_memory();
        self.carry_out_effects();
        self.offer_input();
        if self.time.now >= self.peers.memory.trim_at {
            let pause = match self.topics.table.trim() {
                true => PIECE_INTERVAL,
                false => TRIM_INTERVAL,
            };
            self.peers.memory.trim_at = self.time.now + pause;
            if self.time.now >= self.peers.memory.trim_heap_at
                && self.shared.memory.has_freed(FREED_BYTES)
            {
                self.peers.memory.trim_heap_at = self.time.now + TRIM_HEAP_INTERVAL;
                self.trim_heap();
            }
        }
    }

    /// Tells the others what is held here, and hears of them; sees to it that somebody looks after it when there is need.
    pub(super) fn tell_memory(&mut self) {
        self.topics.table.tell_memory();
        self.peers.memory.input.tell();
        self.peers.memory.pieces.tell();
        self.peers.memory.output.tell();
        let most =
            usize::try_from(self.peers.memory.output.free() / OUTPUT_PARTS).unwrap_or(usize::MAX);
        self.peers.memory.output_full_bytes = most.clamp(OUTPUT_LEAST_BYTES, OUTPUT_FULL_BYTES);
        let waits = self.topics.table.waits_for_memory() || !self.peers.memory.waiting.is_empty();
        let has_spare =
            self.topics.table.has_spare_memory() || self.shared.memory.is_freed(FREED_BYTES);
        let next = match (waits, has_spare) {
            (true, _) => self.time.now + LOOK_INTERVAL,
            (false, true) => self.peers.memory.trim_at.max(self.time.now),
            (false, false) => return self.peers.memory.look_at = None,
        };
        // However often it is asked for, it does not move away.
        let asked = self.peers.memory.look_at.filter(|&at| at > self.time.now);
        self.peers.memory.look_at = Some(asked.map_or(next, |at| at.min(next)));
    }

    /// Whether a connection may read on behind what it holds of a command of `needed` bytes; if not, it waits until there is
    /// memory for the whole: whoever was let begin comes to an end.
    pub(super) fn may_read_behind(&mut self, key: ConnectionKey, needed: usize) -> bool {
        let reserved = self
            .peers
            .connections
            .get(key)
            .map_or(0, |connection| connection.input_reserved);
        if needed <= SMALL_COMMAND_BYTES.max(reserved) {
            return true;
        }
        // Who has waited for longer comes first.
        if self.peers.memory.waiting.is_empty() && self.peers.reserve(key, needed) {
            return true;
        }
        self.peers.memory.input.note_wait();
        let Peers {
            memory,
            connections,
            ..
        } = &mut self.peers;
        if memory.waiting.len() > 2 * connections.len() {
            memory.waiting.retain(|&key| connections.get(key).is_some());
        }
        memory.waiting.push_back(key);
        self.pause(key, Pause::Memory);
        false
    }

    /// Has the allocator give pages back. Aside: it takes its time, in which only who allocates waits. Locked memory stays.
    fn trim_heap(&self) {
        if self.shared.config.realtime.is_some() {
            return;
        }
        let thread = std::thread::Builder::new().name(String::from("trim"));
        if let Err(error) = thread.spawn(sys::trim_heap) {
            tracing::debug!("giving memory back: {error}");
        }
    }

    /// Lets connections read on while there is memory for what they read, in the order in which they came to wait.
    fn offer_input(&mut self) {
        while let Some(&key) = self.peers.memory.waiting.front() {
            let waits = self.peers.connections.get(key);
            let needed = waits.and_then(|waits| {
                let is_waiting = waits.pause == Pause::Memory;
                is_waiting.then_some(waits.needed)
            });
            if let Some(needed) = needed {
                if !self.peers.reserve(key, needed) {
                    return;
                }
                self.let_go_on(key);
            }
            self.peers.memory.waiting.pop_front();
        }
    }
}
