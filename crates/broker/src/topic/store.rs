//! Where message bodies live: once each, however many channels still need them.
//!
//! A slot keeps its body buffer when it is freed, so a topic in steady state allocates nothing per
//! message. Buffers above [`KEPT_BODY_BYTES`] are given back, so that a few large messages do not
//! pin memory for ever; messages of that size cost one allocation each.

use clock::Instant;

/// Largest body buffer that a free slot keeps, in bytes.
pub const KEPT_BODY_BYTES: usize = 4096;

/// Names one stored message. Valid until its last reference is released; the topic table sees to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageRef(u32);

/// When a message reached the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Arrival of its last byte: the packet's stamp, or the time of the read.
    pub at: Instant,
    /// The same on the wall clock, nanoseconds since the Unix epoch; the NSQ frame's timestamp.
    pub wall_ns: i64,
    /// When the reactor read it; never before `at`.
    pub read: Instant,
    /// What the message is taken to have been under way before `at`: half the round trip of its publisher's
    /// connection. 0 where that is not known.
    pub half_rtt_us: u32,
    /// The flow that it belongs to: a number of its publisher's connection, the same as long as that lasts; 0 for what
    /// comes by HTTP. Two of them may share a number, which makes one flow of them.
    pub flow: u32,
}

/// One message.
#[derive(Debug)]
pub struct Stored {
    /// NSQ message id as a number.
    pub id: u64,
    /// When it reached the broker.
    pub arrival: Arrival,
    /// When the limiter let it pass.
    pub released: Instant,
    /// Earliest delivery of a DPUB; the read time for others.
    pub due: Instant,
    /// When the emulated service is done with it; zero without one.
    pub served: Instant,
    /// It took its tokens at its arrival (`drop`, `reject`), so the limiter lets it pass.
    pub has_paid: bool,
    /// It was seen waiting for tokens.
    pub has_waited: bool,
    /// The body as the publisher sent it.
    pub body: Vec<u8>,
    references: u32,
}

/// All messages of one reactor.
#[derive(Debug, Default)]
pub struct Store {
    slots: Vec<Stored>,
    free: Vec<u32>,
    bytes: u64,
}

impl Store {
    /// Stores a message with one reference.
    pub fn insert(&mut self, id: u64, arrival: Arrival, due: Instant, body: &[u8]) -> MessageRef {
        self.bytes += body.len() as u64;
        let released = arrival.read;
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.body.extend_from_slice(body);
            (slot.id, slot.arrival, slot.released, slot.due) = (id, arrival, released, due);
            (slot.served, slot.references) = (Instant::ZERO, 1);
            (slot.has_paid, slot.has_waited) = (false, false);
            return MessageRef(index);
        }
        let index = u32::try_from(self.slots.len())
            .expect("queues bound the store far below 2^32 messages");
        self.slots.push(Stored {
            id,
            arrival,
            released,
            due,
            served: Instant::ZERO,
            has_paid: false,
            has_waited: false,
            body: body.to_vec(),
            references: 1,
        });
        MessageRef(index)
    }

    /// The message itself.
    #[inline]
    #[must_use]
    pub fn get(&self, message: MessageRef) -> &Stored {
        &self.slots[message.0 as usize]
    }

    /// The message itself, to change.
    #[inline]
    pub fn get_mut(&mut self, message: MessageRef) -> &mut Stored {
        &mut self.slots[message.0 as usize]
    }

    /// Adds a reference.
    #[inline]
    pub fn retain(&mut self, message: MessageRef) {
        self.slots[message.0 as usize].references += 1;
    }

    /// Takes a reference away; with the last one the slot is free.
    #[inline]
    pub fn release(&mut self, message: MessageRef) {
        let slot = &mut self.slots[message.0 as usize];
        assert!(
            slot.references > 0,
            "a message was released more often than it was retained"
        );
        slot.references -= 1;
        if slot.references > 0 {
            return;
        }
        self.bytes -= slot.body.len() as u64;
        if slot.body.capacity() > KEPT_BODY_BYTES {
            slot.body = Vec::new();
        } else {
            slot.body.clear();
        }
        self.free.push(message.0);
    }

    /// Messages stored now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Their body bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival() -> Arrival {
        Arrival {
            at: Instant::ZERO,
            wall_ns: 0,
            read: Instant::ZERO,
            half_rtt_us: 0,
            flow: 0,
        }
    }

    #[test]
    fn a_slot_lives_until_its_last_reference_and_is_used_again() {
        let mut store = Store::default();
        let first = store.insert(1, arrival(), Instant::ZERO, b"abc");
        store.retain(first);
        store.release(first);
        assert_eq!((store.len(), store.bytes(), store.get(first).id), (1, 3, 1));
        store.release(first);
        assert_eq!((store.len(), store.bytes()), (0, 0));
        let second = store.insert(2, arrival(), Instant::ZERO, b"de");
        assert_eq!((first, &store.get(second).body[..]), (second, &b"de"[..]));
    }

    #[test]
    fn a_free_slot_keeps_small_buffers_and_gives_large_ones_back() {
        let mut store = Store::default();
        for (size, kept) in [
            (100, true),
            (KEPT_BODY_BYTES, true),
            (KEPT_BODY_BYTES + 1, false),
        ] {
            let message = store.insert(1, arrival(), Instant::ZERO, &vec![0; size]);
            store.release(message);
            assert_eq!(
                store.get(message).body.capacity() >= size,
                kept,
                "{size} bytes"
            );
        }
    }
}
