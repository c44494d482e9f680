//! Counts of datagrams, each counted once.

use wire::announce::AnnounceError;

/// Datagrams by what became of them, and what became of instances. Only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Believed.
    pub accepted: u64,
    /// One's own, come back.
    pub own: u64,
    /// Not newer than the last one of the instance.
    pub replayed: u64,
    /// Of a new instance that found no room.
    pub refused_full: u64,
    /// Unsigned where a key is set, signed where none is, or with a wrong tag.
    pub forged: u64,
    /// Cut short.
    pub truncated: u64,
    /// Otherwise no announcement.
    pub malformed: u64,
    /// Not datagrams but entries, of accepted ones, that found no room.
    pub entries_refused: u64,
    /// Not datagrams but instances that were not heard for too long.
    pub expired: u64,
    /// Not datagrams but instances whose data address another one took over.
    pub replaced: u64,
    /// Not datagrams but instances that said they leave.
    pub left: u64,
}

impl Counters {
    /// All datagrams.
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
