//! The packet filter's netlink socket.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use super::netns::within;

/// Room for packets that wait to be read, bytes; the kernel drops what finds none.
const RECEIVE_BYTES: usize = 32 << 20;

/// Opens one in the network namespace `netns`.
///
/// # Errors
/// The system's.
pub(crate) fn open(netns: Option<&str>) -> io::Result<OwnedFd> {
    within(netns, || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            flags,
            Some(NETFILTER),
        )?;
        bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        if let Err(error) = set_socket_recv_buffer_size_force(&socket, RECEIVE_BYTES) {
            tracing::warn!("the packet filter's socket keeps its small buffer: {error}");
        }
        Ok(socket)
    })
}
