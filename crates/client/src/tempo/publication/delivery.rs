//! One subscriber of a publication: its connection, how much of the batch it has, and its backlog.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clock::Instant;
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use wire::announce::InstanceId;
use wire::tempo::put_hello;

use super::outbox::Tally;
use super::{Event, Ground, message_bytes};
use crate::tempo::alarms::AlarmId;
use crate::tempo::inbox::Inbox;
use crate::tempo::poller::Watching;

/// Bytes that one write offers: its time is what a turn may be too long by.
const WRITE_BYTES: usize = 128 * 1024;

/// Datagrams that one turn sends to one subscriber.
const DATAGRAMS: usize = 64;

/// Rest after a connection is lost, doubled with each failure.
const REST_MIN: Duration = Duration::from_millis(50);
const REST_MAX: Duration = Duration::from_secs(2);

/// Bytes before the identifier in a framed message; a datagram is what follows them.
const LENGTH_BYTES: usize = 4;

/// A receiver of what is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::tempo) struct Subscriber {
    /// Its life; a restarted one is another.
    pub(in crate::tempo) instance: InstanceId,
    /// Where it takes data.
    pub(in crate::tempo) data: SocketAddr,
    /// It takes datagrams there as well.
    pub(in crate::tempo) udp: bool,
}

/// A subscriber and the way to it.
pub(super) struct Delivery {
    pub(super) subscriber: Subscriber,
    /// It is gone, and keeps its connection until somebody who came instead is reached.
    pub(super) is_retiring: bool,
    state: State,
    failures: u32,
    /// Bytes of the batch that it has; none: the batch began before it came.
    has: Option<usize>,
    /// Bytes to send before the rest of the batch, from `aside_sent` on.
    aside: Vec<u8>,
    aside_sent: usize,
}

enum State {
    /// Not connected; an alarm may have been set for another try.
    Rests(Option<AlarmId>),
    Connects(Connection),
    Open(Connection),
    Datagrams,
}

struct Connection {
    watching: Watching,
    stream: TcpStream,
}

/// How much a delivery took of what it was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Everything, or it takes no part.
    All,
    /// As much as one turn offers; it may take more.
    Some,
    /// What fitted; its socket will say when there is room.
    Full,
    /// The connection is gone.
    Lost,
}

impl Delivery {
    pub(super) fn new(subscriber: Subscriber) -> Self {
        Delivery {
            subscriber,
            is_retiring: false,
            state: State::Rests(None),
            failures: 0,
            has: None,
            aside: Vec::new(),
            aside_sent: 0,
        }
    }

