//! The system calls that the standard library does not offer: clocks in nanoseconds, core affinity, readiness.
//!
//! Everything `unsafe` of this crate is here. Nothing here knows about brokers or messages.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Nanoseconds of the monotonic clock.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since the Unix epoch by the wall clock.
pub fn realtime_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// CPU time in nanoseconds that the calling thread has used.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time in nanoseconds of a process, all threads, living and gone; user and system time.
///
/// # Errors
/// When there is no such process.
pub fn process_cpu_ns(pid: u32) -> io::Result<u64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is a valid place for the result; the call keeps no reference to it.
    let code = unsafe { libc::clock_getcpuclockid(pid.cast_signed(), &raw mut clock) };
    if code != 0 {
        return Err(io::Error::from_raw_os_error(code));
    }
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `time` is a valid place for the result.
    if unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it has written the value.
    Ok(timespec_ns(unsafe { time.assume_init() }))
}

/// Runs the calling thread on one core only.
///
/// # Errors
/// When the machine has no such core or the process may not use it.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    if core >= 8 * size_of::<libc::cpu_set_t>() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: a cpu_set_t is plain bits, all-zero is the empty set, and `core` was checked against its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        set
    };
    // SAFETY: `set` lives through the call and the size is its own.
    check(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) }).map(drop)
}

/// Lets `command` start on one core; everything it starts stays there.
pub fn pin_command(command: &mut Command, core: usize) {
    // SAFETY: between fork and exec the closure makes a system call on values it owns; it takes no lock and
    // allocates nothing.
    unsafe {
        command.pre_exec(move || pin_to_core(core));
    }
}

/// Lets a closed standard output end this process quietly, as other commands do (`srtm … | head`), where Rust would
/// make it an error of each print. Not for programs that write to sockets by other means than the standard library.
pub fn end_with_closed_output() {
    // SAFETY: it sets the disposition of one signal to the system's default; no handler of ours is involved.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Raises the soft limit of open files to the hard one and returns it.
///
/// # Errors
/// When the system refuses.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for the result.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` lives through the call.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    Ok(limit.rlim_max)
}

/// A signal to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// End (SIGTERM).
    Terminate,
    /// Stand still (SIGSTOP).
    Stop,
    /// Go on (SIGCONT).
    Continue,
}

/// Tells a process something.
///
/// # Errors
/// When there is no such process.
pub fn signal(pid: u32, signal: Signal) -> io::Result<()> {
    let number = match signal {
        Signal::Terminate => libc::SIGTERM,
        Signal::Stop => libc::SIGSTOP,
        Signal::Continue => libc::SIGCONT,
    };
    // SAFETY: the call takes plain numbers.
    check(unsafe { libc::kill(pid.cast_signed(), number) }).map(drop)
}

/// Blocks the calling thread.
pub fn pause_for(duration: Duration) {
    #[expect(
        clippy::disallowed_methods,
        reason = "a load generator waits for real time to pass"
    )]
    std::thread::sleep(duration);
}

/// Waits until a descriptor can be read (or `timeout` has passed) and says whether it can.
///
/// A zero timeout leaves no trace at the socket: the sender on the other core pays for no wake-up.
///
/// # Errors
/// When the system refuses; an interruption counts as "not readable".
pub fn wait_readable(fd: &impl AsRawFd, timeout: Duration) -> io::Result<bool> {
    wait_any_readable(&[fd.as_raw_fd()], timeout)
}

