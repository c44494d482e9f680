//! One subscriber of one channel, as far as the topics need to know it.

use std::time::Duration;

use super::channel::ChannelKey;
use super::in_flight::FlightList;
use crate::arena::Key;

/// Names a consumer.
pub type ConsumerKey = Key<Consumer>;

/// What a connection says of itself when it subscribes.
#[derive(Clone, Copy, Debug)]
pub struct Subscription {
    /// The connection, in the shell's own numbering.
    pub connection: u64,
    /// Time its messages may be in flight.
    pub msg_timeout: Duration,
    /// Percent of messages it wants, 0 = all.
    pub sample_rate: u8,
    /// Its messages are finished once they are in its output; it says nothing of them.
    pub is_finished_when_sent: bool,
}

/// RDY flow control and counters of one subscriber.
#[derive(Debug)]
pub struct Consumer {
    /// What the connection asked for.
    pub subscription: Subscription,
    /// Where it listens.
    pub channel: ChannelKey,
    /// Messages it is ready for; 0 after CLS.
    pub ready_count: u32,
    /// Messages in flight to it.
    pub in_flight_count: u32,
    /// Its output has room. A full output is as good as RDY 0.
    pub writable: bool,
    /// Messages sent.
    pub message_count: u64,
    /// Messages finished.
    pub finish_count: u64,
    /// Messages requeued by it.
    pub requeue_count: u64,
    /// Messages finished when the broker began to stop.
    pub(super) finished_before: u64,
    pub(super) flights: FlightList,
    pub(super) enlisted: bool,
    pub(super) wake_armed: bool,
}

impl Consumer {
    pub(super) fn new(channel: ChannelKey, subscription: Subscription) -> Consumer {
        Consumer {
            subscription,
            channel,
            ready_count: 0,
            in_flight_count: 0,
            writable: true,
            message_count: 0,
            finish_count: 0,
            requeue_count: 0,
            finished_before: 0,
            flights: FlightList::default(),
            enlisted: false,
            wake_armed: false,
        }
    }

    /// Whether it can be given one more message now.
    #[inline]
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.writable && self.in_flight_count < self.ready_count
    }
}
