//! The connections of a follower: the one that gets what is published, the one in the making, those
//! that leave.

use crate::placed::connection::{BrokerConnection, ConnectionId};

/// Connections that wait for acknowledgements at the same time; further moves wait for one of them.
pub(super) const MAX_LEAVING: usize = 4;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Connections {
    pub(super) active: Option<BrokerConnection>,
    pub(super) making: Option<Making>,
    pub(super) leaving: Vec<BrokerConnection>,
    /// A move that waits until one of the leaving connections is closed.
    pub(super) postponed: Option<String>,
    made: u64,
}

/// A connection that is to become the active one.
#[derive(Debug)]
pub(super) struct Making {
    pub(super) connection: BrokerConnection,
    /// Nobody said to go there: it is where the publisher was before, tried since the controller does not answer.
    pub(super) is_fallback: bool,
}

impl Connections {
    /// The next identifier.
    pub(super) fn next_id(&mut self) -> ConnectionId {
        let id = ConnectionId(self.made);
        self.made += 1;
        id
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &BrokerConnection> {
        let making = self.making.as_ref().map(|making| &making.connection);
        self.active.iter().chain(making).chain(&self.leaving)
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&BrokerConnection> {
        self.all().find(|connection| connection.id == id)
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut BrokerConnection> {
        let making = self.making.as_mut().map(|making| &mut making.connection);
        let connections = self.active.iter_mut().chain(making);
        connections
            .chain(&mut self.leaving)
            .find(|connection| connection.id == id)
    }

    /// Whether it gets what is published.
    pub(super) fn is_active(&self, id: ConnectionId) -> bool {
        self.active.as_ref().is_some_and(|active| active.id == id)
    }

    /// The connection and whether it was leaving.
    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<(BrokerConnection, bool)> {
        if self
            .active
            .as_ref()
            .is_some_and(|connection| connection.id == id)
        {
            return Some((self.active.take()?, false));
        }
        if self.making.as_ref().is_some_and(|m| m.connection.id == id) {
            return Some((self.making.take()?.connection, false));
        }
        let place = self
            .leaving
            .iter()
            .position(|connection| connection.id == id)?;
        Some((self.leaving.remove(place), true))
    }
}
