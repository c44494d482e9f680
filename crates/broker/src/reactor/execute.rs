//! One act of one peer.

use std::time::Duration;

use topics::{FlightError, Subscription};
use wire::ChannelName;

use super::Reactor;
use super::guests::{Order, Recipient};
use super::read::Flow;
use crate::connection::{
    ArrivalStamp, ConnectionKey, Pause, SUBSCRIPTIONS_MAX, Seat, SubscriptionNumber,
};
use crate::session::{Act, Deed, Failure, Introduction, Terms};

impl Reactor {
    #[inline]
    pub(super) fn execute(
        &mut self,
        key: ConnectionKey,
        act: Act<'_>,
        stamp: ArrivalStamp,
    ) -> Flow {
        match act {
            Act::Publish {
                topic,
                body,
                delay,
                deed,
            } => self.publish(key, topic, std::iter::once(body), stamp, delay, deed),
            Act::PublishMany { topic, messages } => {
                let (bodies, no_delay) = (messages.iter(), Duration::ZERO);
                self.publish(key, topic, bodies, stamp, no_delay, Deed::PublishMany)
            }
            Act::PublishNowhere => {
                self.peers.counters.tempo_unknown_ids += 1;
                Flow::Next
            }
            Act::Finish { of, id } => self.order(key, of, Order::Finish(id)),
            Act::Requeue { of, id, delay } => self.order(key, of, Order::Requeue(id, delay)),
            Act::Touch { of, id } => self.order(key, of, Order::Touch(id)),
            Act::Ready { of, count } => self.order(key, of, Order::Ready(count)),
            Act::Subscribe {
                topic,
                channel,
                terms,
            } => self.subscribe(key, topic, channel, terms),
            Act::Introduce(introduction) => self.introduce(key, *introduction),
            Act::Close => self.begin_close(key),
            Act::Refuse(failure) => self.tell_failure(key, &failure),
            Act::Rest => Flow::Next,
        }
    }

    /// Takes in what a peer said of itself, which its session has answered.
    fn introduce(&mut self, key: ConnectionKey, introduction: Introduction) -> Flow {
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return Flow::End;
        };
        connection.collecting = introduction.collecting.map(Box::new);
        // What waits now waits by the new terms.
        connection.output.waiting_since = None;
        let interval = connection.interval(self.shared.config.heartbeat_interval);
        self.hall()
            .publishers()
            .announce(key, introduction.declaration);
        self.peers.mark_dirty(key);
        self.peers.arm_timer(key, self.time.now + interval);
        Flow::Next
    }

    fn subscribe(&mut self, key: ConnectionKey, topic: &str, channel: &str, terms: Terms) -> Flow {
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return Flow::End;
        };
        let Some(number) = connection.subscriptions.next_number() else {
            let reason = format!("this connection has {SUBSCRIPTIONS_MAX}; use another one");
            return self
                .hall()
                .fail(key, &Failure::Refused(Deed::Subscribe, reason));
        };
        let channel: ChannelName = channel.parse().expect("the decoder found the name valid");
        let home = self.post.home_of(topic);
        if home != self.post.number && connection.session.may_subscribe_again() {
            return self
                .hall()
                .subscribe_elsewhere(key, home, (topic, channel), terms);
        }
        if home != self.post.number {
            if connection.in_transit > 0 {
                // Its OKs come back to this reactor; move when they have.
                self.peers.pause(key, Pause::InTransit);
                return Flow::Wait;
            }
            return Flow::HandOver(home);
        }
        let subscription = Subscription {
            connection: Recipient::Connection(key).to_bits(),
            number,
            msg_timeout: terms.msg_timeout,
            sample_rate: terms.sample_rate,
            is_finished_when_sent: terms.is_finished_when_sent,
        };
        match self.topics.table.subscribe(topic, &channel, subscription) {
            Ok(consumer) => {
                connection.subscriptions.add(Seat::Here(consumer));
                if number == 0 {
                    self.topics.place(key, self.topics.table.find(topic));
                }
                self.peers.tell_subscribed(key, number, self.time.now);
                Flow::Next
            }
            Err(refusal) => {
                let failure = Failure::Refused(Deed::Subscribe, refusal.to_string());
                self.hall().fail(key, &failure)
            }
        }
    }

    /// Does what a peer says of a subscription, or has it done at the topic's home. What fails is told, and the connection goes on.
    #[inline]
    fn order(&mut self, key: ConnectionKey, of: SubscriptionNumber, order: Order) -> Flow {
        let (now, table) = (self.time.now, &mut self.topics.table);
        let done = match self.peers.seat_of(key, of) {
            Some(Seat::Here(consumer)) => match order {
                Order::Finish(id) => table.finish(consumer, id, now),
                Order::Requeue(id, delay) => table.requeue(consumer, id, delay, now),
                Order::Touch(id) => {
                    let longest = self.shared.config.max_msg_timeout;
                    table.touch(consumer, id, longest, now)
                }
                Order::Ready(count) => {
                    table.set_ready(consumer, count);
                    Ok(())
                }
                Order::Leave => Ok(()),
            },
            Some(Seat::There(away)) => return self.hall().order_elsewhere(key, away, order),
            Some(Seat::Asked) | None => Err(FlightError::UnknownId),
        };
        match done {
            Ok(()) => Flow::Next,
            Err(reason) => self.tell_undone(key, order, reason),
        }
    }

    #[cold]
    fn tell_undone(&mut self, key: ConnectionKey, order: Order, reason: FlightError) -> Flow {
        match order.deed() {
            None => Flow::Next,
            Some(deed) => self.tell_failure(key, &Failure::Refused(deed, reason.text().to_owned())),
        }
    }

    fn begin_close(&mut self, key: ConnectionKey) -> Flow {
        let mut number = 0;
        while self.peers.seat_of(key, number).is_some() {
            self.order(key, number, Order::Ready(0));
            number += 1;
        }
        self.peers.say(key, self.time.now, |connection| {
            let output = &mut connection.output;
            connection.session.tell_closing(output);
        });
        Flow::Next
    }

    /// Tells a peer what went wrong, however it may go on.
    fn tell_failure(&mut self, key: ConnectionKey, failure: &Failure) -> Flow {
        let _goes_on = self.peers.tell_failure(key, failure, self.time.now);
        Flow::Next
    }
}
