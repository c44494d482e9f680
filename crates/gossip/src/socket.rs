//! Carries the datagrams of a [`Node`] by UDP, without ever waiting.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use clock::Instant;
use wire::gossip::MAX_MEMBERSHIP_BYTES;

use crate::Node;

/// A UDP socket for one node. Its owner decides what it waits for and tells it the time.
#[derive(Debug)]
pub struct Socket {
    socket: UdpSocket,
    counters: SocketCounters,
}

/// Totals since the socket was bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketCounters {
    /// Datagrams that the kernel took.
    pub sent: u64,
    /// Datagrams that came, whatever was in them.
    pub received: u64,
    /// Datagrams that the kernel had no room for; to the receivers they are lost.
    pub blocked: u64,
    /// Errors of sending to somebody who is not there at present: no route, nobody listens, not permitted.
    pub unreachable: u64,
    /// All other errors.
    pub failed: u64,
}

/// Datagrams that are received at one go; if more wait, the descriptor stays readable.
const RECEIVED_AT_A_TIME: usize = 4096;

impl Socket {
    /// A socket at `address`.
    ///
    /// # Errors
    /// Those of the system: the address is taken, or not of this machine.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        Ok(Socket {
            socket,
            counters: SocketCounters::default(),
        })
    }

    /// Where it is bound; of use if the port was 0.
    ///
    /// # Errors
    /// Those of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Gives the node what has come, up to a bound; `now` is the time of it all. Returns how much it was.
    pub fn drain(&mut self, node: &mut Node, now: Instant) -> usize {
        self.receive(|from, bytes| node.receive(now, from, bytes))
    }

    /// Hands over what has come and from where, up to a bound. Returns how much it was.
    pub fn receive(&mut self, mut take: impl FnMut(SocketAddr, &[u8])) -> usize {
        // One byte more than the longest, so that a longer one does not seem whole.
        let mut buffer = [0; MAX_MEMBERSHIP_BYTES + 1];
        let mut received = 0;
        for _ in 0..RECEIVED_AT_A_TIME {
            match self.socket.recv_from(&mut buffer) {
                Ok((length, from)) => {
                    received += 1;
                    take(from, &buffer[..length]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The answer to a datagram that was sent earlier.
                Err(error) => self.note(&error),
            }
        }
        self.counters.received += received as u64;
        received
    }

    /// Sends what the node wants sent. No error is fatal: what cannot be sent is lost, as it may be on the way.
    pub fn flush(&mut self, node: &mut Node) {
        while let Some(transmit) = node.poll_transmit() {
            self.send(transmit.to, transmit.bytes());
        }
    }

    /// Sends one datagram; what cannot be sent is lost.
    pub fn send(&mut self, to: SocketAddr, bytes: &[u8]) {
        match self.socket.send_to(bytes, to) {
            Ok(_) => self.counters.sent += 1,
            Err(error) => self.note(&error),
        }
    }

    /// Counts of what was sent and received.
    pub fn counters(&self) -> SocketCounters {
        self.counters
    }

    fn note(&mut self, error: &io::Error) {
        use io::ErrorKind as Kind;
        let counter = match error.kind() {
            Kind::WouldBlock => &mut self.counters.blocked,
            Kind::ConnectionRefused
            | Kind::NetworkUnreachable
            | Kind::HostUnreachable
            | Kind::NetworkDown
            | Kind::AddrNotAvailable
            | Kind::PermissionDenied => &mut self.counters.unreachable,
            _ => &mut self.counters.failed,
        };
        *counter += 1;
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
