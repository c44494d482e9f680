//! Follows messages to their subscribers: the socket's part of the end-to-end latency.
//!
//! A sampled message costs a send that ends with it, a look at the connection's path, and a read of
//! the acknowledgement's stamp from the error queue, which epoll reports like an error.

use std::time::Duration;

use clock::{Instant, StampMap};
use topics::TopicTable;

use super::inbox::Mail;
use super::peers::Peers;
use super::post::Post;
use crate::connection::{Connection, ConnectionKey, Followed, Landing, Probes};
use crate::sys;

/// On average, a reactor follows no more than one message in so long.
const PROBE_SPACING: Duration = Duration::from_micros(250);

/// It may follow this many in a row.
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

/// Follows the message that a connection was just given, if it may be. `with_arrivals`: stamps of what arrives are used, too.
pub(super) fn follow(
    peers: &mut Peers,
    key: ConnectionKey,
    followed: Followed,
    with_arrivals: bool,
    now: Instant,
) {
    let Some(connection) = peers.connections.get_mut(key) else {
        return;
    };
    let Connection {
        transport,
        output,
        probes,
        ..
    } = connection;
    let probes = probes.get_or_insert_with(|| {
        let enabled = transport.enable_ack_stamps(with_arrivals);
        if let Err(error) = &enabled {
            tracing::warn!("end-to-end latency is not measured: {error}");
        }
        Box::new(Probes::new(enabled.is_err()))
    });
    if probes.next_end().is_none() && !peers.probe_budget.take(now) {
        return;
    }
    let random = &mut peers.random;
    probes.follow(followed, output.unsent().len(), |bound| {
        clock::below(random, bound)
    });
}

/// The socket has taken the message of a connection that is followed.
pub(super) fn await_ack(connection: &mut Connection, table: &mut TopicTable, post: &mut Post) {
    let Some(probes) = &mut connection.probes else {
        return;
    };
    let taken = sys::monotonic_now();
    let path = connection.transport.path().unwrap_or_default();
    if let Some(landing) = probes.taken(taken, path) {
        tell_home(&landing, table, post);
    }
}

/// Reads the stamps that lie in the socket's error queue. False where there were none: then it was an
/// error that epoll told of.
pub(super) fn take_ack_stamps(
    connection: &mut Connection,
    table: &mut TopicTable,
    post: &mut Post,
    stamps: &StampMap,
) -> bool {
    let Some(probes) = &mut connection.probes else {
        return false;
    };
    let mut was_there = false;
    while !was_there || probes.awaited() > 0 {
        let Ok(found) = connection.transport.next_ack_stamp() else {
            return was_there;
        };
        was_there = true;
        let Some(ack) = found else {
            continue;
        };
        let now = sys::monotonic_now();
        let at = ack
            .stamp
            .map_or(now, |stamp| stamps.map(stamp, Instant::ZERO, now));
        let path = match probes.is_late(at) {
            true => connection.transport.path().ok(),
            false => None,
        };
        let retransmits = path.map(|path| path.retransmits);
        while let Some(landing) = probes.pop_landed(ack.last, at, retransmits) {
            tell_home(&landing, table, post);
        }
    }
    true
}

/// Tells the topic of a message that it has landed, wherever the topic lives.
fn tell_home(landing: &Landing, table: &mut TopicTable, post: &mut Post) {
    match landing.home == post.number {
        true => table.record_landed(&landing.landed),
        false => post.send(landing.home, Mail::Landed(landing.landed)),
    }
}
