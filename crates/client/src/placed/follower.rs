//! Following a placement, without sockets and clocks.
//!
//! A driver tells a [`Follower`] what happened and does what [`Follower::next_action`] and
//! [`Follower::output`] say:
//!
//! ```text
//! publish, connected, received, written, closed, told, tick  ->  Follower  ->  Connect, Close, Ask; bytes to write
//! ```
//!
//! At any time there is at most one *active* connection, which gets what is published, one in the
//! *making*, which takes its place when the broker has greeted, and a few that are *leaving*: they
//! only wait for acknowledgements. A connection that breaks gives back what was not acknowledged;
//! that goes out again on the active one. Every instant is an argument, and the waits before
//! repeated tries are drawn from a stream with a given seed.

mod connections;
mod enquiring;
mod hearing;
mod moving;
#[cfg(test)]
mod tests;
mod traffic;

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;
use wire::command;

use self::connections::{Connections, Making};
use self::enquiring::Enquiring;
pub use self::enquiring::{Answer, Enquiry};
pub use self::traffic::{Throttled, Traffic};
use super::connection::{BrokerConnection, Command, ConnectionId, Phase};
use super::options::PlacedOptions;
use crate::error::ClientError;
use crate::publisher::check;

/// Longest wait for a connection and the answer to IDENTIFY. A broker that needs longer counts as out of reach.
pub(super) const MAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// An action for the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Connect to `address` (`host:port`) and say [`Follower::connected`] or [`Follower::closed`].
    Connect {
        /// Name of the new connection.
        connection: ConnectionId,
        /// Where to.
        address: String,
    },
    /// Close the connection's socket, or forget the attempt to connect it. Nothing more needs to be said about it.
    Close(ConnectionId),
    /// Ask the controller and say [`Follower::told`], exactly once and within a bounded time.
    Ask(Enquiry),
}

/// The state of a placed publisher.
#[derive(Debug)]
pub struct Follower {
    options: PlacedOptions,
    /// The first bytes on each connection.
    greeting: Vec<u8>,
    connections: Connections,
    /// Commands that no connection has; the oldest first.
    waiting: VecDeque<Command>,
    /// Messages and bytes published and neither acknowledged nor refused.
    held_messages: usize,
    held_bytes: usize,
    enquiring: Enquiring,
    /// Where the last active connection went.
    last_address: Option<String>,
    /// Why a connection failed or broke, or the controller gave no place, the last time.
    trouble: String,
    /// The broker's last refusal that was not fetched yet.
    refusal: Option<ClientError>,
    /// Why the controller will never place it.
    verdict: Option<String>,
    throttled: Option<Throttled>,
    traffic: Traffic,
    actions: VecDeque<Action>,
}

impl Follower {
    /// A publisher without a place yet; its first action is to ask for one. `seed` should differ between publishers
    /// of a fleet: it spreads their tries after a failure that they share.
    ///
    /// # Errors
    /// [`ClientError::Name`] for the topic, [`ClientError::Declaration`] for the first other option out of range.
    pub fn new(options: PlacedOptions, seed: u64, now: Instant) -> Result<Self, ClientError> {
        let topic = options.check()?;
        let greeting = hearing::greeting(&options, topic);
        let enquiring = Enquiring::new(options.register, seed);
        let mut follower = Self {
            options,
            greeting,
            connections: Connections::default(),
            waiting: VecDeque::new(),
            held_messages: 0,
            held_bytes: 0,
            enquiring,
            last_address: None,
            trouble: "the controller has not answered yet".to_owned(),
            refusal: None,
            verdict: None,
            throttled: None,
            traffic: Traffic::default(),
            actions: VecDeque::new(),
        };
        follower.enquiring.ask_at(now);
        follower.tick(now);
        Ok(follower)
    }

    /// Publishes one message: to the active connection, or to the buffer while there is none.
    ///
    /// # Errors
    /// [`ClientError::Empty`], [`ClientError::WindowFull`]; nothing was taken.
    pub fn publish(&mut self, body: &[u8]) -> Result<(), ClientError> {
        check(&self.options.topic, body)?;
        self.check_room(1, body.len())?;
        let mut bytes = Vec::new();
        command::put_pub(&mut bytes, &self.options.topic, body);
        self.take(Command::new(1, bytes));
        Ok(())
    }

    /// Publishes messages in one command: a broker accepts all of them or none.
    ///
    /// # Errors
    /// As [`Follower::publish`].
    pub fn publish_batch<B: AsRef<[u8]>>(&mut self, bodies: &[B]) -> Result<(), ClientError> {
        if bodies.is_empty() {
            return Err(ClientError::Empty);
        }
        let mut body_bytes = 0;
        for body in bodies {
            check(&self.options.topic, body.as_ref())?;
            body_bytes += body.as_ref().len();
        }
        self.check_room(bodies.len(), body_bytes)?;
        let mut bytes = Vec::new();
        command::put_mpub(&mut bytes, &self.options.topic, bodies);
        self.take(Command::new(bodies.len() as u64, bytes));
        Ok(())
    }

