//! Connections that come and go: make before break, and what happens when one breaks.

use std::time::Duration;

use clock::Instant;

use super::connections::{MAX_LEAVING, Making};
use super::{Action, Follower};
use crate::placed::connection::{BrokerConnection, ConnectionId, Phase};

/// A connection that held so long was no accident: the next try after it begins with short waits.
const LASTING: Duration = Duration::from_secs(1);

impl Follower {
    /// Begins a connection to `address`, in place of one that is in the making.
    pub(super) fn make(&mut self, now: Instant, address: String, is_fallback: bool) {
        if self.connections.leaving.len() >= MAX_LEAVING {
            self.connections.postponed = Some(address);
            return;
        }
        self.connections.postponed = None;
        if let Some(making) = self.connections.making.take() {
            self.actions.push_back(Action::Close(making.connection.id));
        }
        let id = self.connections.next_id();
        self.actions.push_back(Action::Connect {
            connection: id,
            address: address.clone(),
        });
        self.connections.making = Some(Making {
            connection: BrokerConnection::new(id, address, now),
            is_fallback,
        });
    }

    /// The broker has greeted: what comes next goes there, and the former active connection leaves.
    pub(super) fn switch(&mut self, now: Instant, answer: &[u8]) {
        let Some(Making {
            mut connection,
            is_fallback,
        }) = self.connections.making.take()
        else {
            return;
        };
        connection.greeted(answer, now);
        self.last_address = Some(connection.address.clone());
        self.enquiring.arrived(&connection.address, is_fallback);
        if let Some(mut former) = self.connections.active.replace(connection) {
            self.traffic.moves += 1;
            let mut unbegun = former.take_unbegun();
            unbegun.append(&mut self.waiting);
            self.waiting = unbegun;
            self.connections.leaving.push(former);
            self.close_drained(now);
        }
        self.throttled = None;
        self.send_waiting();
    }

    /// Closes the leaving connections that have nothing outstanding any more.
    pub(super) fn close_drained(&mut self, now: Instant) {
        let actions = &mut self.actions;
        self.connections.leaving.retain(|connection| {
            let stays = !connection.is_drained();
            if !stays {
                actions.push_back(Action::Close(connection.id));
            }
            stays
        });
        if self.connections.leaving.len() < MAX_LEAVING
            && let Some(address) = self.connections.postponed.take()
        {
            self.make(now, address, false);
        }
    }

    /// Gives up a connection: what it has not acknowledged waits again, and the controller is asked where to go.
    pub(super) fn lose(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        reason: &str,
        avoid: bool,
    ) {
        let Some((mut lost, was_leaving)) = self.connections.remove(connection) else {
            return;
        };
        self.actions.push_back(Action::Close(connection));
        self.trouble = format!("{}: {reason}", lost.address);
        let mut again = lost.take_outstanding();
        again.append(&mut self.waiting);
        self.waiting = again;
        self.send_waiting();
        if was_leaving {
            self.close_drained(now);
        } else {
            let has_lasted = lost.phase == Phase::Ready && now >= lost.since + LASTING;
            self.enquiring
                .lost(avoid.then_some(lost.address), has_lasted);
            self.ask_again(now);
        }
    }
}
