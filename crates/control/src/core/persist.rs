//! What outlives the controller: topics, their channels, publishers and their places, brokers and what they are still to be
//! told, identifiers of names, and the most that each broker may be using of a limit.
//!
//! A restart reads it back and moves nobody: brokers report what they hold, publishers stay where they are.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use clock::Instant;
use limit::{Ledger, Share};
use link::{Door, Identity, TopicState};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::catalog::{Known, channel_name};
use super::inventory::{Subject, topic_name};
use super::moves::Moved;
use super::names::Names;
use super::publisher::Row;
use super::sharers::KEY_RECORD;
use super::{Broker, BrokerNumber, Core, Liveness, Settings, Topic, check};
use crate::ControlError;
use crate::store::{Change, Store, Table};
use crate::view::{PublisherSpec, TopicSpec};
use model::ServiceModel;
use wire::TopicName;

/// Key of the record that numbers the controller's lives.
pub(super) const EPOCH: &str = "epoch";

/// The most that each broker may be using of a limit, by name.
pub(super) type KeptShares = BTreeMap<String, Option<Share>>;

#[derive(Serialize, Deserialize)]
struct BrokerRecord {
    tcp_address: String,
    http_address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gossip_address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identity: Option<Identity>,
    #[serde(default)]
    life: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<IpAddr>,
    /// Brokers that former releases kept were taken at their word.
    #[serde(default = "yes")]
    has_answered: bool,
    /// By HTTP and by gossip; `None`, of a former release: as for clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    has_answered_beside: Option<[bool; 2]>,
    is_draining: bool,
    is_dead: bool,
    mcap: Option<f64>,
    model: Option<ServiceModel>,
}

#[derive(Serialize, Deserialize)]
struct TopicRecord {
    spec: TopicSpec,
    /// Where older releases kept what is in [`Table::Shares`] now.
    #[serde(default, skip_serializing)]
    shares: KeptShares,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit_number: Option<u16>,
}

