//! A consumer of one channel, as far as the topics need to know it.

use std::time::Duration;

use clock::Instant;

use super::channel::{ChannelKey, Queued};
use super::in_flight::{Flight, FlightList, InFlight};
use super::pump::{Delivery, Outlet};
use super::store::{MessageRef, Stored};
use crate::arena::Key;

/// Names a consumer.
pub type ConsumerKey = Key<Consumer>;

/// A connection's word about itself when it subscribes.
#[derive(Clone, Copy, Debug)]
pub struct Subscription {
    /// The connection, in the shell's own numbering.
    pub connection: u64,
    /// Which of the connection's subscriptions it is, in the shell's own numbering.
    pub number: u32,
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
    /// The connection's terms.
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

    /// Whether it can take another message now.
    #[inline]
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.writable && self.in_flight_count < self.ready_count
    }

    /// Notes a message that nobody will speak of again.
    pub(super) fn finish_sent(&mut self) {
        self.in_flight_count -= 1;
        self.finish_count += 1;
    }

    /// Notes a message in flight; gives when to look after it, unless that is asked for already. `Err`: it is in flight already, and
    /// what was sent was a second one of the same.
    #[inline]
    pub(super) fn fly(
        &mut self,
        in_flight: &mut InFlight,
        id: u64,
        flight: Flight,
    ) -> Result<Option<Instant>, MessageRef> {
        if !in_flight.insert(&mut self.flights, id, flight) {
            self.in_flight_count -= 1;
            return Err(flight.message);
        }
        let is_armed = std::mem::replace(&mut self.wake_armed, true);
        Ok((!is_armed).then_some(flight.deadline))
    }

    /// Hands a message to this consumer's connection.
    #[inline]
    pub(super) fn send(
        &mut self,
        key: ConsumerKey,
        queued: Queued,
        stored: &Stored,
        now: Instant,
        outlet: &mut impl Outlet,
    ) -> Flight {
        let attempts = queued.attempts.saturating_add(1);
        let delivery = Delivery {
            number: self.subscription.number,
            message: stored,
            attempts,
        };
        self.writable = outlet.deliver(self.subscription.connection, delivery);
        self.in_flight_count += 1;
        self.message_count += 1;
        Flight {
            message: queued.message,
            attempts,
            consumer: key,
            delivered: now,
            deadline: now + self.subscription.msg_timeout,
        }
    }
}
