//! TCP sockets of the data path: listening, accepting, receiving with arrival stamps, sending.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use clock::WallTime;

use super::epoll::cvt;

/// Room for one `SCM_TIMESTAMPING` control message (three timespecs) and its header, with slack.
const CONTROL_BYTES: usize = 128;

/// A connected, non-blocking TCP socket with `TCP_NODELAY`.
#[derive(Debug)]
pub struct Stream(OwnedFd);

impl Stream {
    /// Makes a connected socket one of the data path's.
    ///
    /// # Errors
    /// The system's.
    pub fn of(stream: TcpStream) -> io::Result<Stream> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Stream(stream.into()))
    }

    pub(super) fn raw(&self) -> libc::c_int {
        self.0.as_raw_fd()
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The result of one receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes put into the buffer; 0 is the peer's end.
    pub bytes: usize,
    /// The kernel's stamp of the newest segment among them, if it gave one.
    pub stamp: Option<WallTime>,
}

/// Binds and listens on `address`.
///
/// # Errors
/// The system's.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    // SAFETY: listen() on a socket that already listens just sets a longer backlog; thousands of
    // publishers connect at once after a restart, and std's backlog is 128.
    cvt(unsafe { libc::listen(listener.as_raw_fd(), 4096) })?;
    Ok(listener)
}

/// Accepts one connection; `WouldBlock` where none waits.
///
/// # Errors
/// The system's, `EMFILE` among them.
pub fn accept(listener: &TcpListener) -> io::Result<(Stream, SocketAddr)> {
    let (stream, peer): (TcpStream, SocketAddr) = listener.accept()?;
    Ok((Stream::of(stream)?, peer))
}

/// Asks the kernel to stamp what arrives on `stream` (`SO_TIMESTAMPING`, software receive stamps).
///
/// # Errors
/// The system's, where the kernel does not know the option.
pub fn enable_arrival_stamps(stream: &Stream) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    // SAFETY: the option takes one c_uint, given with its size.
    let result = unsafe {
        libc::setsockopt(
            stream.0.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const flags).cast(),
            size_of_val(&flags) as libc::socklen_t,
        )
    };
    cvt(result).map(|_| ())
}

/// Makes the kernel give up the connection when sent bytes stay unacknowledged for this long
/// (`TCP_USER_TIMEOUT`), instead of after a quarter of an hour.
///
/// # Errors
/// The system's.
pub fn give_up_after(stream: &impl AsRawFd, time: Duration) -> io::Result<()> {
    let time_ms = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
    // SAFETY: the option takes one c_uint, given with its size; the descriptor is open while `stream` lives.
    let result = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_USER_TIMEOUT,
            (&raw const time_ms).cast(),
            size_of_val(&time_ms) as libc::socklen_t,
        )
    };
    cvt(result).map(|_| ())
}

/// Receives into `buffer` without a stamp.
///
/// # Errors
/// The system's, `WouldBlock` among them.
pub fn recv(stream: &Stream, buffer: &mut [u8]) -> io::Result<Received> {
    // SAFETY: the buffer is writable for its length.
    let count = unsafe {
        libc::recv(
            stream.0.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            0,
        )
    };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Received {
        bytes: count as usize,
        stamp: None,
    })
}

/// Receives into `buffer` with the kernel's stamp of the newest segment that it took bytes from.
///
/// # Errors
/// The system's, `WouldBlock` among them.
pub fn recv_stamped(stream: &Stream, buffer: &mut [u8]) -> io::Result<Received> {
    #[repr(align(8))]
    struct Control([u8; CONTROL_BYTES]);
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: msghdr is plain data for which all zeroes is a valid value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_BYTES;
    // SAFETY: the header points to one iovec over `buffer` and to an aligned control buffer; all
    // outlive the call. (The call itself and not libc's: that one is a thread cancellation point,
    // which costs two atomic operations each time.)
    let count = unsafe {
        libc::syscall(
            libc::SYS_recvmsg,
            stream.0.as_raw_fd(),
            &raw mut header,
            0usize,
        )
    };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Received {
        bytes: count as usize,
        stamp: stamp_of(&header),
    })
}

/// Sends from `bytes`; gives how many the kernel took.
///
/// # Errors
/// The system's, `WouldBlock` among them; a closed peer is an error, never a signal.
pub fn send(stream: &Stream, bytes: &[u8]) -> io::Result<usize> {
    let (pointer, no_address) = (bytes.as_ptr(), std::ptr::null::<libc::sockaddr>());
    // SAFETY: the buffer is readable for its length, and there is no address.
    let count = unsafe {
        libc::syscall(
            libc::SYS_sendto,
            stream.0.as_raw_fd(),
            pointer,
            bytes.len(),
            libc::MSG_NOSIGNAL,
            no_address,
            0usize,
        )
    };
    if count < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(count as usize)
    }
}

/// Says to the peer that nothing more will come; what it sends is still received.
pub fn shutdown_write(stream: &Stream) {
    // SAFETY: a plain system call on an open socket. It fails only if the peer has gone.
    unsafe { libc::shutdown(stream.0.as_raw_fd(), libc::SHUT_WR) };
}

/// Raises the soft limit of open descriptors to the hard one; gives the limit then in force.
#[must_use]
pub fn raise_descriptor_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid rlimit that the call fills.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return u64::MAX;
    }
    let raised = libc::rlimit {
        rlim_cur: limit.rlim_max,
        ..limit
    };
    // SAFETY: `raised` is a valid rlimit that the call reads.
    let done = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0;
    if done {
        raised.rlim_cur
    } else {
        limit.rlim_cur
    }
}

pub(super) fn stamp_of(header: &libc::msghdr) -> Option<WallTime> {
    // SAFETY: the kernel filled the control buffer; the CMSG macros walk it within msg_controllen.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !message.is_null() {
        // SAFETY: `message` is non-null and was given by the CMSG macros.
        let (level, kind) = unsafe { ((*message).cmsg_level, (*message).cmsg_type) };
        if level == libc::SOL_SOCKET && kind == libc::SCM_TIMESTAMPING {
            // SAFETY: SCM_TIMESTAMPING carries three timespecs, the first of them the software stamp;
            // control data need not be aligned for them.
            let time = unsafe {
                libc::CMSG_DATA(message)
                    .cast::<libc::timespec>()
                    .read_unaligned()
            };
            let nanos = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
            return (nanos != 0).then(|| WallTime::from_nanos(nanos));
        }
        // SAFETY: as for CMSG_FIRSTHDR.
        message = unsafe { libc::CMSG_NXTHDR(header, message) };
    }
    None
}
