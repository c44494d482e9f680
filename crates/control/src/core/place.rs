//! Steps 1 and 2 of the Load Distributor: publishers without a place get one (SRTM-long, section 4.2).

use clock::Instant;
use placement::{
    BrokerIndex, BrokerState, GroupIndex, Publisher, Question, ServiceModel, distribute,
};
use rustc_hash::FxHashMap;

use limit::Rate;

use super::topic::Topic;
use super::{Broker, BrokerNumber, Core};

/// A broker without a promise to keep takes what comes.
const UNBOUNDED_MCAP: f64 = 1e12;

impl Core {
    /// Gives publishers without a place one, where there is room. Those that have one stay.
    pub(super) fn place_unplaced(&mut self, name: &str, now: Instant) {
        let Some(topic) = self.topics.get(name) else {
            return;
        };
        if topic
            .publishers
            .rows()
            .iter()
            .all(|row| row.broker.is_some())
        {
            return;
        }
        let publishers = topic.as_publishers();
        let placed = topic.placed();
        let full = topic.fit.full_brokers(self.brokers.len());
        let crowded = self.crowded(name).into_iter().zip(&full);
        let avoided: Vec<bool> = crowded.map(|(crowded, full)| crowded || *full).collect();
        let question = Question {
            policy: topic.spec.policy,
            publishers: &publishers,
            placed: &placed,
            brokers: &self.broker_states(name),
            full: &avoided,
            k_min: 1,
        };
        let anywhere = Question {
            full: &full,
            ..question
        };
        let found = distribute(&question).or_else(|_| distribute(&anywhere));
        let (broker_of, missing) = match found {
            Ok(distribution) => (distribution.broker_of.into_iter().map(Some).collect(), None),
            Err(out) => {
                let why = out.to_string();
                (out.best, Some(why))
            }
        };
        self.assign(name, &broker_of, now);
        if let Some(missing) = missing {
            self.out_of_brokers(name, missing);
        }
    }

    /// Brokers, by number, where a burst of the topic as it is declared would take longer to serve than is promised of a
    /// neighbour there: avoided while others have room. Bursts that nobody declared show in windows.
    pub(super) fn crowded(&self, name: &str) -> Vec<bool> {
        let mut tightest_us = vec![f64::INFINITY; self.brokers.len()];
        for (_, topic) in self.topics.iter().filter(|(other, _)| *other != name) {
            let Some(slo) = topic.spec.slo else { continue };
            for number in topic.publishers.rows().iter().filter_map(|row| row.broker) {
                let tightest = &mut tightest_us[number as usize];
                *tightest = tightest.min(slo.latency_us);
            }
        }
        if tightest_us.iter().all(|us| us.is_infinite()) {
            return vec![false; self.brokers.len()];
        }
        let burst = self.topics.get(name).map_or(0, Topic::largest_burst);
        let served_us = |broker: &Broker| {
            let model = broker.model?;
            Some(burst as f64 * model.per_message_ns / f64::from(model.servers.max(1)) / 1e3)
        };
        let brokers = self.brokers.iter().zip(tightest_us);
        brokers
            .map(|(broker, tightest_us)| served_us(broker).is_some_and(|us| us > tightest_us))
            .collect()
    }

    /// Takes an assignment over; publishers move as the budget allows. False where it is the present one.
    pub(super) fn assign(
        &mut self,
        name: &str,
        broker_of: &[Option<BrokerIndex>],
        now: Instant,
    ) -> bool {
        let epoch = self.epoch;
        let Some(topic) = self.topics.get_mut(name) else {
            return false;
        };
        let mut changed = Vec::new();
        for (index, (row, broker)) in topic
            .publishers
            .rows_mut()
            .iter_mut()
            .zip(broker_of)
            .enumerate()
        {
            let broker = broker.map(|index| index.0);
            if broker.is_some() && row.broker != broker {
                row.broker = broker;
                if row
                    .attached
                    .is_some_and(|at| broker.is_some_and(|to| at != to))
                {
                    row.moved_in = epoch;
                }
                row.told_at = None;
                changed.push(index);
            }
        }
        if changed.is_empty() {
            return false;
        }
        topic.has_moves = true;
        topic.placed_at = Some(now);
        self.keep_publishers(name, changed);
        self.drive_shares(name, now);
        true
    }

