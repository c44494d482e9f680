//! Run-time rebalancing, the answer to overload: the excess of a broker leaves at once. (SRTM, section V leaves this to
//! future work.)
//!
//! The rules, in order:
//!
//! 1. A broker whose publishers send more than it carries is relieved down to [`RELIEVED_PART`] of that, or to the level that
//!    it and the fewest brokers with room come to together, whichever is higher: between the trigger and the goal lies the
//!    hysteresis.
//! 2. Topics without a promise give publishers first, then those with the loosest; of equals those with the largest rate per
//!    publisher, since that takes the fewest moves.
//! 3. Of a topic leave publishers of every correlation group in proportion ([`placement::shedding_order`]), to where steps 1
//!    and 2 of the distributor put them ([`placement::distribute`]), at most up to [`FILLED_PART`] of a broker.
//! 4. Who moved within [`super::moves::MOVE_REST`] stays.
//! 5. Where the mean rate is not too high, bursts are: the newcomer on the broker is fitted anew, or else the topic itself,
//!    from a short window.
//!
//! Loads are those of the placement as ordered, at measured rates. So an answer that is under way is not given twice, and a
//! broker that was given publishers is not relieved of them by what it still says of before.

use clock::Instant;
use placement::{BrokerIndex, BrokerState, Question, distribute, shedding_order};

use super::moves::is_resting;
use super::place::UTILISATION_MAX;
use super::{BrokerNumber, Core, Effect};
use std::time::Duration;

/// A broker is relieved down to this part of what it carries.
const RELIEVED_PART: f64 = 0.75;

/// And others are filled up to this part.
const FILLED_PART: f64 = 0.9;

/// Brokers are asked for again after so long.
const SPAWN_REST: Duration = Duration::from_secs(10);

/// How an answer went.
struct Relief {
    /// Messages per second that leave.
    moved: f64,
    /// Messages per second beyond what the broker carries that do not.
    missing: f64,
}

impl Core {
    /// Answers an overload that a broker's reports show.
    pub(super) fn relieve(&mut self, number: BrokerNumber, now: Instant) {
        let (load, capacity) = (self.connected_load(number), self.capacity(number));
        if load <= capacity {
            return self.answer_bursts(number, now);
        }
        let goal = self.goal(number, load, capacity);
        let mut excess = load - goal;
        let mut moved_topics = Vec::new();
        let mut relief = Relief {
            moved: 0.0,
            missing: 0.0,
        };
        for name in self.by_cost(number) {
            if excess <= 0.0 {
                break;
            }
            let moved = self.shed(&name, number, excess, now);
            if moved > 0.0 {
                moved_topics.push(name);
            }
            relief.moved += moved;
            excess -= moved;
        }
        relief.missing = (load - relief.moved - capacity).max(0.0);
        if !moved_topics.is_empty() {
            let text = format!(
                "{load:.0} messages/s are too many for {capacity:.0}: {:.0} messages/s leave ({})",
                relief.moved,
                moved_topics.join(", ")
            );
            self.tell("relieved", None, Some(number), text);
            self.disturb_touched(number, &moved_topics, now);
        }
        if relief.missing > 0.0 {
            self.lacks_brokers(number, load, &relief, now);
        }
    }

    /// Messages per second that a broker carries: mcap, or what it was seen to carry at most with a queue that stood.
    fn capacity(&self, number: BrokerNumber) -> f64 {
        let broker = self.broker(number);
        let mcap = self.mcap_of(broker);
        if !self.has_standing_queue(number) {
            return mcap;
        }
        let left: f64 = broker.topics.values().map(|carried| carried.left).sum();
        mcap.min(left * UTILISATION_MAX)
    }

    /// Messages per second of the publishers that are connected somewhere and belong to a broker, and of clients there
    /// that cannot be moved.
    fn connected_load(&self, number: BrokerNumber) -> f64 {
        let rows = self
            .topics
            .values()
            .flat_map(|topic| topic.publishers.rows());
        let here = rows.filter(|row| row.broker == Some(number) && row.attached.is_some());
        self.broker(number).fixed_rate() + here.map(super::publisher::Row::rate).sum::<f64>()
    }

