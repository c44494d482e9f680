//! No publisher is sent to a broker that lacks a channel of its topic: the broker is told the topic
//! first, and publishers go there once it has confirmed.
//!
//! A broker that does not answer is told again every two seconds. After [`ANSWER_TIMEOUT`]
//! publishers of that topic are placed elsewhere until it answers; those already there stay.

use std::ops::Bound;
use std::time::Duration;

use clock::Instant;
use wire::TopicName;

use super::catalog::Catalog;
use super::inventory::{Confirmation, Inventory, topic_name};
use super::moves::Mover;
use super::outbox::Outbox;
use super::parts::Sizes;
use super::registry::Brokers;
use super::teller::is_due;
use super::topics::Topics;
use super::{Broker, BrokerNumber, Effect};

/// A broker for which publishers of a topic have waited this long gets none of them, and is told
/// again only at this interval.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether a publisher, if it has a place, may be told of it.
pub(super) fn may_be_told(
    topics: &Topics,
    brokers: &Brokers,
    catalog: &Catalog,
    name: &str,
    id: &str,
) -> bool {
    let Some(topic) = topics.get(name) else {
        return true;
    };
    let row = topic.publishers.find(id);
    let row = row.map(|index| &topic.publishers.rows()[index]);
    // Who is there already need not wait.
    let place = row.filter(|row| row.attached != row.broker);
    let place = place.and_then(|row| row.broker);
    place.is_none_or(|number| catalog.is_held_by(name, &brokers[number]))
}

/// Whether all of a topic's publishers that have a place may be told of it.
pub(super) fn may_all_be_told(
    topics: &Topics,
    brokers: &Brokers,
    catalog: &Catalog,
    name: &str,
) -> bool {
    let places = topics.get(name).map(|topic| topic.publishers.places());
    let mut places = places.into_iter().flatten();
    places.all(|number| catalog.is_held_by(name, &brokers[number]))
}

impl Mover<'_> {
    /// Has brokers that publishers of a topic are placed on make its channels.
    pub(super) fn prepare_places(&mut self, name: &str, now: Instant) {
        let Some(topic) = self.topics.get(name) else {
            return;
        };
        let places: Vec<BrokerNumber> = topic.publishers.places().collect();
        for number in places {
            self.teller.prepare(name, number, now);
        }
    }

    /// A broker has a topic that it was told.
    pub(super) fn topic_ready(
        &mut self,
        number: BrokerNumber,
        topic: &str,
        ticket: u64,
        now: Instant,
    ) {
        let broker = &mut self.teller.brokers[number];
        let inventory = &mut broker.inventory;
        let confirmed = topic_name(topic).and_then(|topic| {
            let confirmation = inventory.confirmed(&topic, ticket)?;
            Ok((topic, confirmation))
        });
        match confirmed {
            Ok((_, Confirmation::Former)) => return,
            // What nobody waits for has to be known, too: lookups name it.
            Ok((topic, Confirmation::Outdated)) => self.teller.tell(number, &topic, now),
            Ok((_, Confirmation::Whole)) => answered(broker, topic, self.teller.out),
            Err(text) => return self.teller.out.distrust(broker, &text),
        }
        self.drive(topic, now);
        self.teller.out.push(Effect::Prepared {
            topic: Some(topic.to_owned()),
        });
    }

    /// Publishers have waited for a broker for too long: it is told the topic again, but seldom. Whether its publishers are to be
    /// placed elsewhere first, for it does not answer.
    pub(super) fn waited(&mut self, number: BrokerNumber, topic: &TopicName) -> bool {
        let broker = &mut self.teller.brokers[number];
        if self.teller.catalog.is_held_by(topic.as_str(), broker) {
            answered(broker, topic.as_str(), self.teller.out);
            return false;
        }
        if !broker.inventory.deaf.insert(topic.clone()) {
            return false;
        }
        let text = format!(
            "{} has not made the channels of {topic} within {ANSWER_TIMEOUT:?}: no publisher is sent there until it has; its log may say why",
            broker.name
        );
        let about = Some(topic.as_str());
        self.teller.out.tell("problem", about, Some(broker), text);
        true
    }

    /// Tells a broker a topic that it does not answer for again.
    pub(super) fn remind(&mut self, number: BrokerNumber, topic: &TopicName, now: Instant) {
        let inventory = &self.teller.brokers[number].inventory;
        // One that nobody waits for any more has answered.
        if inventory.deaf.contains(topic) && is_due(inventory, topic, ANSWER_TIMEOUT, now) {
            self.teller.tell(number, topic, now);
        }
    }
}

/// Topics that publishers have waited for too long at a broker: a part of them with each look, in turns.
pub(super) fn next_late(inventory: &mut Inventory, sizes: Sizes, now: Instant) -> Vec<TopicName> {
    let begin = inventory.waited_last.take();
    let begin = begin.map_or(Bound::Unbounded, Bound::Excluded);
    let behind = inventory.waiting.range((begin, Bound::Unbounded));
    let mut late = Vec::new();
    for (looked_at, (topic, since)) in behind.enumerate() {
        if now - *since >= ANSWER_TIMEOUT {
            late.push(topic.clone());
        }
        if late.len() >= sizes.topics || looked_at >= sizes.looks {
            inventory.waited_last = Some(topic.clone());
            break;
        }
    }
    late
}

/// A broker that nobody waits for any more.
fn answered(broker: &mut Broker, topic: &str, out: &mut Outbox) {
    let inventory = &mut broker.inventory;
    inventory.waiting.remove(topic);
    if inventory.deaf.remove(topic) {
        let text = format!("{} has the channels of {topic} now", broker.name);
        out.tell("channels-made", Some(topic), Some(broker), text);
    }
}
