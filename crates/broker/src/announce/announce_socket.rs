//! The socket on which announcements arrive.

use std::io;
use std::net::SocketAddr;

use tokio::net::UdpSocket;

/// Waits for announcements, or takes what is there. The runtime knows of a datagram only after it has asked the system again,
/// which it may not have done after a pause; what is taken without waiting is asked of the system itself.
#[derive(Debug)]
pub(super) struct AnnounceSocket {
    waiting: UdpSocket,
    pub(super) asking: std::net::UdpSocket,
}

impl AnnounceSocket {
    /// Of a socket that is bound; within a runtime.
    pub(super) fn new(socket: std::net::UdpSocket) -> io::Result<AnnounceSocket> {
        socket.set_nonblocking(true)?;
        Ok(AnnounceSocket {
            asking: socket.try_clone()?,
            waiting: UdpSocket::from_std(socket)?,
        })
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.asking.local_addr()
    }

    /// Waits for a datagram.
    pub(super) async fn recv_from(&self, datagram: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.waiting.recv_from(datagram).await
    }

    /// Takes a datagram that is there; `WouldBlock` where none is.
    pub(super) fn take(&self, datagram: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.asking.recv_from(datagram)
    }

    pub(super) async fn send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.waiting.send_to(datagram, to).await
    }
}
