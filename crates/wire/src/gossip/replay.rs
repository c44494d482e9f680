//! Counters of datagrams: the whole of one from its low bits, and which ones have already come.

/// Counters that a [`ReplayWindow`] looks back.
pub const REPLAY_WINDOW: u64 = 64;

/// What a counter says of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It is the latest.
    Latest,
    /// A later one was there first; this one had not come.
    Late,
    /// It came already, or it is too old to tell.
    Before,
}

/// Which of the latest counters have come. Counters begin at 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayWindow {
    latest: u64,
    /// Bit i: latest − i has come.
    came: u64,
}

impl ReplayWindow {
    /// The greatest counter that came; 0 before the first.
    pub const fn latest(&self) -> u64 {
        self.latest
    }

    /// What `counter` says, without noting it: only one whose tag was right may be noted.
    pub const fn look(&self, counter: u64) -> Seen {
        if counter > self.latest {
            return Seen::Latest;
        }
        let back = self.latest - counter;
        if counter == 0 || back >= REPLAY_WINDOW || self.came >> back & 1 == 1 {
            return Seen::Before;
        }
        Seen::Late
    }

    /// Notes that `counter` has come.
    pub const fn note(&mut self, counter: u64) {
        if counter > self.latest {
            let ahead = counter - self.latest;
            self.came = if ahead < REPLAY_WINDOW {
                self.came << ahead | 1
            } else {
                1
            };
            self.latest = counter;
        } else if self.latest - counter < REPLAY_WINDOW {
            self.came |= 1 << (self.latest - counter);
        }
    }
}

/// The counter nearest to `latest` that ends in the 16 bits `low`: right as long as fewer than 32,768 in a row are lost.
pub const fn counter_near(latest: u64, low: u16) -> u64 {
    let ahead = low.wrapping_sub(latest as u16);
    if ahead < 0x8000 {
        return latest.saturating_add(ahead as u64);
    }
    let behind = (latest as u16).wrapping_sub(low) as u64;
    match latest.checked_sub(behind) {
        Some(counter) => counter,
        // Before the first one: it can only be ahead.
        None => latest.saturating_add(ahead as u64),
    }
}
