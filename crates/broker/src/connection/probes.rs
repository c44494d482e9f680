//! Follows messages through a subscriber's socket until its kernel has them.
//!
//! The kernel counts the bytes of a socket from the moment it is asked to stamp acknowledgements,
//! and names a stamp by the last byte of the write that asked for it (`SO_TIMESTAMPING`, `OPT_ID`).
//! So a write ends where a followed message ends, and bytes are counted here in step, modulo 2^32
//! as the kernel does. The kernel counts bytes on the wire; the position of a message in the output
//! is counted in plain bytes ([`Taken`]).
//!
//! When is a message at the subscriber? An acknowledgement is the proof, but not the time: a
//! subscriber that answers each message sends it along with the answer, up to 40 ms (by the
//! protocol 200 ms) late. Hence a message left when the socket had passed everything on, and
//! reached the subscriber half a round trip later. There are three exceptions: the socket could not
//! pass it on at once, the connection lost packets before the acknowledgement came, or the
//! acknowledgement took longer than any deliberate delay. In these cases the time is the
//! acknowledgement minus half a round trip. Round trips are the connection's *smallest*: smoothed
//! ones contain the delays of acknowledgements.

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;
use topics::{Landed, Probe};

use crate::sys::Path;
use crate::transport::Taken;

/// Probes that wait for their acknowledgement; at the bound the oldest is given up as landed.
const AWAITED_MAX: usize = 64;

/// No kernel keeps an acknowledgement back for longer: 200 ms, and room for its timer and two round trips.
const DELAYED_ACK_MAX: Duration = Duration::from_millis(250);

/// An acknowledgement that comes so soon after the round trip was not kept back.
const PROMPT: Duration = Duration::from_millis(1);

/// A publisher's round trip is read again after so long. Smallest round trips hardly move.
const HALF_RTT_AGE_MAX: Duration = Duration::from_secs(10);

/// Half the round trip of a publisher, as it was last read.
#[derive(Clone, Copy, Debug, Default)]
pub struct HalfRtt {
    /// Half the smallest round trip, µs.
    pub us: u32,
    again_at: Instant,
}

/// A message that is to be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Reactor that owns its topic.
    pub home: usize,
    /// What that one wants back.
    pub probe: Probe,
}

/// One that has landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landing {
    /// Reactor that owns its topic.
    pub home: usize,
    /// The message that has landed.
    pub landed: Landed,
}

/// The followed messages of one subscriber.
#[derive(Debug)]
pub struct Probes {
    /// Plain bytes taken since the kernel counts.
    taken: u32,
    /// Bytes on the wire since then.
    written: u32,
    pending: Option<Pending>,
    awaited: VecDeque<Awaited>,
    is_off: bool,
}

/// A message in the output that is not written yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    followed: Followed,
    /// In plain bytes.
    end: u32,
    /// On the wire, once it is written.
    end_on_wire: u32,
    weight: u32,
}

/// A message that the socket has taken.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    followed: Followed,
    /// On the wire.
    end: u32,
    weight: u32,
    taken: Instant,
    path: Path,
}

impl HalfRtt {
    /// Whether it should be read again.
    #[inline]
    #[must_use]
    pub fn is_old(&self, now: Instant) -> bool {
        now >= self.again_at
    }

    /// Notes the connection's path as it was read at `now`.
    pub fn set(&mut self, path: Path, now: Instant) {
        self.us = path.min_rtt_us / 2;
        self.again_at = now + HALF_RTT_AGE_MAX;
    }
}

impl Probes {
    /// Follows nothing yet. With `is_off` it never will: the kernel does not stamp acknowledgements.
    #[must_use]
    pub fn new(is_off: bool) -> Probes {
        Probes {
            taken: 0,
            written: 0,
            pending: None,
            awaited: VecDeque::with_capacity(if is_off { 0 } else { AWAITED_MAX }),
            is_off,
        }
    }

