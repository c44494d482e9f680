//! What a node keeps about one of the limiters.

use core::net::SocketAddr;

use wire::gossip::{Endpoint, Key, Path, ReplayWindow};

/// A limiter as a node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerState {
    /// Where it receives.
    pub address: SocketAddr,
    /// Whether it is the one that is asked.
    pub is_me: bool,
    /// Whether it is there.
    pub connected: bool,
    /// The latest of its lives that is known; 0 for none.
    pub incarnation: u64,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    pub(super) connected: bool,
    /// The latest that is known; 0 for none.
    pub(super) incarnation: u64,
    pub(super) updates_to: Path,
    pub(super) updates_from: Path,
    pub(super) membership_to: Path,
    /// Never begins anew: the receiver's incarnation is not in the tag.
    pub(super) membership_sent: u64,
    pub(super) membership_heard: ReplayWindow,
}

impl Peer {
    pub(super) fn new(address: SocketAddr, key: &Key, me: Endpoint) -> Self {
        let unborn = Endpoint {
            address,
            incarnation: 0,
        };
        Peer {
            address,
            connected: false,
            incarnation: 0,
            updates_to: key.path(me, unborn),
            updates_from: key.path(unborn, me),
            membership_to: key.path(me, unborn),
            membership_sent: 0,
            membership_heard: ReplayWindow::default(),
        }
    }

    /// It began a life.
    pub(super) fn begin(&mut self, incarnation: u64, key: &Key, me: Endpoint) {
        let peer = Endpoint {
            address: self.address,
            incarnation,
        };
        self.incarnation = incarnation;
        self.updates_to = key.path(me, peer);
        self.updates_from = key.path(peer, me);
        self.membership_heard = ReplayWindow::default();
    }

    pub(super) fn state(&self) -> PeerState {
        PeerState {
            address: self.address,
            is_me: false,
            connected: self.connected,
            incarnation: self.incarnation,
        }
    }
}
