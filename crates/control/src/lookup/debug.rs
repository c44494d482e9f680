//! `/debug`: everything that was registered, by `category:topic:channel`. Brokers of the controller
//! do not register.
//!
//! The page can be long, so it is made in parts, each when the one before has been taken. A change
//! in between may or may not show; the registry is locked for one part at a time.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use clock::{Instant, WallTime};
use futures_util::stream;
use serde::Serialize;

use super::registry::{Peer, Registry, Row, RowKey};
use super::{Lookup, wall_now};

/// A part ends with the row that makes it so long.
const PART_BYTES: usize = 64 * 1024;

/// A registration; times are nanoseconds since 1970.
#[derive(Debug, Serialize)]
struct DebugPeer<'a> {
    broadcast_address: &'a str,
    hostname: &'a str,
    http_port: u16,
    id: &'a str,
    last_update: i64,
    tcp_port: u16,
    tombstoned: bool,
    tombstoned_at: i64,
    version: &'a str,
}

/// Go's zero time in nanoseconds since 1970, wrapped as Go wraps it: what stands for "never".
const NEVER_NS: i64 = -6_795_364_578_871_345_152;

/// How far a page has come.
#[derive(Debug, Default)]
pub(super) struct Page {
    last: Option<RowKey>,
    is_begun: bool,
    is_over: bool,
}

/// The page as a body.
pub(super) fn body(lookup: Arc<Lookup>) -> Body {
    let parts = stream::unfold((Page::default(), lookup), async |(mut page, lookup)| {
        let part = page.next(&lookup.registry(), lookup.now(), wall_now())?;
        Some((Ok::<_, std::io::Error>(Bytes::from(part)), (page, lookup)))
    });
    Body::from_stream(parts)
}

impl Page {
    /// The next part; `None` behind the last.
    pub(super) fn next(
        &mut self,
        registry: &Registry,
        now: Instant,
        wall: WallTime,
    ) -> Option<Vec<u8>> {
        if self.is_over {
            return None;
        }
        let mut part = Vec::new();
        if self.last.is_none() {
            part.push(b'{');
        }
        let last = self.last.take();
        for row in registry.rows_behind(last.as_ref()) {
            if std::mem::replace(&mut self.is_begun, true) {
                part.push(b',');
            }
            put_row(&row, now, wall, &mut part);
            self.last = Some(row.key);
            if part.len() >= PART_BYTES {
                return Some(part);
            }
        }
        self.is_over = true;
        part.push(b'}');
        Some(part)
    }
}

fn put_row(row: &Row<'_>, now: Instant, wall: WallTime, part: &mut Vec<u8>) {
    let key = match &row.key {
        RowKey::Channel(topic, channel) => format!("\"channel:{topic}:{channel}\":["),
        RowKey::Clients => String::from("\"client::\":["),
        RowKey::Topic(topic) => format!("\"topic:{topic}:\":["),
    };
    part.extend_from_slice(key.as_bytes());
    for (place, (peer, tombstoned_at)) in row.peers.iter().enumerate() {
        if place > 0 {
            part.push(b',');
        }
        let peer = DebugPeer::new(peer, *tombstoned_at, now, wall);
        // Text and numbers into memory, which does not fail.
        let _ = serde_json::to_writer(&mut *part, &peer);
    }
    part.push(b']');
}

impl<'a> DebugPeer<'a> {
    fn new(peer: &'a Peer, tombstoned_at: Option<Instant>, now: Instant, wall: WallTime) -> Self {
        let wall_ns = |at: Instant| wall_ns_of(now - at, wall);
        let identity = &peer.identity;
        DebugPeer {
            broadcast_address: &identity.broadcast_address,
            hostname: &identity.hostname,
            http_port: identity.http_port,
            id: &peer.remote_address,
            last_update: wall_ns(peer.heard_at),
            tcp_port: identity.tcp_port,
            tombstoned: tombstoned_at.is_some(),
            tombstoned_at: tombstoned_at.map_or(NEVER_NS, wall_ns),
            version: &identity.version,
        }
    }
}

fn wall_ns_of(ago: Duration, wall: WallTime) -> i64 {
    let ago_ns = u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX);
    i64::try_from(wall.as_nanos().saturating_sub(ago_ns)).unwrap_or(i64::MAX)
}
