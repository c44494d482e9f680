//! A topic is one topic, wherever it is: what becomes of its channels at one broker becomes of them at all.
//!
//! The rules:
//! - The order in which changes are heard is the order. A broker whose change may have crossed another one is told its own
//!   again, so that all end alike.
//! - A broker that comes back adds what nobody else has. What was deleted while it was away is deleted there too, whatever it
//!   got meanwhile; whether something is paused is as the controller knows it.
//! - `#ephemeral` names come and go at each broker by itself, and are not kept.
//! - A broker that bears a tombstone for a topic deletes it for itself alone.

use std::time::Duration;

use clock::Instant;
use link::{ToBroker, TopicChange, TopicState};
use wire::TopicName;

use super::catalog::Audience;
use super::inventory::{Subject, is_ephemeral, subject_of, topic_name};
use super::{BrokerNumber, Core};
use crate::ControlError;

impl Core {
    /// A broker says what it has.
    pub(super) fn inventory_said(
        &mut self,
        number: BrokerNumber,
        topics: &[TopicState],
        is_last: bool,
        now: Instant,
    ) {
        for state in topics {
            let said = self.brokers[number as usize].inventory.say(state);
            if let Err(text) = said {
                self.distrust(number, &text);
            }
        }
        if !is_last {
            return;
        }
        self.take_inventory(number, now);
    }

    /// Something became of a topic or channel at a broker.
    pub(super) fn changed(
        &mut self,
        number: BrokerNumber,
        topic: &str,
        change: TopicChange,
        now: Instant,
    ) {
        let inventory = &mut self.brokers[number as usize].inventory;
        let noted = if inventory.is_whole {
            self.change_heard(number, topic, &change, now)
        } else {
            inventory.changed_early(topic, change)
        };
        if let Err(text) = noted {
            self.distrust(number, &text);
        }
    }

    /// A broker waits for a topic's contract and channels. It has been answered when it said that the topic came into being,
    /// unless it asks once more; where the topic has been deleted since, it is told that.
    pub(super) fn topic_asked(&mut self, number: BrokerNumber, topic: &str, now: Instant) {
        match topic_name(topic) {
            Ok(topic) if self.catalog.get(topic.as_str()).is_some() => {
                self.answer(number, &topic, now);
            }
            Ok(_) => {}
            Err(text) => self.distrust(number, &text),
        }
    }

    /// An operator changes a topic or channel at all brokers; what is made is made where its topic is, and wherever its
    /// topic comes later.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] for what is no name; [`ControlError::Unavailable`] at a bound.
    pub fn change_topic(
        &mut self,
        topic: &str,
        change: &TopicChange,
        now: Instant,
    ) -> Result<(), ControlError> {
        let topic = topic_name(topic).map_err(ControlError::Invalid)?;
        subject_of(&topic, change).map_err(ControlError::Invalid)?;
        let news = self.catalog.apply(&topic, change);
        let news = news.map_err(ControlError::Unavailable)?;
        if news.is_new {
            self.keep_known(&topic);
        }
        // Ephemeral ones too, and what only brokers know.
        let audience = match change.is_deletion() {
            true => Audience::Everybody,
            false => news.audience,
        };
        self.pass_on(None, &topic, change, audience, now);
        Ok(())
    }

    /// For `lifetime` the broker whose HTTP is at `node` is not told to consumers of a topic, and a deletion of the topic there is
    /// of that broker alone.
    pub fn place_tombstone(&mut self, topic: &str, node: &str, lifetime: Duration, now: Instant) {
        let Ok(topic) = topic_name(topic) else {
            return;
        };
        let at_node = |address: &Option<String>| address.as_deref() == Some(node);
        for broker in &mut self.brokers {
            if at_node(&broker.http_address) {
                let until = now + lifetime;
                broker.inventory.place_tombstone(topic.clone(), until, now);
            }
        }
    }

    /// Tells a broker a topic: all channels that are known of it.
    pub(super) fn tell_topic(&mut self, number: BrokerNumber, topic: &TopicName, now: Instant) {
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        let known = self.catalog.get(topic.as_str());
        let channels = known.map(|known| known.channels.keys().cloned().collect());
        let state = self.catalog.state_of(topic);
        let inventory = &mut self.brokers[number as usize].inventory;
        inventory.prepare(topic.clone(), ticket, channels.unwrap_or_default(), now);
        self.send(number, ToBroker::Topic { state, ticket });
    }

    /// Looks which `#ephemeral` topics no broker has any more, in parts.
    pub(super) fn forget_orphans(&mut self) {
        self.orphans = Some(None);
        self.go_on_orphans();
    }

    /// The next part of that.
    pub(super) fn go_on_orphans(&mut self) {
        let Some(last) = self.orphans.take() else {
            return;
        };
        let part = self.catalog.ephemeral(last).take(self.sizes.topics);
        let part: Vec<TopicName> = part.cloned().collect();
        for topic in &part {
            self.forget_orphan(topic);
        }
        let last = part.into_iter().nth(self.sizes.topics - 1);
        self.orphans = last.map(Some);
    }

    /// An `#ephemeral` topic is known as long as a broker has it.
    fn forget_orphan(&mut self, topic: &TopicName) {
        let mut brokers = self.brokers.iter();
        if topic.is_ephemeral() && !brokers.any(|broker| broker.inventory.has(topic)) {
            self.catalog.remove(topic.as_str());
        }
    }