    /// What to do next, until there is nothing.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The connections that the driver has to serve: those it was told to connect and not to close.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionId> {
        self.connections.all().map(|connection| connection.id)
    }

    /// The bytes to write to a connection; empty for one that is not connected.
    pub fn output(&self, connection: ConnectionId) -> &[u8] {
        self.connections
            .get(connection)
            .map_or(&[], BrokerConnection::output)
    }

    /// The connection's socket took the first `bytes` of its output.
    pub fn written(&mut self, connection: ConnectionId, bytes: usize) {
        if let Some(connection) = self.connections.get_mut(connection) {
            connection.written(bytes);
        }
    }

    /// The connection's socket is connected.
    pub fn connected(&mut self, now: Instant, connection: ConnectionId) {
        if let Some(Making {
            connection: made, ..
        }) = &mut self.connections.making
            && made.id == connection
            && made.phase == Phase::Connecting
        {
            made.phase = Phase::Greeting;
            made.heard = now;
            made.put(&self.greeting);
        }
    }

    /// The connection failed, broke or was closed by the broker; `reason` is for people.
    pub fn closed(&mut self, now: Instant, connection: ConnectionId, reason: &str) {
        self.lose(now, connection, reason, true);
    }

    /// Carries out what is due; to be called at [`Follower::next_deadline`] or later.
    pub fn tick(&mut self, now: Instant) {
        let silence = self.silence();
        let mut silent: Vec<ConnectionId> = Vec::new();
        if let Some(making) = &self.connections.making
            && now >= making.connection.since + MAKE_TIMEOUT
        {
            silent.push(making.connection.id);
        }
        let made = self
            .connections
            .active
            .iter()
            .chain(&self.connections.leaving);
        silent.extend(
            made.filter(|connection| now >= connection.heard + silence)
                .map(|connection| connection.id),
        );
        for connection in silent {
            self.lose(now, connection, "no sign of life in time", true);
        }
        if let Some(enquiry) = self.enquiring.due(now) {
            self.actions.push_back(Action::Ask(enquiry));
        }
    }

    /// When [`Follower::tick`] is to be called at the latest; [`Instant::MAX`]: not by time.
    pub fn next_deadline(&self) -> Instant {
        let silence = self.silence();
        let making = self
            .connections
            .making
            .iter()
            .map(|making| making.connection.since + MAKE_TIMEOUT);
        let made = self
            .connections
            .active
            .iter()
            .chain(&self.connections.leaving);
        made.map(|connection| connection.heard + silence)
            .chain(making)
            .chain(self.enquiring.due_at())
            .min()
            .unwrap_or(Instant::MAX)
    }

    /// Whether this many messages, with this many bytes of bodies, may be published now. A batch
    /// above the window goes when nothing else is under way.
    pub fn has_room(&self, messages: usize, bytes: usize) -> bool {
        let fits = self.held_messages + messages <= self.options.window_messages
            && self.held_bytes + bytes <= self.options.window_bytes;
        self.held_messages == 0 || fits
    }

    /// Whether a connection has bytes to be written.
    pub fn has_output(&self) -> bool {
        self.connections()
            .any(|connection| !self.output(connection).is_empty())
    }

    /// Messages published and neither acknowledged nor refused.
    pub fn unacknowledged(&self) -> usize {
        self.held_messages
    }

    /// Its counts so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Address of the broker that gets what is published; `None` while there is none.
    pub fn broker(&self) -> Option<&str> {
        self.connections
            .active
            .as_ref()
            .map(|connection| connection.address.as_str())
    }

    /// Whether former brokers still owe acknowledgements.
    pub fn is_moving(&self) -> bool {
        !self.connections.leaving.is_empty()
    }

    /// The last notice of the present broker that the topic's limit holds messages back.
    pub fn throttled(&self) -> Option<Throttled> {
        self.throttled
    }

    /// Why it has no broker, or why it lost the last one.
    pub fn trouble(&self) -> &str {
        &self.trouble
    }

    /// Why the controller will never place it; no more questions are asked then.
    pub fn verdict(&self) -> Option<&str> {
        self.verdict.as_deref()
    }

    /// Takes the last refusal of a message by a broker ([`ClientError::Refused`]).
    pub fn take_refusal(&mut self) -> Option<ClientError> {
        self.refusal.take()
    }

    fn silence(&self) -> Duration {
        self.options.heartbeat_interval * 2
    }

    fn check_room(&self, messages: usize, bytes: usize) -> Result<(), ClientError> {
        if self.has_room(messages, bytes) {
            return Ok(());
        }
        Err(ClientError::WindowFull {
            unacknowledged: self.held_messages,
            window: self.options.window_messages,
        })
    }

    fn take(&mut self, command: Command) {
        self.traffic.published += command.messages;
        self.held_messages += command.messages as usize;
        self.held_bytes += command.bytes.len();
        self.waiting.push_back(command);
        self.send_waiting();
    }

    /// Gives the active connection everything that waits.
    fn send_waiting(&mut self) {
        let Some(active) = &mut self.connections.active else {
            return;
        };
        for command in self.waiting.drain(..) {
            if command.may_repeat {
                self.traffic.resent += command.messages;
            }
            active.send(command);
        }
    }
}
