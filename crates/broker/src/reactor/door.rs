//! Accepts connections: one reactor has the listener and deals them out to all.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::time::Duration;

use clock::Instant;

use crate::sys::{self, Epoll, Interest, Stream};

/// What epoll calls the listener.
pub(super) const LISTENER_TOKEN: u64 = u64::MAX;

/// Pause of the listener when the system has no descriptor or memory left. Level-triggered epoll
/// would report it again at once, for ever.
const BACKOFF: Duration = Duration::from_millis(100);

/// The listener, if this reactor has it.
#[derive(Debug)]
pub(super) struct Door {
    listener: Option<TcpListener>,
    is_open: bool,
    again_at: Option<Instant>,
    next_home: usize,
}

/// The outcome of one accept.
#[derive(Debug)]
pub(super) enum Accepted {
    /// Somebody has connected.
    Peer(Stream, SocketAddr),
    /// The peer has already gone; the next one may be waiting.
    Gone,
    /// Nobody waits.
    Nobody,
    /// The system has no room; the listener pauses.
    NoRoom,
}

impl Door {
    /// A door that is shut. Connections wait in the backlog.
    ///
    /// # Errors
    /// The system's, where the listener cannot be watched.
    pub(super) fn new(listener: Option<TcpListener>, epoll: &Epoll) -> io::Result<Door> {
        if let Some(listener) = &listener {
            epoll.add(listener.as_fd(), LISTENER_TOKEN, Interest::default())?;
        }
        Ok(Door {
            listener,
            is_open: false,
            again_at: None,
            next_home: 0,
        })
    }

    /// Begins to accept once the broker is open.
    pub(super) fn open(&mut self, is_broker_open: bool, epoll: &Epoll) {
        if !self.is_open && is_broker_open {
            self.is_open = true;
            self.watch(epoll, Interest::READ);
        }
    }

    /// Accepts nobody any more.
    pub(super) fn close(&mut self) {
        self.listener = None;
        self.again_at = None;
    }

    /// When a pause ends.
    pub(super) fn again_at(&self) -> Option<Instant> {
        self.again_at
    }

    /// Listens again after a pause.
    pub(super) fn open_again(&mut self, now: Instant, epoll: &Epoll) {
        if self.again_at.is_some_and(|at| at <= now) {
            self.again_at = None;
            self.watch(epoll, Interest::READ);
        }
    }

    /// Accepts one.
    pub(super) fn accept(&mut self, now: Instant, epoll: &Epoll) -> Accepted {
        let Some(listener) = &self.listener else {
            return Accepted::Nobody;
        };
        match sys::accept(listener) {
            Ok((stream, peer)) => Accepted::Peer(stream, peer),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Accepted::Nobody,
            Err(error) if is_exhaustion(&error) => {
                tracing::warn!("accepting pauses for {BACKOFF:?}: {error}");
                self.rest(now + BACKOFF, epoll);
                Accepted::NoRoom
            }
            Err(error) => {
                tracing::debug!("accepting: {error}");
                Accepted::Gone
            }
        }
    }

    /// Accepts nobody before `until`; they wait in the backlog.
    pub(super) fn rest(&mut self, until: Instant, epoll: &Epoll) {
        self.again_at = Some(until);
        self.watch(epoll, Interest::default());
    }

    /// The reactor, of this many, that the next connection goes to.
    pub(super) fn next_home(&mut self, reactors: usize) -> usize {
        let home = self.next_home;
        self.next_home = (home + 1) % reactors;
        home
    }

    fn watch(&self, epoll: &Epoll, interest: Interest) {
        let Some(listener) = &self.listener else {
            return;
        };
        if let Err(error) = epoll.modify(listener.as_fd(), LISTENER_TOKEN, interest) {
            tracing::error!("watching the listener: {error}");
        }
    }
}

fn is_exhaustion(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}
