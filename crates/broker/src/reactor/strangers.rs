//! Connections that have not said yet who they are: few, for a short time, and with little of the broker's memory.
//!
//! A stranger becomes known by its first command, by a handshake of TLS that is done, or by the hello that its protocol begins with. Until
//! then it has a place among the strangers of its reactor. Where these are taken, by its address or in all, the one gives way that has kept
//! the broker waiting longest: a client that says at once who it is is through before as many have come behind it, and one whose handshake
//! waits for the broker stays.

use http::places::{Party, Shares, Table};
use topics::{MemoryBudget, Part};
use wire::{ErrorCode, ProtocolError};

use super::hall::Hall;
use crate::Config;
use crate::connection::{Connection, ConnectionKey};
use crate::session::Failure;

/// Input that a stranger may have without asking, in bytes; and what one receive takes of it at most.
pub(super) const STRANGER_INPUT_BYTES: usize = 16 * 1024;

/// First commands that are larger have this part of the memory for input, all strangers together.
const INPUT_PARTS: u64 = 8;

/// The strangers of a reactor.
#[derive(Debug)]
pub(super) struct Strangers {
    places: Table<ConnectionKey>,
    /// Memory reserved for their first commands.
    reserved_bytes: usize,
    reserved_bytes_max: usize,
}

impl Strangers {
    /// Of one reactor of a broker: each has its part of the places and of the memory.
    pub(super) fn new(config: &Config, budget: &MemoryBudget) -> Strangers {
        let part = |most: usize| most.div_ceil(config.threads);
        let shares = Shares {
            all: part(config.max_unidentified),
            of_one: part(config.max_unidentified_per_address),
            of_this_machine: part(config.max_unidentified),
        };
        let reserved = budget.limit(Part::Input) / INPUT_PARTS / config.threads as u64;
        Strangers {
            places: Table::new(shares),
            reserved_bytes: 0,
            reserved_bytes_max: usize::try_from(reserved).unwrap_or(usize::MAX),
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.places.taken()
    }

    /// A connection that goes, or is a stranger no more.
    pub(super) fn leave(&mut self, connection: &Connection) {
        self.places.free(connection.stranger.place);
        self.reserved_bytes -= connection.stranger.reserved_bytes;
    }
}

/// Gives a connection that has just come a place; says whether it is here. Another one may have to go for it.
pub(super) fn enter(hall: &mut Hall, key: ConnectionKey) -> bool {
    let Some(connection) = hall.peers.connections.get_mut(key) else {
        return false;
    };
    let party = Party::from(connection.peer.ip());
    let strangers = &mut hall.peers.strangers;
    let Some(given) = strangers.places.give(party, key, hall.time.now) else {
        // It has no place that it could give back.
        connection.is_stranger = false;
        hall.peers.counters.strangers_refused += 1;
        hall.close(key, "the handshakes of others take all places");
        return false;
    };
    connection.stranger.place = given.number;
    if let Some(former) = given.from {
        hall.peers.counters.strangers_gave_way += 1;
        hall.close(former, "it has not said who it is, and others were waiting");
    }
    true
}

/// A stranger has given a command, or its handshake is done: it is none any more.
#[cold]
pub(super) fn recognize(hall: &mut Hall, key: ConnectionKey) {
    let Some(connection) = hall.peers.connections.get_mut(key) else {
        return;
    };
    let is_known = !connection.is_lingering && !connection.transport.awaits_handshake();
    if !connection.is_stranger || !is_known {
        return;
    }
    hall.peers.strangers.leave(connection);
    connection.is_stranger = false;
    let interval = connection.interval(hall.shared.config.heartbeat_interval);
    hall.peers.arm_timer(key, hall.time.now + interval);
}

/// A stranger waits for the broker, which does its handshake.
pub(super) fn serve(hall: &mut Hall, key: ConnectionKey) {
    if let Some(connection) = hall.peers.connections.get(key)
        && connection.is_stranger
    {
        let _still_here = hall.peers.strangers.places.serve(connection.stranger.place);
    }
}

/// The broker waits for a stranger again.
pub(super) fn wait(hall: &mut Hall, key: ConnectionKey) {
    if let Some(connection) = hall.peers.connections.get(key)
        && connection.is_stranger
    {
        let place = connection.stranger.place;
        hall.peers.strangers.places.wait(place, hall.time.now);
    }
}

/// Whether a stranger may read on behind what it holds of a first command of `needed` bytes. One that may not is told, and ends:
/// it must not stand in line with those who are known.
pub(super) fn may_read_behind(hall: &mut Hall, key: ConnectionKey, needed: usize) -> bool {
    let Some(connection) = hall.peers.connections.get(key) else {
        return false;
    };
    let reserved = connection.stranger.reserved_bytes;
    if needed <= STRANGER_INPUT_BYTES.max(reserved) {
        return true;
    }
    let strangers = &hall.peers.strangers;
    let others = strangers.reserved_bytes - reserved;
    let has_room = others == 0 || others.saturating_add(needed) <= strangers.reserved_bytes_max;
    if has_room && hall.peers.reserve(key, needed) {
        hall.peers.strangers.reserved_bytes = others + needed;
        if let Some(connection) = hall.peers.connections.get_mut(key) {
            connection.stranger.reserved_bytes = needed;
        }
        return true;
    }
    hall.peers.counters.strangers_refused += 1;
    let text = format!("no room for a first command of {needed} bytes; send IDENTIFY first");
    hall.fail(
        key,
        &Failure::Nsq(ProtocolError::new(ErrorCode::Invalid, text)),
    );
    false
}

/// Whether the first command of a stranger is so large that it may take longer than others, and gets on.
pub(super) fn gets_on(hall: &Hall, connection: &Connection, at: clock::Instant) -> bool {
    let timeout = hall.shared.config.handshake_timeout;
    connection.needed > STRANGER_INPUT_BYTES
        && connection
            .arriving
            .is_some_and(|pace| !pace.is_lost(at, timeout))
}
