//! The surroundings of a process: the network, and the laws' books.

use link::{Order, ToController};

use crate::chance::Chance;
use crate::event::{Actor, Packet, StreamId};
use crate::laws::Books;
use crate::network::Network;

/// Around all processes.
pub struct Outside {
    /// The network and what is to happen.
    pub net: Network,
    /// The laws.
    pub books: Books,
    /// Draws of processes.
    pub chance: Chance,
    /// Messages of links travel as the bytes that they are on the wire.
    pub in_bytes: bool,
}

impl Outside {
    /// Sends a packet; messages of links as bytes, where the run wants that.
    pub fn say(&mut self, stream: StreamId, from: Actor, packet: Packet) {
        let packet = match packet {
            Packet::ToController(message) if self.in_bytes => self.framed::<ToController>(&message),
            Packet::Order(order) if self.in_bytes => self.framed::<Order>(&order),
            packet => packet,
        };
        self.net.send(stream, from, packet);
    }

    fn framed<T: serde::Serialize>(&mut self, message: &T) -> Packet {
        match link::encode(message) {
            Ok(bytes) => Packet::Frame(bytes),
            Err(error) => {
                self.books
                    .breaks("frames", format!("a message cannot be written: {error}"));
                Packet::Frame(Vec::new())
            }
        }
    }
}
