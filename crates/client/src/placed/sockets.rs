//! Waiting for several sockets at once, which the standard library lacks.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// A socket with the readiness awaited of it, and then the one that came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interest<'fd> {
    pub(super) socket: BorrowedFd<'fd>,
    /// Whether to wait for room to write, besides something to read.
    pub(super) wants_room: bool,
    /// Set by [`wait`]: there is something to read, an error, or the end.
    pub(super) is_readable: bool,
}

/// Waits until one of the sockets is ready or `timeout` has passed (`None`: for ever). A signal ends the wait as well.
pub(super) fn wait(interests: &mut [Interest<'_>], timeout: Option<Duration>) -> io::Result<()> {
    let mut polled: Vec<PollFd<'_>> = interests
        .iter()
        .map(|interest| {
            let room = match interest.wants_room {
                true => PollFlags::OUT,
                false => PollFlags::empty(),
            };
            PollFd::from_borrowed_fd(interest.socket, PollFlags::IN | room)
        })
        .collect();
    // What is too long for the system is for ever.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(&mut polled, timeout.as_ref()) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    for (interest, polled) in interests.iter_mut().zip(&polled) {
        interest.is_readable = !(polled.revents() - PollFlags::OUT).is_empty();
    }
    Ok(())
}