    /// Publishers of a broker that takes none any more are placed elsewhere, all topics.
    pub(super) fn give_up_placements(&mut self, number: BrokerNumber, now: Instant) {
        let names: Vec<String> = self.topics.keys().cloned().collect();
        for name in names {
            let Some(topic) = self.topics.get_mut(&name) else {
                continue;
            };
            let mut given_up = Vec::new();
            for (index, row) in topic.publishers.rows_mut().iter_mut().enumerate() {
                if row.broker == Some(number) {
                    row.broker = None;
                    row.told_at = None;
                    given_up.push(index);
                }
            }
            if given_up.is_empty() {
                self.drive_shares(&name, now);
                continue;
            }
            self.place_unplaced(&name, now);
            self.keep_publishers(&name, given_up);
            self.publishers_changed(&name, now);
        }
    }

    /// The brokers as one topic's distribution sees them: what others occupy is load.
    pub(super) fn broker_states(&self, name: &str) -> Vec<BrokerState> {
        let has_promise = self
            .topics
            .get(name)
            .is_some_and(|topic| topic.spec.slo.is_some());
        let mut loads: Vec<f64> = self.brokers.iter().map(Broker::fixed_rate).collect();
        for (_, topic) in self.topics.iter().filter(|(other, _)| *other != name) {
            for (load, rate) in loads.iter_mut().zip(topic.placed_rates(self.brokers.len())) {
                *load += rate;
            }
        }
        let states = self
            .brokers
            .iter()
            .zip(loads)
            .map(|(broker, load)| BrokerState {
                mcap: if has_promise {
                    self.mcap_of(broker)
                } else {
                    UNBOUNDED_MCAP
                },
                load,
                is_available: broker.takes_publishers() && broker.inventory.answers(name),
            });
        states.collect()
    }

    /// Messages per second that a broker carries: calibrated, or by its emulated service, or the default.
    pub(super) fn mcap_of(&self, broker: &Broker) -> f64 {
        let by_model = |model: &ServiceModel| {
            let served_per_s = 1e9 * f64::from(model.servers) / model.per_message_ns.max(1.0);
            served_per_s * UTILISATION_MAX
        };
        broker
            .mcap
            .or_else(|| broker.model.as_ref().map(by_model))
            .unwrap_or(self.settings.mcap)
    }
}

/// A server that works more than this part of the time lets its queue grow long.
pub(super) const UTILISATION_MAX: f64 = 0.9;

impl Broker {
    /// Messages per second from clients that cannot be moved, all topics.
    pub(super) fn fixed_rate(&self) -> f64 {
        self.topics.values().map(|carried| carried.fixed_rate).sum()
    }
}

impl Topic {
    /// Messages that are sent at once as declared: by a publisher, or by a correlation group.
    fn largest_burst(&self) -> u64 {
        let mut groups: FxHashMap<&str, u64> = FxHashMap::default();
        let mut largest = 0;
        for row in self.publishers.rows() {
            let batch = u64::from(row.spec.batch);
            let burst = match row.spec.group.as_deref() {
                Some(group) => {
                    let sum = groups.entry(group).or_insert(0);
                    *sum += batch;
                    *sum
                }
                None => batch,
            };
            largest = largest.max(burst);
        }
        largest
    }

    /// The publishers as the distributor sees them.
    pub(super) fn as_publishers(&self) -> Vec<Publisher> {
        let mut groups: FxHashMap<&str, u32> = FxHashMap::default();
        let mut told = Vec::with_capacity(self.publishers.rows().len());
        for row in self.publishers.rows() {
            let next = groups.len() as u32;
            told.push(
                row.spec
                    .group
                    .as_deref()
                    .map(|key| *groups.entry(key).or_insert(next)),
            );
        }
        let rows = self.publishers.rows().iter().zip(told);
        rows.map(|(row, told)| {
            let inferred = row.inferred_group.map(|group| group + groups.len() as u32);
            Publisher {
                rate: Rate::new(row.rate()).unwrap_or(Rate::MAX),
                batch_messages: row.spec.batch,
                group: told.or(inferred).map(GroupIndex),
            }
        })
        .collect()
    }
}
