//! Post between threads: to a reactor from its peers and from the handle.
//!
//! Reactors post once per loop turn, whatever they have gathered, so locks and wake-ups are per
//! turn and not per message. Post between reactors is bounded by what their connections may have in
//! transit; requests of the handle have a bound of their own. Work for a topic is not done on
//! arrival but put into the queue of the topic's task.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kernel::TaskId;
use link::Declaration;
use topics::{Arrival, BacklogAnswer, Landed, LogAnswer, Published, TopicKey};
use wire::TopicName;

use super::guests::{DeliveryBatch, GuestAnswer, GuestOrder, GuestRequest, Seated};
use super::publishers::News;
use super::waiting::{RemotePublish, WaitingRequest};
use crate::BrokerError;
use crate::auth::Permitted;
use crate::backlog::Found;
use crate::connection::{Connection, ConnectionKey};
use crate::handle::Request;
use crate::sys::Waker;
use crate::tls::Shaken;

/// Requests of the handle that may wait in one inbox.
pub const REQUESTS_MAX: usize = 1024;

/// One piece of post.
#[derive(Debug)]
pub enum Mail {
    /// A connection that is to live here from now on.
    Adopt(Box<Connection>),
    /// Publishes for a topic of this reactor.
    Publish(Box<PublishBatch>),
    /// The batch come back with its outcomes.
    Answered(Box<PublishBatch>),
    /// Outcome of a publish that had to wait.
    Settled(Settled),
    /// The outcome of an order about messages outside memory.
    Backlog(BacklogAnswer),
    /// How far the log of a topic here is.
    Logged(LogAnswer),
    /// What queues here had outside of memory when the broker began.
    Restore(Vec<Found>),
    /// A topic of another reactor that had declared a share is gone.
    ShareGone(TopicName),
    /// Of publishers and their connections.
    Publisher(News),
    /// A connection elsewhere wants to be a guest of a topic here.
    Subscribe(Box<GuestRequest>),
    /// The outcome of that.
    Seated(Seated),
    /// A connection's word about its subscription here, from another reactor.
    Order(GuestOrder),
    /// That has been carried out.
    Ordered(GuestAnswer),
    /// The channel that a connection here is a guest of is gone.
    Unseated(ConnectionKey),
    /// Messages of a topic elsewhere for a connection here.
    Deliveries(Box<DeliveryBatch>),
    /// Such a batch come back.
    Returned(Box<DeliveryBatch>),
    /// A message that was followed from here has reached its subscriber.
    Landed(Landed),
    /// Auth servers were asked about a connection here.
    Permitted(Box<Permitted>),
    /// A TLS handshake of a connection here went on.
    Shaken(Box<Shaken>),
    /// A question or an order.
    Request(Request),
}

impl Mail {
    /// Whether no topic is charged with what it takes.
    pub(super) fn is_for_nobody(&self) -> bool {
        matches!(
            self,
            Mail::Adopt(_)
                | Mail::Backlog(_)
                | Mail::Subscribe(_)
                | Mail::Permitted(_)
                | Mail::Shaken(_)
                | Mail::Request(_)
        )
    }
}

/// What waits for the turn of a topic's task.
#[derive(Debug)]
pub enum TopicMail {
    /// Publishes that another reactor has read.
    Publish(Box<PublishBatch>),
    /// Publishes read here, come back with their outcomes.
    Answered(Box<PublishBatch>),
    /// Outcome of a publish read here that had to wait.
    Settled(Settled),
    /// A publish that came through the handle.
    Request(TopicName, Box<WaitingRequest>),
    /// How far the log of the topic is.
    Logged(LogAnswer),
    /// There is room for publishers that wait at the topic.
    Room(TopicKey),
    /// A guest's word about its subscription.
    Order(GuestOrder),
    /// Messages of the topic, which lives elsewhere, for a connection here.
    Deliveries(Box<DeliveryBatch>),
}

/// Publishes read in one turn for one topic of another reactor. Travels there and back, so that its
/// buffers are used again.
#[derive(Debug)]
pub struct PublishBatch {
    /// Where to.
    pub topic: TopicName,
    /// Reactor that owns the topic.
    pub home: usize,
    /// Reactor that read them.
    pub from: usize,
    /// The task there that is charged with reading and answering them.
    pub task: TaskId,
    /// How far it has been carried out, or settled.
    pub done: Progress,
    /// All bodies, back to back.
    pub bytes: Vec<u8>,
    /// Length of each body.
    pub lengths: Vec<u32>,
    /// The commands, each with a number of bodies.
    pub items: Vec<PublishItem>,
}

/// How far a batch is done: commands, bodies and bytes from its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Commands.
    pub items: usize,
    /// Their bodies.
    pub lengths: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// One publish command in a [`PublishBatch`].
