//! What the other limiters said last.

use std::collections::BTreeMap;

use super::{Remote, SharingError, Update};

/// The latest update of every other limiter, for transports that name the sender.
///
/// An update that is lost leaves the last one as it was. A limiter that is gone counts for nothing, and takes 1/N of the
/// limit with it until it is heard again.
#[derive(Clone, Debug, PartialEq)]
pub struct Peers {
    limiters: u32,
    heard: BTreeMap<u64, Heard>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Heard {
    sequence: u64,
    update: Update,
    connected: bool,
}

impl Peers {
    /// Of `limiters` limiters in all, the one that asks included, nothing is known yet; all others count as connected.
    pub fn new(limiters: u32) -> Self {
        Peers {
            limiters,
            heard: BTreeMap::new(),
        }
    }

    /// Notes what limiter `from` said. An update that was overtaken, one whose `sequence` is not above the last one's,
    /// is left out; returns whether it counted.
    ///
    /// # Errors
    /// [`SharingError::TooManyPeers`] when N − 1 others are known and this is none of them.
    pub fn heard(
        &mut self,
        from: u64,
        sequence: u64,
        update: Update,
    ) -> Result<bool, SharingError> {
        if let Some(last) = self.heard.get(&from)
            && last.connected
            && sequence <= last.sequence
        {
            return Ok(false);
        }
        // A limiter that comes back may count from the beginning.
        let connected = true;
        let heard = Heard {
            sequence,
            update,
            connected,
        };
        self.note(from, heard).map(|()| true)
    }

    /// Limiter `gone` is disconnected, as the membership protocol says.
    ///
    /// # Errors
    /// [`SharingError::TooManyPeers`] as with [`Peers::heard`].
    pub fn lost(&mut self, gone: u64) -> Result<(), SharingError> {
        let nothing = Heard {
            sequence: 0,
            update: Update::default(),
            connected: false,
        };
        self.note(gone, nothing)
    }

    /// All of it as a limiter wants it.
    pub fn remote(&self) -> Remote {
        let updates = || self.heard.values().map(|heard| heard.update);
        let lost = self.heard.values().filter(|heard| !heard.connected).count();
        Remote {
            others: Update::measured(
                updates().map(Update::demand).sum(),
                updates().map(Update::passed).sum(),
            ),
            connected: self.limiters.saturating_sub(lost as u32),
        }
    }

    fn note(&mut self, about: u64, heard: Heard) -> Result<(), SharingError> {
        let others = self.limiters.saturating_sub(1) as usize;
        if self.heard.len() >= others && !self.heard.contains_key(&about) {
            return Err(SharingError::TooManyPeers {
                from: about,
                limiters: self.limiters,
            });
        }
        self.heard.insert(about, heard);
        Ok(())
    }
}
