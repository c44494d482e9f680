//! The paper's table of (Seq_s, Seq_e, T_tcp): which bytes of a connection arrived when (SRTM-long,
//! section 5.2).
//!
//! Each receive adds one entry for its bytes; a message is given the entry of its last byte. The
//! stock kernel gives one stamp per receive, that of the newest segment, so bytes of older segments
//! in the same receive look younger than they are, never older.

use clock::Instant;

/// Receives whose bytes can wait unparsed at once. More are merged into the newest entry, whose
/// bytes then look as young as the youngest of them: late stamps delay, early ones would gift tokens.
const ENTRIES: usize = 8;

/// When some bytes arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrivalStamp {
    /// On the monotonic clock.
    pub at: Instant,
    /// On the wall clock, nanoseconds since the Unix epoch.
    pub wall_ns: i64,
    /// When the reactor read them.
    pub read: Instant,
}

/// The table of one connection. Positions count the bytes that still wait, the oldest is 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArrivalTable {
    len: usize,
    entries: [Entry; ENTRIES],
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    end: usize,
    stamp: ArrivalStamp,
}

impl ArrivalTable {
    /// Bytes at its front that a single receive needs.
    pub const FIRST_BYTES: usize = std::mem::offset_of!(ArrivalTable, entries) + size_of::<Entry>();

    /// Adds `bytes` that arrived at `stamp` behind those that wait.
    pub fn push(&mut self, bytes: usize, stamp: ArrivalStamp) {
        let end = self.entries[..self.len].last().map_or(0, |entry| entry.end) + bytes;
        if self.len < ENTRIES {
            self.len += 1;
        }
        self.entries[self.len - 1] = Entry { end, stamp };
    }

    /// Stamp of the byte before position `end`, the last byte of a message that ends there.
    #[must_use]
    pub fn stamp(&self, end: usize) -> ArrivalStamp {
        let entries = &self.entries[..self.len];
        let holds = |entry: &&Entry| end <= entry.end;
        entries
            .iter()
            .find(holds)
            .or(entries.last())
            .map_or(ArrivalStamp::default(), |e| e.stamp)
    }

    /// Forgets the first `bytes`, which have been parsed.
    pub fn consume(&mut self, bytes: usize) {
        let mut kept = 0;
        for number in 0..self.len {
            let Entry { end, stamp } = self.entries[number];
            if end > bytes {
                self.entries[kept] = Entry {
                    end: end - bytes,
                    stamp,
                };
                kept += 1;
            }
        }
        self.len = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(nanos: u64) -> ArrivalStamp {
        ArrivalStamp {
            at: Instant::from_nanos(nanos),
            ..ArrivalStamp::default()
        }
    }

    #[test]
    fn a_message_has_the_stamp_of_its_last_byte() {
        let mut table = ArrivalTable::default();
        table.push(100, stamp(1));
        table.push(50, stamp(2));
        for (end, expected) in [(1, 1), (100, 1), (101, 2), (150, 2)] {
            assert_eq!(
                table.stamp(end),
                stamp(expected),
                "message that ends at {end}"
            );
        }
        table.consume(90);
        for (end, expected) in [(10, 1), (11, 2), (60, 2)] {
            assert_eq!(
                table.stamp(end),
                stamp(expected),
                "message that ends at {end} after 90 were parsed"
            );
        }
        table.consume(60);
        table.push(7, stamp(3));
        assert_eq!(table.stamp(7), stamp(3));
    }

    #[test]
    fn too_many_receives_are_merged_into_the_youngest() {
        let mut table = ArrivalTable::default();
        for number in 1..=20 {
            table.push(10, stamp(number));
        }
        assert_eq!(table.stamp(70), stamp(7));
        assert_eq!(
            table.stamp(80),
            stamp(20),
            "merged bytes look as young as the youngest"
        );
        assert_eq!(table.stamp(200), stamp(20));
    }
}
