//! Carries out requests of operators and publishers: topics and their publishers, names, channels,
//! drains.

use std::time::Duration;

use clock::Instant;
use limit::Ledger;
use link::TopicChange;
use rustc_hash::FxHashSet;

use super::parts::Job;
use super::publisher::Put;
use super::seats::granted;
use super::{
    BrokerNumber, Core, Declared, Effect, Topic, channels, check, cpu_share, no_publisher,
};
use crate::ControlError;
use crate::store::Table;
use crate::view::{NameView, PublisherSpec, TopicSpec};

impl Core {
    /// Declares a topic, or declares it anew. Gives the number of the contract, which brokers confirm.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] with the field, its value and what is allowed; [`ControlError::Conflict`] where shares of
    /// all topics would exceed the whole. The former contract stays.
    pub fn put_topic(
        &mut self,
        name: &str,
        spec: TopicSpec,
        now: Instant,
    ) -> Result<u64, ControlError> {
        let limit_number = self.check_put_topic(name, &spec)?;
        self.topic_or_new(name)?;
        let limit = granted(spec.contract.limit);
        let epoch = self.topics.next_ledger(self.rules.epoch);
        let anew = limit.map(|limit| Ledger::new(limit, self.rules.ledger_config(), epoch));
        let (topic, loads) = self.topics.find_with_loads(name)?;
        let promise_us = spec.slo.map(|slo| slo.latency_us);
        topic.publishers.set_promise(promise_us, loads);
        let former_number = std::mem::replace(&mut topic.limit_number, limit_number);
        self.sharing.renumber(former_number, limit_number);
        let goes_on = topic.keeps_ledger(&spec);
        let former = std::mem::replace(&mut topic.spec, spec);
        topic.shares.set_limit(limit, goes_on, anew);
        let is_fit_asked = (
            topic.spec.slo,
            topic.spec.policy,
            topic.spec.fit,
            topic.spec.contract.limit,
        ) != (former.slo, former.policy, former.fit, former.contract.limit);
        self.topics.note_promise(name);
        if is_fit_asked {
            self.fit_due(name, now);
        }
        self.out.keep_topic(&self.topics, name);
        if !goes_on {
            self.out.held.shares_void(name);
            self.out.keep(Table::Shares, name, None);
        }
        self.drive_sharers();
        let ticket = self.announce_contract(name, now);
        let text = self.topics.find(name)?.describe();
        self.out.tell("topic-changed", Some(name), None, text);
        self.adaptor().drive(name, now);
        Ok(ticket)
    }

    /// Whether a topic may be declared so. Gives the number of its limit: the one that it has, or a new one, if brokers share it
    /// by gossip.
    pub(super) fn check_put_topic(
        &self,
        name: &str,
        spec: &TopicSpec,
    ) -> Result<Option<u16>, ControlError> {
        check::topic(name)?;
        check::spec(spec)?;
        check::durability(name, spec.contract.durability)?;
        cpu_share::check(&self.topics, name, spec.contract.cpu_share)?;
        self.topics.has_room_for(name)?;
        if !spec.contract.limit.is_some_and(|limit| limit.is_gossiped()) {
            return Ok(None);
        }
        let known = self.topics.get(name).and_then(|topic| topic.limit_number);
        known
            .map_or_else(|| self.sharing.free_number(), Ok)
            .map(Some)
    }

