//! Run-time rebalancing, the answer to overload: the excess of a broker leaves at once. (SRTM,
//! section V leaves this to future work.)
//!
//! The rules, in order:
//!
//! 1. A broker whose publishers send more than it carries is relieved down to [`RELIEVED_PART`] of
//!    that, or to the common level of itself and the fewest brokers with room, whichever is higher:
//!    the gap between trigger and goal is the hysteresis.
//! 2. Topics without a promise give publishers first, then those with the loosest; among equals,
//!    those with the largest rate per publisher, since that takes the fewest moves.
//! 3. Of a topic, publishers of every correlation group leave in proportion
//!    ([`placement::shedding_order`]), to where steps 1 and 2 of the distributor put them
//!    ([`placement::distribute`]), filling a broker to [`FILLED_PART`] at most.
//! 4. A publisher that moved within [`super::moves::MOVE_REST`] stays.
//! 5. Where the mean rate is not too high, bursts are the cause: the newcomer on the broker is
//!    fitted anew, or else the topic itself, from a short window.
//!
//! Loads are those of the placement as ordered, at measured rates. So an answer that is under way
//! is not given twice, and a broker that was given publishers is not relieved of them because of
//! earlier reports. Those rates are near the peaks of a load that swings, and peaks that never
//! coincide may not fit together: what is then still too much for the broker goes where the last
//! two reports show room.

use clock::Instant;
use placement::{BrokerIndex, BrokerState, Question, distribute, shedding_order};

use super::due::Due;
use super::fit::{Fitter, short_of_capacity};
use super::ground::Ground;
use super::moves::{Moves, is_resting};
use super::outbox::Outbox;
use super::overload::{has_overload, has_standing_queue};
use super::place::{Distributor, as_carried_without, as_distributed};
use super::publisher::Row;
use super::registry::Brokers;
use super::rounds::Rounds;
use super::settings::{Rules, UTILISATION_MAX};
use super::topics::Topics;
use super::window::Windows;
use super::{Broker, BrokerNumber, Effect, Topic};
use std::time::Duration;

/// A broker is relieved down to this part of what it carries.
const RELIEVED_PART: f64 = 0.75;

/// And others are filled up to this part.
const FILLED_PART: f64 = 0.9;

/// Brokers are found to be too few when this many reports in a row find no room: a load that swings
/// has it a little later.
const SHORT_REPORTS: u32 = 3;

/// Brokers are asked for again after so long.
const SPAWN_REST: Duration = Duration::from_secs(10);

/// Topics that one answer moves publishers of, at most; the next report has another one.
const TOPICS_MAX: usize = 64;

/// Topics that are looked at for that, at most.
const LOOKED_AT_MAX: usize = 4096;

/// Searches that one report begins, at most.
const SEARCHES_AT_ONCE: usize = 4;

/// How an answer went.
#[derive(Default)]
struct Relief {
    /// Messages per second that leave.
    moved: f64,
    /// Topics that they are of.
    topics: Vec<String>,
}

/// What counts as the load of a broker that is to take something.
#[derive(Clone, Copy)]
enum Reckoned {
    /// What its publishers are believed to send.
    Believed,
    /// The most that arrived in the last reports, and who was sent there since.
    Seen,
}

/// Answers overload: moves publishers and begins searches; borrows the parts that it needs for that.
pub(super) struct Rebalancer<'a> {
    pub(super) rules: &'a Rules,
    pub(super) brokers: &'a mut Brokers,
    pub(super) topics: &'a mut Topics,
    pub(super) rounds: &'a Rounds,
    pub(super) due: &'a mut Due,
    pub(super) windows: &'a mut Windows,
    pub(super) moves: &'a Moves,
    pub(super) out: &'a mut Outbox,
}

