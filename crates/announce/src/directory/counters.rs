//! Counts of datagrams, each counted once.

use wire::announce::AnnounceError;

/// Datagrams by what became of them, and what became of instances. Only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams that were believed.
    pub accepted: u64,
    /// Datagrams of one's own that came back.
    pub own: u64,
    /// Datagrams that were not newer than the last one of their instance.
    pub replayed: u64,
    /// Datagrams of new instances for which there was no room.
    pub refused_full: u64,
    /// Datagrams that were unsigned where a key is set, signed where none is, or had a wrong tag.
    pub forged: u64,
    /// Datagrams that were cut short.
    pub truncated: u64,
    /// Datagrams that were no announcement for another reason.
    pub malformed: u64,
    /// Entries of accepted datagrams for which there was no room.
    pub entries_refused: u64,
    /// Instances that were not heard for too long.
    pub expired: u64,
    /// Instances whose data address another one took over.
    pub replaced: u64,
    /// Instances that said that they leave.
    pub left: u64,
}

impl Counters {
    /// The number of all datagrams.
    #[must_use]
    pub fn received(&self) -> u64 {
        let refused = self.own + self.replayed + self.refused_full;
        self.accepted + refused + self.forged + self.truncated + self.malformed
    }

    pub(super) fn note(&mut self, error: &AnnounceError) {
        match error {
            error if error.is_about_key() => self.forged += 1,
            AnnounceError::Truncated(_) => self.truncated += 1,
            _ => self.malformed += 1,
        }
    }
}