    /// What is to stay at a broker, in messages per second.
    fn goal(&self, number: BrokerNumber, load: f64, capacity: f64) -> f64 {
        let wanted = load - RELIEVED_PART * capacity;
        let mut others: Vec<(f64, f64)> = (0u32..)
            .zip(self.all_loads())
            .filter(|&(other, _)| other != number && self.may_be_filled(other))
            .map(|(other, load)| (self.mcap_of(self.broker(other)), load))
            .collect();
        let room = |&(mcap, load): &(f64, f64)| (FILLED_PART * mcap - load).max(0.0);
        others.sort_by(|a, b| room(b).total_cmp(&room(a)));
        let (mut rooms, mut mcaps, mut loads) = (0.0, capacity, load);
        for other in others {
            if rooms >= wanted || room(&other) <= 0.0 {
                break;
            }
            rooms += room(&other);
            mcaps += other.0;
            loads += other.1;
        }
        let level = (loads / mcaps).max(RELIEVED_PART);
        (level * capacity).max(load - rooms).min(load)
    }

    /// Whether a broker may be given what leaves another.
    fn may_be_filled(&self, number: BrokerNumber) -> bool {
        self.broker(number).takes_publishers() && !self.has_overload(number)
    }

    /// By broker, messages per second of all that are placed there and of clients that cannot be moved.
    fn all_loads(&self) -> Vec<f64> {
        let mut loads: Vec<f64> = self.brokers.iter().map(super::Broker::fixed_rate).collect();
        for topic in self.topics.values() {
            for (load, rate) in loads.iter_mut().zip(topic.placed_rates(self.brokers.len())) {
                *load += rate;
            }
        }
        loads
    }

