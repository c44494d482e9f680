//! Subscriptions across reactors: a connection stays where it is and receives messages of topics
//! elsewhere.
//!
//! At the topic's home such a connection is a guest, a consumer like any other. Its messages gather
//! in one batch per guest and turn. The batch goes to the connection's reactor, is put into the
//! output there, and comes back empty, so that its buffers are used again and its bytes no longer
//! count. A guest with [`WINDOW_BYTES`] under way takes nothing until some come back; that bounds
//! what may wait. Everything under way counts as output in the memory budget of the topic's
//! reactor, and where memory is short and outputs are full earlier, so are guests. What the
//! connection says of its messages goes to the home one by one and is answered, and until then
//! counts as in transit, as publishes do.
//!
//! Putting batches into outputs is charged to the topic's task at the connection's reactor;
//! carrying out what is said of messages is charged to its task at home.

mod mail;

use clock::Instant;
use kernel::TaskId;
use topics::{
    Arena, ConsumerKey, Delivery, FlightError, Key, Probe, Stored, Subscription, TopicTable,
};

use super::hosted::Hosted;
use super::inbox::Mail;
use super::memory::Memory;
use super::post::Post;
use crate::connection::{ConnectionKey, SubscriptionNumber};
use crate::session::Deed;
use crate::stats::ClientStats;

pub use mail::{DeliveryBatch, DeliveryItem, GuestAnswer, GuestOrder, GuestRequest, Seated};

/// Names a guest within its host.
pub type GuestKey = Key<Guest>;

/// Bytes of one guest that may be on their way, and one message; fewer where an output is full with fewer.
pub const WINDOW_BYTES: usize = 64 * 1024;

/// What a message counts for besides its body.
const ITEM_BYTES: usize = 64;

/// Empty batches kept for use again, and what each may hold.
const SPARE_BATCHES: usize = 256;
const SPARE_BATCH_BYTES: usize = 2 * WINDOW_BYTES;

/// A connection of another reactor that is subscribed to a topic of this one.
#[derive(Debug)]
pub struct Guest {
    /// Reactor that has the connection.
    from: usize,
    connection: ConnectionKey,
    number: SubscriptionNumber,
    /// The topic's tasks: there, and here.
    task_there: TaskId,
    task_here: TaskId,
    /// Set as soon as it is subscribed.
    consumer: Option<ConsumerKey>,
    /// Who it is, as of its subscription.
    client: Box<ClientStats>,
    /// The batch that it was given in this turn.
    open: Option<Box<DeliveryBatch>>,
    on_their_way_bytes: usize,
    is_refusing: bool,
}

/// The guests of a reactor.
#[derive(Debug)]
pub(super) struct Guests {
    /// The reactor's number.
    home: usize,
    guests: Arena<Guest>,
    /// Those that were given something in this turn.
    begun: Vec<GuestKey>,
    #[expect(
        clippy::vec_box,
        reason = "they travel boxed; taking one must not allocate"
    )]
    spare: Vec<Box<DeliveryBatch>>,
}

/// To whom topics give messages: a number for them, a connection or a guest for the reactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recipient {
    Connection(ConnectionKey),
    Guest(GuestKey),
}

/// Marks a guest's key. The lower half of a key is its slot, and no table has this many.
const GUEST_BIT: u64 = 1 << 31;

impl Recipient {
    #[inline]
    pub(super) fn to_bits(self) -> u64 {
        match self {
            Recipient::Connection(key) => key.to_bits(),
            Recipient::Guest(key) => key.to_bits() | GUEST_BIT,
        }
    }

    #[inline]
    pub(super) fn from_bits(bits: u64) -> Recipient {
        match bits & GUEST_BIT {
            0 => Recipient::Connection(ConnectionKey::from_bits(bits)),
            _ => Recipient::Guest(GuestKey::from_bits(bits & !GUEST_BIT)),
        }
    }
}

