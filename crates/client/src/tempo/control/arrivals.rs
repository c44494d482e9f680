//! Connections whose sender or topic is not known yet: they wait for the hello and for the first
//! message of a subscribed topic.
//!
//! A sender says who it is and sends the messages of one topic. The first one identifies the topic,
//! and the connection goes to that subscription with everything that was read. Until then, messages
//! that nobody here subscribes to are dropped and counted; a sender that has not sent a message
//! stays here.

use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use slab::Slab;
use wire::TopicName;
use wire::announce::{InstanceId, Key, TopicId};
use wire::tempo::{HelloDecoded, MessageDecoded, decode_hello, decode_message};

use super::{ARRIVALS, ControlCounts, Event, TAKEN_PER_TURN};
use crate::tempo::inbox::Inbox;
use crate::tempo::options::NodeOptions;
use crate::tempo::poller::{Poller, Watching};
use crate::tempo::subscription::Incoming;

/// Connections that wait here at most; further ones are closed.
const ARRIVALS_MAX: usize = 4096;

/// Bytes that one read asks for.
const READ_BYTES: usize = 4096;

/// Bytes of messages that are not whole yet, of all connections here; one that would exceed it is closed.
const BYTES_MAX: usize = 64 << 20;

/// A connection that belongs to no subscription yet.
struct Arrival {
    watching: Watching,
    stream: TcpStream,
    read: Vec<u8>,
    sender: Option<InstanceId>,
}

/// The next step for an arrival.
enum Fate {
    Waits,
    /// Its first message is of this topic.
    Known(TopicName),
    Ended,
    /// Not the protocol, or not the key.
    Refused,
}

/// Connections that are no subscription's yet, and where they come from.
pub(super) struct Arrivals {
    listener: (Watching, TcpListener),
    waiting: Slab<Arrival>,
    /// Told of what happens at their sockets.
    inbox: Arc<Inbox<Event>>,
    poller: Arc<Poller>,
    key: Option<Key>,
    body_bytes_max: u32,
}

impl Arrivals {
    /// None yet.
    pub(super) fn new(
        listener: (Watching, TcpListener),
        inbox: &Arc<Inbox<Event>>,
        poller: &Arc<Poller>,
        options: &NodeOptions,
    ) -> Arrivals {
        Arrivals {
            listener,
            waiting: Slab::new(),
            inbox: Arc::clone(inbox),
            poller: Arc::clone(poller),
            key: options.key.clone(),
            body_bytes_max: options.body_bytes_max,
        }
    }

    /// Takes new connections.
    pub(super) fn accept(&mut self, counts: &mut ControlCounts) {
        self.listener.0.look();
        for _ in 0..TAKEN_PER_TURN {
            let stream = match self.listener.1.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The next arrival tells of this one too, where there were no descriptors left.
                Err(_) => {
                    counts.arrivals_refused += 1;
                    return;
                }
            };
            if self.waiting.len() >= ARRIVALS_MAX || !self.admit(stream) {
                counts.arrivals_refused += 1;
            }
        }
        self.listener.0.tell_again();
    }

    fn admit(&mut self, stream: TcpStream) -> bool {
        let slot = self.waiting.vacant_entry();
        let key = ARRIVALS.saturating_add(u32::try_from(slot.key()).unwrap_or(u32::MAX));
        let target: Arc<Inbox<Event>> = Arc::clone(&self.inbox);
        let watching = stream
            .set_nonblocking(true)
            .and_then(|()| self.poller.watch(&stream, target, key));
        let Ok(watching) = watching else {
            return false;
        };
        slot.insert(Arrival {
            watching,
            stream,
            read: Vec::new(),
            sender: None,
        });
        true
    }

    /// Reads from a connection without an owner. If its first message identifies one of the topics
    /// that are `listening`, returns that topic and the connection.
    pub(super) fn greet(
        &mut self,
        key: u32,
        listening: &FxHashMap<TopicId, TopicName>,
        counts: &mut ControlCounts,
    ) -> Option<(TopicName, Incoming)> {
        let at = (key - ARRIVALS) as usize;
        let arrival = self.waiting.get_mut(at)?;
        let mut fate = match arrival.receive() {
            Ok(true) => Fate::Waits,
            Ok(false) | Err(_) => Fate::Ended,
        };
        if arrival.sender.is_none() && !arrival.read.is_empty() {
            match arrival.introduce(self.key.as_ref()) {
                Ok(()) => {}
                Err(()) => fate = Fate::Refused,
            }
        }
        if arrival.sender.is_some() && !matches!(fate, Fate::Refused) {
            fate = self.sort(at, fate, listening, counts);
        }
        if matches!(fate, Fate::Waits) && !self.has_room_for(at) {
            fate = Fate::Refused;
        }
        match fate {
            Fate::Waits => {}
            Fate::Known(topic) => return self.take(at).map(|incoming| (topic, incoming)),
            Fate::Ended => drop(self.waiting.remove(at)),
            Fate::Refused => {
                counts.hellos_refused += 1;
                self.waiting.remove(at);
            }
        }
        None
    }

    /// Whether what a connection has sent may stay. Small amounts always may.
    fn has_room_for(&self, at: usize) -> bool {
        let read = |(_, arrival): (usize, &Arrival)| arrival.read.len();
        self.waiting[at].read.len() <= READ_BYTES
            || self.waiting.iter().map(read).sum::<usize>() <= BYTES_MAX
    }

    /// Drops messages that nobody subscribes, up to one that somebody does.
    fn sort(
        &mut self,
        at: usize,
        otherwise: Fate,
        listening: &FxHashMap<TopicId, TopicName>,
        counts: &mut ControlCounts,
    ) -> Fate {
        let arrival = &mut self.waiting[at];
        let mut used = 0;
        let fate = loop {
            let rest = &arrival.read[used..];
            let (id, message) = match decode_message(rest, self.body_bytes_max) {
                Ok(MessageDecoded::Complete { id, used, .. }) => (id, used),
                Ok(MessageDecoded::Incomplete { .. }) => break otherwise,
                Err(_) => break Fate::Refused,
            };
            if let Some(topic) = listening.get(&id) {
                break Fate::Known(topic.clone());
            }
            counts.unknown += 1;
            used += message;
        };
        arrival.read.drain(..used);
        fate
    }

    fn take(&mut self, at: usize) -> Option<Incoming> {
        let arrival = self.waiting.remove(at);
        let sender = arrival.sender?;
        arrival.watching.end(&arrival.stream);
        Some(Incoming::new(sender, arrival.stream, arrival.read))
    }
}

impl Arrival {
    /// Reads what is there, up to a bound; false at the end.
    fn receive(&mut self) -> io::Result<bool> {
        self.watching.look();
        let before = self.read.len();
        self.read.resize(before + READ_BYTES, 0);
        let result = self.stream.read(&mut self.read[before..]);
        self.read
            .truncate(before + result.as_ref().map_or(0, |&bytes| bytes));
        match result {
            Ok(0) => Ok(false),
            Ok(_) => {
                self.watching.tell_again();
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.watching.tell_again();
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the hello, as soon as it is complete.
    fn introduce(&mut self, key: Option<&Key>) -> Result<(), ()> {
        if let HelloDecoded::Complete { instance, used } =
            decode_hello(&self.read, key).map_err(|_| ())?
        {
            self.sender = Some(instance);
            self.read.drain(..used);
        }
        Ok(())
    }
}
