//! Moves messages out of memory and back: orders to whoever keeps them, and the handling of the
//! answers.
//!
//! [`Effects::backlog`](crate::Effects::backlog) has the orders. They are to be carried out in
//! their order; each write and read is answered once, and at most [`ORDERS_MAX`] wait for their
//! answers. A segment that was read is kept outside until an order says that it is here. An answer
//! for a queue that is gone, or was emptied meanwhile, changes nothing.

use clock::Instant;
use rustc_hash::FxHashSet;

use link::OnFull;

use super::agenda::{Agenda, Target};
use super::backlog::{Lost, Outcome, Returned};
use super::channel::{ChannelKey, Queued};
use super::effects::Effects;
use super::handover::QueueName;
use super::queue::Queue;
use super::segment::{Head, Segment, head_of};
use super::store::{MessageRef, Store, Stored};
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

/// A queue that an order is about: by its key in the table, and by its name, which outlives that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpilledQueue {
    /// For the answer.
    pub key: QueueKey,
    /// For whoever keeps its segments.
    pub name: QueueName,
}

/// Something to be done with messages outside of memory.
#[derive(Debug)]
pub enum BacklogOrder {
    /// Keep this segment; answered.
    Write(SpilledQueue, u64, Segment),
    /// Give the segment of that number; answered.
    Read(SpilledQueue, u64),
    /// Keep the segment of that number no longer.
    Forget(SpilledQueue, u64),
    /// Drop all segments of that queue, those whose reading was ordered included.
    ForgetAll(SpilledQueue),
}

/// The answer to an order to write or to read.
#[derive(Debug)]
pub struct BacklogAnswer {
    /// Whose segment it is.
    pub queue: QueueKey,
    /// Which one.
    pub number: u64,
    /// The outcome.
    pub outcome: BacklogOutcome,
}

/// The outcome for a segment.
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

/// Orders that wait for their answers, and topics that wait to give some.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    orders: usize,
    waiting: FxHashSet<TopicKey>,
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
    /// their run. A broker that stops reads nothing back.
    pub(super) fn look_after(
        &mut self,
        key: TopicKey,
        tree: &mut Tree,
        store: &Store,
        (effects, is_ending): (&mut Effects, bool),
        now: Instant,
    ) {
        let Some(topic) = tree.topics.get_mut(key) else {
            return;
        };
        let is_pressed = std::mem::take(&mut topic.is_pressed);
        let ways = Ways {
            writes: true,
            reads: !is_ending,
        };
        if self.may_order(key) {
            if is_pressed {
                topic.waiting.queue.press();
            }
            let orders = topic.waiting.queue.orders(store, ways, now);
            self.order(orders, effects, || topic.spilled(key));
        }
        // Who wants the newest only has them in memory.
        let ways = Ways {
            writes: topic.declared.on_full != Some(OnFull::DropOldest),
            ..ways
        };
        for &channel_key in &topic.channels {
            if self.may_order(key)
                && let Some(channel) = tree.channels.get_mut(channel_key)
            {
                if is_pressed {
                    channel.queue.press();
                }
                let orders = channel.queue.orders(store, ways, now);
                self.order(orders, effects, || channel.spilled(channel_key, topic));
            }
        }
    }

    fn order(
        &mut self,
        (write, read): Orders,
        effects: &mut Effects,
        queue: impl Fn() -> SpilledQueue,
    ) {
        let write = write.map(|(number, segment)| BacklogOrder::Write(queue(), number, segment));
        let read = read.map(|number| BacklogOrder::Read(queue(), number));
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
        let number = answer.number;
        let (key, heard, queue) = match answer.queue {
            QueueKey::Topic(key) => {
                let Some(topic) = tree.topics.get_mut(key) else {
                    return;
                };
                let (heard, _) = topic.waiting.queue.hear(answer, key.slot(), store, now);
                topic.counts.dropped += heard.lost.messages as u64;
                topic.waiting.bytes -= heard.lost.bytes;
                (key, heard, topic.spilled(key))
            }
            QueueKey::Channel(channel_key) => {
                let Some(channel) = tree.channels.get_mut(channel_key) else {
                    return;
                };
                let key = channel.topic;
                let (heard, later) = channel.queue.hear(answer, key.slot(), store, now);
                channel.dropped_count += heard.lost.messages as u64;
                for (queued, due) in later {
                    if let Some(at) = channel.defer(queued.message, queued.attempts, due) {
                        agenda.wakeups.push(at, Target::Channel(channel_key));
                    }
                }
                let Some(topic) = tree.topics.get(key) else {
                    return;
                };
                (key, heard, channel.spilled(channel_key, topic))
            }
        };
        if heard.is_over {
            effects.backlog.push(BacklogOrder::Forget(queue, number));
        }
        if let Some(at) = heard.retry_at.filter(|&at| at > now) {
            agenda.wakeups.push(at, Target::Backlog(key));
        }
        agenda.mark_dirty(&mut tree.topics, key);
    }
}

