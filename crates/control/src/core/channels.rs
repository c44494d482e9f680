//! A topic is one topic on all its brokers: a change to its channels at one broker is made at all
//! of them.
//!
//! The rules:
//! - Changes count in the order in which they are heard. A broker whose change may have crossed
//!   another one is told its own again, so that all end alike.
//! - A deletion precedes everything that a broker says before it has confirmed the deletion: that
//!   referred to what is deleted there.
//! - A broker that comes back adds what nobody else has. What was deleted while it was away is
//!   deleted there too, even if it got new messages meanwhile; whether something is paused is as
//!   the controller knows it.
//! - `#ephemeral` names come and go at each broker by itself, and are not kept.
//! - A broker that bears a tombstone for a topic deletes it for itself alone.

use std::time::Duration;

use clock::Instant;
use link::{ToBroker, TopicChange, TopicState};
use wire::TopicName;

use super::BrokerNumber;
use super::catalog::{Audience, Catalog};
use super::contract::Contracts;
use super::inventory::{Subject, deletion_of, is_ephemeral, subject_of, topic_name};
use super::outbox::Outbox;
use super::owed::owed_change;
use super::registry::Brokers;
use super::settings::Rules;
use super::teller::Teller;
use super::topics::Topics;
use super::turns::BrokerTurns;
use crate::ControlError;

/// Tells brokers of topics and channels, and hears of them; borrows the parts that it needs for that.
pub(super) struct Channels<'a> {
    pub(super) rules: &'a Rules,
    pub(super) topics: &'a Topics,
    pub(super) brokers: &'a mut Brokers,
    pub(super) catalog: &'a mut Catalog,
    pub(super) contracts: &'a mut Contracts,
    /// Brokers that join.
    pub(super) joining: &'a mut BrokerTurns,
    pub(super) out: &'a mut Outbox,
}

