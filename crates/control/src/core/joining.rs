//! A broker that joins is told everything and says what it has. With many topics this is done in
//! parts, and others are served between them.
//!
//! First it is told all contracts. When it has reported everything that it has, that is taken into
//! the catalog, except for what was deleted elsewhere meanwhile, since it has yet to be told of
//! that. From then on it hears of changes, is told all topics as they are by then, and finally that
//! this was all.

use std::collections::BTreeMap;
use std::ops::Bound;

use clock::Instant;
use link::ToBroker;
use wire::TopicName;

use super::catalog::Audience;
use super::channels::Channels;
use super::{BrokerNumber, Effect};

/// How far a broker has come; names are the last that were dealt with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Joining {
    /// Contracts are told.
    contracts: Option<String>,
    stage: Stage,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// It says what it has.
    #[default]
    Saying,
    /// That is taken over.
    Taking,
    /// It is told what there is.
    Telling(Option<TopicName>),
    /// That was all.
    Joined,
}

impl Channels<'_> {
    /// The next part for the next joining broker.
    pub(super) fn go_on_joining(&mut self, now: Instant) {
        if let Some(number) = self.joining.next() {
            self.join_on(number, now);
        }
    }

    /// A broker has said hello on a new link.
    pub(super) fn begin_joining(&mut self, number: BrokerNumber, now: Instant) {
        self.brokers[number].joining = Joining {
            contracts: Some(String::new()),
            stage: Stage::Saying,
        };
        self.join_on(number, now);
    }

    /// It has said all that it has.
    pub(super) fn take_inventory(&mut self, number: BrokerNumber, now: Instant) {
        self.brokers[number].joining.stage = Stage::Taking;
        self.join_on(number, now);
    }

    fn join_on(&mut self, number: BrokerNumber, now: Instant) {
        self.joining.insert(number);
        if self.brokers[number].joining.contracts.is_some() && !self.tell_contracts(number) {
            return;
        }
        if self.stage_of(number) == Stage::Taking {
            if !self.take_part(number, now) {
                return;
            }
            self.taken_over(number, now);
        }
        if let Stage::Telling(last) = self.stage_of(number) {
            if let Some(last) = self.tell_part(number, last, now) {
                return self.set_stage(number, Stage::Telling(Some(last)));
            }
            self.set_stage(number, Stage::Joined);
            self.out.send(number, ToBroker::Complete);
        }
        self.joining.remove(number);
    }

    fn stage_of(&self, number: BrokerNumber) -> Stage {
        self.brokers[number].joining.stage.clone()
    }

    fn set_stage(&mut self, number: BrokerNumber, stage: Stage) {
        self.brokers[number].joining.stage = stage;
    }

    /// Tells a part of the contracts; whether that were the last.
    fn tell_contracts(&mut self, number: BrokerNumber) -> bool {
        let Some(last) = self.brokers[number].joining.contracts.clone() else {
            return true;
        };
        let behind = (Bound::Excluded(last.as_str()), Bound::Unbounded);
        let part = self
            .topics
            .all()
            .range::<str, _>(behind)
            .take(self.rules.sizes.topics);
        let part: Vec<(String, Option<u64>)> = part
            .map(|(name, topic)| {
                let is_told = !topic.spec.contract.is_empty();
                (name.clone(), is_told.then_some(topic.ticket))
            })
            .collect();
        let is_last = part.len() < self.rules.sizes.topics;
        let last = part.last().map(|(name, _)| name.clone());
        for (name, ticket) in part {
            if let Some(ticket) = ticket {
                self.out
                    .send(number, self.topics.contract_of(&name, ticket));
            }
        }
        self.brokers[number].joining.contracts = last.filter(|_| !is_last);
        is_last
    }

    /// Takes over a part of what a broker has; whether nothing is left.
    fn take_part(&mut self, number: BrokerNumber, now: Instant) -> bool {
        self.catch_up(number, now);
        let at_most = self.rules.sizes.topics;
        let inventory = &mut self.brokers[number].inventory;
        let part = inventory.take_said(at_most);
        let is_taken = inventory.is_taken();
        for (topic, there) in &part {
            match self.catalog.merge(topic, there) {
                Ok((is_new, news)) => {
                    if is_new || !news.is_empty() {
                        self.out.keep_known(self.catalog, topic);
                    }
                    for change in news {
                        self.pass_on(Some(number), topic, &change, Audience::Holders, now);
                    }
                }
                Err(text) => self.out.distrust(&self.brokers[number], &text),
            }
        }
        is_taken
    }

    /// All that the broker has is known: from now on it hears of changes.
    fn taken_over(&mut self, number: BrokerNumber, now: Instant) {
        let inventory = &mut self.brokers[number].inventory;
        let former = inventory.replace();
        let early = inventory.take_early();
        self.out.discard(former);
        for (topic, change) in early {
            self.changed(number, &topic, change, now);
        }
        let sizes = self.rules.sizes;
        self.catalog.forget_orphans(self.brokers, sizes.topics);
        self.set_stage(number, Stage::Telling(None));
        self.out.push(Effect::Prepared { topic: None });
    }

    /// Tells a part of the topics; returns the last of it, `None` where nothing is left.
    fn tell_part(
        &mut self,
        number: BrokerNumber,
        last: Option<TopicName>,
        now: Instant,
    ) -> Option<TopicName> {
        let here = &self.brokers[number].inventory;
        let part = behind(self.catalog.topics(), last).take(self.rules.sizes.topics);
        let part: Vec<(TopicName, bool)> = part
            .map(|(topic, known)| {
                let says_something = known.is_paused || !known.channels.is_empty();
                let is_told = here.has(topic) || (says_something && !topic.is_ephemeral());
                (topic.clone(), is_told)
            })
            .collect();
        let is_last = part.len() < self.rules.sizes.topics;
        let last = part.last().map(|(topic, _)| topic.clone());
        for (topic, _) in part.iter().filter(|(_, is_told)| *is_told) {
            self.tell_topic(number, topic, now);
        }
        last.filter(|_| !is_last)
    }
}

/// Topics behind one, in order of name.
fn behind<T>(
    topics: &BTreeMap<TopicName, T>,
    last: Option<TopicName>,
) -> impl Iterator<Item = (&TopicName, &T)> {
    let begin = last.map_or(Bound::Unbounded, Bound::Excluded);
    topics.range((begin, Bound::Unbounded))
}
