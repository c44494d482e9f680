//! Waiting for several sockets at once: the one system call that the standard library lacks.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// A socket and what is awaited of it, then what came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interest<'fd> {
    pub(super) socket: BorrowedFd<'fd>,
    /// Whether to wait for room to write, besides something to read.
    pub(super) wants_room: bool,
    /// Set by [`wait`]: there is something to read, an error, or the end.
    pub(super) is_readable: bool,
}

/// Waits until one of the sockets is ready or `timeout` has passed (`None`: for ever), rounded up to milliseconds. A
/// signal ends the wait as well.
pub(super) fn wait(interests: &mut [Interest<'_>], timeout: Option<Duration>) -> io::Result<()> {
    let mut polled: Vec<libc::pollfd> = interests
        .iter()
        .map(|interest| libc::pollfd {
            fd: interest.socket.as_raw_fd(),
            events: libc::POLLIN
                | if interest.wants_room {
                    libc::POLLOUT
                } else {
                    0
                },
            revents: 0,
        })
        .collect();
    let timeout_ms = timeout.map_or(-1, |timeout| {
        i32::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
    });
    // SAFETY: the pointer and the length are those of a live vector of pollfd, which the call only writes within.
    let ready = unsafe {
        libc::poll(
            polled.as_mut_ptr(),
            polled.len() as libc::nfds_t,
            timeout_ms,
        )
    };
    if ready < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted {
            Ok(())
        } else {
            Err(error)
        };
    }
    for (interest, polled) in interests.iter_mut().zip(&polled) {
        interest.is_readable = polled.revents & !libc::POLLOUT != 0;
    }
    Ok(())
}
