//! The first bytes of every message: when it should have been sent, by whom, and its place in the run.
//!
//! The time is the *scheduled* one, so that a stall of broker or generator counts as latency of every message that
//! was due meanwhile (no coordinated omission). The numbers are little-endian; only this crate reads them.

/// Smallest message that can carry a stamp.
pub const STAMP_BYTES: usize = 24;

/// A message's stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Distinguishes this run from messages that an earlier one left in the broker.
    pub run: u32,
    /// Index of the publisher in the run.
    pub publisher: u32,
    /// Place of the message in the whole run, counted from 0.
    pub sequence: u64,
    /// When the message was due, in nanoseconds of the generator's monotonic clock.
    pub scheduled_ns: u64,
}

impl Stamp {
    /// Writes the stamp to the start of `body`.
    ///
    /// # Panics
    /// When `body` is shorter than [`STAMP_BYTES`].
    #[inline]
    pub fn write_to(&self, body: &mut [u8]) {
        body[0..4].copy_from_slice(&self.run.to_le_bytes());
        body[4..8].copy_from_slice(&self.publisher.to_le_bytes());
        body[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        body[16..24].copy_from_slice(&self.scheduled_ns.to_le_bytes());
    }

    /// Reads the stamp from the start of `body`; `None` when it is too short to hold one.
    #[inline]
    pub fn read_from(body: &[u8]) -> Option<Self> {
        let (run, rest) = body.split_first_chunk()?;
        let (publisher, rest) = rest.split_first_chunk()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        let scheduled_ns = rest.first_chunk()?;
        Some(Self {
            run: u32::from_le_bytes(*run),
            publisher: u32::from_le_bytes(*publisher),
            sequence: u64::from_le_bytes(*sequence),
            scheduled_ns: u64::from_le_bytes(*scheduled_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn reads_back_what_was_written(
            run: u32, publisher: u32, sequence: u64, scheduled_ns: u64, spare in 0_usize..100
        ) {
            let stamp = Stamp { run, publisher, sequence, scheduled_ns };
            let mut body = vec![0xAA; STAMP_BYTES + spare];
            stamp.write_to(&mut body);
            prop_assert_eq!(Stamp::read_from(&body), Some(stamp));
            prop_assert!(body[STAMP_BYTES..].iter().all(|byte| *byte == 0xAA));
        }
    }

    #[test]
    fn short_bodies_hold_no_stamp() {
        assert_eq!(Stamp::read_from(&[0; STAMP_BYTES - 1]), None);
        assert_eq!(Stamp::read_from(&[]), None);
    }
}
