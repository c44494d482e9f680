//! Whether connections are read, and what epoll watches them for.

use std::os::fd::AsFd;

use clock::Instant;

use super::Peers;
use crate::connection::{ConnectionKey, Pace, Pause};
use crate::reactor::batch::{IN_TRANSIT_BYTES, IN_TRANSIT_MAX};
use crate::reactor::schedule::Readiness;
use crate::reactor::schedule::Schedule;
use crate::sys::Interest;

impl Peers {
    /// Stops reading from a connection, for the reason given.
    pub(in crate::reactor) fn pause(&mut self, key: ConnectionKey, reason: Pause) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.pause = reason;
            let interest = Interest {
                read: false,
                ..connection.interest
            };
            self.watch(key, interest);
        }
    }

    /// Reads from a connection again.
    pub(in crate::reactor) fn unpause(
        &mut self,
        key: ConnectionKey,
        schedule: &mut Schedule,
        now: Instant,
    ) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.pause = Pause::No;
            connection.last_read = now;
            let cut = connection.arriving.is_some();
            connection.arriving = cut.then(|| Pace::new(now, connection.needed));
            let interest = Interest {
                read: true,
                ..connection.interest
            };
            if connection.transport.holds_input() {
                schedule.notice(key, Readiness::READABLE);
            }
            self.watch(key, interest);
        }
    }

    /// Reads from a connection again, and has executed what it has sent already.
    pub(in crate::reactor) fn let_go_on(
        &mut self,
        key: ConnectionKey,
        schedule: &mut Schedule,
        now: Instant,
    ) {
        self.unpause(key, schedule, now);
        schedule.notice(key, Readiness::RESUMED);
    }

    /// Lets a connection go on that waited for what it has in transit, once that is little again: a pause is not undone for a
    /// single command.
    pub(in crate::reactor) fn let_go_on_in_transit(
        &mut self,
        key: ConnectionKey,
        schedule: &mut Schedule,
        now: Instant,
    ) {
        let is_to_go_on = self.connections.get(key).is_some_and(|connection| {
            connection.pause == Pause::InTransit
                && connection.in_transit <= IN_TRANSIT_MAX / 2
                && connection.in_transit_bytes <= IN_TRANSIT_BYTES / 2
        });
        if is_to_go_on {
            self.let_go_on(key, schedule, now);
        }
    }

    /// Reads no more from a publisher, because the broker stops. Consumers may still finish messages.
    pub(in crate::reactor) fn stop_publishing(&mut self, key: ConnectionKey) {
        if let Some(connection) = self.connections.get(key)
            && connection.subscriptions.is_empty()
        {
            let interest = Interest {
                read: false,
                ..connection.interest
            };
            self.watch(key, interest);
        }
    }

    /// Has epoll watch a connection for `interest`.
    #[inline]
    pub(in crate::reactor) fn watch(&mut self, key: ConnectionKey, interest: Interest) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if connection.interest == interest {
            return;
        }
        connection.interest = interest;
        let descriptor = connection.transport.as_fd();
        if let Err(error) = self.epoll.modify(descriptor, key.to_bits(), interest) {
            let reason = format!("it cannot be watched: {error}");
            self.failed.push((key, reason));
        }
    }
}
