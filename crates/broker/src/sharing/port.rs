//! The UDP port that carries gossip.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use gossip::{Socket, SocketCounters};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::sharer::Sharer;

/// The UDP port of gossip.
#[derive(Debug)]
pub(super) struct Port {
    socket: Socket,
    /// The same socket, to wait for.
    readiness: UdpSocket,
    address: SocketAddr,
}

impl Port {
    /// Binds it; to be called within a runtime.
    pub(super) fn bind(address: SocketAddr) -> io::Result<Port> {
        let socket = Socket::bind(address)?;
        let address = socket.local_addr()?;
        let twin = std::net::UdpSocket::from(socket.as_fd().try_clone_to_owned()?);
        let readiness = UdpSocket::from_std(twin)?;
        Ok(Port {
            socket,
            readiness,
            address,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Hands over what has come, and from where.
    pub(super) fn receive(&mut self, take: impl FnMut(SocketAddr, &[u8])) {
        self.socket.receive(take);
    }

    /// Sends a datagram; what cannot be sent is lost.
    pub(super) fn send(&mut self, to: SocketAddr, bytes: &[u8]) {
        self.socket.send(to, bytes);
    }

    /// Sends what is to be said.
    pub(super) fn flush(&mut self, sharer: &mut Sharer) {
        sharer.transmit(|to, bytes| self.send(to, bytes));
    }

    /// Completes when something has come since it was read from last; if more waits than is read at one go, the end of an
    /// interval comes upon it.
    pub(super) async fn readable(&self) {
        if self.readiness.readable().await.is_err() {
            return std::future::pending().await;
        }
        // Reading is the node's business; what comes from now on is news again.
        let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _ = self.readiness.try_io(Interest::READABLE, nothing);
    }

    /// Counts of what was sent and received.
    pub(super) fn counters(&self) -> SocketCounters {
        self.socket.counters()
    }
}
