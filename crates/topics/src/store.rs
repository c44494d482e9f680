//! The message store: each body is stored once, however many channels still need it.
//!
//! A slot keeps its body buffer when it is freed, so a topic in steady state allocates nothing per
//! message. Buffers above [`KEPT_BODY_BYTES`] are given back, so that a few large messages do not
//! pin memory for ever; messages of that size cost one allocation each. Slots are in chunks. What
//! was not needed between two calls of [`Store::trim`] is given back: chunks without a message, and
//! buffers of free slots.

use clock::Instant;

/// Largest body buffer that a free slot keeps, in bytes.
pub const KEPT_BODY_BYTES: usize = 4096;

/// Slots of a chunk.
const CHUNK_SLOTS: usize = 256;

/// The memory of a message besides its body: its slot, and the references of a topic and a channel.
const SLOT_BYTES: usize = size_of::<Stored>() + 32;

/// Slots kept in any case, so that a reactor with little to do does not allocate again and again.
const SPARE_SLOTS: usize = 1024;
const SPARE_MEMORY: u64 = 1024 * 1024;

/// Chunks that a trim gives back at once.
const CHUNKS_AT_ONCE: usize = 64;

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
    /// How long the message is taken to have been under way before `at`: half the round trip of its
    /// publisher's connection. 0 where that is not known.
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
    /// When the emulated service is done with it; zero if none is emulated.
    pub served: Instant,
    /// It took its tokens at its arrival (`drop`, `reject`), so the limiter lets it pass.
    pub has_paid: bool,
    /// It was seen waiting for tokens.
    pub has_waited: bool,
    /// The body as the publisher sent it.
    pub body: Vec<u8>,
    references: u32,
    /// Whose message it is.
    owner: u32,
}

/// All messages of one reactor.
#[derive(Debug, Default)]
pub struct Store {
    chunks: Vec<Chunk>,
    /// Numbers of chunks with room; the last is used next.
    roomy: Vec<u32>,
    /// What messages of each owner are charged with.
    owned: Vec<u64>,
    len: usize,
    /// Messages at most since the last trim.
    len_max: usize,
    /// Body bytes of messages.
    bytes: u64,
    /// Slots that there is memory for.
    slots: usize,
    /// Memory of bodies, those that are not needed now included.
    body_memory: u64,
    /// Memory of bodies of free slots.
    spare_memory: u64,
    /// Memory of bodies of messages, at most since the last trim.
    live_memory_max: u64,
}

/// Some slots, which come and go together.
#[derive(Debug, Default)]
struct Chunk {
    slots: Vec<Stored>,
    free: Vec<u16>,
    is_roomy: bool,
}

impl Chunk {
    fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    fn is_full(&self) -> bool {
        self.free.is_empty() && self.slots.len() == CHUNK_SLOTS
    }
}

impl Store {
    /// Stores a message of `owner` with one reference. Owners are numbered densely.
    pub fn insert(
        &mut self,
        owner: usize,
        id: u64,
        arrival: Arrival,
        due: Instant,
        body: &[u8],
    ) -> MessageRef {
        let owner = self.charge(owner, body.len());
        self.len += 1;
        self.len_max = self.len_max.max(self.len);
        self.bytes += body.len() as u64;
        let released = arrival.read;
        let number = self.chunk_with_room();
        let chunk = &mut self.chunks[number];
        let slot = match chunk.free.pop() {
            Some(index) => {
                let slot = &mut chunk.slots[usize::from(index)];
                let before = memory_of(&slot.body);
                slot.body.extend_from_slice(body);
                (slot.id, slot.arrival, slot.released, slot.due) = (id, arrival, released, due);
                (slot.served, slot.references, slot.owner) = (Instant::ZERO, 1, owner);
                (slot.has_paid, slot.has_waited) = (false, false);
                self.spare_memory -= before;
                self.body_memory += memory_of(&slot.body) - before;
                usize::from(index)
            }
            None => {
                let body = body.to_vec();
                self.body_memory += memory_of(&body);
                chunk.slots.push(Stored {
                    id,
                    arrival,
                    released,
                    due,
                    served: Instant::ZERO,
                    has_paid: false,
                    has_waited: false,
                    body,
                    references: 1,
                    owner,
                });
                chunk.slots.len() - 1
            }
        };
        if chunk.is_full() {
            chunk.is_roomy = false;
            self.roomy.pop();
        }
        let live_memory = self.body_memory - self.spare_memory;
        self.live_memory_max = self.live_memory_max.max(live_memory);
        let index = number * CHUNK_SLOTS + slot;
        MessageRef(u32::try_from(index).expect("queues bound the store far below 2^32 messages"))
    }

