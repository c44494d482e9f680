//! Tells brokers topics: all known channels of each.

use std::time::Duration;

use clock::Instant;
use link::ToBroker;
use wire::TopicName;

use super::BrokerNumber;
use super::catalog::Catalog;
use super::contract::Contracts;
use super::inventory::{Inventory, topic_name};
use super::outbox::Outbox;
use super::registry::Brokers;

/// A topic that is not confirmed is told again after so long.
const REPEAT: Duration = Duration::from_secs(2);

/// Tells brokers topics; borrows the parts that it needs for that.
pub(super) struct Teller<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) contracts: &'a mut Contracts,
    pub(super) brokers: &'a mut Brokers,
    pub(super) out: &'a mut Outbox,
}

impl Teller<'_> {
    /// Tells a broker a topic with all its known channels.
    pub(super) fn tell(&mut self, number: BrokerNumber, topic: &TopicName, now: Instant) {
        let ticket = self.contracts.next_ticket();
        let known = self.catalog.get(topic.as_str());
        let channels = known.map(|known| known.channels.keys().cloned().collect());
        let state = self.catalog.state_of(topic);
        let inventory = &mut self.brokers[number].inventory;
        inventory.prepare(topic.clone(), ticket, channels.unwrap_or_default(), now);
        self.out.send(number, ToBroker::Topic { state, ticket });
    }

    /// Has a broker make the channels of a topic, unless it has them.
    pub(super) fn prepare(&mut self, name: &str, number: BrokerNumber, now: Instant) {
        let broker = &mut self.brokers[number];
        if self.catalog.is_held_by(name, broker) || !broker.takes_publishers() {
            return;
        }
        let Ok(topic) = topic_name(name) else {
            return;
        };
        let inventory = &mut broker.inventory;
        inventory.waiting.entry(topic.clone()).or_insert(now);
        if is_due(inventory, &topic, REPEAT, now) {
            self.tell(number, &topic, now);
        }
    }
}

/// Whether a broker is to be told a topic: it was not told lately. All topics are told when it has said what it has.
pub(super) fn is_due(
    inventory: &Inventory,
    topic: &TopicName,
    interval: Duration,
    now: Instant,
) -> bool {
    let told = inventory.preparing.get(topic);
    let is_told = told.is_some_and(|told| now - told.told_at < interval);
    inventory.is_whole && !is_told
}
