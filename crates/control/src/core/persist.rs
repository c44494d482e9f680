//! The controller's persistent state: topics, their channels, publishers and their places, brokers
//! and what they have yet to be told, identifiers of names, and the most that each broker may be
//! using of a limit.
//!
//! A restart reads it back and moves nobody: brokers report what they hold, publishers stay where
//! they are.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use clock::Instant;
use limit::{Ledger, Share};
use link::{Door, Identity, TopicState};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::catalog::{Catalog, Known};
use super::fit::fit_due;
use super::inventory::topic_name;
use super::moves::Moved;
use super::names::Names;
use super::outbox::Outbox;
use super::publisher::Row;
use super::registry::Brokers;
use super::seats::granted;
use super::sharers::KEY_RECORD;
use super::topics::Topics;
use super::{Broker, BrokerNumber, Core, Liveness, Settings, Topic};
use crate::ControlError;
use crate::leadership::next_epoch;
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

/// Reads back what a former life kept and begins the next one.
///
/// # Errors
/// [`ControlError::Unavailable`] where the store cannot be read, or holds what cannot be understood.
pub(super) fn restore(
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
    let epoch = next_epoch(epoch, settings.least_epoch);
    let mut core = Core::new(settings, epoch, now);
    core.out
        .keep(Table::Meta, EPOCH, Some(Value::from(core.rules.epoch)));
    for (name, value) in store.load(Table::Brokers)? {
        let record = read(Table::Brokers, &name, value)?;
        core.brokers.insert(restored_broker(name, record, now));
    }
    let mut shares = BTreeMap::new();
    for (name, value) in store.load(Table::Shares)? {
        let kept: KeptShares = read(Table::Shares, &name, value)?;
        shares.insert(name, kept);
    }
    for (name, value) in store.load(Table::Topics)? {
        let record = read(Table::Topics, &name, value)?;
        let kept = shares.remove(&name);
        restore_topic(&mut core, &name, record, kept, now);
    }
    for (key, value) in store.load(Table::Publishers)? {
        let record = read(Table::Publishers, &key, value)?;
        restore_publisher(&mut core, &key, record, former, now);
    }
    for (key, value) in store.load(Table::Channels)? {
        let state = read(Table::Channels, &key, value)?;
        restore_known(&mut core.catalog, &key, &state)?;
    }
    for (key, _) in store.load(Table::Owed)? {
        let restored = core.brokers.restore_owed(&key, now);
        restored.map_err(|text| not_understood(Table::Owed, &key, &text))?;
    }
    core.names = Names::restore(store)?;
    let key = meta.iter().find(|(key, _)| key == KEY_RECORD);
    core.sharing.key = key.and_then(|(_, value)| value.as_str().map(str::to_owned));
    let names: Vec<String> = core.topics.all().keys().cloned().collect();
    for name in names {
        fit_due(&mut core.topics, &mut core.due, &settings, &name, now);
    }
    Ok(core)
}

fn restored_broker(name: String, record: BrokerRecord, now: Instant) -> Broker {
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
    broker
}

fn restore_topic(
    core: &mut Core,
    name: &str,
    record: TopicRecord,
    kept: Option<KeptShares>,
    now: Instant,
) {
    let mut topic = Topic::new(name, record.spec);
    let is_older = kept.is_none() && !record.shares.is_empty();
    let kept = kept.unwrap_or(record.shares);
    let brokers = &core.brokers;
    let known: Vec<(BrokerNumber, Option<Share>)> = kept
        .iter()
        .filter_map(|(broker, share)| Some((brokers.named(broker)?, *share)))
        .filter(|(number, _)| brokers[*number].liveness != Liveness::Dead)
        .collect();
    let config = core.rules.ledger_config();
    let epoch = core.topics.next_ledger(core.rules.epoch);
    topic.limit_number = record.limit_number;
    core.sharing.restore(record.limit_number);
    let granted = granted(topic.spec.contract.limit);
    let ledger = granted.map(|limit| Ledger::restore(limit, config, epoch, &known, now));
    topic.shares.ledger = ledger;
    for (number, _) in &known {
        topic.shares.take_seat(*number, &brokers[*number]);
    }
    topic.shares.kept = kept;
    if !topic.spec.contract.is_empty() {
        topic.ticket = core.contracts.next_ticket();
    }
    if is_older {
        core.out.keep_shares_of(name, &topic);
    }
    core.topics.insert(name, topic);
}

fn restore_publisher(
    core: &mut Core,
    key: &str,
    record: PublisherRecord,
    former: u64,
    now: Instant,
) {
    let Some((topic, _)) = key.split_once('/') else {
        return;
    };
    let broker = record.broker.and_then(|name| core.brokers.named(&name));
    let Some((topic, loads)) = core.topics.with_loads(topic) else {
        // Its topic was removed, and so it was to be.
        return core.out.keep(Table::Publishers, key, None);
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
        core.moves.note(Moved {
            at,
            topic: Arc::clone(topic.publishers.topic()),
            index: index as u32,
        });
    }
    core.topics.publishers += 1;
}

