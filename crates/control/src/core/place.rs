//! Steps 1 and 2 of the Load Distributor: publishers without a place get one (SRTM-long, section 4.2).

use clock::Instant;
use placement::{BrokerIndex, BrokerState, GroupIndex, Publisher, Question, distribute};
use rustc_hash::FxHashMap;

use limit::Rate;

use super::fit::{fit_due, out_of_brokers};
use super::ground::Ground;
use super::parts::Done;
use super::publisher::{Publishers, Row};
use super::registry::Brokers;
use super::settings::Rules;
use super::shares::Adaptor;
use super::topics::Topics;
use super::{Broker, BrokerNumber};

/// So many publishers without a place are always tried again together.
const STRANDED_MIN: usize = 1024;

/// A broker without a promise to keep takes what comes.
const UNBOUNDED_MCAP: f64 = 1e12;

/// Gives publishers a place, as the Load Distributor does in its steps 1 and 2.
pub(super) struct Distributor<'a> {
    pub(super) ground: Ground<'a>,
}

impl Distributor<'_> {
    fn adaptor(&mut self) -> Adaptor<'_> {
        Adaptor {
            ground: self.ground.lend(),
        }
    }

    /// Carriers and fit follow a change of the publishers.
    pub(super) fn publishers_changed(&mut self, name: &str, now: Instant) {
        fit_due(
            self.ground.topics,
            self.ground.due,
            &self.ground.rules.settings,
            name,
            now,
        );
        self.adaptor().drive(name, now);
    }

    /// Gives publishers without a place one, where there is room. Those that have one stay.
    fn place_unplaced(&mut self, name: &str, now: Instant) {
        let topic = self.ground.topics.get(name);
        let waiting = topic.map(|topic| topic.publishers.unplaced().iter().copied().collect());
        self.place(name, waiting.unwrap_or_default(), now);
    }

    /// The same for those below an index, as many as one part may; says below which index others wait.
    pub(super) fn place_below(
        &mut self,
        name: &str,
        below: usize,
        done: &mut Done,
        now: Instant,
    ) -> Option<usize> {
        let unplaced = self.ground.topics.get(name)?.publishers.unplaced();
        let below = u32::try_from(below).unwrap_or(u32::MAX);
        let waiting = unplaced
            .range(..below)
            .rev()
            .take(self.ground.rules.sizes.rows);
        let mut waiting: Vec<u32> = waiting.copied().collect();
        let last = waiting.last().copied();
        let rows_left = last.filter(|&last| unplaced.range(..last).next().is_some());
        waiting.reverse();
        done.changed(waiting.len());
        self.place(name, waiting, now);
        rows_left.map(|index| index as usize)
    }

    /// Gives publishers that have just been declared a place, where there is room. Those for whom there was none are tried again
    /// when they have doubled in number, unless they are too many for one turn, or when room comes ([`super::parts::Job::Room`]): else
    /// each newcomer would cost as much as there are.
    pub(super) fn place_newcomers(&mut self, name: &str, newcomers: &[usize], now: Instant) {
        let Some(topic) = self.ground.topics.get(name) else {
            return;
        };
        let unplaced = topic.publishers.unplaced();
        let is_due = unplaced.len() <= STRANDED_MIN || unplaced.len() >= 2 * topic.stranded;
        if is_due && unplaced.len() <= self.ground.rules.sizes.rows {
            return self.place_unplaced(name, now);
        }
        let waiting = newcomers.iter().map(|&index| index as u32);
        let waiting = waiting.filter(|index| unplaced.contains(index)).collect();
        self.place(name, waiting, now);
    }

    fn place(&mut self, name: &str, waiting: Vec<u32>, now: Instant) {
        let Some(topic) = self.ground.topics.get(name).filter(|_| !waiting.is_empty()) else {
            return;
        };
        let (mut publishers, mut placed) = as_carried(&topic.publishers);
        let rows = waiting.iter();
        let rows = rows.map(|&index| &topic.publishers.rows()[index as usize]);
        publishers.extend(as_distributed(rows));
        let carried = placed.len();
        placed.resize(publishers.len(), None);
        let full = topic.fit.full_brokers(self.ground.brokers.len());
        let crowded = crowded(self.ground.topics, self.ground.brokers, name)
            .into_iter()
            .zip(&full);
        let avoided: Vec<bool> = crowded.map(|(crowded, full)| crowded || *full).collect();
        let question = Question {
            policy: topic.spec.policy,
            publishers: &publishers,
            placed: &placed,
            brokers: &broker_states(
                self.ground.rules,
                self.ground.topics,
                self.ground.brokers,
                name,
            ),
            full: &avoided,
            k_min: 1,
        };
        let anywhere = Question {
            full: &full,
            ..question
        };
        self.ground.due.work.publishers += publishers.len() as u64;
        let found = distribute(&question).or_else(|_| distribute(&anywhere));
        let (broker_of, missing) = match found {
            Ok(distribution) => (distribution.broker_of.into_iter().map(Some).collect(), None),
            Err(out) => {
                let why = out.to_string();
                (out.best, Some(why))
            }
        };
        let found = waiting.iter().zip(&broker_of[carried..]);
        let found: Vec<(usize, BrokerIndex)> = found
            .filter_map(|(&index, broker)| Some((index as usize, (*broker)?)))
            .collect();
        self.assign_some(name, &found, now);
        let Some(topic) = self.ground.topics.get_mut(name) else {
            return;
        };
        let unplaced = topic.publishers.unplaced().len();
        let is_whole = unplaced + found.len() == waiting.len();
        if is_whole || unplaced == 0 {
            topic.stranded = unplaced;
        }
        // Of a part of them less is missing than of all.
        if let Some(missing) = missing.filter(|_| is_whole || topic.fit.text.is_empty()) {
            out_of_brokers(self.ground.topics, self.ground.out, name, missing);
        }
    }

    /// Takes an assignment over; publishers move as the budget allows. False where it is the present one.
    pub(super) fn assign(
        &mut self,
        name: &str,
        broker_of: &[Option<BrokerIndex>],
        now: Instant,
    ) -> bool {
        let Some(topic) = self.ground.topics.get(name) else {
            return false;
        };
        let rows = topic.publishers.rows().iter().zip(broker_of).enumerate();
        let changed: Vec<(usize, BrokerIndex)> = rows
            .filter_map(|(index, (row, broker))| {
                let broker = (*broker)?;
                (row.broker != Some(broker.0)).then_some((index, broker))
            })
            .collect();
        self.assign_some(name, &changed, now)
    }

    /// Gives some publishers, by index, another place. False where there are none.
    pub(super) fn assign_some(
        &mut self,
        name: &str,
        changed: &[(usize, BrokerIndex)],
        now: Instant,
    ) -> bool {
        let epoch = self.ground.rules.epoch;
        let topic = self.ground.topics.with_loads(name);
        let Some((topic, loads)) = topic.filter(|_| !changed.is_empty()) else {
            return false;
        };
        for &(index, broker) in changed {
            topic.publishers.place(index, Some(broker.0), loads);
            topic.publishers.note_placed_in(index, epoch);
        }
        topic.placed_at = Some(now);
        self.ground.out.keep_publishers(
            self.ground.topics,
            self.ground.brokers,
            name,
            changed.iter().map(|(index, _)| *index),
        );
        self.adaptor().drive(name, now);
        true
    }

    /// Those of one topic below an index, as many as one part may; says below which index others are.
    pub(super) fn give_up_places_of(
        &mut self,
        name: &str,
        number: BrokerNumber,
        below: usize,
        done: &mut Done,
        now: Instant,
    ) -> Option<usize> {
        let topic = self.ground.topics.get(name)?;
        if !topic.publishers.is_placed_at(number) {
            return None;
        }
        let is_meant = |row: &Row| row.broker == Some(number);
        let looked = topic
            .publishers
            .look_below(below, self.ground.rules.sizes, is_meant);
        done.looked(&looked);
        self.place_elsewhere(name, &looked.found, now);
        looked.rows_left
    }

    /// Takes the place of one publisher and gives it another, where there is room.
    pub(super) fn replace(&mut self, name: &str, index: usize, now: Instant) {
        let Some((topic, loads)) = self.ground.topics.with_loads(name) else {
            return;
        };
        topic.publishers.place(index, None, loads);
        self.place_newcomers(name, &[index], now);
        self.ground
            .out
            .keep_publishers(self.ground.topics, self.ground.brokers, name, [index]);
        self.publishers_changed(name, now);
    }

    /// Takes the places of some publishers and gives them others, where there is room.
    pub(super) fn place_elsewhere(&mut self, name: &str, given_up: &[usize], now: Instant) {
        let topic = self.ground.topics.with_loads(name);
        let Some((topic, loads)) = topic.filter(|_| !given_up.is_empty()) else {
            return;
        };
        for &index in given_up {
            topic.publishers.place(index, None, loads);
        }
        self.place_newcomers(name, given_up, now);
        let homeless = given_up.iter().copied();
        let homeless = homeless.filter(|&index| self.ground.topics.is_unplaced(name, index));
        let homeless: Vec<usize> = homeless.collect();
        self.ground
            .out
            .keep_publishers(self.ground.topics, self.ground.brokers, name, homeless);
        self.publishers_changed(name, now);
    }
}

