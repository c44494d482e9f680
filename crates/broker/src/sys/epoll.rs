//! Readiness (epoll) and wake-ups from other threads (eventfd).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// The peer has shut down its side, or the connection is broken. `EPOLLERR` alone is neither: a stamp in the
/// socket's error queue raises it as well.
const CLOSING: i32 = libc::EPOLLRDHUP | libc::EPOLLHUP;

/// What a descriptor is watched for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Bytes to read, or the peer's end.
    pub read: bool,
    /// Room to write.
    pub write: bool,
    /// Told once per change (edge-triggered): whoever is told has to take all there is. Spares the
    /// kernel a second look at every descriptor that was read from.
    pub once: bool,
}

impl Interest {
    /// Reading alone, told as long as there is something.
    pub const READ: Interest = Interest {
        read: true,
        write: false,
        once: false,
    };

    /// Reading alone, told once per arrival.
    pub const READ_ONCE: Interest = Interest {
        read: true,
        write: false,
        once: true,
    };

    fn bits(self) -> u32 {
        let read = if self.read {
            libc::EPOLLIN | libc::EPOLLRDHUP
        } else {
            0
        };
        let write = if self.write { libc::EPOLLOUT } else { 0 };
        let once = if self.once { libc::EPOLLET } else { 0 };
        (read | write | once) as u32
    }
}

/// One ready descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The token it was registered with.
    pub token: u64,
    /// There is something to read (bytes or end).
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// The peer has sent its end or a reset, perhaps behind bytes that are still to be read.
    pub closing: bool,
    /// The connection failed, or something lies in the socket's error queue.
    pub error: bool,
}

/// A level-triggered epoll instance.
#[derive(Debug)]
pub struct Epoll {
    descriptor: OwnedFd,
    buffer: Vec<libc::epoll_event>,
}

impl Epoll {
    /// Makes an instance whose [`Epoll::wait`] gives at most `events_max` events at once.
    ///
    /// # Errors
    /// The system's, for want of descriptors or memory.
    pub fn new(events_max: usize) -> io::Result<Epoll> {
        // SAFETY: a plain system call; the descriptor that it gives is ours alone.
        let raw = cvt(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: `raw` was just opened and nobody else owns it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(raw) };
        Ok(Epoll {
            descriptor,
            buffer: vec![libc::epoll_event { events: 0, u64: 0 }; events_max],
        })
    }

    /// Begins to watch `descriptor` under `token`.
    ///
    /// # Errors
    /// The system's.
    pub fn add(
        &self,
        descriptor: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, descriptor, token, interest)
    }

    /// Changes what `descriptor` is watched for.
    ///
    /// # Errors
    /// The system's.
    pub fn modify(
        &self,
        descriptor: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, descriptor, token, interest)
    }

    /// Stops watching `descriptor`.
    ///
    /// # Errors
    /// The system's.
    pub fn remove(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, descriptor, 0, Interest::default())
    }

    /// Waits up to `timeout` (forever with `None`) and appends what is ready to `events`.
    ///
    /// # Errors
    /// The system's; an interrupted wait is an empty answer, not an error.
    pub fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let time = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(timeout.subsec_nanos()),
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the buffer holds `buffer.len()` events; `time` is null or points to a timespec that
        // outlives the call; a null signal mask changes no mask. (epoll_pwait2 because releases of
        // limited messages need better than epoll_wait's milliseconds.)
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.descriptor.as_raw_fd(),
                self.buffer.as_mut_ptr(),
                self.buffer.len() as libc::c_int,
                time,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted {
                Ok(())
            } else {
                Err(error)
            };
        }
        events.extend(self.buffer[..count as usize].iter().map(|event| {
            let bits = event.events as i32;
            Event {
                token: event.u64,
                readable: bits & (libc::EPOLLIN | CLOSING) != 0,
                writable: bits & (libc::EPOLLOUT | libc::EPOLLHUP) != 0,
                closing: bits & CLOSING != 0,
                error: bits & libc::EPOLLERR != 0,
            }
        }));
        Ok(())
    }

    fn control(
        &self,
        what: i32,
        descriptor: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: interest.bits(),
            u64: token,
        };
        // SAFETY: both descriptors are open for the length of the call and `event` is valid.
        let result = unsafe {
            libc::epoll_ctl(
                self.descriptor.as_raw_fd(),
                what,
                descriptor.as_raw_fd(),
                &raw mut event,
            )
        };
        cvt(result).map(|_| ())
    }
}

/// Wakes a reactor out of [`Epoll::wait`] from any thread.
#[derive(Debug)]
pub struct Waker {
    /// Registered for reading by the reactor.
    pub descriptor: OwnedFd,
}

impl Waker {
    /// Makes an eventfd.
    ///
    /// # Errors
    /// The system's, for want of descriptors.
    pub fn new() -> io::Result<Waker> {
        // SAFETY: a plain system call; the descriptor that it gives is ours alone.
        let raw = cvt(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: `raw` was just opened and nobody else owns it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(raw) };
        Ok(Waker { descriptor })
    }

    /// Makes the reactor's wait return; cheap when it is called twice.
    pub fn wake(&self) {
        let one = 1u64;
        // SAFETY: eight readable bytes, as eventfd asks. It fails only when the counter is full, and
        // then the reactor is awake anyhow.
        unsafe { libc::write(self.descriptor.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Takes the wake-up back so that the next wait waits.
    pub fn clear(&self) {
        let mut count = 0u64;
        // SAFETY: eight writable bytes, as eventfd asks; an empty counter fails harmlessly.
        unsafe { libc::read(self.descriptor.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

pub(super) fn cvt(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
