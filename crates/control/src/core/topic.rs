//! Topics: declaration, removal, and the publishers that belong to them.

use clock::Instant;
use limit::Ledger;
use placement::BrokerIndex;
use rustc_hash::FxHashSet;

use super::declaring::Declared;
use super::fit::Fit;
use super::persist::KeptShares;
use super::publisher::{Publishers, Put};
use super::seats::Seat;
use super::shares::Carrier;
use super::{Core, TOPICS_MAX, check};
use crate::ControlError;
use crate::store::Table;
use crate::view::{PublisherSpec, TopicSpec};

/// One topic.
#[derive(Debug)]
pub struct Topic {
    /// What was declared.
    pub spec: TopicSpec,
    /// Number of its contract, 0 where none was ever declared.
    pub ticket: u64,
    /// Who publishes.
    pub publishers: Publishers,
    /// Who may use how much of the limit.
    pub shares: Option<Ledger>,
    /// The number that gossip knows its limit by, where brokers share it among themselves; then there is no ledger.
    pub limit_number: Option<u16>,
    /// Brokers that carry it, with what the shares are reckoned from.
    pub(super) carriers: Vec<Carrier>,
    /// Brokers that the ledger knows.
    pub(super) seats: Vec<Seat>,
    /// What the ledger was told of rounds, by [`Rounds::version`](super::rounds::Rounds::version).
    pub(super) rounds_known: u64,
    /// The most that each broker may be using, as it was kept last.
    pub(super) kept_shares: KeptShares,
    /// Where the fit to its promise stands.
    pub fit: Fit,
    /// When publishers were placed last: traffic of before says nothing about what follows.
    pub(super) placed_at: Option<Instant>,
    /// Publishers for which there was no room when all without a place were tried.
    pub(super) stranded: usize,
    /// Where looking for publishers to move goes on.
    pub(super) next_move: u32,
    /// Below which index looking for publishers that leave a broker goes on, in a topic with many.
    pub(super) next_shed: Option<usize>,
}

