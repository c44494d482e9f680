//! Messages that go out of memory and come back: what is asked of whoever keeps them, and what becomes of its answers.
//!
//! [`Effects::backlog`](crate::Effects::backlog) has the orders. They are to be carried out in their order; each write and read is answered
//! once, and no more than [`ORDERS_MAX`] wait for their answers. Reading takes a segment out: whoever keeps it need not after that. An
//! answer that comes for a queue that is gone, or was emptied meanwhile, changes nothing.

use clock::Instant;
use rustc_hash::FxHashSet;

use super::agenda::{Agenda, Target};
use super::backlog::{Lost, Outcome};
use super::channel::{ChannelKey, Queued};
use super::effects::Effects;
use super::queue::Queue;
use super::store::{Arrival, MessageRef, Store, Stored};
use super::topic::TopicKey;
use super::tree::Tree;

/// Orders that wait for their answers at most, of all queues of a table.
pub const ORDERS_MAX: usize = 64;

/// A queue of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueKey {
    /// A topic's own.
    Topic(TopicKey),
    /// A channel's.
    Channel(ChannelKey),
}

/// Something to be done with messages outside of memory.
#[derive(Debug)]
pub enum BacklogOrder {
    /// Keep this segment; answered.
    Write(QueueKey, u64, Segment),
    /// Give the segment of that number, and keep it no longer; answered.
    Read(QueueKey, u64),
    /// Keep the segment of that number no longer.
    Forget(QueueKey, u64),
    /// Drop all segments of that queue, those whose reading was ordered included.
    ForgetAll(QueueKey),
}

/// What became of an order to write or to read.
#[derive(Debug)]
pub struct BacklogAnswer {
    /// Whose segment it is.
    pub queue: QueueKey,
    /// Which one.
    pub number: u64,
    /// What became of it.
    pub outcome: BacklogOutcome,
}

/// What became of a segment.
#[derive(Debug)]
pub enum BacklogOutcome {
    /// It is kept from now on.
    Written,
    /// It is not kept.
    NotWritten,
    /// Here it is. Messages that it lacks are lost.
    Read(Segment),
    /// It is kept still, and may be asked for again.
    NotRead,
}

/// Messages that are outside together, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Segment {
    heads: Vec<Head>,
    bodies: Vec<u8>,
}

/// A message without its body.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// Its number.
    pub id: u64,
    /// When it reached the broker.
    pub arrival: Arrival,
    /// When the limiter let it pass.
    pub released: Instant,
    /// Earliest delivery.
    pub due: Instant,
    /// When the emulated service is done with it.
    pub served: Instant,
    /// Since when it could have been delivered.
    pub since: Instant,
    /// Deliveries so far.
    pub attempts: u16,
    /// It took its tokens at its arrival.
    pub has_paid: bool,
    /// It was seen waiting for tokens.
    pub has_waited: bool,
    /// Length of its body.
    pub body_bytes: usize,
}

/// Orders that wait for their answers, and topics that wait to give some.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    orders: usize,
    waiting: FxHashSet<TopicKey>,
}

impl Segment {
    /// Adds a message at the end.
    pub fn push(&mut self, head: Head, body: &[u8]) {
        debug_assert_eq!(head.body_bytes, body.len());
        self.heads.push(head);
        self.bodies.extend_from_slice(body);
    }

    /// What it takes, in bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let heads = self.heads.len() * size_of::<Head>();
        (size_of::<Segment>() + heads + self.bodies.len()) as u64
    }

    /// The messages in their order.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = (&Head, &[u8])> {
        let mut rest = self.bodies.as_slice();
        self.heads.iter().map(move |head| {
            let (body, behind) = rest.split_at(head.body_bytes);
            rest = behind;
            (head, body)
        })
    }
}

impl Outstanding {
    /// Whether a topic may give two orders now; if not, it is remembered.
    fn may_order(&mut self, key: TopicKey) -> bool {
        let has_room = self.orders + 2 <= ORDERS_MAX;
        if !has_room {
            self.waiting.insert(key);
        }
        has_room
    }

    /// An answer came; gives the topics that waited for some, once half of what may be ordered is.
    fn answered(&mut self) -> FxHashSet<TopicKey> {
        self.orders = self.orders.saturating_sub(1);
        match self.orders <= ORDERS_MAX / 2 {
            true => std::mem::take(&mut self.waiting),
            false => FxHashSet::default(),
        }
    }

    /// Has written out what is too much for memory, and read back what there is room for: of a topic and its channels, at the end of
    /// their run.
    pub(super) fn look_after(
        &mut self,
        key: TopicKey,
        tree: &mut Tree,
        store: &Store,
        effects: &mut Effects,
        now: Instant,
    ) {
        let Some(topic) = tree.topics.get_mut(key) else {
            return;
        };
        if self.may_order(key) {
            let orders = topic.waiting.queue.orders(store, now);
            self.order(QueueKey::Topic(key), orders, effects);
        }
        for &channel_key in &topic.channels {
            if self.may_order(key)
                && let Some(channel) = tree.channels.get_mut(channel_key)
            {
                let orders = channel.queue.orders(store, now);
                self.order(QueueKey::Channel(channel_key), orders, effects);
            }
        }
    }

    fn order(
        &mut self,
        queue: QueueKey,
        (write, read): (Option<(u64, Segment)>, Option<u64>),
        effects: &mut Effects,
    ) {
        let write = write.map(|(number, segment)| BacklogOrder::Write(queue, number, segment));
        let read = read.map(|number| BacklogOrder::Read(queue, number));
        for order in write.into_iter().chain(read) {
            self.orders += 1;
            effects.backlog.push(order);
        }
    }