/// Like [`wait_readable`] for up to eight descriptors at once.
///
/// # Errors
/// When the system refuses.
pub fn wait_any_readable(fds: &[RawFd], timeout: Duration) -> io::Result<bool> {
    let mut polled = [libc::pollfd {
        fd: -1,
        events: libc::POLLIN,
        revents: 0,
    }; 8];
    let count = fds.len().min(polled.len());
    for (slot, fd) in polled.iter_mut().zip(fds) {
        slot.fd = *fd;
    }
    let timeout = libc::timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    // SAFETY: `polled` holds at least `count` entries and, like `timeout`, lives through the call.
    let ready = unsafe {
        libc::ppoll(
            polled.as_mut_ptr(),
            count as libc::nfds_t,
            &raw const timeout,
            std::ptr::null(),
        )
    };
    match check(ready) {
        Ok(ready) => Ok(ready > 0),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

/// Asks the kernel for the time at which a segment reached this socket (`SO_TIMESTAMPNS`), for [`read_stamped`].
///
/// # Errors
/// When the system refuses.
pub fn stamp_arrivals(stream: &impl AsRawFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: `on` is a valid value of the size that is given; the kernel copies it.
    let code = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    check(code).map(drop)
}

/// Reads into `buffer`; also the kernel's stamp of the newest segment read, in nanoseconds since the Unix epoch, where there is
/// one.
///
/// # Errors
/// Those of a read.
pub fn read_stamped(stream: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    let mut piece = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut control = [0u64; 8];
    // SAFETY: a msghdr is plain numbers and pointers, and all-zero is an empty one.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: `message` and all that it points to live through the call, with the lengths that it names.
    let read = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, 0) };
    let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    Ok((read, newest_stamp(&message)))
}

fn newest_stamp(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel has filled `message`, so its control data are whole headers within their length, and the data of
    // an SCM_TIMESTAMPNS are a timespec.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if ((*header).cmsg_level, (*header).cmsg_type)
                == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS)
            {
                let time: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(header).cast());
                return Some(timespec_ns(time));
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}

/// An epoll instance whose events carry a number chosen by the caller; level-triggered.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Epoll {
    /// An instance that reports at most `events_per_turn` events at once.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn new(events_per_turn: usize) -> io::Result<Self> {
        // SAFETY: the call takes plain numbers; the descriptor it returns is owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        Ok(Self {
            fd,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; events_per_turn],
        })
    }

    /// Reports `token` when `fd` can be read (and, with `writable`, when it can be written).
    ///
    /// # Errors
    /// When the system refuses.
    pub fn add(&self, fd: &impl AsRawFd, token: u64, writable: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, writable)
    }

    /// Changes what is reported for `fd`.
    ///
    /// # Errors
    /// When the descriptor was not added before.
    pub fn modify(&self, fd: &impl AsRawFd, token: u64, writable: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, writable)
    }

    /// Waits for events (`None`: as long as it takes) and returns their tokens.
    ///
    /// # Errors
    /// When the system refuses; an interruption gives no tokens.
    pub fn wait(
        &mut self,
        timeout: Option<Duration>,
    ) -> io::Result<impl Iterator<Item = u64> + '_> {
        let milliseconds = timeout.map_or(-1, |timeout| {
            i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX)
        });
        let capacity = i32::try_from(self.events.len()).unwrap_or(i32::MAX);
        // SAFETY: `events` holds `capacity` entries that the call may overwrite.
        let count = unsafe {
            libc::epoll_wait(
                self.fd.as_raw_fd(),
                self.events.as_mut_ptr(),
                capacity,
                milliseconds,
            )
        };
        let count = match check(count) {
            Ok(count) => usize::try_from(count).unwrap_or(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        Ok(self.events[..count].iter().map(|event| event.u64))
    }

    fn control(
        &self,
        operation: i32,
        fd: &impl AsRawFd,
        token: u64,
        writable: bool,
    ) -> io::Result<()> {
        let mut interest = libc::EPOLLIN | libc::EPOLLRDHUP;
        if writable {
            interest |= libc::EPOLLOUT;
        }
        let mut event = libc::epoll_event {
            events: interest.cast_unsigned(),
            u64: token,
        };
        // SAFETY: `event` lives through the call; the kernel copies it.
        let code = unsafe {
            libc::epoll_ctl(
                self.fd.as_raw_fd(),
                operation,
                fd.as_raw_fd(),
                &raw mut event,
            )
        };
        check(code).map(drop)
    }
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the result, and the clocks asked for exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    timespec_ns(time)
}

fn timespec_ns(time: libc::timespec) -> u64 {
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

fn check(code: i32) -> io::Result<i32> {
    if code < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(code)
    }
}
