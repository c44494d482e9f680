//! Commands cut in two: the buffers that keep them, and the memory that these take.

use clock::Instant;

use super::Peers;
use crate::connection::{Connection, ConnectionKey, Pause};
use crate::reactor::schedule::Schedule;

/// Input buffers kept for the next connection that reads half a command.
const SPARE_INPUTS: usize = 64;

/// Largest input buffer kept.
const SPARE_INPUT_BYTES: usize = 64 * 1024;

/// Memory that a command cut in two may use without asking, in bytes.
const SMALL_COMMAND_BYTES: usize = 16 * 1024;

impl Peers {
    /// An empty input buffer, with memory if one is spare.
    pub(in crate::reactor) fn lend_input(&mut self) -> Vec<u8> {
        self.inputs.pop().unwrap_or_default()
    }

    /// Takes an input buffer back.
    pub(in crate::reactor) fn return_input(&mut self, mut input: Vec<u8>) {
        if input.capacity() > 0
            && input.capacity() <= SPARE_INPUT_BYTES
            && self.inputs.len() < SPARE_INPUTS
        {
            input.clear();
            self.inputs.push(input);
        }
    }

    /// Counts what the input of a connection holds, after `used` bytes of it were executed.
    #[inline]
    pub(in crate::reactor) fn charge_input(&mut self, key: ConnectionKey, used: usize) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if connection.input.is_empty() && !connection.has_cut_input {
            return;
        }
        let held = connection.transport.held_bytes()
            + match connection.input.is_empty() {
                true => 0,
                false => connection.input.capacity(),
            };
        let is_over = used > 0 || held == 0;
        if connection.input_reserved > 0 && is_over {
            let reserved = std::mem::take(&mut connection.input_reserved);
            self.memory.input.change(reserved, 0);
        }
        let held = held.saturating_sub(connection.input_reserved);
        let former = std::mem::replace(&mut connection.input_charged, held);
        connection.has_cut_input =
            held > 0 || connection.input_reserved > 0 || connection.arriving.is_some();
        if former != held {
            self.memory.pieces.change(former, held);
        }
    }

    /// Counts nothing any more of a connection that goes.
    pub(in crate::reactor) fn discharge(&mut self, connection: &mut Connection) {
        let reserved = std::mem::take(&mut connection.input_reserved);
        self.memory.input.change(reserved, 0);
        let charged = std::mem::take(&mut connection.input_charged);
        self.memory.pieces.change(charged, 0);
        let charged = std::mem::take(&mut connection.output.charged);
        self.memory.output.change(charged, 0);
    }

    /// Reserves memory for a command of `needed` bytes, if there is.
    pub(in crate::reactor) fn reserve(&mut self, key: ConnectionKey, needed: usize) -> bool {
        let Some(connection) = self.connections.get_mut(key) else {
            return false;
        };
        let reserved = connection.input_reserved;
        let more = needed.saturating_sub(reserved);
        if more == 0 {
            return true;
        }
        let is_taken = self.memory.input.take(more as u64);
        if is_taken {
            connection.input_reserved = needed;
            connection.has_cut_input = true;
        }
        is_taken
    }

    /// Whether beginnings of commands take more than most of what they may.
    pub(in crate::reactor) fn is_input_tight(&self) -> bool {
        self.memory.pieces.is_nearly_full()
    }

    /// Whether a connection may read on behind what it holds of a command of `needed` bytes; if not, it waits until there is
    /// memory for the whole: whoever was let begin comes to an end.
    pub(in crate::reactor) fn may_read_behind(
        &mut self,
        key: ConnectionKey,
        needed: usize,
    ) -> bool {
        let reserved = self
            .connections
            .get(key)
            .map_or(0, |connection| connection.input_reserved);
        if needed <= SMALL_COMMAND_BYTES.max(reserved) {
            return true;
        }
        // Who has waited for longer comes first.
        if self.memory.waiting.is_empty() && self.reserve(key, needed) {
            return true;
        }
        self.memory.input.note_wait();
        let Peers {
            memory,
            connections,
            ..
        } = self;
        if memory.waiting.len() > 2 * connections.len() {
            memory.waiting.retain(|&key| connections.get(key).is_some());
        }
        memory.waiting.push_back(key);
        self.pause(key, Pause::Memory);
        false
    }

    /// Lets connections read on while there is memory for what they read, in the order in which they came to wait.
    pub(in crate::reactor) fn offer_input(&mut self, schedule: &mut Schedule, now: Instant) {
        while let Some(&key) = self.memory.waiting.front() {
            let waits = self.connections.get(key);
            let needed = waits.and_then(|waits| {
                let is_waiting = waits.pause == Pause::Memory;
                is_waiting.then_some(waits.needed)
            });
            if let Some(needed) = needed {
                if !self.reserve(key, needed) {
                    return;
                }
                self.let_go_on(key, schedule, now);
            }
            self.memory.waiting.pop_front();
        }
    }
}