    /// The message itself.
    #[inline]
    #[must_use]
    pub fn get(&self, message: MessageRef) -> &Stored {
        let (chunk, slot) = place_of(message);
        &self.chunks[chunk].slots[slot]
    }

    /// The message itself, to change.
    #[inline]
    pub fn get_mut(&mut self, message: MessageRef) -> &mut Stored {
        let (chunk, slot) = place_of(message);
        &mut self.chunks[chunk].slots[slot]
    }

    /// Adds a reference.
    #[inline]
    pub fn retain(&mut self, message: MessageRef) {
        self.get_mut(message).references += 1;
    }

    /// Takes a reference away; with the last one the slot is free.
    #[inline]
    pub fn release(&mut self, message: MessageRef) {
        let (number, index) = place_of(message);
        let chunk = &mut self.chunks[number];
        let slot = &mut chunk.slots[index];
        assert!(
            slot.references > 0,
            "a message was released more often than it was retained"
        );
        slot.references -= 1;
        if slot.references > 0 {
            return;
        }
        self.len -= 1;
        self.bytes -= slot.body.len() as u64;
        if let Some(owned) = self.owned.get_mut(slot.owner as usize) {
            *owned -= charge_of(slot.body.len());
        }
        if slot.body.capacity() > KEPT_BODY_BYTES {
            self.body_memory -= memory_of(&slot.body);
            slot.body = Vec::new();
        } else {
            self.spare_memory += memory_of(&slot.body);
            slot.body.clear();
        }
        // There are fewer slots than a u16 counts.
        chunk.free.push(index as u16);
        if !chunk.is_roomy {
            chunk.is_roomy = true;
            self.roomy.push(number as u32);
        }
    }

    /// Messages stored now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Their body bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All memory that it holds, in bytes.
    #[inline]
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.body_memory + (self.slots * SLOT_BYTES) as u64
    }

    /// What of it no message needs now: buffers that the next messages use again.
    #[inline]
    #[must_use]
    pub fn spare_memory(&self) -> u64 {
        self.spare_memory
    }

    /// What messages of an owner are charged with, in bytes.
    #[inline]
    #[must_use]
    pub fn memory_of(&self, owner: usize) -> u64 {
        self.owned.get(owner).copied().unwrap_or(0)
    }

    /// Whether [`Store::trim`] may have something to give back, now or the next time.
    #[must_use]
    pub fn has_spare(&self) -> bool {
        self.slots >= self.len + SPARE_SLOTS + CHUNK_SLOTS || self.spare_memory > SPARE_MEMORY
    }

    /// Gives back memory that was not needed since the last trim, a piece of it; returns whether
    /// there is more.
    pub fn trim(&mut self) -> bool {
        let live_memory = self.body_memory - self.spare_memory;
        let slots = self.len_max + SPARE_SLOTS;
        let spare = self.live_memory_max - live_memory + SPARE_MEMORY;
        let has_more = self.shed(slots, spare, CHUNKS_AT_ONCE);
        if !has_more {
            (self.len_max, self.live_memory_max) = (self.len, live_memory);
        }
        has_more
    }

    /// Gives back all memory that is not needed now.
    pub fn shed_all(&mut self) {
        if self.spare_memory > 0 || self.slots >= self.len + CHUNK_SLOTS {
            self.shed(self.len, 0, usize::MAX);
        }
    }

    /// Gives memory back until there are `slots` slots and `spare` bytes of spare bodies, from at
    /// most `chunks_max` chunks; returns whether it had to leave some.
    fn shed(&mut self, slots: usize, spare: u64, chunks_max: usize) -> bool {
        let mut left = chunks_max;
        let Store {
            chunks,
            slots: all,
            body_memory,
            spare_memory,
            ..
        } = self;
        if *all < slots + CHUNK_SLOTS && *spare_memory <= spare {
            return false;
        }
        for chunk in chunks.iter_mut().filter(|chunk| !chunk.free.is_empty()) {
            let drops = chunk.is_empty() && *all >= slots + CHUNK_SLOTS;
            let sheds = *spare_memory > spare;
            if !drops && !sheds {
                continue;
            }
            if left == 0 {
                return true;
            }
            let mut shed = 0;
            for &index in &chunk.free {
                let body = std::mem::take(&mut chunk.slots[usize::from(index)].body);
                shed += memory_of(&body);
            }
            *body_memory -= shed;
            *spare_memory -= shed;
            if drops {
                (chunk.slots, chunk.free) = (Vec::new(), Vec::new());
                *all -= CHUNK_SLOTS;
            }
            left -= usize::from(drops || shed > 0);
        }
        false
    }

    /// The chunk that the next message goes into.
    fn chunk_with_room(&mut self) -> usize {
        let number = match self.roomy.last() {
            Some(&number) => number as usize,
            None => {
                self.chunks.push(Chunk {
                    is_roomy: true,
                    ..Chunk::default()
                });
                self.roomy.push(self.chunks.len() as u32 - 1);
                self.chunks.len() - 1
            }
        };
        let chunk = &mut self.chunks[number];
        if chunk.slots.capacity() == 0 {
            chunk.slots.reserve_exact(CHUNK_SLOTS);
            chunk.free.reserve_exact(CHUNK_SLOTS);
            self.slots += CHUNK_SLOTS;
        }
        number
    }

    fn charge(&mut self, owner: usize, bytes: usize) -> u32 {
        if self.owned.len() <= owner {
            self.owned.resize(owner + 1, 0);
        }
        self.owned[owner] += charge_of(bytes);
        // Arenas number what owns messages by u32.
        owner as u32
    }
}

