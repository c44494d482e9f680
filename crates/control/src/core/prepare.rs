//! No publisher is sent to a broker that lacks a channel of its topic: the broker is told the topic, and publishers go there
//! once it has confirmed that.
//!
//! A broker that does not answer is told again every [`REPEAT`]. After [`ANSWER_TIMEOUT`] publishers of that topic are
//! placed elsewhere, for as long as it does not answer; those that are there stay.

use std::ops::Bound;
use std::time::Duration;

use clock::Instant;
use wire::TopicName;

use super::inventory::topic_name;
use super::publisher::Row;
use super::{BrokerNumber, Core, Effect};

/// A topic that is not confirmed is told again after so long.
const REPEAT: Duration = Duration::from_secs(2);
/// A broker that publishers of a topic wait for this long gets none of them, and is told again only so often.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

impl Core {
    /// Whether a broker has all channels that are known of a topic.
    pub(super) fn is_prepared(&self, name: &str, number: BrokerNumber) -> bool {
        let broker = self.broker(number);
        self.catalog
            .get(name)
            .is_none_or(|known| broker.inventory.has_all(name, known))
    }

    /// Whether a publisher, if it has a place, may be told of it.
    #[must_use]
    pub fn may_be_told(&self, name: &str, id: &str) -> bool {
        let Some(topic) = self.topics.get(name) else {
            return true;
        };
        let row = topic.publishers.find(id);
        let row = row.map(|index| &topic.publishers.rows()[index]);
        // Who is there already need not wait.
        let place = row.filter(|row| row.attached != row.broker);
        let place = place.and_then(|row| row.broker);
        place.is_none_or(|number| self.is_prepared(name, number))
    }

    /// Whether all of a topic's publishers that have a place may be told of it.
    #[must_use]
    pub fn may_all_be_told(&self, name: &str) -> bool {
        let places = self.topics.get(name).map(|topic| topic.publishers.places());
        let mut places = places.into_iter().flatten();
        places.all(|number| self.is_prepared(name, number))
    }

    /// Has brokers that publishers of a topic are placed on make its channels.
    pub(super) fn prepare_places(&mut self, name: &str, now: Instant) {
        let Some(topic) = self.topics.get(name) else {
            return;
        };
        let places: Vec<BrokerNumber> = topic.publishers.places().collect();
        for number in places {
            self.prepare(name, number, now);
        }
    }

    /// Has a broker make the channels of a topic, unless it has them.
    pub(super) fn prepare(&mut self, name: &str, number: BrokerNumber, now: Instant) {
        if self.is_prepared(name, number) || !self.broker(number).takes_publishers() {
            return;
        }
        let Ok(topic) = topic_name(name) else {
            return;
        };
        let inventory = &mut self.brokers[number as usize].inventory;
        inventory.waiting.entry(topic.clone()).or_insert(now);
        self.tell_if_due(number, &topic, REPEAT, now);
    }

    /// A broker has a topic that it was told.
    pub(super) fn topic_ready(
        &mut self,
        number: BrokerNumber,
        topic: &str,
        ticket: u64,
        now: Instant,
    ) {
        let inventory = &mut self.brokers[number as usize].inventory;
        let confirmed = topic_name(topic).and_then(|topic| inventory.confirmed(&topic, ticket));
        match confirmed {
            Ok(true) => {}
            Ok(false) => return,
            Err(text) => return self.distrust(number, &text),
        }
        self.answered(number, topic);
        self.drive_moves(topic, now);
        self.effects.push(Effect::Prepared {
            topic: Some(topic.to_owned()),
        });
    }

    /// Looks which brokers do not answer.
    pub(super) fn watch_answers(&mut self, now: Instant) {
        for number in 0..self.brokers.len() as BrokerNumber {
            let broker = self.broker(number);
            if broker.inventory.waiting.is_empty() || broker.link.is_none() {
                continue;
            }
            let late = self.next_late(number, now);
            for topic in late {
                if self.is_prepared(topic.as_str(), number) {
                    self.answered(number, topic.as_str());
                } else {
                    self.give_up(number, &topic, now);
                    self.tell_if_due(number, &topic, ANSWER_TIMEOUT, now);
                }
            }
        }
    }

    /// Topics that publishers have waited for too long at a broker: a part of them with each look, in turns.
    fn next_late(&mut self, number: BrokerNumber, now: Instant) -> Vec<TopicName> {
        let sizes = self.sizes;
        let inventory = &mut self.brokers[number as usize].inventory;
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

    /// Tells a broker a topic, unless it was told lately. All topics are told when it has said what it has.
    fn tell_if_due(
        &mut self,
        number: BrokerNumber,
        topic: &TopicName,
        interval: Duration,
        now: Instant,
    ) {
        let inventory = &self.broker(number).inventory;
        let told = inventory.preparing.get(topic);
        let is_told = told.is_some_and(|told| now - told.told_at < interval);
        if inventory.is_whole && !is_told {
            self.tell_topic(number, topic, now);
        }
    }

    /// A broker that nobody waits for any more.
    fn answered(&mut self, number: BrokerNumber, topic: &str) {
        let inventory = &mut self.brokers[number as usize].inventory;
        inventory.waiting.remove(topic);
        if inventory.deaf.remove(topic) {
            let text = format!(
                "{} has the channels of {topic} now",
                self.broker(number).name
            );
            self.tell("channels-made", Some(topic), Some(number), text);
        }
    }

    fn give_up(&mut self, number: BrokerNumber, topic: &TopicName, now: Instant) {
        if !self.brokers[number as usize]
            .inventory
            .deaf
            .insert(topic.clone())
        {
            return;
        }
        let text = format!(
            "{} has not made the channels of {topic} for {ANSWER_TIMEOUT:?}: no publisher is sent there until it does; \
             its log may say why",
            self.broker(number).name
        );
        self.tell("problem", Some(topic.as_str()), Some(number), text);
        self.give_up_places(topic.as_str(), number, now);
    }

    /// Publishers that are to go to a broker and are not there are placed elsewhere.
    fn give_up_places(&mut self, name: &str, number: BrokerNumber, now: Instant) {
        let is_meant = |row: &Row| row.broker == Some(number) && row.attached != Some(number);
        let mut rows_left = Some(usize::MAX);
        while let Some(below) = rows_left.take()
            && let Some(topic) = self.topics.get(name)
        {
            let looked = topic.publishers.look_below(below, self.sizes, is_meant);
            self.place_elsewhere(name, &looked.found, now);
            rows_left = looked.rows_left;
        }
        self.prepare_places(name, now);
    }
}
