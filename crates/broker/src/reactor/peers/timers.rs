//! When connections are looked at again.

use clock::Instant;

use super::Peers;
use crate::connection::ConnectionKey;

/// So many outdated timers are no matter.
pub(in crate::reactor) const OUTDATED_MIN: usize = 64;

impl Peers {
    /// Sets a connection's timer; a former one is forgotten.
    pub(in crate::reactor) fn arm_timer(&mut self, key: ConnectionKey, at: Instant) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.timer_at = Some(at);
            self.timers.push(at, key);
            self.forget_outdated();
        }
    }

    /// Has a connection served at `at`.
    pub(in crate::reactor) fn push_due(&mut self, at: Instant, key: ConnectionKey) {
        self.dues.push(at, key);
        self.forget_outdated();
    }

    /// Keeps timers that nobody waits for any more from filling the memory. Each connection has one timer, and may have an ack
    /// and collected output due.
    fn forget_outdated(&mut self) {
        let connections = &self.connections;
        if self.timers.len() > 2 * connections.len() + OUTDATED_MIN {
            self.timers.retain(|at, key| {
                let connection = connections.get(key);
                connection.is_some_and(|connection| connection.timer_at == Some(at))
            });
        }
        if self.dues.len() > 4 * connections.len() + OUTDATED_MIN {
            self.dues.retain(|at, key| {
                let connection = connections.get(key);
                connection.is_some_and(|connection| connection.is_due(at))
            });
        }
    }
}