/// Bytes that a message is charged for, given the length of its body.
#[inline]
#[must_use]
pub fn charge_of(bytes: usize) -> u64 {
    (bytes + SLOT_BYTES) as u64
}

/// Memory of a body, with what the allocator adds.
fn memory_of(body: &Vec<u8>) -> u64 {
    match body.capacity() {
        0 => 0,
        capacity => capacity as u64 + 16,
    }
}

#[inline]
fn place_of(message: MessageRef) -> (usize, usize) {
    let index = message.0 as usize;
    (index / CHUNK_SLOTS, index % CHUNK_SLOTS)
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
        let first = store.insert(0, 1, arrival(), Instant::ZERO, b"abc");
        store.retain(first);
        store.release(first);
        assert_eq!((store.len(), store.bytes(), store.get(first).id), (1, 3, 1));
        store.release(first);
        assert_eq!((store.len(), store.bytes()), (0, 0));
        let second = store.insert(0, 2, arrival(), Instant::ZERO, b"de");
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
            let message = store.insert(0, 1, arrival(), Instant::ZERO, &vec![0; size]);
            store.release(message);
            assert_eq!(
                store.get(message).body.capacity() >= size,
                kept,
                "{size} bytes"
            );
        }
    }

    fn fill(store: &mut Store, messages: usize, bytes: usize) -> Vec<MessageRef> {
        let body = vec![0; bytes];
        (0..messages)
            .map(|id| store.insert(3, id as u64, arrival(), Instant::ZERO, &body))
            .collect()
    }

    fn trim_whole(store: &mut Store) {
        while store.trim() {}
    }

    #[test]
    fn what_is_not_needed_for_a_while_is_given_back() {
        let mut store = Store::default();
        let messages = fill(&mut store, 100_000, 1000);
        let full = store.memory();
        assert!(full >= 100_000 * 1000);
        assert_eq!(store.memory_of(3), 100_000 * charge_of(1000));
        let (gone, kept) = messages.split_at(99_990);
        gone.iter().for_each(|&message| store.release(message));
        trim_whole(&mut store);
        assert_eq!(store.memory(), full, "it was needed since the last trim");
        trim_whole(&mut store);
        assert!(store.memory() < full / 50, "{} left", store.memory());
        assert_eq!(store.memory_of(3), 10 * charge_of(1000));
        let again = fill(&mut store, 5000, 10);
        for &message in kept {
            assert_eq!(store.get(message).body.len(), 1000);
        }
        let all = kept.iter().chain(&again);
        all.for_each(|&message| store.release(message));
        store.shed_all();
        assert_eq!((store.memory(), store.len(), store.memory_of(3)), (0, 0, 0));
    }

    #[test]
    fn a_trim_does_a_piece_at_a_time() {
        let mut store = Store::default();
        let messages = fill(&mut store, 100_000, 1000);
        messages.iter().for_each(|&message| store.release(message));
        trim_whole(&mut store);
        let before = store.memory();
        assert!(store.trim());
        assert!(store.memory() > before / 2);
    }

    #[test]
    fn what_comes_and_goes_within_a_while_is_kept() {
        let mut store = Store::default();
        for _ in 0..10 {
            let messages = fill(&mut store, 20_000, 100);
            let memory = store.memory();
            messages.iter().for_each(|&message| store.release(message));
            trim_whole(&mut store);
            assert_eq!(store.memory(), memory);
        }
    }
}
