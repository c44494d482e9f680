//! What reactors post to each other about guests.

use kernel::TaskId;
use topics::{ConsumerOrder, Probe};
use wire::{ChannelName, TopicName};

use super::{Failed, GuestKey, ITEM_BYTES};
use crate::connection::{ConnectionKey, SubscriptionNumber};
use crate::session::Terms;
use crate::stats::ClientStats;

/// To a topic's home: a connection wants to be its guest.
#[derive(Debug)]
pub struct GuestRequest {
    /// Its reactor.
    pub from: usize,
    /// The connection there.
    pub connection: ConnectionKey,
    /// The subscription there.
    pub number: SubscriptionNumber,
    /// The topic's task there.
    pub task: TaskId,
    /// The topic.
    pub topic: TopicName,
    /// Its channel.
    pub channel: ChannelName,
    /// How.
    pub terms: Terms,
    /// Who it is.
    pub client: Box<ClientStats>,
}

/// Back to the connection's reactor: the guest, or why there is none.
#[derive(Debug)]
pub struct Seated {
    /// The reactor that answers.
    pub home: usize,
    /// The connection.
    pub connection: ConnectionKey,
    /// The subscription.
    pub number: SubscriptionNumber,
    /// The outcome.
    pub guest: Result<GuestKey, String>,
}

/// To a topic's home: what a connection says of a subscription.
#[derive(Clone, Copy, Debug)]
pub struct GuestOrder {
    /// Whose.
    pub guest: GuestKey,
    /// What; nothing where the connection is gone.
    pub order: Option<ConsumerOrder>,
}

/// Back to the connection's reactor: an order was carried out.
#[derive(Debug)]
pub struct GuestAnswer {
    /// The connection.
    pub connection: ConnectionKey,
    /// What failed.
    pub failed: Option<Failed>,
}

/// Messages for a guest, on their way to its connection, and back without them.
#[derive(Debug)]
pub struct DeliveryBatch {
    /// Reactor that sent them.
    pub home: usize,
    /// The guest there.
    pub guest: GuestKey,
    /// The connection.
    pub connection: ConnectionKey,
    /// The subscription.
    pub number: SubscriptionNumber,
    /// The task there that pays for putting them into the output.
    pub task: TaskId,
    /// The messages.
    pub items: Vec<DeliveryItem>,
    /// Their bodies, back to back.
    pub bytes: Vec<u8>,
    /// Those that are followed to the subscriber, by their places in `items`.
    pub followed: Vec<(usize, Probe)>,
}

/// One message of a [`DeliveryBatch`].
#[derive(Clone, Copy, Debug)]
pub struct DeliveryItem {
    /// Its number.
    pub id: u64,
    /// Times that it has been delivered on its channel, this one included.
    pub attempts: u16,
    /// Its arrival, nanoseconds since the Unix epoch.
    pub wall_ns: i64,
    /// Bytes of its body.
    pub length: u32,
}

impl DeliveryBatch {
    /// Nothing yet for a guest of reactor `home`.
    pub(super) fn new(
        home: usize,
        guest: GuestKey,
        (connection, number): (ConnectionKey, SubscriptionNumber),
        task: TaskId,
    ) -> DeliveryBatch {
        DeliveryBatch {
            home,
            guest,
            connection,
            number,
            task,
            items: Vec::new(),
            bytes: Vec::new(),
            followed: Vec::new(),
        }
    }

    /// The same buffers, empty, for another guest.
    pub(super) fn begin(
        &mut self,
        guest: GuestKey,
        (connection, number): (ConnectionKey, SubscriptionNumber),
        task: TaskId,
    ) {
        self.clear();
        (self.guest, self.connection, self.number) = (guest, connection, number);
        self.task = task;
    }

    /// What its messages count for on their way.
    pub(super) fn counted_bytes(&self) -> usize {
        self.bytes.len() + self.items.len() * ITEM_BYTES
    }

    /// The messages, each with its body.
    pub fn messages(&self) -> impl Iterator<Item = (&DeliveryItem, &[u8])> {
        self.items.iter().scan(0usize, |start, item| {
            let body = &self.bytes[*start..*start + item.length as usize];
            *start += item.length as usize;
            Some((item, body))
        })
    }

    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.bytes.clear();
        self.followed.clear();
    }
}
