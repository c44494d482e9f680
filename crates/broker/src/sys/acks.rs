//! When the peer's kernel acknowledged sent bytes, and the state of a connection's path.

use std::io;

use clock::WallTime;

use super::Stream;
use super::epoll::cvt;
use super::socket::stamp_of;

/// Room for a time stamp and for the extended error that goes with it, with slack.
const CONTROL_BYTES: usize = 256;

/// `struct tcp_info` up to and including `tcpi_min_rtt`, in words of four bytes.
const TCP_INFO_WORDS: usize = 38;
const TOTAL_RETRANS: usize = 25;
const NOTSENT_BYTES: usize = 36;
const MIN_RTT: usize = 37;

/// Kind of stamp in `ee_info`: the data were acknowledged (linux/errqueue.h).
const SCM_TSTAMP_ACK: u32 = 2;

#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

/// The kernel's knowledge of a connection's path (`TCP_INFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Smallest round trip of the last minutes, µs; 0 where there is none yet.
    pub min_rtt_us: u32,
    /// Bytes that the socket took and has not sent.
    pub unsent_bytes: u32,
    /// Segments sent again since the connection began.
    pub retransmits: u32,
}

/// The peer's kernel has acknowledged all bytes up to one that a stamp was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckStamp {
    /// That byte, counted from 0 at [`enable_ack_stamps`], modulo 2^32.
    pub last: u32,
    /// When the acknowledgement arrived.
    pub stamp: Option<WallTime>,
}

/// Lets single sends ask for a stamp of their acknowledgement, and begins to count bytes.
/// `with_arrivals` keeps the stamps of what arrives.
///
/// # Errors
/// The system's: kernels before 6.2 cannot count from the present byte on.
pub fn enable_ack_stamps(stream: &Stream, with_arrivals: bool) -> io::Result<()> {
    let mut flags = libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_OPT_ID
        | libc::SOF_TIMESTAMPING_OPT_ID_TCP
        | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    if with_arrivals {
        flags |= libc::SOF_TIMESTAMPING_RX_SOFTWARE;
    }
    // SAFETY: the option takes one c_uint, given with its size.
    let result = unsafe {
        libc::setsockopt(
            stream.raw(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const flags).cast(),
            size_of_val(&flags) as libc::socklen_t,
        )
    };
    cvt(result).map(|_| ())
}

/// Sends from `bytes` and asks for a stamp of the acknowledgement of the last one taken. With `is_more` the
/// kernel may keep the end back for the send that follows at once.
///
/// # Errors
/// The system's, `WouldBlock` among them.
pub fn send_followed(stream: &Stream, bytes: &[u8], is_more: bool) -> io::Result<usize> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: msghdr is plain data for which all zeroes is a valid value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    let payload_bytes = size_of::<u32>() as u32;
    // SAFETY: CMSG_SPACE and CMSG_LEN only compute. `header` has an aligned control buffer with room for one
    // message, so CMSG_FIRSTHDR gives a pointer into it, and its data has room for four bytes.
    unsafe {
        header.msg_controllen = libc::CMSG_SPACE(payload_bytes) as usize;
        let message = libc::CMSG_FIRSTHDR(&raw const header);
        (*message).cmsg_level = libc::SOL_SOCKET;
        (*message).cmsg_type = libc::SO_TIMESTAMPING;
        (*message).cmsg_len = libc::CMSG_LEN(payload_bytes) as usize;
        libc::CMSG_DATA(message)
            .cast::<u32>()
            .write_unaligned(libc::SOF_TIMESTAMPING_TX_ACK);
    }
    let more = if is_more { libc::MSG_MORE } else { 0 };
    // SAFETY: the header points to one iovec over `bytes`, which the call only reads, and to the control
    // buffer; all outlive the call.
    let count =
        unsafe { libc::sendmsg(stream.raw(), &raw const header, libc::MSG_NOSIGNAL | more) };
    if count < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(count as usize)
    }
}

/// The next stamp from the socket's error queue; `None` for something else that lay there.
///
/// # Errors
/// The system's, `WouldBlock` where the queue is empty.
pub fn next_ack_stamp(stream: &Stream) -> io::Result<Option<AckStamp>> {
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: msghdr is plain data for which all zeroes is a valid value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_BYTES;
    // SAFETY: the header points to an aligned control buffer that outlives the call, and to no data: a stamp
    // comes without the bytes that it is of.
    let count = unsafe {
        libc::recvmsg(
            stream.raw(),
            &raw mut header,
            libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
        )
    };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    let stamp = stamp_of(&header);
    Ok(acknowledged_byte(&header).map(|last| AckStamp { last, stamp }))
}

/// The connection's way, as far as the kernel knows it.
///
/// # Errors
/// The system's.
pub fn path(stream: &Stream) -> io::Result<Path> {
    let mut words = [0_u32; TCP_INFO_WORDS];
    let mut length = size_of_val(&words) as libc::socklen_t;
    // SAFETY: the option fills at most `length` bytes of `words`, which is as long.
    let result = unsafe {
        libc::getsockopt(
            stream.raw(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            words.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    cvt(result)?;
    if (length as usize) < size_of_val(&words) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let min_rtt_us = Some(words[MIN_RTT]).filter(|&rtt_us| rtt_us != u32::MAX);
    Ok(Path {
        min_rtt_us: min_rtt_us.unwrap_or(0),
        unsent_bytes: words[NOTSENT_BYTES],
        retransmits: words[TOTAL_RETRANS],
    })
}

fn acknowledged_byte(header: &libc::msghdr) -> Option<u32> {
    // SAFETY: the kernel filled the control buffer; the CMSG macros walk it within msg_controllen.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !message.is_null() {
        // SAFETY: `message` is non-null and was given by the CMSG macros.
        let (level, kind) = unsafe { ((*message).cmsg_level, (*message).cmsg_type) };
        let is_error = (level == libc::SOL_IP && kind == libc::IP_RECVERR)
            || (level == libc::SOL_IPV6 && kind == libc::IPV6_RECVERR);
        if is_error {
            // SAFETY: both kinds carry a sock_extended_err, which need not be aligned.
            let error = unsafe {
                libc::CMSG_DATA(message)
                    .cast::<libc::sock_extended_err>()
                    .read_unaligned()
            };
            let is_ack = error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING
                && error.ee_info == SCM_TSTAMP_ACK;
            return is_ack.then_some(error.ee_data);
        }
        // SAFETY: as for CMSG_FIRSTHDR.
        message = unsafe { libc::CMSG_NXTHDR(header, message) };
    }
    None
}

#[cfg(test)]
mod tests;