impl Rebalancer<'_> {
    pub(super) fn fitter(&mut self) -> Fitter<'_> {
        Fitter {
            ground: Ground {
                rules: self.rules,
                brokers: self.brokers,
                topics: self.topics,
                rounds: self.rounds,
                due: self.due,
                out: self.out,
            },
            windows: self.windows,
        }
    }

    pub(super) fn distributor(&mut self) -> Distributor<'_> {
        Distributor {
            ground: self.fitter().ground,
        }
    }

    /// Relieves brokers that are given more than they carry.
    pub(super) fn relieve_all(&mut self, now: Instant) {
        for number in self.brokers.numbers() {
            if has_overload(&self.brokers[number]) {
                self.relieve(number, now);
            }
        }
    }

    /// Answers an overload that a broker's reports show.
    pub(super) fn relieve(&mut self, number: BrokerNumber, now: Instant) {
        let (load, capacity) = (self.connected_load(number), self.capacity(number));
        if load <= capacity {
            return self.answer_bursts(number, now);
        }
        let goal = self.goal(number, load, capacity);
        let mut relief = Relief::default();
        self.shed_all(number, load - goal, Reckoned::Believed, &mut relief, now);
        let left = load - relief.moved;
        if left > capacity {
            let still = left - FILLED_PART * capacity;
            self.shed_all(number, still, Reckoned::Seen, &mut relief, now);
        }
        if !relief.topics.is_empty() {
            let text = format!(
                "{load:.0} messages/s are too many for {capacity:.0}: {:.0} messages/s leave ({})",
                relief.moved,
                relief.topics.join(", ")
            );
            self.out
                .tell("relieved", None, Some(&self.brokers[number]), text);
            self.disturb_touched(number, &relief.topics, now);
        }
        let missing = load - relief.moved - capacity;
        // What is believed is near the peaks; too few are brokers only for what arrives.
        let arrives = self.brokers[number].reports.measured_rate();
        let is_over =
            arrives > capacity || has_standing_queue(&self.brokers[number], &self.rules.settings);
        let is_short = is_over && missing > 0.0 && !self.is_leaving(number, missing, now);
        let broker = &mut self.brokers[number];
        broker.short_reports = if is_short {
            broker.short_reports + 1
        } else {
            0
        };
        if broker.short_reports >= SHORT_REPORTS {
            self.lacks_brokers(number, load, missing, now);
        }
    }

    /// Whether publishers of this rate have only just come to a broker: they may leave it when they have rested.
    fn is_leaving(&self, number: BrokerNumber, rate: f64, now: Instant) -> bool {
        let resting = self.moves.resting(now).filter_map(|moved| {
            let publishers = &self.topics.get(&moved.topic)?.publishers;
            let row = publishers.rows().get(moved.index as usize)?;
            let is_here = row.broker == Some(number) && row.moved_at == Some(moved.at);
            is_here.then(|| row.rate())
        });
        resting.sum::<f64>() >= rate
    }

    /// Takes `excess` messages per second from a broker, topic by topic.
    fn shed_all(
        &mut self,
        number: BrokerNumber,
        mut excess: f64,
        reckoned: Reckoned,
        relief: &mut Relief,
        now: Instant,
    ) {
        for name in self.by_cost(number) {
            if excess <= 0.0 {
                return;
            }
            let moved = self.shed(&name, number, excess, reckoned, now);
            if moved > 0.0 && !relief.topics.contains(&name) {
                relief.topics.push(name);
            }
            relief.moved += moved;
            excess -= moved;
        }
    }

    /// Messages per second that a broker carries: mcap, or what it was seen to carry at most with a queue that stood.
    fn capacity(&self, number: BrokerNumber) -> f64 {
        let broker = &self.brokers[number];
        let mcap = self.rules.mcap_of(broker);
        if !has_standing_queue(&self.brokers[number], &self.rules.settings) {
            return mcap;
        }
        mcap.min(broker.reports.left_rate() * UTILISATION_MAX)
    }

    /// Messages per second of the publishers that are connected somewhere and belong to a broker, and of clients there
    /// that cannot be moved.
    fn connected_load(&self, number: BrokerNumber) -> f64 {
        self.brokers[number].reports.fixed_rate() + self.topics.loads.at(number).present.rate()
    }

    /// How much is to stay at a broker, in messages per second.
    fn goal(&self, number: BrokerNumber, load: f64, capacity: f64) -> f64 {
        let wanted = load - RELIEVED_PART * capacity;
        let mut others: Vec<(f64, f64)> = (0u32..)
            .zip(self.loads(Reckoned::Believed))
            .filter(|&(other, _)| other != number && self.may_be_filled(other))
            .map(|(other, load)| (self.rules.mcap_of(&self.brokers[other]), load))
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
        self.brokers[number].takes_publishers() && !has_overload(&self.brokers[number])
    }

    /// By broker, messages per second that count as its load.
    fn loads(&self, reckoned: Reckoned) -> Vec<f64> {
        let brokers = self.brokers.numbered();
        if matches!(reckoned, Reckoned::Believed) {
            let believed = |(number, broker): (BrokerNumber, &Broker)| {
                broker.reports.fixed_rate() + self.topics.loads.at(number).placed.rate()
            };
            return brokers.map(believed).collect();
        }
        let seen = |(number, broker): (BrokerNumber, &Broker)| {
            let load = self.topics.loads.at(number);
            let sent_since = load.placed.rate() - load.settled.rate();
            broker.recent_rate() + sent_since.max(0.0)
        };
        brokers.map(seen).collect()
    }

    /// Topics with publishers at a broker, the cheapest to move first: at most as many as one
    /// answer may move.
    fn by_cost(&self, number: BrokerNumber) -> Vec<String> {
        let each = |topic: &str| {
            let here = self.topics.get(topic)?.publishers.at(number)?.present;
            Some(here.rate() / here.number().max(1) as f64)
        };
        let all = self.topics.loads.at(number).topics.iter().rev();
        let looked_at = all.take(LOOKED_AT_MAX);
        let mut topics: Vec<(f64, f64, &str)> = looked_at
            .filter_map(|promised| {
                let each = each(&promised.topic)?;
                Some((promised.promise_us(), each, &*promised.topic))
            })
            .collect();
        let order = |a: &(f64, f64, &str), b: &(f64, f64, &str)| {
            b.0.total_cmp(&a.0)
                .then(b.1.total_cmp(&a.1))
                .then(a.2.cmp(b.2))
        };
        topics.sort_unstable_by(order);
        let topics = topics.into_iter().take(TOPICS_MAX);
        topics.map(|(_, _, name)| name.to_owned()).collect()
    }

    /// Gives publishers of a topic that make up `excess` messages per second to other brokers. Says how much found room.
    fn shed(
        &mut self,
        name: &str,
        number: BrokerNumber,
        excess: f64,
        reckoned: Reckoned,
        now: Instant,
    ) -> f64 {
        let states = self.room_states(name, number, reckoned);
        let Some(topic) = self.topics.get(name) else {
            return 0.0;
        };
        let is_meant = |row: &Row| {
            row.broker == Some(number) && row.attached.is_some() && !is_resting(row, now)
        };
        let below = topic.next_shed.unwrap_or(usize::MAX);
        let looked = topic
            .publishers
            .look_below(below, self.rules.sizes, is_meant);
        let rows: Vec<&Row> = looked
            .found
            .iter()
            .map(|&index| &topic.publishers.rows()[index])
            .collect();
        let members = as_distributed(rows.iter().copied());
        let order = shedding_order(
            &members,
            (0u32..).take(members.len()).collect(),
            topic.spec.policy,
        );
        let mut left = excess;
        let mut leaving = Vec::new();
        for &at in order.iter().rev() {
            let rate = rows[at as usize].rate();
            // The last one leaves if that comes nearer to the goal than its staying.
            if left < rate / 2.0 {
                break;
            }
            left -= rate;
            leaving.push(at as usize);
        }
        leaving.sort_unstable();
        let (mut publishers, mut placed) =
            as_carried_without(&topic.publishers, number, &rows, &leaving);
        let carried = placed.len();
        publishers.extend(leaving.iter().map(|&at| members[at]));
        placed.resize(publishers.len(), None);
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
        let mut moved = 0.0;
        let mut changed = Vec::new();
        for (&at, found) in leaving.iter().zip(&found[carried..]) {
            if let Some(broker) = *found {
                moved += rows[at].rate();
                changed.push((looked.found[at], broker));
            }
        }
        changed.retain(|(_, broker)| broker.0 != number);
        let next = looked.rows_left;
        if let Some(topic) = self.topics.get_mut(name) {
            topic.next_shed = next;
        }
        self.distributor().assign_some(name, &changed, now);
        moved
    }

    /// The brokers as what leaves one of them sees them.
    fn room_states(
        &self,
        name: &str,
        number: BrokerNumber,
        reckoned: Reckoned,
    ) -> Vec<BrokerState> {
        let own = self
            .topics
            .get(name)
            .map_or_else(Vec::new, |topic| topic.placed_rates(self.brokers.len()));
        let loads = self.loads(reckoned).into_iter().zip(own);
        (0u32..)
            .zip(loads)
            .map(|(other, (load, own))| {
                let room = FILLED_PART * self.rules.mcap_of(&self.brokers[other]) - load;
                // What is placed there of the topic itself is taken from a capacity once more.
                BrokerState {
                    mcap: room.max(0.0) + own,
                    load: 0.0,
                    is_available: other != number && self.may_be_filled(other),
                }
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
        let is_touched = |topic: &Topic| {
            let mut places = topic.publishers.places();
            places.any(|broker| touched[broker as usize])
        };
        let promised = self.topics.promised.iter();
        let touched = promised.filter(|name| self.topics.get(name).is_some_and(is_touched));
        let names: Vec<String> = touched.cloned().collect();
        for name in names {
            self.fitter().disturb_fit(&name, moved.contains(&name), now);
        }
    }

    /// No broker has room for what is too much at this one.
    fn lacks_brokers(&mut self, number: BrokerNumber, load: f64, missing: f64, now: Instant) {
        let why = format!(
            "{load:.0} messages/s are sent to {}, {missing:.0} more than all brokers together can take",
            self.brokers[number].name
        );
        let here = self.brokers[number].reports.all();
        let promised = self.topics.promised.iter();
        let promised = promised.filter(|name| here.contains_key(*name));
        let names: Vec<String> = promised.cloned().collect();
        for name in &names {
            short_of_capacity(self.topics, self.out, name, &why);
        }
        let broker = &mut self.brokers[number];
        let is_due = broker
            .spawned_for_at
            .is_none_or(|at| now - at >= SPAWN_REST);
        if let Some(topic) = names.into_iter().next().filter(|_| is_due) {
            broker.spawned_for_at = Some(now);
            self.out.push(Effect::Spawn { topic, missing });
        }
    }

    /// The mean rate is not too high, yet a promise is broken: bursts meet.
    fn answer_bursts(&mut self, number: BrokerNumber, now: Instant) {
        let topics = self.brokers[number].reports.troubled();
        let broken: Vec<String> = topics.map(|(name, _)| name.clone()).collect();
        let mut begun = 0;
        for name in broken {
            let answered = newcomer_at(self.topics, &name, number).unwrap_or(name);
            begun += usize::from(self.fitter().refit_now(&answered, now));
            if begun >= SEARCHES_AT_ONCE {
                break;
            }
        }
    }
}

/// The newcomer on any broker of a topic: it gives way first.
pub(super) fn newcomer_to(topics: &Topics, brokers: &Brokers, name: &str) -> Option<String> {
    let rates = topics.get(name)?.placed_rates(brokers.len());
    let brokers = (0u32..).zip(rates).filter(|(_, rate)| *rate > 0.0);
    let mut newcomers = brokers.filter_map(|(number, _)| newcomer_at(topics, name, number));
    newcomers.next()
}

/// The topic at a broker that came there last, after `name`, and was not found to keep its promise yet.
fn newcomer_at(topics: &Topics, name: &str, number: BrokerNumber) -> Option<String> {
    let here = |topic: &Topic| {
        let here = topic.publishers.at(number);
        here.is_some_and(|here| here.present.number() > 0)
    };
    let since = topics.get(name)?.placed_at;
    // Only what something is promised of is ever a newcomer.
    let others = topics.promised.iter().filter_map(|other| {
        let topic = topics.get(other).filter(|_| *other != name)?;
        let is_meant = topic.fit.is_newcomer() && topic.placed_at > since && here(topic);
        is_meant.then_some((topic.placed_at, other))
    });
    let newest = others.max_by_key(|(placed_at, _)| *placed_at);
    newest.map(|(_, other)| other.clone())
}