    /// Tells a broker in which a topic came into being what belongs to it, its contract first.
    fn answer(&mut self, number: BrokerNumber, topic: &TopicName, now: Instant) {
        if self.broker(number).inventory.preparing.contains_key(topic) {
            // What it was told is still under way, and is the answer.
            return;
        }
        if let Some(declared) = self.topics.get(topic.as_str())
            && !declared.spec.contract().is_empty()
        {
            let contract = self.contract_of(topic.as_str(), declared.ticket);
            self.send(number, contract);
        }
        self.tell_topic(number, topic, now);
    }

    fn change_heard(
        &mut self,
        number: BrokerNumber,
        topic: &str,
        change: &TopicChange,
        now: Instant,
    ) -> Result<(), String> {
        let topic = topic_name(topic)?;
        let subject = subject_of(&topic, change)?;
        let inventory = &mut self.brokers[number as usize].inventory;
        // What is deleted has not to be confirmed any more.
        let may_cross = match change {
            TopicChange::ChannelCreated { .. } | TopicChange::ChannelDeleted { .. }
                if is_ephemeral(&subject) =>
            {
                false
            }
            // A topic that was to be made as it went is not to stay.
            TopicChange::TopicDeleted if topic.is_ephemeral() => {
                inventory.preparing.contains_key(&topic)
            }
            _ => inventory.may_cross(&subject, now),
        };
        let noted = inventory.apply(&topic, change);
        let is_alone = *change == TopicChange::TopicDeleted && inventory.is_tombstoned(&topic, now);
        if is_alone {
            self.forget_orphan(&topic);
            return Ok(());
        }
        let news = noted.and_then(|()| self.catalog.apply(&topic, change));
        if *change == TopicChange::TopicCreated {
            // Also at a bound: it waits. One that has not heard that everything was told does not ask.
            self.answer(number, &topic, now);
        }
        let news = news?;
        if news.is_new {
            self.keep_known(&topic);
        }
        self.pass_on(Some(number), &topic, change, news.audience, now);
        if *change == TopicChange::TopicDeleted {
            self.forget_orphan(&topic);
        }
        if may_cross {
            self.tell_again(number, &topic, subject, change, now);
        }
        Ok(())
    }

    /// Tells brokers other than `from` a change; those that are away are told of a deletion when they come back.
    pub(super) fn pass_on(
        &mut self,
        from: Option<BrokerNumber>,
        topic: &TopicName,
        change: &TopicChange,
        audience: Audience,
        now: Instant,
    ) {
        let Ok(subject) = subject_of(topic, change) else {
            return;
        };
        let is_deletion = change.is_deletion();
        for number in 0..self.brokers.len() as BrokerNumber {
            let inventory = &mut self.brokers[number as usize].inventory;
            let is_meant = match audience {
                Audience::Nobody => false,
                Audience::Holders => inventory.has(topic),
                Audience::Everybody => true,
            };
            if !is_meant || from == Some(number) {
                continue;
            }
            if is_deletion {
                // Names were checked, and what goes needs no room.
                let _ = inventory.apply(topic, change);
            }
            if !inventory.is_whole {
                if is_deletion {
                    self.owe(number, &subject);
                }
                continue;
            }
            if let (TopicChange::ChannelCreated { .. }, Some(channel)) = (change, &subject.1) {
                inventory.told_channel(topic, channel);
            }
            inventory.note_told(subject.clone(), now);
            self.send(number, change_of(topic, change));
        }
    }

    /// Tells a broker its own change again, which came later than one that it may not have heard by then.
    fn tell_again(
        &mut self,
        number: BrokerNumber,
        topic: &TopicName,
        subject: Subject,
        change: &TopicChange,
        now: Instant,
    ) {
        match change {
            // What came meanwhile is not to be dropped.
            TopicChange::TopicEmptied | TopicChange::ChannelEmptied { .. } => return,
            // The topic may be gone there.
            TopicChange::TopicCreated | TopicChange::ChannelCreated { .. } => {
                self.tell_topic(number, topic, now);
            }
            _ => self.send(number, change_of(topic, change)),
        }
        let inventory = &mut self.brokers[number as usize].inventory;
        inventory.note_told(subject, now);
    }

    /// Tells a broker that has said what it has which of it was deleted while it was away.
    pub(super) fn catch_up(&mut self, number: BrokerNumber, now: Instant) {
        let inventory = &mut self.brokers[number as usize].inventory;
        let owed = inventory.take_owed();
        let mut orders = Vec::new();
        for subject in &owed {
            if let Some(change) = inventory.unsay(subject) {
                inventory.note_told(subject.clone(), now);
                orders.push(change_of(&subject.0, &change));
            }
        }
        for order in orders {
            self.send(number, order);
        }
        for subject in owed {
            self.keep_owed(number, &subject, false);
        }
    }

    fn owe(&mut self, number: BrokerNumber, subject: &Subject) {
        let broker = &mut self.brokers[number as usize];
        if !broker.has_name() {
            return;
        }
        if broker.inventory.owe(subject.clone()) {
            return self.keep_owed(number, subject, true);
        }
        let text = format!(
            "{} is away, and more was deleted meanwhile than is remembered: {} may come back with it",
            broker.name, subject.0
        );
        self.tell("problem", Some(subject.0.as_str()), Some(number), text);
    }

    /// What a broker had is gone with its process.
    pub(super) fn end_inventory(&mut self, number: BrokerNumber) {
        let former = self.brokers[number as usize].inventory.end();
        self.discard(former);
        self.forget_orphans();
    }
}

fn change_of(topic: &TopicName, change: &TopicChange) -> ToBroker {
    ToBroker::Change {
        topic: topic.to_string(),
        change: change.clone(),
    }
}