/// Brokers, by number, where a declared burst of the topic would take longer to serve than is
/// promised to a neighbour there: avoided while others have room. Undeclared bursts show in
/// windows.
pub(super) fn crowded(topics: &Topics, brokers: &Brokers, name: &str) -> Vec<bool> {
    let topic = topics.get(name);
    let burst = topic.map_or(0, |topic| topic.publishers.largest_burst());
    let promise_us = topic.and_then(|topic| Some(topic.spec.slo?.latency_us));
    let is_crowded = |(number, broker): (u32, &Broker)| {
        let is_here = topic.is_some_and(|topic| topic.publishers.is_placed_at(number));
        let own = promise_us.filter(|_| is_here);
        let tightest_us = topics.loads.at(number).tightest_beside(own)?;
        let model = broker.model?;
        let servers = f64::from(model.servers.max(1));
        Some(burst as f64 * model.per_message_ns / servers / 1e3 > tightest_us)
    };
    brokers
        .numbered()
        .map(|broker| is_crowded(broker).unwrap_or(false))
        .collect()
}

/// The brokers as one topic's distribution sees them: what others occupy is load.
pub(super) fn broker_states(
    rules: &Rules,
    topics: &Topics,
    brokers: &Brokers,
    name: &str,
) -> Vec<BrokerState> {
    let topic = topics.get(name);
    let has_promise = topic.is_some_and(|topic| topic.spec.slo.is_some());
    let own = topic.map(|topic| &topic.publishers);
    let loads = brokers.numbered().map(|(number, broker)| {
        let own = own.and_then(|publishers| publishers.at(number));
        broker.reports.fixed_rate() + topics.loads.at(number).placed_beside(own)
    });
    let states = brokers.iter().zip(loads).map(|(broker, load)| BrokerState {
        mcap: if has_promise {
            rules.mcap_of(broker)
        } else {
            UNBOUNDED_MCAP
        },
        load,
        is_available: broker.takes_publishers() && broker.inventory.answers(name),
    });
    states.collect()
}