impl Topic {
    pub(super) fn new(name: &str, spec: TopicSpec) -> Topic {
        let promise_us = spec.slo.map(|slo| slo.latency_us);
        Topic {
            spec,
            ticket: 0,
            publishers: Publishers::new(name, promise_us),
            shares: None,
            limit_number: None,
            carriers: Vec::new(),
            seats: Vec::new(),
            rounds_known: 0,
            kept_shares: KeptShares::new(),
            fit: Fit::default(),
            placed_at: None,
            stranded: 0,
            next_move: 0,
            next_shed: None,
        }
    }
}

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
        // What brokers agree on among themselves is not granted.
        let limit = spec.limit.filter(|limit| !limit.is_gossiped());
        let (epoch, config) = (self.ledger_epoch(), self.ledger_config());
        let anew = limit.map(|limit| Ledger::new(limit, config, epoch));
        let Core { topics, loads, .. } = self;
        let topic = topics.get_mut(name).ok_or_else(|| no_topic(name))?;
        let promise_us = spec.slo.map(|slo| slo.latency_us);
        topic.publishers.set_promise(promise_us, loads);
        let former_number = std::mem::replace(&mut topic.limit_number, limit_number);
        if let Some(number) = former_number.filter(|_| limit_number.is_none()) {
            self.sharing.numbers.remove(&number);
        }
        if let Some(number) = limit_number
            && self.sharing.numbers.insert(number)
        {
            self.sharing.last_number = number;
        }
        let is_anew = !topic.keeps_ledger(&spec);
        let former = std::mem::replace(&mut topic.spec, spec);
        match topic.spec.slo {
            Some(_) => drop(self.promised.insert(name.to_owned())),
            None => drop(self.promised.remove(name)),
        }
        match (&mut topic.shares, limit) {
            (Some(ledger), Some(limit)) if !is_anew => ledger.set_limit(limit),
            (shares, _) => {
                *shares = anew;
                // A new ledger has no members yet.
                topic.carriers.clear();
                topic.kept_shares.clear();
                (topic.seats, topic.rounds_known) = (Vec::new(), 0);
            }
        }
        let is_fit_asked = (
            topic.spec.slo,
            topic.spec.policy,
            topic.spec.fit,
            topic.spec.limit,
        ) != (former.slo, former.policy, former.fit, former.limit);
        if is_fit_asked {
            self.fit_due(name, now);
        }
        self.keep_topic(name);
        if is_anew {
            self.keep(Table::Shares, name, None);
        }
        self.drive_sharers();
        let ticket = self.announce_contract(name, now);
        let text = self.topic(name)?.describe();
        self.tell("topic-changed", Some(name), None, text);
        self.drive_shares(name, now);
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
        self.check_cpu_share(name, spec.cpu_share)?;
        self.has_room_for_topic(name)?;
        if !spec.limit.is_some_and(|limit| limit.is_gossiped()) {
            return Ok(None);
        }
        let known = self.topics.get(name).and_then(|topic| topic.limit_number);
        known.map_or_else(|| self.free_limit_number(), Ok).map(Some)
    }

    /// Forgets a topic: its limit, its promise and its publishers. Messages at the brokers stay.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn delete_topic(&mut self, name: &str, now: Instant) -> Result<(), ControlError> {
        let mut topic = self.topics.remove(name).ok_or_else(|| no_topic(name))?;
        self.declaring.give_up(name);
        for broker in &mut self.brokers {
            broker.hearing.forget(name, None);
        }
        self.publishers -= topic.publishers.rows().len();
        topic.publishers.leave(&mut self.loads);
        if let Some(number) = topic.limit_number {
            self.sharing.numbers.remove(&number);
        }
        self.promised.remove(name);
        self.forget_topic(name);
        self.forget_publishers(name, topic);
        self.announce_contract(name, now);
        self.tell(
            "topic-removed",
            Some(name),
            None,
            format!("{name} was removed"),
        );
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
        self.check_declare(name, &publishers)?;
        self.topic_or_new(name)?;
        self.take_declared(name, publishers.into_specs(), now);
        Ok(())
    }

    /// Takes over checked declarations of a topic's publishers, and places them.
    pub(super) fn take_declared(&mut self, name: &str, specs: Vec<PublisherSpec>, now: Instant) {
        let Core { topics, loads, .. } = self;
        let Some(topic) = topics.get_mut(name) else {
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
        self.publishers += topic.publishers.rows().len() - known;
        self.place_newcomers(name, &asking, now);
        if !changed.is_empty() {
            // Who has been given a place is kept with it.
            let is_asking: FxHashSet<usize> = asking.into_iter().collect();
            let rest = changed.into_iter();
            let rest =
                rest.filter(|&index| !is_asking.contains(&index) || self.is_unplaced(name, index));
            let rest: Vec<usize> = rest.collect();
            self.keep_publishers(name, rest);
            self.publishers_changed(name, now);
        }
        self.prepare_places(name, now);
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
        let Core { topics, loads, .. } = self;
        let topic = topics.get_mut(name).ok_or_else(|| no_topic(name))?;
        if topic.publishers.remove(id, loads).is_none() {
            return Err(no_publisher(name, id));
        }
        for broker in &mut self.brokers {
            broker.hearing.forget(name, Some(id));
        }
        self.publishers -= 1;
        self.forget_publisher(name, id);
        self.publishers_changed(name, now);
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
        let topic = self.topic(name)?;
        let index = topic
            .publishers
            .find(id)
            .ok_or_else(|| no_publisher(name, id))?;
        let broker = topic.publishers.rows()[index].broker;
        let Some(number) = broker else {
            self.place_newcomers(name, &[index], now);
            self.prepare_places(name, now);
            return Ok(index);
        };
        let is_avoided = avoid.is_some_and(|avoid| {
            let broker = self.broker(number);
            broker.name == avoid || broker.tcp_address == avoid
        });
        if is_avoided && !self.broker(number).takes_publishers() {
            let Core { topics, loads, .. } = self;
            let topic = topics.get_mut(name).ok_or_else(|| no_topic(name))?;
            topic.publishers.place(index, None, loads);
            self.place_newcomers(name, &[index], now);
            self.keep_publishers(name, [index]);
            self.publishers_changed(name, now);
        }
        let broker = self.topic(name)?.publishers.rows()[index].broker;
        if let Some(number) = broker {
            self.prepare(name, number, now);
        }
        Ok(index)
    }

    pub(super) fn topic(&self, name: &str) -> Result<&Topic, ControlError> {
        self.topics.get(name).ok_or_else(|| no_topic(name))
    }

    pub(super) fn topic_mut(&mut self, name: &str) -> Result<&mut Topic, ControlError> {
        self.topics.get_mut(name).ok_or_else(|| no_topic(name))
    }

    pub(super) fn topic_or_new(&mut self, name: &str) -> Result<&mut Topic, ControlError> {
        self.has_room_for_topic(name)?;
        if !self.topics.contains_key(name) {
            self.forget_in_whole(name);
            self.topics
                .insert(name.to_owned(), Topic::new(name, TopicSpec::default()));
            self.keep_topic(name);
        }
        self.topic_mut(name)
    }

    pub(super) fn has_room_for_topic(&self, name: &str) -> Result<(), ControlError> {
        match self.topics.len() >= TOPICS_MAX && !self.topics.contains_key(name) {
            false => Ok(()),
            true => Err(ControlError::Unavailable(format!(
                "{TOPICS_MAX} topics are declared and that is the most; remove some first"
            ))),
        }
    }

    /// Whether a publisher has no place.
    pub(super) fn is_unplaced(&self, name: &str, index: usize) -> bool {
        let topic = self.topics.get(name);
        topic.is_some_and(|topic| topic.publishers.unplaced().contains(&(index as u32)))
    }

    /// Carriers and fit follow a change of who publishes.
    pub(super) fn publishers_changed(&mut self, name: &str, now: Instant) {
        self.fit_due(name, now);
        self.drive_shares(name, now);
    }
}