    /// Forgets a topic: its limit, its promise and its publishers. Messages at the brokers stay.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn delete_topic(&mut self, name: &str, now: Instant) -> Result<(), ControlError> {
        let topic = self.topics.remove(name)?;
        self.declaring.give_up(name);
        for broker in self.brokers.iter_mut() {
            broker.hearing.forget(name, None);
        }
        self.sharing.renumber(topic.limit_number, None);
        self.out.forget_topic(name);
        let rows = self.rules.sizes.rows;
        self.forgetting.forget(name, topic, rows, &mut self.out);
        self.announce_contract(name, now);
        let text = format!("{name} was removed");
        self.out.tell("topic-removed", Some(name), None, text);
        Ok(())
    }

    /// Adds a few publishers or takes their new declarations, all or none, and places them; [`Core::declare`] takes many.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] naming the publisher and the field; [`ControlError::Unavailable`] at a bound.
    pub fn put_publishers(
        &mut self,
        name: &str,
        specs: Vec<PublisherSpec>,
        now: Instant,
    ) -> Result<(), ControlError> {
        let publishers = Declared::new(specs)?;
        self.declaring.check(&self.topics, name, &publishers)?;
        self.topic_or_new(name)?;
        self.take_declared(name, publishers.into_specs(), now);
        Ok(())
    }

    /// Adds publishers or takes their new declarations, all or none, and places them. Gives the number that
    /// [`Effect::Declared`] has once that is done.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] for what is no topic's name; [`ControlError::Unavailable`] at a bound.
    pub fn declare(
        &mut self,
        name: &str,
        publishers: Declared,
        now: Instant,
    ) -> Result<u64, ControlError> {
        self.declaring.check(&self.topics, name, &publishers)?;
        self.topic_or_new(name)?;
        let (number, is_alone) = self.declaring.add(name, publishers);
        if is_alone {
            self.go_on_declaring(now);
        }
        Ok(number)
    }

    /// Takes the next part of the list that came first.
    pub(super) fn go_on_declaring(&mut self, now: Instant) {
        let Some(mut part) = self.declaring.next(self.rules.sizes.rows) else {
            return;
        };
        let specs = std::mem::take(&mut part.specs);
        self.take_declared(part.topic(), specs, now);
        if let Some(number) = self.declaring.taken(part) {
            self.out.push(Effect::Declared(number));
        }
    }

    /// Takes over checked declarations of a topic's publishers, and places them.
    fn take_declared(&mut self, name: &str, specs: Vec<PublisherSpec>, now: Instant) {
        let Some((topic, loads)) = self.topics.with_loads(name) else {
            return;
        };
        let known = topic.publishers.rows().len();
        let (mut changed, mut asking) = (Vec::new(), Vec::new());
        for spec in specs {
            let put = topic.publishers.put(spec, loads);
            if !matches!(put, Put::Same(_)) {
                changed.push(put.index());
            }
            if topic.publishers.rows()[put.index()].broker.is_none() {
                asking.push(put.index());
            }
        }
        let more = topic.publishers.rows().len() - known;
        self.topics.publishers += more;
        let mut distributor = self.distributor();
        distributor.place_newcomers(name, &asking, now);
        if !changed.is_empty() {
            // Who has been given a place is kept with it.
            let is_asking: FxHashSet<usize> = asking.into_iter().collect();
            let topics = &*distributor.ground.topics;
            let rest = changed.into_iter();
            let rest = rest
                .filter(|&index| !is_asking.contains(&index) || topics.is_unplaced(name, index));
            distributor
                .ground
                .out
                .keep_publishers(topics, distributor.ground.brokers, name, rest);
            distributor.publishers_changed(name, now);
        }
        self.mover().prepare_places(name, now);
    }

    /// Forgets a publisher.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn delete_publisher(
        &mut self,
        name: &str,
        id: &str,
        now: Instant,
    ) -> Result<(), ControlError> {
        let (topic, loads) = self.topics.find_with_loads(name)?;
        let was_awaited = self.declaring.forget(name, id);
        if topic.publishers.remove(id, loads).is_none() {
            return match was_awaited {
                true => Ok(()),
                false => Err(no_publisher(name, id)),
            };
        }
        for broker in self.brokers.iter_mut() {
            broker.hearing.forget(name, Some(id));
        }
        self.topics.publishers -= 1;
        self.out.forget_publisher(name, id);
        self.distributor().publishers_changed(name, now);
        Ok(())
    }

    /// A publisher asks where to go; `avoid` names a broker (or its address) that it could not reach.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn ask_place(
        &mut self,
        name: &str,
        id: &str,
        avoid: Option<&str>,
        now: Instant,
    ) -> Result<usize, ControlError> {
        let topic = self.topics.find(name)?;
        let index = topic
            .publishers
            .find(id)
            .ok_or_else(|| no_publisher(name, id))?;
        let broker = topic.publishers.rows()[index].broker;
        let Some(number) = broker else {
            self.distributor().place_newcomers(name, &[index], now);
            self.mover().prepare_places(name, now);
            return Ok(index);
        };
        let broker = &self.brokers[number];
        let is_avoided =
            avoid.is_some_and(|avoid| broker.name == avoid || broker.tcp_address == avoid);
        if is_avoided && !broker.takes_publishers() {
            self.distributor().replace(name, index, now);
        }
        let broker = self.topics.find(name)?.publishers.rows()[index].broker;
        if let Some(number) = broker {
            self.mover().teller.prepare(name, number, now);
        }
        Ok(index)
    }

    /// Moves a broker's publishers away and gives it no more.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn drain_broker(&mut self, name: &str, now: Instant) -> Result<BrokerNumber, ControlError> {
        let number = self.set_draining(name, true)?;
        let text = format!("{name} is being drained");
        let broker = Some(&self.brokers[number]);
        self.out.tell("broker-draining", None, broker, text);
        self.give_up_placements(number, now);
        Ok(number)
    }

    /// Ends a drain: the broker may be given publishers again.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn resume_broker(
        &mut self,
        name: &str,
        now: Instant,
    ) -> Result<BrokerNumber, ControlError> {
        let number = self.set_draining(name, false)?;
        let text = format!("{name} takes publishers again");
        let broker = Some(&self.brokers[number]);
        self.out.tell("broker-resumed", None, broker, text);
        self.begin_job(Job::Room, now);
        Ok(number)
    }

    fn set_draining(
        &mut self,
        name: &str,
        is_draining: bool,
    ) -> Result<BrokerNumber, ControlError> {
        let number = self.brokers.number_of(name)?;
        self.brokers[number].is_draining = is_draining;
        self.out.keep_broker(&self.brokers[number]);
        Ok(number)
    }

    /// Takes the operator's word that a broker is dead, and frees its name.
    ///
    /// # Errors
    /// [`ControlError::NotFound`]; [`ControlError::Conflict`] while it reports.
    pub fn remove_broker(&mut self, name: &str, now: Instant) -> Result<(), ControlError> {
        let number = self.brokers.check_remove(name)?;
        self.dead(number, "removed by an operator", now);
        self.brokers.forget(number, &mut self.out, now);
        Ok(())
    }

    /// The identifier of a topic's name, which is given one unless it has one. It may be told once the changes are kept.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] for what is no name; [`ControlError::Unavailable`] at the bound.
    pub fn put_name(&mut self, topic: &str) -> Result<NameView, ControlError> {
        self.names.put(topic, &mut self.out)
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
        self.channels().change_topic(topic, change, now)
    }

    /// For `lifetime` the broker whose HTTP is at `node` is not listed to consumers of a topic, and
    /// a deletion of the topic there concerns that broker alone.
    pub fn place_tombstone(&mut self, topic: &str, node: &str, lifetime: Duration, now: Instant) {
        channels::place_tombstone(&mut self.brokers, topic, node, lifetime, now);
    }

    /// Whether a key is known that brokers sign gossip with.
    #[must_use]
    pub fn has_gossip_key(&self) -> bool {
        self.sharing.key.is_some()
    }

    /// Hands out `key` from now on, 64 hexadecimal digits that nobody can guess; kept over restarts.
    pub fn set_gossip_key(&mut self, key: String) {
        self.sharing.set_key(key, &mut self.out);
    }

    /// Hands out `pass` to brokers from now on: by it they know each other when one hands queues over. Nobody must be able to guess it.
    pub fn set_handover_pass(&mut self, pass: String) {
        self.handovers.pass = Some(pass);
    }

    fn topic_or_new(&mut self, name: &str) -> Result<(), ControlError> {
        self.topics.has_room_for(name)?;
        if self.topics.get(name).is_none() {
            let rows = self.rules.sizes.rows;
            self.forgetting.forget_in_whole(name, rows, &mut self.out);
            self.topics
                .insert(name, Topic::new(name, TopicSpec::default()));
            self.out.keep_topic(&self.topics, name);
        }
        Ok(())
    }

    fn announce_contract(&mut self, name: &str, now: Instant) -> u64 {
        let (topics, brokers) = (&mut self.topics, &mut self.brokers);
        self.contracts
            .announce(name, topics, brokers, &mut self.out, now)
    }
}
