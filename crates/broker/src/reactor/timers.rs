//! What happens because time passed: heartbeats, deadlines, acks, collected output.
//!
//! Each connection has one timer. It comes up once per heartbeat interval, looks at everything that
//! could be overdue and is set anew, so reading and writing never touch timers.
//!
//! A reactor may be kept from running, by a busy machine or a stopped process, for longer than an interval. That is not
//! the peers' silence: they are judged as of when the timer was due, and not at all while something that epoll told of
//! them waits to be served.

use std::time::Duration;

use clock::Instant;

use super::Reactor;
use super::readiness::Readiness;
use crate::connection::{ConnectionKey, Pause, Progress};

impl Reactor {
    /// Sets a connection's timer; a former one is forgotten.
    pub(super) fn arm_timer(&mut self, key: ConnectionKey, wait: Duration) {
        if let Some(connection) = self.connections.get_mut(key) {
            let at = self.now + wait;
            connection.timer_at = Some(at);
            self.timers.push(at, key);
        }
    }

    /// When the next thing is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let dues = [
            self.timers.next(),
            self.dues.next(),
            self.table.next_wakeup(),
            self.accept_again_at,
            self.surveys.due(),
        ];
        dues.into_iter().flatten().min()
    }

    /// Does what is due.
    pub(super) fn run_timers(&mut self) {
        while let Some((at, key)) = self.timers.pop_due(self.now) {
            if self
                .connections
                .get(key)
                .is_some_and(|connection| connection.timer_at == Some(at))
            {
                self.check(key, at);
            }
        }
        while let Some((_, key)) = self.dues.pop_due(self.now) {
            self.schedule.notice(key, Readiness::DUE);
        }
        self.accept_again();
    }

    fn check(&mut self, key: ConnectionKey, at: Instant) {
        let Some(connection) = self.connections.get(key) else {
            return;
        };
        let is_judged = !self.schedule.is_waiting(key);
        match connection.progress {
            Progress::Handshake if is_judged => {
                return self.close(key, "no protocol magic in time");
            }
            Progress::Handshake => {
                return self.arm_timer(key, self.shared.config.handshake_timeout);
            }
            Progress::Lingering => return self.close(key, "its last error has been sent"),
            Progress::Open(_) | Progress::Tempo => {}
        }
        let interval = connection
            .terms
            .heartbeat
            .unwrap_or(self.shared.config.heartbeat_interval);
        if connection
            .blocked_since
            .is_some_and(|since| is_judged && at.saturating_since(since) >= interval)
        {
            return self.close(key, "it takes nothing from its socket");
        }
        if connection.terms.heartbeat.is_some() {
            let is_silent = at.saturating_since(connection.last_read) >= interval * 2;
            if is_judged && is_silent && connection.pause == Pause::No {
                return self.close(key, "no answer to heartbeats");
            }
            self.send_heartbeat(key);
        }
        // From the time it was due, not from now, so that a busy reactor keeps the interval.
        let late = self.now.saturating_since(at).min(interval / 2);
        self.arm_timer(key, interval - late);
    }
}

#[cfg(test)]
mod tests;
