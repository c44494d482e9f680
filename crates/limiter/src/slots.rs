//! Buffers for packets; one system call fills or sends many of them.
//!
//! Each takes any IP packet, whatever its device's MTU was or will be: one that is cut short could
//! not be told from a broken one. That costs addresses, not memory: a page that no packet has
//! filled has no memory behind it.

/// The size of a slot in bytes.
pub(crate) const SLOT_BYTES: usize = 65_536;

/// The distance in bytes from one slot to the next. Each begins 2 KiB further within a power of two than the one before, or the packets of all of
/// them would compete for the same few lines of the processor's cache.
const STRIDE_BYTES: usize = SLOT_BYTES + 2048;

/// The buffers of many packets; slots are numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    bytes: Vec<u8>,
    count: usize,
}

impl Slots {
    pub(crate) fn new(count: usize) -> Slots {
        Slots {
            bytes: vec![0; count * STRIDE_BYTES],
            count,
        }
    }

    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// All of slot `number`.
    pub(crate) fn get(&self, number: usize) -> &[u8] {
        &self.bytes[number * STRIDE_BYTES..][..SLOT_BYTES]
    }

    /// All of slot `number`.
    pub(crate) fn get_mut(&mut self, number: usize) -> &mut [u8] {
        &mut self.bytes[number * STRIDE_BYTES..][..SLOT_BYTES]
    }

    /// Where each slot begins, for system calls that use many of them.
    pub(crate) fn starts(&mut self) -> impl Fn(usize) -> *mut u8 + use<> {
        let (first, count) = (self.bytes.as_mut_ptr(), self.count);
        move |number| {
            assert!(number < count, "slot {number} of {count}");
            first.wrapping_add(number * STRIDE_BYTES)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_apart() {
        let mut slots = Slots::new(3);
        for number in 0..slots.count() {
            slots.get_mut(number).fill(number as u8 + 1);
        }
        for number in 0..3u8 {
            let slot = slots.get(number.into());
            assert_eq!(slot.len(), SLOT_BYTES);
            assert!(slot.iter().all(|byte| *byte == number + 1));
            let start = slot.as_ptr();
            assert_eq!(slots.starts()(number.into()).cast_const(), start);
        }
    }
}
