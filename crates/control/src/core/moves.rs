//! Publishers that are not where they are to be are told to move, so many per second, and only to brokers that have all
//! channels of the topic.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clock::Instant;
use link::{Move, ToBroker};

use super::publisher::Row;
use super::{BrokerNumber, Core, Topic};

/// A publisher that has moved stays for so long, unless its broker takes no publishers any more: under a load that swings
/// nobody moves more than once in ten seconds, and two for what orders take on their way.
pub(super) const MOVE_REST: Duration = Duration::from_secs(12);

/// A publisher that has not moved is told again after so long.
const REPEAT: Duration = Duration::from_secs(8);

/// Publishers of a topic that are looked at in one turn, at most.
const LOOKED_AT_ONCE: usize = 4096;

/// Moves in one order at most.
const MOVES_PER_ORDER: usize = 1000;

impl Core {
    /// Tells publishers to move, as far as the budget goes.
    pub(super) fn drive_moves(&mut self, name: &str, now: Instant) {
        let Some(topic) = self.topics.get(name).filter(|topic| topic.has_moves()) else {
            self.loads.moving.remove(name);
            return;
        };
        let looked_at = topic.next_misplaced();
        let open = self.open_targets(name, &looked_at, now);
        self.work.publishers += looked_at.len() as u64;
        let Core {
            topics,
            brokers,
            move_budget,
            ..
        } = self;
        let Some(topic) = topics.get_mut(name) else {
            return;
        };
        let mut orders: BTreeMap<BrokerNumber, Vec<Move>> = BTreeMap::new();
        for &index in &looked_at {
            let row = &topic.publishers.rows()[index];
            let (Some(to), Some(from)) = (row.broker, row.attached) else {
                continue;
            };
            // One that is gone is told nothing; its publishers connect elsewhere by themselves.
            let is_deaf = brokers[from as usize].link.is_none();
            let is_told = row.told_at.is_some_and(|at| now - at < REPEAT);
            let is_resting = brokers[from as usize].takes_publishers() && is_resting(row, now);
            let order = orders.entry(from).or_default();
            if is_deaf
                || is_told
                || (is_resting && row.told_at.is_none())
                || order.len() >= MOVES_PER_ORDER
                || !open.contains(&to)
            {
                continue;
            }
            if !move_budget.try_take(now, 1.0) {
                break;
            }
            order.push(Move {
                publisher: row.spec.id.clone(),
                to: brokers[to as usize].tcp_address.clone(),
            });
            topic.publishers.told(index, now);
        }
        topic.next_move = looked_at.last().map_or(0, |&last| last as u32 + 1);
        for (from, moves) in orders {
            if moves.is_empty() {
                continue;
            }
            let text = format!("{} publishers are told to move", moves.len());
            self.tell("publisher-moved", Some(name), Some(from), text);
            self.send(
                from,
                ToBroker::Migrate {
                    topic: name.to_owned(),
                    moves,
                },
            );
        }
    }

    /// Brokers that these publishers of a topic may move to now. Those that lack a channel are told to make it.
    fn open_targets(
        &mut self,
        name: &str,
        moving: &[usize],
        now: Instant,
    ) -> BTreeSet<BrokerNumber> {
        let Some(topic) = self.topics.get(name) else {
            return BTreeSet::new();
        };
        let rows = moving.iter().map(|&index| &topic.publishers.rows()[index]);
        let targets: BTreeSet<BrokerNumber> = rows.filter_map(|row| row.broker).collect();
        let mut open = BTreeSet::new();
        for number in targets {
            self.prepare(name, number, now);
            if self.broker(number).takes_publishers() && self.is_prepared(name, number) {
                open.insert(number);
            }
        }
        open
    }
}

impl Topic {
    /// Publishers that are not where they are to be, by index: a part of them, from where the last look ended.
    fn next_misplaced(&self) -> Vec<usize> {
        let all = self.publishers.misplaced();
        let ahead = all.range(self.next_move..);
        let around = ahead.chain(all.range(..self.next_move));
        let part = around.take(LOOKED_AT_ONCE);
        part.map(|&index| index as usize).collect()
    }
}

/// Whether a publisher has moved just now.
pub(super) fn is_resting(row: &Row, now: Instant) -> bool {
    row.moved_at.is_some_and(|at| now - at < MOVE_REST)
}