    /// Whether messages go to it.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_) | State::Datagrams)
    }

    /// Whether the present batch is for it.
    pub(super) fn takes_part(&self) -> bool {
        self.progress().is_some()
    }

    /// Whether it has a whole batch of this many bytes.
    pub(super) fn has(&self, bytes: usize) -> bool {
        !self.is_open() || self.has.is_none_or(|has| has >= bytes)
    }

    /// Bytes of the batch that it has, if that is for it.
    pub(super) fn progress(&self) -> Option<usize> {
        self.has.filter(|_| self.is_open())
    }

    /// Takes the batch from the byte `begins` on.
    pub(super) fn join(&mut self, begins: usize) {
        self.has = Some(begins);
    }

    pub(super) fn begin_batch(&mut self) {
        self.has = self.is_open().then_some(0);
    }

    /// Begins to connect; the socket, watched under `key`, will say how it went.
    pub(super) fn connect(&mut self, ground: &mut Ground, key: u32, by_datagram: bool) -> Taken {
        if !matches!(self.state, State::Rests(_)) {
            return Taken::All;
        }
        if by_datagram && self.subscriber.udp {
            return match ground.datagram_socket(self.subscriber.data) {
                Ok(()) => {
                    self.state = State::Datagrams;
                    Taken::All
                }
                Err(_) => Taken::Lost,
            };
        }
        let made = connecting(self.subscriber.data).and_then(|stream| {
            let target: Arc<Inbox<Event>> = Arc::clone(&ground.inbox);
            let watching = ground.poller.watch(&stream, target, key)?;
            Ok(Connection { watching, stream })
        });
        match made {
            Ok(connection) => {
                self.state = State::Connects(connection);
                Taken::All
            }
            Err(_) => Taken::Lost,
        }
    }

    /// Has nobody call for another try.
    pub(super) fn call_off(&self, ground: &Ground) {
        if let State::Rests(Some(alarm)) = self.state {
            ground.poller.call_off(alarm);
        }
    }

    /// Closes the connection and asks to be called for another try; what was put aside is gone with it.
    pub(super) fn rest(&mut self, ground: &Ground, key: u32, now: Instant) {
        self.aside.clear();
        self.aside_sent = 0;
        let rest = REST_MIN.saturating_mul(1 << self.failures.min(10));
        self.failures += 1;
        let target: Arc<Inbox<Event>> = Arc::clone(&ground.inbox);
        let alarm = ground
            .poller
            .set_alarm(now + rest.min(REST_MAX), target, key);
        self.state = State::Rests(Some(alarm));
    }

    /// Sees what has become of the connection.
    pub(super) fn look(&mut self, ground: &Ground) -> Taken {
        match std::mem::replace(&mut self.state, State::Rests(None)) {
            State::Connects(connection) => {
                connection.watching.look();
                if !matches!(connection.stream.take_error(), Ok(None)) {
                    return Taken::Lost;
                }
                if connection.stream.peer_addr().is_err() {
                    self.state = State::Connects(connection);
                    return Taken::All;
                }
                self.failures = 0;
                self.has = None;
                put_hello(&mut self.aside, ground.instance, ground.key.as_ref());
                self.state = State::Open(connection);
                self.write_aside()
            }
            State::Open(mut connection) => {
                connection.watching.look();
                // Nothing is expected to come but the end.
                let result = connection.stream.read(&mut [0; 64]);
                let is_alive = match result {
                    Ok(bytes) => bytes > 0,
                    Err(error) => is_passing(&error),
                };
                self.state = State::Open(connection);
                if !is_alive {
                    return Taken::Lost;
                }
                // There may be room again.
                self.write_aside()
            }
            state => {
                self.state = state;
                Taken::All
            }
        }
    }

    /// Offers it what was put aside, then what it lacks of the batch, of which `released` may go.
    pub(super) fn write(&mut self, ground: &Ground, released: &[u8], tally: &Tally) -> Taken {
        if matches!(self.state, State::Datagrams) {
            return self.send_datagrams(ground, released, tally);
        }
        match self.write_aside() {
            Taken::All => {}
            other => return other,
        }
        let (State::Open(connection), Some(has)) = (&mut self.state, &mut self.has) else {
            return Taken::All;
        };
        let lacks = released.get(*has..).unwrap_or_default();
        if lacks.is_empty() {
            return Taken::All;
        }
        let offer = &lacks[..lacks.len().min(WRITE_BYTES)];
        match connection.stream.write(offer) {
            Ok(bytes) => {
                *has += bytes;
                if bytes < offer.len() {
                    Taken::Full
                } else if bytes < lacks.len() {
                    Taken::Some
                } else {
                    Taken::All
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Taken::Some,
            Err(error) if is_passing(&error) => Taken::Full,
            Err(_) => Taken::Lost,
        }
    }

    fn write_aside(&mut self) -> Taken {
        let State::Open(connection) = &mut self.state else {
            return Taken::All;
        };
        while self.aside_sent < self.aside.len() {
            match connection.stream.write(&self.aside[self.aside_sent..]) {
                Ok(bytes) => self.aside_sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_passing(&error) => return Taken::Full,
                Err(_) => return Taken::Lost,
            }
        }
        self.aside.clear();
        self.aside_sent = 0;
        Taken::All
    }

    /// Puts aside what it lacks of `released`, as far as `bytes_max` allow and always the rest of a message that was begun. Gives
    /// the number of messages that were dropped.
    pub(super) fn put_aside(&mut self, released: &[u8], bytes_max: usize) -> u64 {
        let Some(has) = self.has else {
            return 0;
        };
        self.has = Some(released.len());
        self.aside.drain(..std::mem::take(&mut self.aside_sent));
        let (mut at, mut dropped) = (0, 0);
        while at < released.len() {
            let end = at + message_bytes(&released[at..]);
            let is_begun = at < has;
            let lacks = &released[at.max(has).min(end)..end];
            if is_begun || self.aside.len() + lacks.len() <= bytes_max {
                self.aside.extend_from_slice(lacks);
            } else {
                dropped += 1;
            }
            at = end;
        }
        dropped
    }

    fn send_datagrams(&mut self, ground: &Ground, released: &[u8], tally: &Tally) -> Taken {
        let (Some(socket), Some(has)) = (&ground.datagrams, &mut self.has) else {
            return Taken::All;
        };
        for _ in 0..DATAGRAMS {
            let lacks = released.get(*has..).unwrap_or_default();
            if lacks.is_empty() {
                return Taken::All;
            }
            let message = message_bytes(lacks);
            let datagram = &lacks[LENGTH_BYTES..message];
            // No room, too long, nobody there: a datagram is not tried twice.
            if socket.send_to(datagram, self.subscriber.data).is_err() {
                tally.datagrams_lost.fetch_add(1, Ordering::Relaxed);
            }
            *has += message;
        }
        Taken::Some
    }
}

impl Ground {
    /// Makes the socket that datagrams are sent from.
    fn datagram_socket(&mut self, towards: SocketAddr) -> io::Result<()> {
        if self.datagrams.is_none() {
            let any = if towards.is_ipv4() {
                "0.0.0.0:0"
            } else {
                "[::]:0"
            };
            let socket = UdpSocket::bind(any)?;
            socket.set_nonblocking(true)?;
            self.datagrams = Some(socket);
        }
        Ok(())
    }
}

fn connecting(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking(),
        Some(Protocol::TCP),
    )?;
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}

/// Nothing is wrong; there was only nothing to read or no room.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests;
