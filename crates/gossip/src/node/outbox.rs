//! Datagrams that wait to be sent.

use core::net::SocketAddr;
use std::collections::VecDeque;

use wire::gossip::{UPDATE_BYTES, put_membership};

use super::peer::Peer;

/// A datagram and where to send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The receiver.
    pub to: SocketAddr,
    contents: Contents,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Contents {
    Update([u8; UPDATE_BYTES]),
    Membership(Vec<u8>),
}

/// In the order in which they came. What finds no room is left out: to the receivers it is lost.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: VecDeque<Transmit>,
}

/// Datagrams that wait at most.
pub(super) const MAX_WAITING: usize = 16_384;

const UDP_HEADER_BYTES: u64 = 8;
const IPV4_HEADER_BYTES: u64 = 20;
const IPV6_HEADER_BYTES: u64 = 40;

impl Transmit {
    /// What to send.
    pub fn bytes(&self) -> &[u8] {
        match &self.contents {
            Contents::Update(bytes) => bytes,
            Contents::Membership(bytes) => bytes,
        }
    }

    /// Bytes on the network, headers of IP and UDP included.
    pub fn packet_bytes(&self) -> u64 {
        let ip = match self.to.ip().to_canonical().is_ipv4() {
            true => IPV4_HEADER_BYTES,
            false => IPV6_HEADER_BYTES,
        };
        self.bytes().len() as u64 + UDP_HEADER_BYTES + ip
    }

    pub(super) fn is_update(&self) -> bool {
        matches!(self.contents, Contents::Update(_))
    }
}

impl Outbox {
    /// Returns whether there was room.
    pub(super) fn push_update(&mut self, to: SocketAddr, bytes: [u8; UPDATE_BYTES]) -> bool {
        let contents = Contents::Update(bytes);
        self.push(Transmit { to, contents })
    }

    /// Seals and queues a message of membership; returns whether there was room.
    pub(super) fn push_membership(
        &mut self,
        to: &mut Peer,
        incarnation: u64,
        payload: &[u8],
    ) -> bool {
        to.membership_sent += 1;
        let mut bytes = Vec::new();
        let sealed = put_membership(
            &mut bytes,
            &to.membership_to,
            incarnation,
            to.membership_sent,
            payload,
        );
        let contents = Contents::Membership(bytes);
        let to = to.address;
        sealed.is_ok() && self.push(Transmit { to, contents })
    }

    pub(super) fn pop(&mut self) -> Option<Transmit> {
        self.waiting.pop_front()
    }

    fn push(&mut self, transmit: Transmit) -> bool {
        let has_room = self.waiting.len() < MAX_WAITING;
        if has_room {
            self.waiting.push_back(transmit);
        }
        has_room
    }
}