    /// Topics with publishers at a broker, those first whose moving costs least.
    fn by_cost(&self, number: BrokerNumber) -> Vec<String> {
        let mut topics: Vec<(f64, f64, &String)> = self
            .topics
            .iter()
            .filter_map(|(name, topic)| {
                let rows = topic.publishers.rows().iter();
                let (count, rate) = rows
                    .filter(|row| row.broker == Some(number) && row.attached.is_some())
                    .fold((0, 0.0), |(count, rate), row| {
                        (count + 1, rate + row.rate())
                    });
                let promise_us = topic.spec.slo.map_or(f64::INFINITY, |slo| slo.latency_us);
                (count > 0).then(|| (promise_us, rate / f64::from(count), name))
            })
            .collect();
        topics.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)));
        topics
            .into_iter()
            .map(|(_, _, name)| name.clone())
            .collect()
    }

    /// Gives publishers of a topic that make up `excess` messages per second to other brokers. Says how much found room.
    fn shed(&mut self, name: &str, number: BrokerNumber, excess: f64, now: Instant) -> f64 {
        let states = self.room_states(name, number);
        let Some(topic) = self.topics.get(name) else {
            return 0.0;
        };
        let (publishers, mut placed) = (topic.as_publishers(), topic.placed());
        let rows = topic.publishers.rows();
        let members = (0u32..).zip(rows).filter(|(_, row)| {
            row.broker == Some(number) && row.attached.is_some() && !is_resting(row, now)
        });
        let members = members.map(|(at, _)| at).collect();
        let mut left = excess;
        let mut leaving = Vec::new();
        for &at in shedding_order(&publishers, members, topic.spec.policy)
            .iter()
            .rev()
        {
            let rate = rows[at as usize].rate();
            // The last one leaves if that comes nearer to the goal than its staying.
            if left < rate / 2.0 {
                break;
            }
            left -= rate;
            leaving.push(at as usize);
            placed[at as usize] = None;
        }
        let question = Question {
            policy: topic.spec.policy,
            publishers: &publishers,
            placed: &placed,
            brokers: &states,
            full: &vec![false; states.len()],
            k_min: 1,
        };
        let found: Vec<Option<BrokerIndex>> = match distribute(&question) {
            Ok(distribution) => distribution.broker_of.into_iter().map(Some).collect(),
            Err(out) => out.best,
        };
        let mut broker_of = vec![None; rows.len()];
        let mut moved = 0.0;
        for at in leaving {
            broker_of[at] = found[at];
            moved += found[at].map_or(0.0, |_| rows[at].rate());
        }
        self.assign(name, &broker_of, now);
        moved
    }

    /// The brokers as what leaves one of them sees them.
    fn room_states(&self, name: &str, number: BrokerNumber) -> Vec<BrokerState> {
        let own = self
            .topics
            .get(name)
            .map_or_else(Vec::new, |topic| topic.placed_rates(self.brokers.len()));
        let loads = self.all_loads().into_iter().zip(own);
        (0u32..)
            .zip(loads)
            .map(|(other, (load, own))| BrokerState {
                mcap: FILLED_PART * self.mcap_of(self.broker(other)),
                load: (load - own).max(0.0),
                is_available: other != number && self.may_be_filled(other),
            })
            .collect()
    }

    /// Promises at a broker that is relieved, and where its excess goes to, are to be judged anew.
    fn disturb_touched(&mut self, number: BrokerNumber, moved: &[String], now: Instant) {
        let mut touched = vec![false; self.brokers.len()];
        touched[number as usize] = true;
        for topic in moved.iter().filter_map(|name| self.topics.get(name)) {
            for (touched, rate) in touched
                .iter_mut()
                .zip(topic.placed_rates(self.brokers.len()))
            {
                *touched |= rate > 0.0;
            }
        }
        let is_touched = |topic: &super::Topic| {
            let mut rows = topic.publishers.rows().iter();
            rows.any(|row| row.broker.is_some_and(|broker| touched[broker as usize]))
        };
        let topics = self.topics.iter().filter(|(_, topic)| is_touched(topic));
        let names: Vec<String> = topics.map(|(name, _)| name.clone()).collect();
        for name in names {
            self.disturb_fit(&name, moved.contains(&name), now);
        }
    }

    /// No broker has room for what is too much at this one.
    fn lacks_brokers(&mut self, number: BrokerNumber, load: f64, relief: &Relief, now: Instant) {
        let why = format!(
            "{load:.0} messages/s are sent to {}, {:.0} of them too many for all brokers that there are",
            self.broker(number).name,
            relief.missing
        );
        let topics = self.broker(number).topics.keys();
        let promised = topics.filter(|name| {
            let topic = self.topics.get(*name);
            topic.is_some_and(|topic| topic.spec.slo.is_some())
        });
        let names: Vec<String> = promised.cloned().collect();
        for name in &names {
            self.short_of_capacity(name, &why);
        }
        let broker = &mut self.brokers[number as usize];
        let is_due = broker
            .spawned_for_at
            .is_none_or(|at| now - at >= SPAWN_REST);
        if let Some(topic) = names.into_iter().next().filter(|_| is_due) {
            broker.spawned_for_at = Some(now);
            self.effects.push(Effect::Spawn {
                topic,
                missing: relief.missing,
            });
        }
    }

    /// The mean rate is not too high, yet a promise is broken: bursts meet.
    fn answer_bursts(&mut self, number: BrokerNumber, now: Instant) {
        let topics = self.broker(number).topics.iter();
        let broken: Vec<String> = topics
            .filter(|(_, carried)| carried.violation.is_to_be_answered())
            .map(|(name, _)| name.clone())
            .collect();
        for name in broken {
            let answered = self.newcomer_beside(&name, number).unwrap_or(name);
            self.refit_now(&answered, now);
        }
    }

    /// The topic at a broker that came there last and is not fitted yet, if it came after `name`.
    fn newcomer_beside(&self, name: &str, number: BrokerNumber) -> Option<String> {
        let here = |topic: &super::Topic| {
            let mut rows = topic.publishers.rows().iter();
            rows.any(|row| row.broker == Some(number))
        };
        let since = self.topics.get(name)?.placed_at;
        let others = self.topics.iter().filter(|(other, topic)| {
            *other != name && topic.fit.is_under_way() && topic.placed_at > since && here(topic)
        });
        let newest = others.max_by_key(|(_, topic)| topic.placed_at);
        newest.map(|(other, _)| other.clone())
    }
}
