//! Deliveries of topics to consumers' connections.

use std::collections::BTreeMap;

use topics::{Delivery, Outlet};
use wire::{MESSAGE_HEADER_BYTES, MessageId, put_message_header};

use super::ground::Ground;
use super::session::Session;
use crate::event::StreamId;
use crate::laws::delivery::Key;
use crate::outside::Outside;

/// Frames of one turn, with what the laws want to know of them.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    given: Vec<Given>,
}

#[derive(Debug)]
struct Given {
    to: StreamId,
    id: u64,
    key: Option<Key>,
    frame: Vec<u8>,
}

impl Outlet for Deliveries {
    fn deliver(&mut self, connection: u64, delivery: Delivery<'_>) -> bool {
        let (message, attempts) = (delivery.message, delivery.attempts);
        let mut header = [0; MESSAGE_HEADER_BYTES];
        let id = MessageId::from_u64(message.id);
        let (bytes, wall_ns) = (message.body.len(), message.arrival.wall_ns);
        put_message_header(&mut header, bytes, wall_ns, attempts, id);
        let mut frame = header.to_vec();
        frame.extend_from_slice(&message.body);
        self.given.push(Given {
            to: StreamId(connection),
            id: message.id,
            key: Key::of(&message.body),
            frame,
        });
        true
    }

    fn draw(&mut self, _bound: u8) -> u8 {
        0
    }
}

impl Deliveries {
    /// Hands the frames on to connections.
    pub(super) fn hand_on(
        &mut self,
        sessions: &mut BTreeMap<StreamId, Session>,
        ground: &Ground,
        out: &mut Outside,
    ) {
        let now = out.net.now;
        for given in std::mem::take(&mut self.given) {
            let Some(session) = sessions.get_mut(&given.to) else {
                out.books.breaks(
                    "deliveries",
                    format!("{:?} went to a connection that is gone", given.key),
                );
                continue;
            };
            session.output.extend(given.frame);
            if let (Some(key), Some(queue)) = (given.key, session.queue()) {
                let flight = (ground.memory(), queue, given.id);
                let due = now + session.msg_timeout();
                let delivered = out.books.deliveries.delivered(flight, key, now, due);
                out.books.check("deliveries", delivered);
                session.flights.insert(given.id, key);
            }
        }
    }
}