#[derive(Debug)]
pub struct PublishItem {
    /// The publisher's connection, in the numbering of the reactor that read it.
    pub connection: u64,
    /// The publisher that the connection is known as for the topic.
    pub publisher: Option<Arc<Declaration>>,
    /// Who is at its other end.
    pub peer: SocketAddr,
    /// Number of bodies.
    pub messages: u32,
    /// When they reached the broker.
    pub arrival: Arrival,
    /// Delay before consumers get them.
    pub delay: Duration,
    /// The outcome, on the way back; [`Published::Full`] means that it waits, and [`Published::Logged`] that it is to become durable: both
    /// are settled later.
    pub outcome: Published,
    /// On the way back: how long messages of the topic wait, if they do and the publisher may be told.
    pub wait: Option<Duration>,
}

/// Outcome of one publish command of one connection.
#[derive(Debug)]
pub struct Settled {
    /// The task that is charged with answering it.
    pub task: TaskId,
    /// The publisher's connection.
    pub connection: u64,
    /// Messages of the command.
    pub messages: u32,
    /// Their delay.
    pub delay: Duration,
    /// The bytes of their bodies.
    pub bytes: usize,
    /// Their outcome.
    pub outcome: Published,
}

/// One reactor's post.
#[derive(Debug)]
pub struct Inbox {
    mail: Mutex<Vec<Mail>>,
    requests: AtomicUsize,
    closed: AtomicBool,
    /// Wakes the reactor.
    pub waker: Waker,
}

impl Inbox {
    /// An empty inbox.
    ///
    /// # Errors
    /// The system's, for want of descriptors.
    pub fn new() -> io::Result<Inbox> {
        Ok(Inbox {
            mail: Mutex::new(Vec::new()),
            requests: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            waker: Waker::new()?,
        })
    }

    /// Posts all of `mail` and empties it; wakes the reactor unless post waits there already.
    pub fn post(&self, mail: &mut Vec<Mail>) {
        let mut waiting = self.mail.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = waiting.is_empty();
        waiting.append(mail);
        drop(waiting);
        if was_empty {
            self.waker.wake();
        }
    }

    /// Posts a request.
    ///
    /// # Errors
    /// [`BrokerError::Busy`] at [`REQUESTS_MAX`], [`BrokerError::Exiting`] after [`Inbox::close`].
    pub fn ask(&self, request: Request) -> Result<(), BrokerError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(BrokerError::Exiting);
        }
        if self.requests.fetch_add(1, Ordering::AcqRel) >= REQUESTS_MAX {
            self.requests.fetch_sub(1, Ordering::AcqRel);
            return Err(BrokerError::Busy(REQUESTS_MAX));
        }
        self.post(&mut vec![Mail::Request(request)]);
        Ok(())
    }

    /// Takes everything that has come, into `mail`, which must be empty.
    pub fn take(&self, mail: &mut Vec<Mail>) {
        self.waker.clear();
        std::mem::swap(
            &mut *self.mail.lock().unwrap_or_else(PoisonError::into_inner),
            mail,
        );
        let requests = mail
            .iter()
            .filter(|piece| matches!(piece, Mail::Request(..)))
            .count();
        self.requests.fetch_sub(requests, Ordering::AcqRel);
    }

    /// Takes no more requests; those that wait are answered with [`BrokerError::Exiting`].
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.mail
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

impl PublishBatch {
    /// An empty batch for `topic`, which reactor `home` owns, read by reactor `from` for `task`.
    #[must_use]
    pub fn new(topic: TopicName, home: usize, from: usize, task: TaskId) -> PublishBatch {
        PublishBatch {
            topic,
            home,
            from,
            task,
            done: Progress::default(),
            bytes: Vec::new(),
            lengths: Vec::new(),
            items: Vec::new(),
        }
    }

    /// The same buffers, empty, for another topic.
    pub fn begin(&mut self, topic: TopicName, home: usize, task: TaskId) {
        (self.topic, self.home, self.task) = (topic, home, task);
        self.done = Progress::default();
        self.bytes.clear();
        self.lengths.clear();
        self.items.clear();
    }

    /// An owned copy of the command that comes after what is done, to wait.
    #[must_use]
    pub fn detach(&self) -> RemotePublish {
        let Progress {
            items,
            lengths,
            bytes,
        } = self.done;
        let item = &self.items[items];
        let lengths = self.lengths[lengths..lengths + item.messages as usize].to_vec();
        let length: usize = lengths.iter().map(|&length| length as usize).sum();
        RemotePublish {
            from: self.from,
            task: self.task,
            connection: item.connection,
            publisher: item.publisher.clone(),
            peer: item.peer,
            bytes: self.bytes[bytes..bytes + length].to_vec(),
            lengths,
            arrival: item.arrival,
            delay: item.delay,
        }
    }
}
