//! Subscriptions to topics of other reactors, seen from the connection's side ([`super::guests`] is
//! the other).

use topics::ConsumerOrder;
use wire::{ChannelName, TopicName};

use super::batch::IN_TRANSIT_MAX;
use super::execute::Continuation;
use super::guests::{DeliveryBatch, GuestAnswer, GuestOrder, GuestRequest, Seated};
use super::hall::Hall;
use super::inbox::Mail;
use super::probes;
use crate::config::ArrivalClock;
use crate::connection::{Away, ConnectionKey, Followed, Pause, Seat, Subscriptions};
use crate::session::{Deed, Failure, Message, Terms};

impl Hall {
    /// Asks the topic's reactor; what the peer says next waits for the answer.
    pub(super) fn subscribe_elsewhere(
        &mut self,
        key: ConnectionKey,
        home: usize,
        (topic, channel): (&str, ChannelName),
        terms: Terms,
    ) -> Continuation {
        let topic: TopicName = topic.parse().expect("the decoder found the name valid");
        let known = self.topics.schedule.find_elsewhere(topic.as_str());
        let task = match known {
            Some((_, task)) => task,
            None => self.topics.schedule.add_elsewhere(&topic),
        };
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return Continuation::End;
        };
        let Some(number) = connection.subscriptions.next_number() else {
            return Continuation::End;
        };
        connection.subscriptions.add(Seat::Asked);
        let client = Box::new(connection.stats());
        if number == 0 {
            self.topics.schedule.place(key, Some(task));
        }
        let request = GuestRequest {
            from: self.post.number,
            connection: key,
            number,
            task,
            topic,
            channel,
            terms,
            client,
        };
        self.post.send(home, Mail::Subscribe(Box::new(request)));
        self.peers.pause(key, Pause::Asking);
        Continuation::Pause
    }

    /// The topic's reactor has answered.
    pub(super) fn hear_seated(&mut self, seated: Seated) {
        let Seated {
            home,
            connection: key,
            number,
            guest,
        } = seated;
        let connection = self.peers.connections.get_mut(key);
        let connection = connection.filter(|connection| !connection.is_lingering);
        match (connection, guest) {
            (None, Ok(guest)) => {
                let order = None;
                self.post
                    .send(home, Mail::Order(GuestOrder { guest, order }));
            }
            (None, Err(_)) => {}
            (Some(connection), Ok(guest)) => {
                let home = home as u32;
                connection
                    .subscriptions
                    .set(number, Seat::There(Away { home, guest }));
                self.peers.tell_subscribed(key, number, self.time.now);
                self.peers
                    .let_go_on(key, &mut self.topics.schedule, self.time.now);
            }
            (Some(_), Err(reason)) => {
                if let Continuation::Next =
                    self.fail(key, &Failure::Refused(Deed::Subscribe, reason))
                {
                    self.peers
                        .let_go_on(key, &mut self.topics.schedule, self.time.now);
                }
            }
        }
    }

    /// Has done at the topic's home what a peer says of a subscription.
    pub(super) fn order_elsewhere(
        &mut self,
        key: ConnectionKey,
        away: Away,
        order: ConsumerOrder,
    ) -> Continuation {
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return Continuation::End;
        };
        if connection.in_transit >= IN_TRANSIT_MAX {
            self.peers.pause(key, Pause::InTransit);
            return Continuation::Wait;
        }
        connection.in_transit += 1;
        let guest = away.guest;
        let order = Some(order);
        let said = Mail::Order(GuestOrder { guest, order });
        self.post.send(away.home as usize, said);
        Continuation::Next
    }

    /// That has been done.
    pub(super) fn hear_ordered(&mut self, answer: &GuestAnswer) {
        let key = answer.connection;
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return;
        };
        connection.in_transit -= 1;
        if let Some((deed, error)) = answer.failed {
            let failure = Failure::Refused(deed, error.text().to_owned());
            let _goes_on = self.peers.tell_failure(key, &failure, self.time.now);
        }
        self.peers
            .let_go_on_in_transit(key, &mut self.topics.schedule, self.time.now);
    }

    /// Puts messages of a topic elsewhere into the output of a connection. The batch goes back at once where there is room for
    /// more, and when there is where there is none.
    pub(super) fn put_deliveries(&mut self, batch: Box<DeliveryBatch>) {
        let key = batch.connection;
        let with_arrivals = self.shared.config.arrival_clock == ArrivalClock::Kernel;
        let (mut has_room, mut followed) = (true, batch.followed.iter().peekable());
        for (number, (item, body)) in batch.messages().enumerate() {
            let message = Message {
                id: item.id,
                body,
                wall_ns: item.wall_ns,
                attempts: item.attempts,
                subscription: batch.number,
            };
            has_room = self.peers.deliver(key, message, self.time.now);
            if let Some(&(_, probe)) = followed.next_if(|&&(followed, _)| followed == number) {
                let home = batch.home;
                let (followed, now) = (Followed { home, probe }, self.time.now);
                probes::follow(&mut self.peers, key, followed, with_arrivals, now);
            }
        }
        match self.peers.connections.get_mut(key) {
            Some(connection) if !has_room => connection.kept_batches.push(batch),
            _ => self.post.send(batch.home, Mail::Returned(batch)),
        }
        self.write(|writer| writer.flush_consumers());
    }

    /// Ends subscriptions of a connection that goes; what it had in flight goes back to the channels.
    #[expect(
        clippy::vec_box,
        reason = "they travel boxed, and stand so in the connection"
    )]
    pub(super) fn unsubscribe(
        &mut self,
        subscriptions: &Subscriptions,
        kept_batches: Vec<Box<DeliveryBatch>>,
    ) {
        for seat in subscriptions.iter() {
            match seat {
                Seat::Here(consumer) => self.topics.table.unsubscribe(consumer, self.time.now),
                Seat::There(Away { home, guest }) => {
                    let order = None;
                    let said = Mail::Order(GuestOrder { guest, order });
                    self.post.send(home as usize, said);
                }
                // Its answer finds nobody, and is answered then.
                Seat::Asked => {}
            }
        }
        for batch in kept_batches {
            self.post.send(batch.home, Mail::Returned(batch));
        }
    }
}