/// The publishers as the distributor sees them.
pub(super) fn as_publishers(publishers: &Publishers) -> Vec<Publisher> {
    as_distributed(publishers.rows().iter())
}

/// One publisher for each broker that carries the topic, sending as much as all that are placed
/// there: the distributor needs no more of those that stay.
fn as_carried(publishers: &Publishers) -> (Vec<Publisher>, Vec<Option<BrokerIndex>>) {
    as_carried_without(publishers, BrokerNumber::MAX, &[], &[])
}

/// The same where some of these publishers leave a broker.
pub(super) fn as_carried_without(
    publishers: &Publishers,
    from: BrokerNumber,
    rows: &[&Row],
    leaving: &[usize],
) -> (Vec<Publisher>, Vec<Option<BrokerIndex>>) {
    let rate: f64 = leaving.iter().map(|&at| rows[at].rate()).sum();
    let placed = publishers.tallies();
    let placed = placed.filter(|(number, tally)| {
        let gone = if *number == from { leaving.len() } else { 0 };
        tally.placed.number() > gone
    });
    placed
        .map(|(number, tally)| {
            let gone = if number == from { rate } else { 0.0 };
            let rate = (tally.placed.rate() - gone).clamp(Rate::MIN.get(), Rate::MAX.get());
            let publisher = Publisher {
                rate: Rate::new(rate).unwrap_or(Rate::MAX),
                batch_messages: 1,
                group: None,
            };
            (publisher, Some(BrokerIndex(number)))
        })
        .unzip()
}

/// Some publishers as the distributor sees them; groups are numbered among them.
pub(super) fn as_distributed<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> Vec<Publisher> {
    let mut groups: FxHashMap<&str, u32> = FxHashMap::default();
    let told: Vec<Option<u32>> = rows
        .clone()
        .map(|row| {
            let next = groups.len() as u32;
            let key = row.spec.group.as_deref();
            key.map(|key| *groups.entry(key).or_insert(next))
        })
        .collect();
    rows.zip(told)
        .map(|(row, told)| {
            let inferred = row.inferred_group.map(|group| group + groups.len() as u32);
            Publisher {
                rate: Rate::new(row.rate()).unwrap_or(Rate::MAX),
                batch_messages: row.spec.batch,
                group: told.or(inferred).map(GroupIndex),
            }
        })
        .collect()
}
