//! Adds layers to connections: compression at once, TLS after a handshake on another thread.

use std::io::ErrorKind;

use clock::WallTime;
use topics::Part;

use super::hall::Hall;
use super::schedule::Readiness;
use super::strangers;
use crate::connection::ConnectionKey;
use crate::session::LayersWanted;
use crate::tls::Shaken;
use crate::transport::{Transport, Upgrade};

/// Nothing whole has come: either it comes with time, or a handshake has to go on first.
#[cold]
pub(super) fn receive_later(hall: &mut Hall, key: ConnectionKey, kind: ErrorKind) {
    if kind == ErrorKind::Interrupted {
        // Epoll does not tell of it again.
        hall.topics.schedule.notice(key, Readiness::READABLE);
    }
    let Some(connection) = hall.peers.connections.get_mut(key) else {
        return;
    };
    if !matches!(connection.transport, Transport::Layered(_)) {
        return;
    }
    if let Some(handshake) = connection.transport.depart()
        && let Some(handshakes) = &hall.shared.handshakes
    {
        let until = connection.timer_at.unwrap_or(hall.time.now);
        let shaken = Shaken {
            connection: key,
            handshake,
        };
        handshakes.go_on(hall.post.number, shaken, until);
        strangers::serve(hall, key);
    }
    if let Some(connection) = hall.peers.connections.get_mut(key)
        && connection.transport.held_bytes() > 0
    {
        connection.has_cut_input = true;
        hall.peers.charge_input(key, 0);
    }
}

/// Gives a connection the layers that its session announced, or closes it where there is no memory
/// for them. `behind` are the bytes that came after the command that asked for them.
pub(super) fn upgrade(hall: &mut Hall, key: ConnectionKey, wanted: LayersWanted, behind: &[u8]) {
    let LayersWanted { layers, .. } = wanted;
    let bytes = Upgrade::state_bytes(layers.tls, layers.compression);
    let Some(charge) = hall.shared.memory.charge(Part::Output, bytes) else {
        hall.peers.counters.layers_refused += 1;
        return hall.close(key, "no memory for its layers");
    };
    let Some(connection) = hall.peers.connections.get_mut(key) else {
        return;
    };
    let unsent = connection.output.unsent().len();
    let handshakes = hall.shared.handshakes.as_ref().filter(|_| layers.tls);
    let config = handshakes.map(|handshakes| handshakes.credentials().server());
    let upgrade = Upgrade {
        tls: config.map(|config| (config, unsent - wanted.within_tls)),
        compression: layers
            .compression
            .map(|compression| (compression, unsent - wanted.within_compression)),
        charge,
    };
    let stamp = connection.arrivals.stamp(usize::MAX);
    let stamp = WallTime::from_nanos(u64::try_from(stamp.wall_ns).unwrap_or(0));
    if let Err(error) = connection.transport.upgrade(upgrade, behind, stamp) {
        return hall.close(key, &error.to_string());
    }
    if layers.tls {
        let until = hall.time.now + hall.shared.config.handshake_timeout;
        hall.peers.arm_timer(key, until);
    }
    // The peer waits for the answer, whatever it said of collecting.
    hall.write(|writer| writer.write(key));
    hall.topics.schedule.notice(key, Readiness::READABLE);
}

/// A handshake is back.
pub(super) fn hear_shaken(hall: &mut Hall, shaken: Shaken) {
    let key = shaken.connection;
    let Some(connection) = hall.peers.connections.get_mut(key) else {
        return;
    };
    if let Err(error) = connection.transport.resume(*shaken.handshake) {
        hall.peers.counters.tls_handshakes_failed += 1;
        return hall.close(key, &error.to_string());
    }
    if !connection.transport.awaits_handshake() {
        let interval = connection.interval(hall.shared.config.heartbeat_interval);
        hall.peers.counters.tls_handshakes += 1;
        hall.peers.arm_timer(key, hall.time.now + interval);
        strangers::recognize(hall, key);
    } else {
        strangers::wait(hall, key);
    }
    hall.write(|writer| writer.write(key));
    hall.topics.schedule.notice(key, Readiness::READABLE);
}