impl Channels<'_> {
    /// A broker says what it has.
    pub(super) fn inventory_said(
        &mut self,
        number: BrokerNumber,
        topics: &[TopicState],
        is_last: bool,
        now: Instant,
    ) {
        for state in topics {
            let said = self.brokers[number].inventory.say(state);
            if let Err(text) = said {
                self.out.distrust(&self.brokers[number], &text);
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
        if self.is_outdated(number, topic, &change) {
            return;
        }
        let inventory = &mut self.brokers[number].inventory;
        let noted = if inventory.is_whole {
            self.change_heard(number, topic, &change, now)
        } else {
            inventory.changed_early(topic, change)
        };
        if let Err(text) = noted {
            self.out.distrust(&self.brokers[number], &text);
        }
    }

    /// A broker has carried out a deletion: what it says from here on is about another topic or channel of that name.
    pub(super) fn followed(&mut self, number: BrokerNumber, topic: &str, change: &TopicChange) {
        if let Some(subject) = self.subject_said(number, topic, change) {
            self.brokers[number].inventory.deletion_followed(&subject);
        }
    }

    /// It does not come back with that broker any more, unless it was deleted there once more since.
    pub(super) fn deletion_kept(
        &mut self,
        number: BrokerNumber,
        topic: &str,
        change: &TopicChange,
    ) {
        if let Some(subject) = self.subject_said(number, topic, change)
            && !self.brokers[number].inventory.awaits_deletion(&subject)
        {
            self.owe_no_more(number, &subject);
        }
    }

    fn subject_said(
        &mut self,
        number: BrokerNumber,
        topic: &str,
        change: &TopicChange,
    ) -> Option<Subject> {
        let subject = topic_name(topic).and_then(|topic| subject_of(&topic, change));
        let distrusted = |text: String| self.out.distrust(&self.brokers[number], &text);
        subject.map_err(distrusted).ok()
    }

    /// A broker waits for a topic's contract and channels. It has been answered when it said that the topic came into being,
    /// unless it asks once more; where the topic has been deleted since, it is told that.
    pub(super) fn topic_asked(&mut self, number: BrokerNumber, topic: &str, now: Instant) {
        match topic_name(topic) {
            Ok(topic) if self.catalog.get(topic.as_str()).is_some() => {
                self.answer(number, &topic, now);
            }
            Ok(_) => {}
            Err(text) => self.out.distrust(&self.brokers[number], &text),
        }
    }

    /// An operator changes a topic or channel at all brokers; what is made is made where its topic is, and wherever its
    /// topic comes later.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] for what is no name; [`ControlError::Unavailable`] at a bound.
    pub(super) fn change_topic(
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
            self.out.keep_known(self.catalog, &topic);
        }
        // Ephemeral ones too, and what only brokers know.
        let audience = match change.is_deletion() {
            true => Audience::Everybody,
            false => news.audience,
        };
        self.pass_on(None, &topic, change, audience, now);
        Ok(())
    }

    /// Tells a broker a topic with all its known channels.
    pub(super) fn tell_topic(&mut self, number: BrokerNumber, topic: &TopicName, now: Instant) {
        let mut teller = Teller {
            catalog: self.catalog,
            contracts: self.contracts,
            brokers: self.brokers,
            out: self.out,
        };
        teller.tell(number, topic, now);
    }

    /// Tells a broker in which a topic came into being what belongs to it, its contract first.
    fn answer(&mut self, number: BrokerNumber, topic: &TopicName, now: Instant) {
        if self.brokers[number].inventory.preparing.contains_key(topic) {
            // What it was told is still under way, and is the answer.
            return;
        }
        if let Some(declared) = self.topics.get(topic.as_str())
            && !declared.spec.contract.is_empty()
        {
            let contract = self.topics.contract_of(topic.as_str(), declared.ticket);
            self.out.send(number, contract);
        }
        self.tell_topic(number, topic, now);
    }

    /// Whether a broker said this before it heard that what it is about is deleted.
    fn is_outdated(&self, number: BrokerNumber, topic: &str, change: &TopicChange) -> bool {
        let subject = topic_name(topic).and_then(|topic| subject_of(&topic, change));
        let inventory = &self.brokers[number].inventory;
        subject.is_ok_and(|subject| inventory.is_outdated(&subject))
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
        if is_creation(change) {
            self.is_there_again(number, &subject);
        }
        let inventory = &mut self.brokers[number].inventory;
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
            self.catalog.forget_orphan(&topic, self.brokers);
            return Ok(());
        }
        let news = noted.and_then(|()| self.catalog.apply(&topic, change));
        if *change == TopicChange::TopicCreated {
            // Also at a bound: it waits. One that has not heard that everything was told does not ask.
            self.answer(number, &topic, now);
        }
        let news = news?;
        if news.is_new {
            self.out.keep_known(self.catalog, &topic);
        }
        self.pass_on(Some(number), &topic, change, news.audience, now);
        if *change == TopicChange::TopicDeleted {
            self.catalog.forget_orphan(&topic, self.brokers);
        }
        if may_cross {
            self.tell_again(number, &topic, subject, change, now);
        }
        Ok(())
    }

    /// Tells brokers other than `from` a change; a deletion also those that are joining, and those that are away, or do not confirm
    /// it, when they come back.
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
        if is_deletion && audience == Audience::Everybody {
            self.brokers.departed.owe(&subject, self.out);
        }
        for number in self.brokers.numbers() {
            let inventory = &mut self.brokers[number].inventory;
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
            if is_deletion {
                inventory.unsay(&subject);
                self.owe(number, &subject);
                if self.brokers[number].link.is_some() {
                    self.tell_deletion(number, &subject, change, now);
                }
                continue;
            }
            if !inventory.is_whole {
                continue;
            }
            if is_creation(change) {
                self.is_there_again(number, &subject);
            }
            let inventory = &mut self.brokers[number].inventory;
            let is_more = matches!(change, TopicChange::ChannelCreated { .. });
            let is_confirmable = is_more && inventory.told_channel(topic);
            inventory.note_told(subject.clone(), now);
            self.out.send(number, change_of(topic, change));
            if is_confirmable {
                self.tell_topic(number, topic, now);
            }
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
            TopicChange::TopicDeleted | TopicChange::ChannelDeleted { .. } => {
                return self.tell_deletion(number, &subject, change, now);
            }
            _ => self.out.send(number, change_of(topic, change)),
        }
        let inventory = &mut self.brokers[number].inventory;
        inventory.note_told(subject, now);
    }

    /// Tells a broker that something is deleted; until it confirms that, what it says of it is outdated.
    fn tell_deletion(
        &mut self,
        number: BrokerNumber,
        subject: &Subject,
        change: &TopicChange,
        now: Instant,
    ) {
        let inventory = &mut self.brokers[number].inventory;
        inventory.note_deletion(subject);
        inventory.note_told(subject.clone(), now);
        self.out.send(number, change_of(&subject.0, change));
    }

    /// Tells a broker that has said what it has what was deleted while it was away, or before it was on its disk.
    pub(super) fn catch_up(&mut self, number: BrokerNumber, now: Instant) {
        for subject in self.brokers[number].inventory.owed_and_untold() {
            // What it does not say it has may be on its disk still.
            self.brokers[number].inventory.unsay(&subject);
            self.tell_deletion(number, &subject, &deletion_of(&subject), now);
        }
    }

    /// A broker that is linked is told, or says, that something is there again: it is not deleted there when it comes back.
    fn is_there_again(&mut self, number: BrokerNumber, subject: &Subject) {
        let topic: Subject = (subject.0.clone(), None);
        for subject in [subject, &topic] {
            self.owe_no_more(number, subject);
        }
    }

    fn owe_no_more(&mut self, number: BrokerNumber, subject: &Subject) {
        let broker = &mut self.brokers[number];
        if broker.inventory.owe_no_more(subject) {
            self.out
                .keep_change(owed_change(&broker.name, subject, false));
        }
    }

    fn owe(&mut self, number: BrokerNumber, subject: &Subject) {
        let broker = &mut self.brokers[number];
        if !broker.has_name() {
            return;
        }
        if broker.inventory.owe(subject.clone()) {
            let change = owed_change(&broker.name, subject, true);
            return self.out.keep_change(change);
        }
        let text = format!(
            "{} has not confirmed more deletions than are remembered: {} may come back with it",
            broker.name, subject.0
        );
        self.out.tell(
            "problem",
            Some(subject.0.as_str()),
            Some(&self.brokers[number]),
            text,
        );
    }
}

/// For `lifetime` the broker whose HTTP is at `node` is not listed to consumers of a topic, and a
/// deletion of the topic there concerns that broker alone.
pub(super) fn place_tombstone(
    brokers: &mut Brokers,
    topic: &str,
    node: &str,
    lifetime: Duration,
    now: Instant,
) {
    let Ok(topic) = topic_name(topic) else {
        return;
    };
    let at_node = |address: &Option<String>| {
        let address = address
            .as_deref()
            .map(|address| http::is_encrypted(address).0);
        address == Some(node)
    };
    for broker in brokers.iter_mut() {
        if at_node(&broker.http_address) {
            let until = now + lifetime;
            broker.inventory.place_tombstone(topic.clone(), until, now);
        }
    }
}

/// Whether a topic or channel is there with it.
fn is_creation(change: &TopicChange) -> bool {
    matches!(
        change,
        TopicChange::TopicCreated | TopicChange::ChannelCreated { .. }
    )
}

fn change_of(topic: &TopicName, change: &TopicChange) -> ToBroker {
    ToBroker::Change {
        topic: topic.to_string(),
        change: change.clone(),
    }
}
