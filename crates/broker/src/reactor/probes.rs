//! Following messages to their subscribers: the socket's part of the end-to-end latency.
//!
//! A sampled message costs a send that ends with it, a look at the connection's path, and a read of the
//! acknowledgement's stamp from the error queue, which epoll announces like an error.

use std::time::Duration;

use clock::Instant;

use super::Reactor;
use crate::connection::ConnectionKey;
use crate::sys;

/// On average, a reactor follows no more than one message in so long.
const PROBE_SPACING: Duration = Duration::from_micros(250);

/// It may follow so many in a row.
const PROBES_AT_ONCE: u32 = 256;

/// How many messages a reactor may follow, over all topics: 4000 a second, 256 at once.
#[derive(Debug, Default)]
pub(super) struct ProbeBudget {
    /// When all that was taken is paid for.
    paid_at: Instant,
}

impl ProbeBudget {
    /// Takes one, if there is one.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let latest = now + PROBE_SPACING * (PROBES_AT_ONCE - 1);
        let paid_at = self.paid_at.max(now);
        let is_there = paid_at <= latest;
        if is_there {
            self.paid_at = paid_at + PROBE_SPACING;
        }
        is_there
    }
}

impl Reactor {
    /// The socket has taken the message that is followed.
    pub(super) fn await_ack(&mut self, key: ConnectionKey) {
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return;
        };
        let Some(probes) = &mut connection.probes else {
            return;
        };
        let taken = sys::monotonic_now();
        let path = sys::path(&connection.stream).unwrap_or_default();
        if let Some(landed) = probes.taken(taken, path) {
            self.topics.table.record_landed(&landed);
        }
    }

    /// Reads the stamps that lie in the socket's error queue. False where there were none: then it was an
    /// error that epoll told of.
    pub(super) fn take_ack_stamps(&mut self, key: ConnectionKey) -> bool {
        let mut was_there = false;
        loop {
            let Some(connection) = self.peers.connections.get_mut(key) else {
                return was_there;
            };
            let Some(probes) = &mut connection.probes else {
                return was_there;
            };
            if was_there && probes.awaited() == 0 {
                return true;
            }
            let Ok(found) = sys::next_ack_stamp(&connection.stream) else {
                return was_there;
            };
            was_there = true;
            let Some(ack) = found else {
                continue;
            };
            let now = sys::monotonic_now();
            let at = ack
                .stamp
                .map_or(now, |stamp| self.time.stamps.map(stamp, Instant::ZERO, now));
            let path = match probes.is_late(at) {
                true => sys::path(&connection.stream).ok(),
                false => None,
            };
            let retransmits = path.map(|path| path.retransmits);
            while let Some(landed) = probes.pop_landed(ack.last, at, retransmits) {
                self.topics.table.record_landed(&landed);
            }
        }
    }
}
