//! The packet filter's netlink socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use super::netns::within;
use crate::slots::{SLOT_BYTES, Slots};

/// Room for packets that wait to be read, bytes; the kernel drops what finds none.
const RECEIVE_BYTES: usize = 32 << 20;

/// The most datagrams that [`receive_many`] takes.
pub(crate) const DATAGRAMS_MAX: usize = 64;

/// Opens a netlink socket in the network namespace `netns`.
///
/// # Errors
/// The error of the system.
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

/// Receives what has come, without waiting: at most `most` datagrams, one in each slot from the first, with one system call.
/// Their lengths replace what is in `lengths`.
///
/// # Errors
/// The error of the system before the first datagram; `WouldBlock` if there is none.
pub(crate) fn receive_many(
    socket: impl AsFd,
    slots: &mut Slots,
    most: usize,
    lengths: &mut Vec<usize>,
) -> io::Result<()> {
    lengths.clear();
    let starts = slots.starts();
    let most = most.min(DATAGRAMS_MAX).min(slots.count());
    let mut rooms: [libc::iovec; DATAGRAMS_MAX] = std::array::from_fn(|number| libc::iovec {
        iov_base: if number < most {
            starts(number).cast()
        } else {
            std::ptr::null_mut()
        },
        iov_len: if number < most { SLOT_BYTES } else { 0 },
    });
    // SAFETY: `mmsghdr` has numbers and pointers only; all of them may be zero.
    let mut headers: [libc::mmsghdr; DATAGRAMS_MAX] = unsafe { std::mem::zeroed() };
    for (header, room) in headers.iter_mut().zip(&mut rooms) {
        header.msg_hdr.msg_iov = room;
        header.msg_hdr.msg_iovlen = 1;
    }
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the first `most` headers name one room each, which is a slot of SLOT_BYTES; all outlive the call.
    let received = unsafe {
        libc::recvmmsg(
            socket,
            headers.as_mut_ptr(),
            most as libc::c_uint,
            libc::MSG_DONTWAIT,
            std::ptr::null_mut(),
        )
    };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    let received = headers.iter().take(received);
    lengths.extend(received.map(|header| header.msg_len as usize));
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::net::{SendFlags, send, socketpair};

    use super::*;

    #[test]
    fn many_datagrams_come_in_order_and_no_more_than_asked_for() {
        let (flags, none) = (SocketFlags::CLOEXEC, None);
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, none);
        let (near, far) = pair.expect("a pair of sockets");
        let mut slots = Slots::new(DATAGRAMS_MAX);
        let mut lengths = vec![9];
        let nothing = receive_many(&near, &mut slots, 5, &mut lengths);
        assert!(nothing.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
        assert!(lengths.is_empty());
        for number in 1..=7u8 {
            let datagram = vec![number; usize::from(number) * 100];
            send(&far, &datagram, SendFlags::empty()).expect("room");
        }
        for (most, expected) in [(5, 1..=5u8), (500, 6..=7)] {
            receive_many(&near, &mut slots, most, &mut lengths).expect("datagrams");
            let came = lengths
                .iter()
                .enumerate()
                .map(|(slot, length)| &slots.get(slot)[..*length]);
            let sent = expected.map(|number| vec![number; usize::from(number) * 100]);
            assert!(came.eq(sent));
        }
    }
}