#[derive(Serialize, Deserialize)]
struct PublisherRecord {
    #[serde(flatten)]
    spec: PublisherSpec,
    broker: Option<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    moved_in: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Core {
    /// Reads back what a former life kept and begins the next one.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] where the store cannot be read, or holds what cannot be understood.
    pub fn restore(
        settings: Settings,
        store: &dyn Store,
        now: Instant,
    ) -> Result<Core, ControlError> {
        let meta = store.load(Table::Meta)?;
        let epoch = meta
            .iter()
            .find(|(key, _)| key == EPOCH)
            .and_then(|(_, value)| value.as_u64());
        let former = epoch.unwrap_or(0);
        let mut core = Core::new(settings, settings.least_epoch.max(former + 1), now);
        core.keep(Table::Meta, EPOCH, Some(Value::from(core.epoch)));
        for (name, value) in store.load(Table::Brokers)? {
            let record = read(Table::Brokers, &name, value)?;
            core.restore_broker(name, record, now);
        }
        let mut shares = BTreeMap::new();
        for (name, value) in store.load(Table::Shares)? {
            let kept: KeptShares = read(Table::Shares, &name, value)?;
            shares.insert(name, kept);
        }
        for (name, value) in store.load(Table::Topics)? {
            let record = read(Table::Topics, &name, value)?;
            let kept = shares.remove(&name);
            core.restore_topic(name, record, kept, now);
        }
        for (key, value) in store.load(Table::Publishers)? {
            let record = read(Table::Publishers, &key, value)?;
            core.restore_publisher(&key, record, former, now);
        }
        for (key, value) in store.load(Table::Channels)? {
            let state = read(Table::Channels, &key, value)?;
            core.restore_known(&key, &state)?;
        }
        for (key, _) in store.load(Table::Owed)? {
            core.restore_owed(&key)?;
        }
        core.names = Names::restore(store)?;
        let key = meta.iter().find(|(key, _)| key == KEY_RECORD);
        core.sharing.key = key.and_then(|(_, value)| value.as_str().map(str::to_owned));
        let names: Vec<String> = core.topics.keys().cloned().collect();
        for name in names {
            core.fit_due(&name, now);
        }
        Ok(core)
    }

    fn restore_broker(&mut self, name: String, record: BrokerRecord, now: Instant) {
        let mut broker = Broker::remembered(name, record.tcp_address, now);
        broker.http_address = record.http_address;
        broker.gossip_address = record.gossip_address;
        (broker.identity, broker.life) = (record.identity, record.life);
        broker.from = record.from;
        let [http, gossip] = record
            .has_answered_beside
            .unwrap_or([record.has_answered; 2]);
        for (door, has_answered) in Door::ALL
            .into_iter()
            .zip([record.has_answered, http, gossip])
        {
            broker.presence_mut(door).has_answered = has_answered;
        }
        broker.is_draining = record.is_draining;
        broker.mcap = record.mcap;
        broker.model = record.model;
        if record.is_dead {
            broker.liveness = Liveness::Dead;
        }
        self.insert_broker(broker);
    }

    fn restore_topic(
        &mut self,
        name: String,
        record: TopicRecord,
        kept: Option<KeptShares>,
        now: Instant,
    ) {
        let mut topic = Topic::new(&name, record.spec);
        let is_older = kept.is_none() && !record.shares.is_empty();
        let kept = kept.unwrap_or(record.shares);
        let known: Vec<(BrokerNumber, Option<Share>)> = kept
            .iter()
            .filter_map(|(broker, share)| Some((*self.broker_by_name.get(broker)?, *share)))
            .filter(|(number, _)| self.brokers[*number as usize].liveness != Liveness::Dead)
            .collect();
        let (epoch, config) = (self.ledger_epoch(), self.ledger_config());
        topic.limit_number = record.limit_number;
        self.sharing.numbers.extend(record.limit_number);
        self.sharing.last_number = self
            .sharing
            .last_number
            .max(record.limit_number.unwrap_or(0));
        let granted = topic.spec.limit.filter(|limit| !limit.is_gossiped());
        topic.shares = granted.map(|limit| Ledger::restore(limit, config, epoch, &known, now));
        for (number, _) in &known {
            topic.take_seat(*number, &self.brokers[*number as usize]);
        }
        topic.kept_shares = kept;
        if !topic.spec.contract().is_empty() {
            self.last_ticket += 1;
            topic.ticket = self.last_ticket;
        }
        if topic.spec.slo.is_some() {
            self.promised.insert(name.clone());
        }
        self.topics.insert(name.clone(), topic);
        if is_older {
            self.keep_shares_of(&name);
        }
    }

    fn restore_publisher(&mut self, key: &str, record: PublisherRecord, former: u64, now: Instant) {
        let Some((topic, _)) = key.split_once('/') else {
            return;
        };
        let broker = record
            .broker
            .and_then(|name| self.broker_by_name.get(&name).copied());
        let Core { topics, loads, .. } = self;
        let Some(topic) = topics.get_mut(topic) else {
            // Its topic was removed, and so it was to be.
            return self.keep(Table::Publishers, key, None);
        };
        let index = topic.publishers.put(record.spec, loads).index();
        topic.publishers.place(index, broker, loads);
        // How long ago that was is not known: it may have been just now.
        let has_moved_lately = record.moved_in > 0 && record.moved_in >= former;
        let rests_from = has_moved_lately.then_some(now);
        topic
            .publishers
            .restore_move(index, record.moved_in, rests_from);
        if let Some(at) = rests_from {
            self.moved.note(Moved {
                at,
                topic: Arc::clone(topic.publishers.topic()),
                index: index as u32,
            });
        }
        self.publishers += 1;
    }

    fn restore_known(&mut self, key: &str, state: &TopicState) -> Result<(), ControlError> {
        let restored = topic_name(&state.topic).and_then(|topic| {
            let known = Known::of(state)?;
            self.catalog.merge(&topic, &known)
        });
        restored
            .map(drop)
            .map_err(|text| not_understood(Table::Channels, key, &text))
    }

    fn restore_owed(&mut self, key: &str) -> Result<(), ControlError> {
        let mut parts = key.splitn(3, '/');
        let broker = parts.next().and_then(|name| self.broker_by_name.get(name));
        let Some(&number) = broker else {
            return Ok(());
        };
        let topic = topic_name(parts.next().unwrap_or_default());
        let channel = parts.next().map(channel_name).transpose();
        let subject = topic.and_then(|topic| Ok((topic, channel?)));
        let subject = subject.map_err(|text| not_understood(Table::Owed, key, &text))?;
        self.brokers[number as usize].inventory.owe(subject);
        Ok(())
    }

    /// Keeps what is known of a topic's channels, or that it is gone.
    pub(super) fn keep_known(&mut self, topic: &TopicName) {
        if topic.is_ephemeral() {
            return;
        }
        let known = self.catalog.get(topic.as_str());
        let record = channels_record(topic, known);
        self.keep(Table::Channels, topic.as_str(), record);
    }

    /// Keeps a deletion that a broker is to be told when it comes back, or that it was told.
    pub(super) fn keep_owed(&mut self, number: BrokerNumber, subject: &Subject, is_owed: bool) {
        let key = owed_key(&self.broker(number).name, subject);
        self.keep(Table::Owed, &key, is_owed.then_some(Value::Bool(true)));
    }

    /// Keeps that a broker of this name is not to be told of a deletion any more.
    pub(super) fn keep_not_owed(&mut self, broker: &str, subject: &Subject) {
        self.keep(Table::Owed, &owed_key(broker, subject), None);
    }

    pub(super) fn keep_broker(&mut self, number: BrokerNumber) {
        let broker = self.broker(number);
        let record = broker_record(broker, broker.is_draining);
        let name = broker.name.clone();
        self.keep(Table::Brokers, &name, record);
    }

    pub(super) fn keep_topic(&mut self, name: &str) {
        if let Some(topic) = self.topics.get(name) {
            let record = topic_record(&topic.spec, topic.limit_number);
            self.keep(Table::Topics, name, record);
        }
    }

    pub(super) fn forget_topic(&mut self, name: &str) {
        self.keep(Table::Topics, name, None);
        self.keep(Table::Shares, name, None);
    }

    /// Keeps the most that each broker may be using before a grant that raises it goes out.
    pub(super) fn keep_shares(&mut self, name: &str, now: Instant) {
        let brokers = &self.brokers;
        let Some(topic) = self.topics.get_mut(name) else {
            return;
        };
        let Some(ledger) = &topic.shares else {
            return;
        };
        let most = ledger.known(now);
        let name_of = |number: BrokerNumber| brokers[number as usize].name.as_str();
        let kept = &topic.kept_shares;
        let is_kept = |&(number, share)| kept.get(name_of(number)) == Some(&share);
        if most.len() == kept.len() && most.iter().all(is_kept) {
            return;
        }
        let most = most.into_iter();
        let most = most.map(|(number, share)| (name_of(number).to_owned(), share));
        let former = std::mem::replace(&mut topic.kept_shares, most.collect());
        self.held.shares_decided(name, former);
        self.keep_shares_of(name);
    }

    fn keep_shares_of(&mut self, name: &str) {
        let kept = self.topics.get(name).map(|topic| &topic.kept_shares);
        let record = kept.and_then(write);
        self.keep(Table::Shares, name, record);
    }

    pub(super) fn keep_publishers(&mut self, name: &str, indices: impl IntoIterator<Item = usize>) {
        let Some(topic) = self.topics.get(name) else {
            return;
        };
        let records: Vec<Change> = indices
            .into_iter()
            .filter_map(|index| topic.publishers.rows().get(index))
            .map(|row| self.publisher_change(name, row))
            .collect();
        self.changes.extend(records);
    }

    pub(super) fn forget_publisher(&mut self, topic: &str, id: &str) {
        self.keep(Table::Publishers, &publisher_key(topic, id), None);
    }

    fn publisher_change(&self, topic: &str, row: &Row) -> Change {
        self.publisher_as(topic, &row.spec, Some(row))
    }

    /// A publisher as it is kept where it is declared so; `row` is what is known of it.
    pub(super) fn publisher_as(
        &self,
        topic: &str,
        spec: &PublisherSpec,
        row: Option<&Row>,
    ) -> Change {
        let broker = row.and_then(|row| row.broker);
        let record = PublisherRecord {
            spec: spec.clone(),
            broker: broker.map(|number| self.broker(number).name.clone()),
            moved_in: row.map_or(0, |row| row.moved_in),
        };
        Change {
            table: Table::Publishers,
            key: publisher_key(topic, &spec.id),
            value: write(&record),
        }
    }

    pub(super) fn keep(&mut self, table: Table, key: &str, value: Option<Value>) {
        self.changes.push(Change {
            table,
            key: key.to_owned(),
            value,
        });
    }
}

fn yes() -> bool {
    true
}

/// A topic as it is kept where it is declared so.
pub(super) fn topic_record(spec: &TopicSpec, limit_number: Option<u16>) -> Option<Value> {
    write(&TopicRecord {
        spec: spec.clone(),
        shares: KeptShares::new(),
        limit_number,
    })
}

/// A broker as it is kept, drained or not.
pub(super) fn broker_record(broker: &Broker, is_draining: bool) -> Option<Value> {
    write(&BrokerRecord {
        tcp_address: broker.tcp_address.clone(),
        http_address: broker.http_address.clone(),
        gossip_address: broker.gossip_address.clone(),
        identity: broker.identity,
        life: broker.life,
        from: broker.from,
        has_answered: broker.has_answered(Door::Clients),
        has_answered_beside: Some([Door::Http, Door::Gossip].map(|door| broker.has_answered(door))),
        is_draining,
        is_dead: broker.liveness == Liveness::Dead,
        mcap: broker.mcap,
        model: broker.model,
    })
}

/// What is known of a topic's channels as it is kept; nothing where nothing is.
pub(super) fn channels_record(topic: &TopicName, known: Option<&Known>) -> Option<Value> {
    known.and_then(|known| write(&known.state_of(topic)))
}

/// Key of a publisher's record.
pub fn publisher_key(topic: &str, id: &str) -> String {
    format!("{topic}/{id}")
}

/// Key of the record that a broker is still to be told a deletion.
pub(super) fn owed_key(broker: &str, subject: &Subject) -> String {
    match subject {
        (topic, Some(channel)) => format!("{broker}/{topic}/{channel}"),
        (topic, None) => format!("{broker}/{topic}"),
    }
}

fn write(record: &impl Serialize) -> Option<Value> {
    // Numbers are checked when they come in, so every record is JSON.
    serde_json::to_value(record).ok()
}

fn read<T: for<'de> Deserialize<'de>>(
    table: Table,
    key: &str,
    value: Value,
) -> Result<T, ControlError> {
    serde_json::from_value(value).map_err(|error| not_understood(table, key, &error.to_string()))
}

fn not_understood(table: Table, key: &str, why: &str) -> ControlError {
    ControlError::Unavailable(format!(
        "the store's record {key:?} of {table:?} cannot be understood ({why}); \
         was it written by another release?"
    ))
}

/// Settings that the type cannot check.
///
/// # Errors
/// A text that names the setting, its value and what is allowed.
pub fn check_settings(settings: &Settings) -> Result<(), String> {
    check::rate("mcap", settings.mcap)?;
    check::rate("moves per second", settings.moves_per_s)?;
    let spans = [
        ("profile window", settings.profile_window, 0.1, 3600.0),
        ("lease", settings.lease, 0.5, 3600.0),
        ("report interval", settings.report_interval, 0.05, 60.0),
        ("adapt period", settings.adapt_period, 0.1, 3600.0),
        ("adapt window", settings.adapt_window, 1.0, 600.0),
        ("gossip interval", settings.gossip_interval, 0.01, 10.0),
    ];
    for (what, span, least, most) in spans {
        if !(least..=most).contains(&span.as_secs_f64()) {
            return Err(format!(
                "{what} {span:?} is not within {least} s to {most} s"
            ));
        }
    }
    if settings.gossip_branches == 0 {
        return Err(String::from(
            "gossip branches 0 would tell nobody anything; 1 or more, 3 is the papers' choice",
        ));
    }
    if settings.lease < 2 * settings.report_interval {
        return Err(format!(
            "lease {:?} is shorter than two report intervals of {:?}: every lost report would end it",
            settings.lease, settings.report_interval
        ));
    }
    Ok(())
}
