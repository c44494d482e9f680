//! Where segments are kept: in memory, within a bound of its own. A disk would stand here.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use topics::{QueueKey, Segment};

/// A queue of a reactor.
type Owner = (usize, QueueKey);

/// Segments of queues, by their numbers.
#[derive(Debug)]
pub(super) struct Shelf {
    segments: FxHashMap<Owner, BTreeMap<u64, Segment>>,
    bytes: u64,
    bytes_max: u64,
}

impl Shelf {
    /// An empty one with room for `bytes_max` bytes.
    pub(super) fn new(bytes_max: u64) -> Shelf {
        Shelf {
            segments: FxHashMap::default(),
            bytes: 0,
            bytes_max,
        }
    }

    /// Keeps a segment; `false`: there is no room for it.
    pub(super) fn put(&mut self, owner: Owner, number: u64, segment: Segment) -> bool {
        let bytes = segment.memory();
        if self.bytes + bytes > self.bytes_max {
            return false;
        }
        self.bytes += bytes;
        let segments = self.segments.entry(owner).or_default();
        segments.insert(number, segment);
        true
    }

    /// Gives a segment that is kept, and keeps it no longer.
    pub(super) fn take(&mut self, owner: Owner, number: u64) -> Option<Segment> {
        let segments = self.segments.get_mut(&owner)?;
        let segment = segments.remove(&number)?;
        if segments.is_empty() {
            self.segments.remove(&owner);
        }
        self.bytes -= segment.memory();
        Some(segment)
    }

    /// Keeps nothing of that queue.
    pub(super) fn clear(&mut self, owner: Owner) {
        let gone = self.segments.remove(&owner).unwrap_or_default();
        self.bytes -= gone.values().map(Segment::memory).sum::<u64>();
    }
}

#[cfg(test)]
mod tests {
    use topics::TopicKey;

    use super::*;

    #[test]
    fn what_is_kept_is_given_once_and_the_bound_holds() {
        let bytes = Segment::default().memory();
        let mut shelf = Shelf::new(2 * bytes);
        let owner = |bits| (0, QueueKey::Topic(TopicKey::from_bits(bits)));
        assert!(shelf.put(owner(1), 1, Segment::default()));
        assert!(shelf.put(owner(1), 2, Segment::default()));
        assert!(!shelf.put(owner(2), 1, Segment::default()));
        assert!(shelf.take(owner(1), 1).is_some() && shelf.take(owner(1), 1).is_none());
        assert!(shelf.put(owner(2), 1, Segment::default()));
        shelf.clear(owner(1));
        assert_eq!((shelf.bytes, shelf.segments.len()), (bytes, 1));
        assert!(shelf.take(owner(2), 1).is_some());
        assert_eq!((shelf.bytes, shelf.segments.len()), (0, 0));
    }
}