impl Guests {
    /// Of reactor `home`; nobody has come.
    pub(super) fn new(home: usize) -> Guests {
        Guests {
            home,
            guests: Arena::default(),
            begun: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Subscribes a connection of another reactor to a topic of this one.
    pub(super) fn welcome(&mut self, request: GuestRequest, topics: &mut Hosted) -> Seated {
        let GuestRequest {
            from,
            connection,
            number,
            ..
        } = request;
        let name = request.topic.as_str();
        let task_here = topics.task_of_name(&request.topic, None, Instant::ZERO);
        let key = self.guests.insert(Guest {
            from,
            connection,
            number,
            task_there: request.task,
            task_here,
            consumer: None,
            client: request.client,
            open: None,
            on_their_way_bytes: 0,
            is_refusing: false,
        });
        let subscription = Subscription {
            connection: Recipient::Guest(key).to_bits(),
            number,
            msg_timeout: request.terms.msg_timeout,
            sample_rate: request.terms.sample_rate,
            is_finished_when_sent: request.terms.is_finished_when_sent,
        };
        let subscribed = topics.table.subscribe(name, &request.channel, subscription);
        let guest = match (subscribed, self.guests.get_mut(key)) {
            (Ok(consumer), Some(guest)) => {
                guest.consumer = Some(consumer);
                Ok(key)
            }
            (Ok(_), None) => unreachable!("it has just come"),
            (Err(refusal), _) => {
                self.guests.remove(key);
                Err(refusal.to_string())
            }
        };
        Seated {
            home: self.home,
            connection,
            number,
            guest,
        }
    }

    /// It goes; what it was given in this turn is not sent.
    pub(super) fn leave(&mut self, key: GuestKey) -> Option<ConsumerKey> {
        let guest = self.guests.remove(key)?;
        if let Some(batch) = guest.open {
            self.keep(batch);
        }
        guest.consumer
    }

    /// Where its connection is.
    pub(super) fn whereabouts(&self, key: GuestKey) -> Option<(usize, ConnectionKey)> {
        let guest = self.guests.get(key)?;
        Some((guest.from, guest.connection))
    }

    /// Who it is.
    pub(super) fn client(&self, key: GuestKey) -> Option<&ClientStats> {
        self.guests.get(key).map(|guest| &*guest.client)
    }

    /// The task here that pays for what it says.
    pub(super) fn task_of(&self, key: GuestKey) -> Option<TaskId> {
        self.guests.get(key).map(|guest| guest.task_here)
    }

    /// Takes a message for a guest; says whether it has room for another, where an output is full at `full_bytes`.
    pub(super) fn deliver(
        &mut self,
        key: GuestKey,
        delivery: Delivery<'_>,
        full_bytes: usize,
    ) -> bool {
        let Some(guest) = self.guests.get_mut(key) else {
            return false;
        };
        let batch = guest.open.get_or_insert_with(|| {
            self.begun.push(key);
            let (to, task) = ((guest.connection, guest.number), guest.task_there);
            match self.spare.pop() {
                Some(mut batch) => {
                    batch.begin(key, to, task);
                    batch
                }
                None => Box::new(DeliveryBatch::new(self.home, key, to, task)),
            }
        });
        let Stored {
            id, arrival, body, ..
        } = delivery.message;
        batch.items.push(DeliveryItem {
            id: *id,
            attempts: delivery.attempts,
            wall_ns: arrival.wall_ns,
            length: body.len() as u32,
        });
        batch.bytes.extend_from_slice(body);
        guest.on_their_way_bytes += body.len() + ITEM_BYTES;
        guest.is_refusing = guest.on_their_way_bytes >= WINDOW_BYTES.min(full_bytes);
        !guest.is_refusing
    }

    /// Has the message followed that a guest was just given.
    pub(super) fn follow(&mut self, key: GuestKey, probe: Probe) {
        if let Some(guest) = self.guests.get_mut(key)
            && let Some(batch) = &mut guest.open
        {
            let last = batch.items.len().saturating_sub(1);
            batch.followed.push((last, probe));
        }
    }

    /// Has what was given in this turn leave; until it is back it counts as output.
    pub(super) fn post(&mut self, post: &mut Post, memory: &mut Memory) {
        for key in self.begun.drain(..) {
            let Some(guest) = self.guests.get_mut(key) else {
                continue;
            };
            if let Some(batch) = guest.open.take() {
                memory.output.change(0, batch.counted_bytes());
                post.send(guest.from, Mail::Deliveries(batch));
            }
        }
    }

    /// A batch has come back: what it held counts no more, and the consumer may be given more.
    pub(super) fn take_back(
        &mut self,
        batch: Box<DeliveryBatch>,
        table: &mut TopicTable,
        memory: &mut Memory,
    ) {
        memory.output.change(batch.counted_bytes(), 0);
        if let Some(guest) = self.guests.get_mut(batch.guest) {
            guest.on_their_way_bytes -= batch.counted_bytes();
            let window_bytes = WINDOW_BYTES.min(memory.output_full_bytes);
            let has_room = guest.on_their_way_bytes <= window_bytes / 2;
            if guest.is_refusing
                && has_room
                && let Some(consumer) = guest.consumer
            {
                guest.is_refusing = false;
                table.set_writable(consumer, true);
            }
        }
        self.keep(batch);
    }

    /// Carries out what the connection says of a subscription; gives where to answer, and what. A guest that leaves is not
    /// answered: its connection is gone.
    pub(super) fn carry_out(
        &mut self,
        said: GuestOrder,
        table: &mut TopicTable,
        touch_max: std::time::Duration,
        now: Instant,
    ) -> Option<(usize, GuestAnswer)> {
        let key = said.guest;
        let Some(order) = said.order else {
            if let Some(consumer) = self.leave(key) {
                table.unsubscribe(consumer, now);
            }
            return None;
        };
        let guest = self.guests.get(key)?;
        let done = order.carry_out(table, guest.consumer?, touch_max, now);
        let answer = GuestAnswer {
            connection: guest.connection,
            failed: done.err().map(|error| (Deed::Order(order), error)),
        };
        Some((guest.from, answer))
    }

    /// Bytes that all of them have under way.
    #[cfg(test)]
    pub(super) fn on_their_way_bytes(&self) -> usize {
        let guests = self.guests.iter();
        guests.map(|(_, guest)| guest.on_their_way_bytes).sum()
    }

    fn keep(&mut self, mut batch: Box<DeliveryBatch>) {
        if self.spare.len() < SPARE_BATCHES && batch.bytes.capacity() <= SPARE_BATCH_BYTES {
            batch.clear();
            self.spare.push(batch);
        }
    }
}

/// What an order that failed is told with.
pub type Failed = (Deed, FlightError);
