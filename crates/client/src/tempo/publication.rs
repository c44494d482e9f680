//! The task of a publication: writes what was published to every subscriber.
//!
//! The handler takes all that has gathered in the outbox and writes it to each subscriber's
//! connection, without waiting. A batch is finished when everybody has it; then comes the next. If
//! a subscriber does not take everything at once, the publication either waits (the batch stays,
//! the outbox fills up, writers block) or puts the rest aside, up to a bound beyond which messages
//! are dropped for that subscriber alone.
//!
//! Where a limit delays, only as much of the batch may be written as the bucket has tokens for; an
//! alarm brings the task back when the next message's tokens are there.
//!
//! An event means "there is something to write", whatever the number of messages; messages are
//! counted apart.

mod delivery;
mod outbox;

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clock::Instant;
use kernel::{Serve, Turn};
use slab::Slab;
use wire::announce::{InstanceId, Key};
use wire::tempo::MESSAGE_HEADER_BYTES;

pub(super) use self::delivery::Subscriber;
use self::delivery::{Delivery, Taken};
use self::outbox::Batch;
pub(super) use self::outbox::{Outbox, Put};
use super::alarms::AlarmId;
use super::inbox::Inbox;
use super::monotonic::now;
use super::options::OnFull;
use super::pace::TURN_MAX;
use super::poller::{Poller, Signal};

/// The alarm for the next message's tokens; other keys are those of deliveries.
const TOKENS: u32 = u32::MAX;

/// A publication's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublicationCounts {
    /// Messages taken from the program.
    pub published: u64,
    /// Messages handed to the system, once per subscriber.
    pub sent: u64,
    /// Messages that nobody subscribed to when their turn came.
    pub unheard: u64,
    /// Messages dropped because the outbox was full.
    pub dropped_full: u64,
    /// Messages dropped for one subscriber that did not keep up.
    pub dropped_behind: u64,
    /// Messages dropped or rejected by the topic's limit.
    pub dropped_limit: u64,
    /// Datagrams that the system did not take.
    pub datagrams_lost: u64,
    /// Connections made to subscribers.
    pub connects: u64,
    /// Connections that were refused or broke.
    pub losses: u64,
    /// Times that a writer found the outbox full.
    pub waits: u64,
    /// Subscribers that messages go to at the moment.
    pub subscribers: u64,
}

/// What happens to a publication.
pub(super) enum Event {
    /// There is something in the outbox, or the last turn left something.
    Write,
    /// These are all subscribers.
    Follow(Vec<Subscriber>),
    /// The publication's part of the limit has changed.
    Reckon,
    /// Something at a socket.
    Socket(u32),
    /// An alarm.
    Alarm(u32),
}

impl From<Signal> for Event {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Socket(key) => Event::Socket(key),
            Signal::Alarm(key) => Event::Alarm(key),
        }
    }
}

/// The handler of the task.
pub(super) struct Publication {
    ground: Ground,
    outbox: Arc<Outbox>,
    deliveries: Slab<Delivery>,
    /// Where the next pass over the deliveries begins.
    next_delivery: usize,
    batch: Batch,
    /// So many bytes of the batch may be written.
    released: usize,
    awaits: Option<Tokens>,
    on_full: OnFull,
    backlog_bytes: usize,
    by_datagram: bool,
}

/// What deliveries stand on.
pub(super) struct Ground {
    pub(super) instance: InstanceId,
    pub(super) key: Option<Key>,
    pub(super) inbox: Arc<Inbox<Event>>,
    pub(super) poller: Arc<Poller>,
    /// Sends datagrams; none until somebody wants them.
    pub(super) datagrams: Option<UdpSocket>,
}

/// What the head of the batch waits for.
enum Tokens {
    /// Its departure, which the alarm is set for.
    At(AlarmId),
    /// A part of the limit.
    Part,
}

/// How a pass over all deliveries ended.
enum Pass {
    /// Everybody has all that was released.
    Written,
    /// A socket or the bucket will say when to go on.
    Waits,
    /// The turn is over.
    OutOfTime,
}

impl Publication {
    pub(super) fn new(
        instance: InstanceId,
        key: Option<Key>,
        inbox: Arc<Inbox<Event>>,
        poller: Arc<Poller>,
        outbox: Arc<Outbox>,
    ) -> Self {
        let options = outbox.options();
        Publication {
            on_full: options.on_full,
            backlog_bytes: options.queue_bytes,
            by_datagram: options.by_datagram,
            ground: Ground {
                instance,
                key,
                inbox,
                poller,
                datagrams: None,
            },
            outbox,
            deliveries: Slab::new(),
            next_delivery: 0,
            batch: Batch::default(),
            released: 0,
            awaits: None,
        }
    }