/// A queue's orders: a segment to be written, and the number of one to be read.
type Orders = (Option<(u64, Segment)>, Option<u64>);

/// What may go on with a queue.
#[derive(Clone, Copy, Debug)]
struct Ways {
    writes: bool,
    reads: bool,
}

/// What an answer came to.
#[derive(Debug, Default)]
struct Heard {
    /// What will not come back.
    lost: Lost,
    /// The segment need not be kept any more.
    is_over: bool,
    retry_at: Option<Instant>,
}

/// Items without a place in their queue yet, and when they get one.
type Later<T> = Vec<(T, Instant)>;

/// An item that waits in a queue: a message, and what its queue knows of it.
pub(super) trait Item: Copy {
    fn message(self) -> MessageRef;

    /// What to keep of it beside the message: since when it waits, and its deliveries.
    fn place(self, message: &Stored) -> (Instant, u16);

    fn back(message: MessageRef, head: &Head) -> Self;

    /// Until when it has no place in its queue.
    fn waits_until(head: &Head, now: Instant) -> Option<Instant>;
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

    fn waits_until(_: &Head, _: Instant) -> Option<Instant> {
        None
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

    fn waits_until(head: &Head, now: Instant) -> Option<Instant> {
        (head.due > now).then_some(head.due)
    }
}

impl<T: Item> Queue<T> {
    /// The segments to write and to read now.
    fn orders(&mut self, store: &Store, ways: Ways, now: Instant) -> Orders {
        let weigh = |item: &T| store.get(item.message()).body.len() as u64;
        let mut write = None;
        if ways.writes {
            write = self.begin_write(weigh, now).map(|(number, items)| {
                let mut segment = Segment::default();
                for &item in items {
                    let message = store.get(item.message());
                    segment.push(head_of(message, item.place(message)), &message.body);
                }
                (number, segment)
            });
        }
        let read = ways.reads.then(|| self.begin_read(weigh, now));
        (write, read.flatten())
    }

    fn hear(
        &mut self,
        answer: BacklogAnswer,
        owner: usize,
        store: &mut Store,
        now: Instant,
    ) -> (Heard, Later<T>) {
        let number = answer.number;
        let (mut heard, mut not_yet) = (Heard::default(), Vec::new());
        match answer.outcome {
            BacklogOutcome::Written | BacklogOutcome::NotWritten => {
                let is_done = matches!(answer.outcome, BacklogOutcome::Written);
                let (gone, is_needed) = self.end_write(number, is_done, now);
                gone.into_iter()
                    .for_each(|item| store.release(item.message()));
                heard.is_over = !is_needed;
            }
            BacklogOutcome::Read(segment) => {
                if let Some(expected) = self.expected(number) {
                    let (outcome, later) = take_back(&segment, expected, owner, store, now);
                    heard.lost = self.end_read(outcome, now);
                    not_yet = later;
                    heard.is_over = true;
                }
            }
            BacklogOutcome::NotRead => {
                if self.expected(number).is_some() {
                    self.end_read(Outcome::Failed, now);
                }
            }
        }
        heard.retry_at = self.retry_at();
        (heard, not_yet)
    }
}

/// Stores the messages of a segment; gives what goes into the queue, and what is not due yet.
fn take_back<T: Item>(
    segment: &Segment,
    expected: usize,
    owner: usize,
    store: &mut Store,
    now: Instant,
) -> (Outcome<T>, Later<T>) {
    let (mut items, mut later) = (Vec::new(), Vec::new());
    let mut returned = Returned::default();
    for (head, body) in segment.messages().take(expected) {
        returned.messages += 1;
        returned.bytes += body.len() as u64;
        let message = store.insert(owner, head.id, head.arrival, head.due, body);
        let stored = store.get_mut(message);
        (stored.released, stored.served) = (head.released, head.served);
        (stored.has_paid, stored.has_waited) = (head.has_paid, head.has_waited);
        let item = T::back(message, head);
        match T::waits_until(head, now) {
            Some(due) => later.push((item, due)),
            None => items.push(item),
        }
    }
    (Outcome::Back(items, returned), later)
}