    /// Follows a message that ends after `unsent` more plain bytes. One is followed per write: of several, one
    /// drawn by weight, and it counts for all of them. `draw` gives a number below its argument.
    pub fn follow(&mut self, followed: Followed, unsent: usize, draw: impl FnOnce(u32) -> u32) {
        if self.is_off {
            return;
        }
        let before = self.pending.map_or(0, |pending| pending.weight);
        let weight = before.saturating_add(followed.probe.weight);
        let end = self.taken.wrapping_add(unsent as u32);
        match &mut self.pending {
            Some(pending) if draw(weight) >= followed.probe.weight => pending.weight = weight,
            pending => {
                *pending = Some(Pending {
                    followed,
                    end,
                    end_on_wire: 0,
                    weight,
                });
            }
        }
    }

    /// Plain bytes from here to the end of the message that is followed: where the next write should end. `None`
    /// when it is written.
    #[must_use]
    pub fn next_end(&self) -> Option<usize> {
        let pending = self.pending?;
        let bytes = pending.end.wrapping_sub(self.taken) as usize;
        (bytes > 0).then_some(bytes)
    }

    /// Counts bytes that the socket took. True when they end with the message that is followed.
    pub fn count(&mut self, taken: Taken) -> bool {
        self.taken = self.taken.wrapping_add(taken.plain as u32);
        self.written = self.written.wrapping_add(taken.wire as u32);
        match &mut self.pending {
            Some(pending) if pending.end == self.taken && taken.plain > 0 => {
                pending.end_on_wire = self.written;
                true
            }
            _ => false,
        }
    }

    /// The followed message was taken whole at `taken`. Gives the oldest one if too many are awaited.
    pub fn taken(&mut self, taken: Instant, path: Path) -> Option<Landing> {
        let pending = self.pending.take()?;
        let oldest = match self.awaited.len() {
            AWAITED_MAX.. => self.awaited.pop_front(),
            _ => None,
        };
        self.awaited.push_back(Awaited {
            followed: pending.followed,
            end: pending.end_on_wire,
            weight: pending.weight,
            taken,
            path,
        });
        let oldest = oldest.filter(|oldest| oldest.path.unsent_bytes == 0)?;
        Some(oldest.landed(oldest.taken + oldest.half_rtt()))
    }

    /// Whether an acknowledgement at `at` makes one wonder what it waited for: then the path has to be
    /// read anew for [`Probes::pop_landed`].
    #[must_use]
    pub fn is_late(&self, at: Instant) -> bool {
        let late = |awaited: &Awaited| at - awaited.taken > awaited.rtt() + PROMPT;
        self.awaited.front().is_some_and(late)
    }

    /// The next message that is acknowledged with byte number `last`, stamped `at`. Acknowledgements are
    /// cumulative, so a stamp that was lost is made up for by the next one. `retransmits`: the
    /// connection's count now, where [`Probes::is_late`] asked for it.
    pub fn pop_landed(
        &mut self,
        last: u32,
        at: Instant,
        retransmits: Option<u32>,
    ) -> Option<Landing> {
        let awaited = *self.awaited.front()?;
        let is_acknowledged = last.wrapping_add(1).wrapping_sub(awaited.end) < 1 << 31;
        if !is_acknowledged {
            return None;
        }
        self.awaited.pop_front();
        let was_lossless = retransmits.is_none_or(|now| now == awaited.path.retransmits);
        let left_at_once = awaited.path.unsent_bytes == 0;
        let was_kept_back = at - awaited.taken <= awaited.rtt() + DELAYED_ACK_MAX;
        let proven = (at - awaited.half_rtt()).max(awaited.taken);
        let reached = if left_at_once && was_lossless && was_kept_back {
            awaited.taken + awaited.half_rtt()
        } else {
            proven
        };
        Some(awaited.landed(reached))
    }

    /// Messages whose acknowledgement is awaited.
    #[must_use]
    pub fn awaited(&self) -> usize {
        self.awaited.len()
    }
}

impl Awaited {
    fn rtt(&self) -> Duration {
        Duration::from_micros(u64::from(self.path.min_rtt_us))
    }

    fn half_rtt(&self) -> Duration {
        self.rtt() / 2
    }

    fn landed(&self, reached: Instant) -> Landing {
        let Followed { home, probe } = self.followed;
        let before_arrival = Duration::from_micros(u64::from(probe.half_rtt_us));
        Landing {
            home,
            landed: Landed {
                probe,
                weight: self.weight,
                end_to_end: before_arrival + (reached - probe.arrived),
            },
        }
    }
}

#[cfg(test)]
mod tests;
