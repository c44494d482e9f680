//! Publishers that wait for room in a topic's queue, in their order of arrival.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kernel::TaskId;
use link::Announcement;

use super::store::Arrival;
use super::table::{TopicKey, TopicTable};
use crate::handle::Reply;

/// Somebody whose publish did not fit.
#[derive(Debug)]
pub enum Held {
    /// A connection of this reactor: it has stopped reading, its command is still in its buffer.
    Connection(u64),
    /// A publish that came from another reactor.
    Remote(Box<RemotePublish>),
    /// A publish that came through the handle (HTTP).
    Request(Box<HeldRequest>),
}

/// A publish on its way from the reactor that read it to the one that owns the topic.
#[derive(Debug)]
pub struct RemotePublish {
    /// Reactor that owns the connection.
    pub from: usize,
    /// The task there that is charged with answering it.
    pub task: TaskId,
    /// The connection, in that reactor's numbering.
    pub connection: u64,
    /// The publisher that it is known as for the topic.
    pub publisher: Option<Arc<Announcement>>,
    /// Who is at its other end.
    pub peer: SocketAddr,
    /// The bodies, back to back.
    pub bytes: Vec<u8>,
    /// Length of each body.
    pub lengths: Vec<u32>,
    /// When it reached the broker.
    pub arrival: Arrival,
    /// Delay before consumers get it.
    pub delay: Duration,
}

/// A publish through the handle, waiting for room.
#[derive(Debug)]
pub struct HeldRequest {
    /// The messages.
    pub bodies: Vec<Bytes>,
    /// When the request came.
    pub arrival: Arrival,
    /// Delay before consumers get it.
    pub delay: Duration,
    /// Who waits for the answer.
    pub reply: Reply,
}

impl RemotePublish {
    /// The bodies one by one.
    pub fn bodies(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.lengths.iter().scan(0usize, |start, &length| {
            let body = &self.bytes[*start..*start + length as usize];
            *start += length as usize;
            Some(body)
        })
    }
}

impl TopicTable {
    /// Takes the first publisher held at a topic.
    pub fn pop_held(&mut self, key: TopicKey) -> Option<Held> {
        self.topics.get_mut(key)?.held.pop_front()
    }

    /// Puts a publisher at the end of those held, or (`first`) back at their head.
    pub fn hold(&mut self, key: TopicKey, held: Held, first: bool) {
        let Some(topic) = self.topics.get_mut(key) else {
            self.effects.orphans.push(held);
            return;
        };
        if first {
            topic.held.push_front(held);
        } else {
            topic.held.push_back(held);
        }
    }

    /// Whether somebody waits already, so that a newcomer must queue up behind.
    #[must_use]
    pub fn has_held(&self, key: TopicKey) -> bool {
        self.topics
            .get(key)
            .is_some_and(|topic| !topic.held.is_empty())
    }
}
