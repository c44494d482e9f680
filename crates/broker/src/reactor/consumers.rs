//! Commands of consumers: subscribing, and answers to messages.

use topics::{ConsumerOrder, FlightError, Subscription};
use wire::ChannelName;

use super::execute::Continuation;
use super::guests::Recipient;
use super::hall::Hall;
use crate::connection::{ConnectionKey, Pause, SUBSCRIPTIONS_MAX, Seat, SubscriptionNumber};
use crate::session::{Deed, Failure, Terms};

/// Does what consumers ask for; those of topics elsewhere are sent there (`away.rs`).
pub(super) struct Consumers<'a> {
    pub(super) hall: &'a mut Hall,
}

impl Consumers<'_> {
    /// Subscribes a connection, or says where that is to be done.
    pub(super) fn subscribe(
        &mut self,
        key: ConnectionKey,
        topic: &str,
        channel: &str,
        terms: Terms,
    ) -> Continuation {
        let Some(connection) = self.hall.peers.connections.get_mut(key) else {
            return Continuation::End;
        };
        let Some(number) = connection.subscriptions.next_number() else {
            let reason = format!("this connection has {SUBSCRIPTIONS_MAX}; use another one");
            return self
                .hall
                .fail(key, &Failure::Refused(Deed::Subscribe, reason));
        };
        let channel: ChannelName = channel.parse().expect("the decoder found the name valid");
        let home = self.hall.post.home_of(topic);
        if home != self.hall.post.number && connection.session.may_subscribe_again() {
            return self
                .hall
                .subscribe_elsewhere(key, home, (topic, channel), terms);
        }
        if home != self.hall.post.number {
            if connection.in_transit > 0 {
                // Its OKs come back to this reactor; move when they have.
                self.hall.peers.pause(key, Pause::InTransit);
                return Continuation::Wait;
            }
            return Continuation::HandOver(home);
        }
        let subscription = Subscription {
            connection: Recipient::Connection(key).to_bits(),
            number,
            msg_timeout: terms.msg_timeout,
            sample_rate: terms.sample_rate,
            is_finished_when_sent: terms.is_finished_when_sent,
        };
        let (table, now) = (&mut self.hall.topics.table, self.hall.time.now);
        table.make_for(connection.maker(), now);
        let subscribed = table.subscribe(topic, &channel, subscription);
        table.make_for(None, now);
        match subscribed {
            Ok(consumer) => {
                connection.subscriptions.add(Seat::Here(consumer));
                if number == 0 {
                    self.hall
                        .topics
                        .place(key, self.hall.topics.table.find(topic));
                }
                self.hall
                    .peers
                    .tell_subscribed(key, number, self.hall.time.now);
                Continuation::Next
            }
            Err(refusal) => {
                let failure = Failure::Refused(Deed::Subscribe, refusal.to_string());
                self.hall.fail(key, &failure)
            }
        }
    }

    /// Carries out what a peer says of a subscription, or has the topic's home do it. Failures are
    /// told to the peer, and the connection goes on.
    #[inline]
    pub(super) fn order(
        &mut self,
        key: ConnectionKey,
        of: SubscriptionNumber,
        order: ConsumerOrder,
    ) -> Continuation {
        let (now, table) = (self.hall.time.of_order(order), &mut self.hall.topics.table);
        let done = match self.hall.peers.seat_of(key, of) {
            Some(Seat::Here(consumer)) => {
                let touch_max = self.hall.shared.config.max_msg_timeout;
                order.carry_out(table, consumer, touch_max, now)
            }
            Some(Seat::There(away)) => return self.hall.order_elsewhere(key, away, order),
            Some(Seat::Asked) | None if matches!(order, ConsumerOrder::Ready(_)) => Ok(()),
            Some(Seat::Asked) | None => Err(FlightError::UnknownId),
        };
        match done {
            Ok(()) => Continuation::Next,
            Err(reason) => self.tell_undone(key, order, reason),
        }
    }

    #[cold]
    fn tell_undone(
        &mut self,
        key: ConnectionKey,
        order: ConsumerOrder,
        reason: FlightError,
    ) -> Continuation {
        let failure = Failure::Refused(Deed::Order(order), reason.text().to_owned());
        let _goes_on = self
            .hall
            .peers
            .tell_failure(key, &failure, self.hall.time.now);
        Continuation::Next
    }

    /// Gives a connection nothing more; it may finish the messages that it has.
    pub(super) fn begin_close(&mut self, key: ConnectionKey) -> Continuation {
        let mut number = 0;
        while self.hall.peers.seat_of(key, number).is_some() {
            self.order(key, number, ConsumerOrder::Ready(0));
            number += 1;
        }
        self.hall.peers.say(key, self.hall.time.now, |connection| {
            let output = &mut connection.output;
            connection.session.tell_closing(output);
        });
        Continuation::Next
    }
}
