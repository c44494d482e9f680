//! Acts on the passage of time: heartbeats, deadlines, acks, collected output.
//!
//! Each connection has one timer. It fires once per heartbeat interval, looks at everything that
//! could be overdue and is set anew, so reading and writing never touch timers. Timers that a peer
//! replaced by asking for other terms are removed before they outnumber the live ones.
//!
//! A busy machine or a stopped process may keep a reactor from running for longer than an interval.
//! Peers are not blamed for that: they are judged as of the instant at which the timer was due, and
//! not at all while a readiness of theirs waits to be served.

use clock::Instant;

use super::hall::Hall;
use super::schedule::Readiness;
use super::strangers;
use crate::connection::{ConnectionKey, Pause};

/// Connections that a turn looks at because their time has come: after a stall it has come for all.
const TIMERS_PER_TURN: usize = 64;

impl Hall {
    /// Does what is due.
    pub(super) fn run_timers(&mut self) {
        // The rest is due in the next turn, which does not wait.
        for _ in 0..TIMERS_PER_TURN {
            let Some((at, key)) = self.peers.timers.pop_due(self.time.now) else {
                break;
            };
            if self
                .peers
                .connections
                .get(key)
                .is_some_and(|connection| connection.timer_at == Some(at))
            {
                self.check(key, at);
            }
        }
        while let Some((_, key)) = self.peers.dues.pop_due(self.time.now) {
            self.topics.schedule.notice(key, Readiness::DUE);
        }
    }

    fn check(&mut self, key: ConnectionKey, at: Instant) {
        let Some(connection) = self.peers.connections.get(key) else {
            return;
        };
        let is_judged = !self.topics.schedule.is_waiting(key);
        if connection.is_lingering {
            return self.close(key, "its last error has been sent");
        }
        if connection.transport.awaits_handshake() {
            let again_at = self.time.now + self.shared.config.handshake_timeout;
            if is_judged {
                self.peers.counters.strangers_late += u64::from(connection.is_stranger);
                return self.close(key, "no TLS handshake in time");
            }
            return self.peers.arm_timer(key, again_at);
        }
        if connection.is_stranger {
            let again_at = self.time.now + self.shared.config.handshake_timeout;
            if is_judged && !strangers::gets_on(self, connection, at) {
                self.peers.counters.strangers_late += 1;
                return self.close(key, "no magic and first command in time");
            }
            return self.peers.arm_timer(key, again_at);
        }
        let interval = connection.interval(self.shared.config.heartbeat_interval);
        if is_judged && connection.output.is_stalled(at, interval) && !self.has_read(key, at) {
            return;
        }
        let Some(connection) = self.peers.connections.get(key) else {
            return;
        };
        let is_read = connection.pause == Pause::No;
        let is_lost = connection
            .arriving
            .is_some_and(|pace| pace.is_lost(at, interval));
        if is_judged && is_read && is_lost {
            return self.close_half(key);
        }
        if connection.session.has_heartbeats() {
            let is_silent = at.saturating_since(connection.last_read) >= interval * 2;
            if is_judged && is_silent && connection.pause == Pause::No {
                return self.close(key, "no answer to heartbeats");
            }
            self.peers.put_heartbeat(key, self.time.now);
            self.topics.schedule.notice(key, Readiness::DUE);
        }
        // From the time it was due, not from now, so that a busy reactor keeps the interval.
        let late = self.time.now.saturating_since(at).min(interval / 2);
        self.peers.arm_timer(key, self.time.now + (interval - late));
    }

    /// Closes a connection whose command does not get on.
    fn close_half(&mut self, key: ConnectionKey) {
        let Some(connection) = self.peers.connections.get(key) else {
            return;
        };
        let (peer, come, needed) = (connection.peer, connection.input.len(), connection.needed);
        self.peers.counters.half_closed += 1;
        if let Some(more) = self.peers.complaints.may_log(self.time.now) {
            tracing::warn!(
                "{peer}: closed, because only {come} of {needed} bytes of its command came, and hardly any within a heartbeat interval; {more} more since the last such line"
            );
        }
        self.close(key, "the rest of its command did not come");
    }

    /// Tries the socket of a connection that hardly took anything for an interval once more, since epoll does not tell of every
    /// byte; says whether it is to stay.
    fn has_read(&mut self, key: ConnectionKey, at: Instant) -> bool {
        self.write(|writer| writer.write(key));
        let Some(connection) = self.peers.connections.get(key) else {
            return false;
        };
        let interval = connection.interval(self.shared.config.heartbeat_interval);
        if !connection.output.is_stalled(at, interval) {
            return true;
        }
        let (peer, waiting) = (connection.peer, connection.output.unsent().len());
        self.peers.counters.unread_closed += 1;
        if let Some(more) = self.peers.complaints.may_log(self.time.now) {
            tracing::warn!(
                "{peer}: closed, because it read less than an eighth of {waiting} bytes in {interval:?}; {more} more since the last such line"
            );
        }
        self.close(key, "it reads too slowly");
        false
    }
}

#[cfg(test)]
mod tests;