    /// Makes deliveries to new subscribers and ends those to departed ones. A subscriber that
    /// departs while others come (a broker dies, or appears) still gets messages until the first of
    /// those is reached.
    fn follow(&mut self, subscribers: Vec<Subscriber>) {
        for (_, delivery) in &mut self.deliveries {
            delivery.is_retiring = !subscribers.contains(&delivery.subscriber);
        }
        let mut deliveries = self.deliveries.iter();
        let has_others =
            deliveries.any(|(_, delivery)| delivery.is_open() && !delivery.is_retiring);
        if subscribers.is_empty() || has_others {
            self.end_retiring();
        }
        for subscriber in subscribers {
            let mut deliveries = self.deliveries.iter();
            if !deliveries.any(|(_, delivery)| delivery.subscriber == subscriber) {
                let key = self.deliveries.insert(Delivery::new(subscriber));
                self.connect(key);
            }
        }
        self.note_deliveries();
    }

    /// A delivery is open: where it replaces others it goes on with the first message that they do not have whole.
    fn take_over(&mut self, key: usize) {
        let deliveries = self.deliveries.iter();
        let retiring = deliveries.filter(|(_, delivery)| delivery.is_retiring);
        if let Some(sent) = retiring
            .filter_map(|(_, delivery)| delivery.progress())
            .min()
        {
            let mut begins = 0;
            while begins < sent {
                let ends = begins + message_bytes(&self.batch.bytes[begins..]);
                if ends > sent {
                    break;
                }
                begins = ends;
            }
            self.deliveries[key].join(begins);
        }
        self.end_retiring();
        self.note_deliveries();
    }

    /// Ends deliveries to departed subscribers.
    fn end_retiring(&mut self) {
        let deliveries = self.deliveries.iter();
        let retiring = deliveries.filter(|(_, delivery)| delivery.is_retiring);
        let retiring: Vec<usize> = retiring.map(|(key, _)| key).collect();
        if retiring.is_empty() {
            return;
        }
        let ended: Vec<Delivery> = retiring
            .iter()
            .map(|&key| self.deliveries.remove(key))
            .collect();
        for delivery in &ended {
            delivery.call_off(&self.ground);
        }
        // The count first, then the connections.
        self.note_deliveries();
        drop(ended);
    }

    fn connect(&mut self, key: usize) {
        let Some(delivery) = self.deliveries.get_mut(key) else {
            return;
        };
        let name = u32::try_from(key).unwrap_or(TOKENS);
        if delivery.connect(&mut self.ground, name, self.by_datagram) == Taken::Lost {
            self.lose(key);
        } else if delivery.is_open() {
            self.take_over(key);
        }
    }

    fn lose(&mut self, key: usize) {
        self.outbox.tally.losses.fetch_add(1, Ordering::Relaxed);
        let name = u32::try_from(key).unwrap_or(TOKENS);
        if let Some(delivery) = self.deliveries.get_mut(key) {
            delivery.rest(&self.ground, name, now());
        }
        // Who is gone does not wait for one that cannot be reached.
        self.end_retiring();
        self.note_deliveries();
    }

    fn look_at(&mut self, key: u32) {
        let Some(delivery) = self.deliveries.get_mut(key as usize) else {
            return;
        };
        let was_open = delivery.is_open();
        if delivery.look(&self.ground) == Taken::Lost {
            return self.lose(key as usize);
        }
        if !was_open && delivery.is_open() {
            self.outbox.tally.connects.fetch_add(1, Ordering::Relaxed);
            self.take_over(key as usize);
        }
    }

    fn ring(&mut self, key: u32) {
        if key == TOKENS {
            self.awaits = None;
        } else {
            self.connect(key as usize);
            self.note_deliveries();
        }
    }

    fn note_deliveries(&self) {
        let open = self
            .deliveries
            .iter()
            .filter(|(_, delivery)| delivery.is_open())
            .count();
        self.outbox.set_subscribers(open);
    }

    /// Writes as much as the turn's time, the sockets and the bucket allow.
    fn advance(&mut self, turn: &Turn) {
        let ends = turn.began + turn.credits.min(TURN_MAX);
        loop {
            if self.is_finished() && !self.begin_batch() {
                return;
            }
            self.release();
            match self.write(ends) {
                Pass::Waits => return,
                Pass::Written if now() < ends => {}
                Pass::Written | Pass::OutOfTime => {
                    return self.ground.inbox.put(Event::Write);
                }
            }
        }
    }