fn restore_known(catalog: &mut Catalog, key: &str, state: &TopicState) -> Result<(), ControlError> {
    let restored = topic_name(&state.topic).and_then(|topic| {
        let known = Known::of(state)?;
        catalog.merge(&topic, &known)
    });
    restored
        .map(drop)
        .map_err(|text| not_understood(Table::Channels, key, &text))
}

impl Outbox {
    /// Keeps what is known of a topic's channels, or that it is gone.
    pub(super) fn keep_known(&mut self, catalog: &Catalog, topic: &TopicName) {
        if topic.is_ephemeral() {
            return;
        }
        let record = channels_record(topic, catalog.get(topic.as_str()));
        self.keep(Table::Channels, topic.as_str(), record);
    }

    pub(super) fn keep_broker(&mut self, broker: &Broker) {
        let record = broker_record(broker, broker.is_draining);
        self.keep(Table::Brokers, &broker.name, record);
    }

    pub(super) fn keep_topic(&mut self, topics: &Topics, name: &str) {
        if let Some(topic) = topics.get(name) {
            let record = topic_record(&topic.spec, topic.limit_number);
            self.keep(Table::Topics, name, record);
        }
    }

    pub(super) fn forget_topic(&mut self, name: &str) {
        self.keep(Table::Topics, name, None);
        self.keep(Table::Shares, name, None);
    }

    /// Keeps the most that each broker may be using before a grant that raises it goes out.
    pub(super) fn keep_shares(
        &mut self,
        name: &str,
        topic: &mut Topic,
        brokers: &Brokers,
        now: Instant,
    ) {
        let Some(ledger) = &topic.shares.ledger else {
            return;
        };
        let most = ledger.known(now);
        let name_of = |number: BrokerNumber| brokers[number].name.as_str();
        let kept = &topic.shares.kept;
        let is_kept = |&(number, share)| kept.get(name_of(number)) == Some(&share);
        if most.len() == kept.len() && most.iter().all(is_kept) {
            return;
        }
        let most = most.into_iter();
        let most = most.map(|(number, share)| (name_of(number).to_owned(), share));
        let former = std::mem::replace(&mut topic.shares.kept, most.collect());
        self.held.shares_decided(name, former);
        self.keep_shares_of(name, topic);
    }

    fn keep_shares_of(&mut self, name: &str, topic: &Topic) {
        self.keep(Table::Shares, name, write(&topic.shares.kept));
    }

    pub(super) fn keep_publishers(
        &mut self,
        topics: &Topics,
        brokers: &Brokers,
        name: &str,
        indices: impl IntoIterator<Item = usize>,
    ) {
        let Some(topic) = topics.get(name) else {
            return;
        };
        let rows = indices
            .into_iter()
            .filter_map(|index| topic.publishers.rows().get(index));
        for row in rows {
            self.keep_change(publisher_as(brokers, name, &row.spec, Some(row)));
        }
    }

    pub(super) fn forget_publisher(&mut self, topic: &str, id: &str) {
        self.keep(Table::Publishers, &publisher_key(topic, id), None);
    }
}

/// The record of a publisher with this declaration; `row` is what is known of it.
pub(super) fn publisher_as(
    brokers: &Brokers,
    topic: &str,
    spec: &PublisherSpec,
    row: Option<&Row>,
) -> Change {
    let broker = row.and_then(|row| row.broker);
    let record = PublisherRecord {
        spec: spec.clone(),
        broker: broker.map(|number| brokers[number].name.clone()),
        moved_in: row.map_or(0, |row| row.moved_in),
    };
    Change {
        table: Table::Publishers,
        key: publisher_key(topic, &spec.id),
        value: write(&record),
    }
}

fn yes() -> bool {
    true
}

/// The record of a topic with this declaration.
pub(super) fn topic_record(spec: &TopicSpec, limit_number: Option<u16>) -> Option<Value> {
    write(&TopicRecord {
        spec: spec.clone(),
        shares: KeptShares::new(),
        limit_number,
    })
}

/// The record of the most that each broker may be using of a limit; `None` where that is nothing.
pub(super) fn shares_record(shares: &KeptShares) -> Option<Value> {
    match shares.is_empty() {
        true => None,
        false => write(shares),
    }
}

/// The record of a broker, drained or not.
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

/// The record of what is known of a topic's channels; `None` where nothing is.
pub(super) fn channels_record(topic: &TopicName, known: Option<&Known>) -> Option<Value> {
    known.and_then(|known| write(&known.state_of(topic)))
}

/// Key of a publisher's record.
pub fn publisher_key(topic: &str, id: &str) -> String {
    format!("{topic}/{id}")
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
