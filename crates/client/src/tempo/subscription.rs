//! The task of a subscription: reads what publishers send and calls the program back.
//!
//! Each publisher has a connection of its own per topic, so a subscription that does not keep up
//! slows only the publishers of its topic: its sockets fill up. An event means "there is something
//! to read here"; the handler reads up to [`READ_BYTES`], calls back for each message, and comes
//! again for the rest.
//!
//! A message with an identifier that is not the topic's is dropped and counted. A connection that
//! breaks the protocol is closed and counted.
//!
//! Deliberately absent: acknowledgements and repetition. What a subscriber had not read when it
//! went away is lost.

mod incoming;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kernel::{Serve, Turn};
use slab::Slab;
use wire::TopicName;
use wire::announce::{InstanceId, TopicId};

pub(super) use self::incoming::Incoming;
use self::incoming::{Fate, Reading};
use super::control;
use super::inbox::Inbox;
use super::monotonic::now;
use super::pace::Pace;
use super::poller::{Poller, Signal};

/// A message as a subscription gets it.
#[derive(Clone, Copy, Debug)]
pub struct TempoMessage<'m> {
    /// The topic.
    pub topic: &'m TopicName,
    /// The publisher's bytes.
    pub body: &'m [u8],
    /// The endpoint that sent it, the publisher or a broker for it; unknown where it came as a datagram.
    pub sender: Option<InstanceId>,
}

/// Messages that came as datagrams and wait for their turn at most.
const DATAGRAMS_MAX: u64 = 1024;

/// A subscription's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionCounts {
    /// Messages that the program was called back for.
    pub messages: u64,
    /// Their bodies' bytes.
    pub bytes: u64,
    /// Messages with an identifier that is not the topic's.
    pub unknown: u64,
    /// Connections that were closed because they broke the protocol.
    pub broken: u64,
    /// Connections from publishers that are open.
    pub connections: u64,
}

/// The counts while they are counted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    messages: AtomicU64,
    bytes: AtomicU64,
    unknown: AtomicU64,
    broken: AtomicU64,
    connections: AtomicU64,
    datagrams: AtomicU64,
    /// The task is gone: it was ended, or its callback panicked.
    has_ended: AtomicBool,
}

/// What happens to a subscription.
pub(super) enum Event {
    /// A publisher has connected and named the topic.
    Adopt(Incoming),
    /// These identifiers mean the topic.
    Identify(Vec<TopicId>),
    /// A message that came as a datagram.
    Datagram(Box<[u8]>),
    /// Something at a socket.
    Socket(u32),
}

impl From<Signal> for Event {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Socket(key) | Signal::Alarm(key) => Event::Socket(key),
        }
    }
}

/// The program's callback.
pub(super) type Callback = Box<dyn FnMut(&TempoMessage<'_>) + Send>;

/// The handler of the task.
pub(super) struct Subscription {
    topic: TopicName,
    ids: Vec<TopicId>,
    callback: Callback,
    inbox: Arc<Inbox<Event>>,
    /// Told when the task ends.
    control: Arc<Inbox<control::Event>>,
    poller: Arc<Poller>,
    tally: Arc<Tally>,
    connections: Slab<Incoming>,
    body_bytes_max: u32,
    /// Where bytes are read to, whichever connection they come from.
    work: Vec<u8>,
}

impl Subscription {
    pub(super) fn new(
        topic: TopicName,
        callback: Callback,
        inbox: Arc<Inbox<Event>>,
        control: Arc<Inbox<control::Event>>,
        poller: Arc<Poller>,
        tally: Arc<Tally>,
        body_bytes_max: u32,
    ) -> Self {
        Subscription {
            topic,
            ids: Vec::new(),
            callback,
            inbox,
            control,
            poller,
            tally,
            connections: Slab::new(),
            body_bytes_max,
            work: Vec::new(),
        }
    }

    fn adopt(&mut self, mut incoming: Incoming) {
        let slot = self.connections.vacant_entry();
        let key = u32::try_from(slot.key()).unwrap_or(u32::MAX);
        let target: Arc<Inbox<Event>> = Arc::clone(&self.inbox);
        // Where the system has no room for one more watched socket the publisher finds it closed.
        if incoming.watch(&self.poller, target, key).is_ok() {
            slot.insert(incoming);
            self.note_connections();
        }
    }

    fn read(&mut self, key: u32, turn: &Turn) {
        let Some(incoming) = self.connections.get_mut(key as usize) else {
            return;
        };
        let mut pace = Pace::new(turn.began, turn.credits);
        let sender = Some(incoming.sender);
        let (mut messages, mut bytes, mut unknown) = (0, 0, 0);
        let reading = Reading {
            work: &mut self.work,
            body_bytes_max: self.body_bytes_max,
        };
        let fate = incoming.read(reading, |id, body| {
            if self.ids.contains(&id) {
                messages += 1;
                bytes += body.len() as u64;
                (self.callback)(&TempoMessage {
                    topic: &self.topic,
                    body,
                    sender,
                });
            } else {
                unknown += 1;
            }
            pace.is_over(now)
        });
        self.tally.messages.fetch_add(messages, Ordering::Relaxed);
        self.tally.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.tally.unknown.fetch_add(unknown, Ordering::Relaxed);
        match fate {
            Fate::Open => {}
            Fate::Ended => self.drop_connection(key),
            Fate::Broken => {
                self.tally.broken.fetch_add(1, Ordering::Relaxed);
                self.drop_connection(key);
            }
        }
    }

    fn hear(&mut self, body: &[u8]) {
        self.tally.datagrams.fetch_sub(1, Ordering::Relaxed);
        self.tally.messages.fetch_add(1, Ordering::Relaxed);
        self.tally
            .bytes
            .fetch_add(body.len() as u64, Ordering::Relaxed);
        (self.callback)(&TempoMessage {
            topic: &self.topic,
            body,
            sender: None,
        });
    }

    fn drop_connection(&mut self, key: u32) {
        self.connections.remove(key as usize);
        self.note_connections();
    }

    fn note_connections(&self) {
        let open = self.connections.len() as u64;
        self.tally.connections.store(open, Ordering::Relaxed);
    }
}

impl Serve for Subscription {
    fn serve(&mut self, turn: &Turn) -> usize {
        let Some(event) = self.inbox.take() else {
            return 0;
        };
        match event {
            Event::Adopt(incoming) => self.adopt(incoming),
            Event::Identify(ids) => self.ids = ids,
            Event::Datagram(body) => self.hear(&body),
            Event::Socket(key) => self.read(key, turn),
        }
        1
    }
}

impl Drop for Subscription {
    /// What nobody reads any more must not be announced: publishers would wait for it.
    fn drop(&mut self) {
        self.tally.has_ended.store(true, Ordering::Release);
        self.control.put(control::Event::Look);
    }
}

impl Tally {
    /// Whether the task is gone.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Whether another datagram may wait; it counts if so.
    pub(super) fn may_queue(&self) -> bool {
        let may = self.datagrams.load(Ordering::Relaxed) < DATAGRAMS_MAX;
        if may {
            self.datagrams.fetch_add(1, Ordering::Relaxed);
        }
        may
    }

    pub(super) fn counts(&self) -> SubscriptionCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        SubscriptionCounts {
            messages: read(&self.messages),
            bytes: read(&self.bytes),
            unknown: read(&self.unknown),
            broken: read(&self.broken),
            connections: read(&self.connections),
        }
    }
}