impl Topic {
    /// Whether the ledger of the shares goes on under `spec`, which holds as long as the unit does.
    pub(super) fn keeps_ledger(&self, spec: &TopicSpec) -> bool {
        let unit = |spec: &TopicSpec| {
            let granted = spec.limit.filter(|limit| !limit.is_gossiped());
            granted.map(|limit| limit.unit)
        };
        self.shares.is_some() && unit(&self.spec) == unit(spec)
    }

    /// Its contract in words.
    pub(super) fn describe(&self) -> String {
        let limit = self
            .spec
            .limit
            .map_or_else(|| String::from("no limit"), |limit| limit.to_string());
        let promise = match &self.spec.slo {
            Some(slo) => format!("p{} within {} us", slo.percentile, slo.latency_us),
            None => String::from("nothing promised"),
        };
        let share = self.spec.cpu_share;
        let share = share.map_or_else(String::new, |share| {
            format!("; {share} of its thread's time")
        });
        let on_full = self.spec.on_full;
        let on_full =
            on_full.map_or_else(String::new, |on_full| format!("; full channels: {on_full}"));
        format!("{limit}; {promise}{share}{on_full}")
    }

    /// Where each publisher is to publish, as the distributor sees it.
    pub(super) fn placed(&self) -> Vec<Option<BrokerIndex>> {
        let rows = self.publishers.rows().iter();
        rows.map(|row| row.broker.map(BrokerIndex)).collect()
    }

    /// By broker: the rate placed there, as measured where that is known.
    pub(super) fn placed_rates(&self, brokers: usize) -> Vec<f64> {
        let mut rates = vec![0.0; brokers];
        for (number, tally) in self.publishers.tallies() {
            rates[number as usize] = tally.placed.rate();
        }
        rates
    }

    /// Whether some publisher is not where it is to be.
    pub(super) fn has_moves(&self) -> bool {
        !self.publishers.misplaced().is_empty()
    }
}

fn no_topic(name: &str) -> ControlError {
    ControlError::NotFound(format!(
        "there is no topic {name:?}; PUT /v1/topics/{name} declares it"
    ))
}

/// There is no such publisher.
pub fn no_publisher(topic: &str, id: &str) -> ControlError {
    ControlError::NotFound(format!(
        "topic {topic:?} has no publisher {id:?}; POST /v1/topics/{topic}/publishers adds it"
    ))
}