    /// Whether everybody has the whole batch.
    fn is_finished(&self) -> bool {
        let bytes = self.batch.bytes.len();
        self.released == bytes
            && self
                .deliveries
                .iter()
                .all(|(_, delivery)| delivery.has(bytes))
    }

    /// Counts the batch that is finished and takes the next; false where there is none.
    fn begin_batch(&mut self) -> bool {
        let messages = self.batch.messages;
        let tally = &self.outbox.tally;
        let hearers = self
            .deliveries
            .iter()
            .filter(|(_, delivery)| delivery.takes_part());
        let hearers = hearers.count() as u64;
        tally.sent.fetch_add(messages * hearers, Ordering::Relaxed);
        if hearers == 0 {
            tally.unheard.fetch_add(messages, Ordering::Relaxed);
        }
        self.batch.bytes.clear();
        self.batch.messages = 0;
        self.released = 0;
        for (_, delivery) in &mut self.deliveries {
            delivery.begin_batch();
        }
        self.outbox.exchange(&mut self.batch)
    }

    /// Lets go what the bucket has tokens for, and asks to be called when it has those of the next message.
    fn release(&mut self) {
        let bytes = self.batch.bytes.len();
        let is_heard = self
            .deliveries
            .iter()
            .any(|(_, delivery)| delivery.takes_part());
        if !is_heard || !self.outbox.delays() {
            self.released = bytes;
            return;
        }
        let now = now();
        while self.released < bytes && self.awaits.is_none() {
            let message = message_bytes(&self.batch.bytes[self.released..]);
            let body_bytes = message.saturating_sub(MESSAGE_HEADER_BYTES);
            self.awaits = match self.outbox.departure(body_bytes, now) {
                Some(departure) if departure <= now => {
                    self.released += message;
                    None
                }
                Some(departure) => Some(Tokens::At(self.call_at(departure))),
                None => Some(Tokens::Part),
            };
        }
    }

    fn call_at(&self, due: Instant) -> AlarmId {
        let target: Arc<Inbox<Event>> = Arc::clone(&self.ground.inbox);
        self.ground.poller.set_alarm(due, target, TOKENS)
    }

    /// Asks the bucket again.
    fn reckon(&mut self) {
        if let Some(Tokens::At(alarm)) = self.awaits.take() {
            self.ground.poller.call_off(alarm);
        }
    }

    /// One pass over all deliveries, beginning where the last one was cut short.
    fn write(&mut self, ends: Instant) -> Pass {
        let released = &self.batch.bytes[..self.released];
        let places = self.deliveries.capacity();
        let first = std::mem::take(&mut self.next_delivery);
        let mut pass = Pass::Written;
        let mut lost = None;
        for step in 0..places {
            let key = (first + step) % places;
            let Some(delivery) = self.deliveries.get_mut(key) else {
                continue;
            };
            match delivery.write(&self.ground, released, &self.outbox.tally) {
                Taken::All => {}
                Taken::Some => pass = Pass::OutOfTime,
                Taken::Full if self.on_full == OnFull::Drop => {
                    let dropped = delivery.put_aside(released, self.backlog_bytes);
                    let tally = &self.outbox.tally.dropped_behind;
                    tally.fetch_add(dropped, Ordering::Relaxed);
                }
                Taken::Full if matches!(pass, Pass::Written) => pass = Pass::Waits,
                Taken::Full => {}
                Taken::Lost => lost = Some(key),
            }
            if lost.is_some() || now() >= ends {
                self.next_delivery = key + 1;
                pass = Pass::OutOfTime;
                break;
            }
        }
        if let Some(key) = lost {
            self.lose(key);
        }
        let is_whole = self.released == self.batch.bytes.len();
        match pass {
            // What is not released waits for its tokens.
            Pass::Written if !is_whole => Pass::Waits,
            pass => pass,
        }
    }
}

impl Serve for Publication {
    fn serve(&mut self, turn: &Turn) -> usize {
        let Some(event) = self.ground.inbox.take() else {
            return 0;
        };
        match event {
            Event::Write => {}
            Event::Follow(subscribers) => self.follow(subscribers),
            Event::Reckon => self.reckon(),
            Event::Socket(key) => self.look_at(key),
            Event::Alarm(key) => self.ring(key),
        }
        self.advance(turn);
        1
    }
}

/// Bytes of the framed message at the beginning of `bytes`, which hold whole ones.
fn message_bytes(bytes: &[u8]) -> usize {
    let length = bytes.first_chunk::<4>();
    let body_bytes = length.map_or(0, |&length| u32::from_be_bytes(length) as usize);
    (MESSAGE_HEADER_BYTES + body_bytes).min(bytes.len())
}