    /// Takes the answer to an order. Each order to write or to read has one.
    pub(super) fn hear(
        &mut self,
        answer: BacklogAnswer,
        tree: &mut Tree,
        store: &mut Store,
        (agenda, effects): (&mut Agenda, &mut Effects),
        now: Instant,
    ) {
        for waiting in self.answered() {
            agenda.mark_dirty(&mut tree.topics, waiting);
        }
        let BacklogAnswer { queue, number, .. } = answer;
        let (key, heard, retry_at) = match queue {
            QueueKey::Topic(key) => {
                let Some(topic) = tree.topics.get_mut(key) else {
                    return;
                };
                let heard = topic.waiting.queue.hear(answer, key.slot(), store, now);
                topic.counts.dropped += heard.lost.messages as u64;
                topic.waiting.bytes -= heard.lost.bytes;
                (key, heard, topic.waiting.queue.retry_at())
            }
            QueueKey::Channel(channel) => {
                let Some(channel) = tree.channels.get_mut(channel) else {
                    return;
                };
                let key = channel.topic;
                let heard = channel.queue.hear(answer, key.slot(), store, now);
                channel.dropped_count += heard.lost.messages as u64;
                (key, heard, channel.queue.retry_at())
            }
        };
        if !heard.is_needed {
            effects.backlog.push(BacklogOrder::Forget(queue, number));
        }
        if let Some(at) = retry_at.filter(|&at| at > now) {
            agenda.wakeups.push(at, Target::Backlog(key));
        }
        agenda.mark_dirty(&mut tree.topics, key);
    }
}

/// What an answer came to.
#[derive(Debug)]
struct Heard {
    /// What will not come back.
    lost: Lost,
    /// Whether the segment that was written is of use.
    is_needed: bool,
}

/// What waits in a queue: a message, and what its queue knows of it.
pub(super) trait Item: Copy {
    fn message(self) -> MessageRef;

    /// What is to be kept of it beside the message: since when it waits, and its deliveries.
    fn place(self, message: &Stored) -> (Instant, u16);

    fn back(message: MessageRef, head: &Head) -> Self;
}

impl Item for MessageRef {
    fn message(self) -> MessageRef {
        self
    }

    fn place(self, message: &Stored) -> (Instant, u16) {
        (message.arrival.read, 0)
    }

    fn back(message: MessageRef, _: &Head) -> Self {
        message
    }
}

impl Item for Queued {
    fn message(self) -> MessageRef {
        self.message
    }

    fn place(self, _: &Stored) -> (Instant, u16) {
        (self.since, self.attempts)
    }

    fn back(message: MessageRef, head: &Head) -> Self {
        Queued {
            message,
            attempts: head.attempts,
            since: head.since,
        }
    }
}

impl<T: Item> Queue<T> {
    /// The segments to write and to read now.
    fn orders(&mut self, store: &Store, now: Instant) -> (Option<(u64, Segment)>, Option<u64>) {
        let weigh = |item: &T| store.get(item.message()).body.len() as u64;
        let write = self.begin_write(weigh, now).map(|(number, items)| {
            let mut segment = Segment::default();
            for &item in items {
                let message = store.get(item.message());
                segment.push(head_of(message, item.place(message)), &message.body);
            }
            (number, segment)
        });
        (write, self.begin_read(now))
    }

    fn hear(
        &mut self,
        answer: BacklogAnswer,
        owner: usize,
        store: &mut Store,
        now: Instant,
    ) -> Heard {
        let number = answer.number;
        let is_done = matches!(answer.outcome, BacklogOutcome::Written);
        match answer.outcome {
            BacklogOutcome::Written | BacklogOutcome::NotWritten => {
                let (gone, is_needed) = self.end_write(number, is_done, now);
                gone.into_iter()
                    .for_each(|item| store.release(item.message()));
                let lost = Lost::default();
                Heard { lost, is_needed }
            }
            BacklogOutcome::Read(segment) => {
                let lost = self.take_back(number, &segment, owner, store, now);
                let is_needed = true;
                Heard { lost, is_needed }
            }
            BacklogOutcome::NotRead => {
                if self.expected(number).is_some() {
                    self.end_read(Outcome::Failed, now);
                }
                Heard {
                    lost: Lost::default(),
                    is_needed: true,
                }
            }
        }
    }

    fn take_back(
        &mut self,
        number: u64,
        segment: &Segment,
        owner: usize,
        store: &mut Store,
        now: Instant,
    ) -> Lost {
        let Some(expected) = self.expected(number) else {
            return Lost::default();
        };
        let mut bytes = 0;
        let messages = segment.messages().take(expected);
        let items = messages.map(|(head, body)| {
            bytes += body.len() as u64;
            let message = store.insert(owner, head.id, head.arrival, head.due, body);
            let stored = store.get_mut(message);
            (stored.released, stored.served) = (head.released, head.served);
            (stored.has_paid, stored.has_waited) = (head.has_paid, head.has_waited);
            T::back(message, head)
        });
        let items = items.collect();
        self.end_read(Outcome::Back(items, bytes), now)
    }
}

fn head_of(message: &Stored, (since, attempts): (Instant, u16)) -> Head {
    Head {
        id: message.id,
        arrival: message.arrival,
        released: message.released,
        due: message.due,
        served: message.served,
        since,
        attempts,
        has_paid: message.has_paid,
        has_waited: message.has_waited,
        body_bytes: message.body.len(),
    }
}
