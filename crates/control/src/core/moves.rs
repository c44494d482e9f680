//! Tells publishers that are not at their place to move: so many per second, and only to brokers
//! that have all channels of the topic.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use clock::Instant;
use limit::{Burst, Rate, TokenBucket};
use link::{Move, ToBroker};

use super::due::Due;
use super::publisher::Row;
use super::teller::Teller;
use super::topics::Topics;
use super::{BrokerNumber, Topic};

/// A publisher that has moved stays for this long, unless its broker takes no publishers any more: under a load that swings
/// nobody moves more than once in ten seconds, and two for what orders take on their way.
pub(super) const MOVE_REST: Duration = Duration::from_secs(12);

/// A publisher that has not moved is told again after so long.
const REPEAT: Duration = Duration::from_secs(8);

/// Publishers of a topic that are looked at in one turn, at most.
const LOOKED_AT_ONCE: usize = 1024;

/// Publishers that have moved lately, of which that is remembered, at most.
const MOVED_MAX: usize = 65_536;

/// Moves in one order at most.
const MOVES_PER_ORDER: usize = 1000;

/// A publisher that was told to move.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) at: Instant,
    pub(super) topic: Arc<str>,
    /// Its index by then.
    pub(super) index: u32,
}

/// Moves that are made and those that may be.
#[derive(Debug)]
pub(super) struct Moves {
    budget: TokenBucket,
    /// Those that were told to move lately, the oldest first.
    lately: VecDeque<Moved>,
}

impl Moves {
    /// None yet, and at most this many per second.
    pub(super) fn new(per_s: f64, now: Instant) -> Moves {
        let moves = per_s.clamp(0.1, 1e9);
        let rate = Rate::new(moves).expect("clamped into range");
        let burst = Burst::new(moves.max(1.0)).expect("clamped into range");
        Moves {
            budget: TokenBucket::full(rate, burst, now),
            lately: VecDeque::new(),
        }
    }

    pub(super) fn note(&mut self, moved: Moved) {
        let is_over = |former: &Moved| moved.at - former.at >= MOVE_REST;
        while self.lately.len() >= MOVED_MAX || self.lately.front().is_some_and(is_over) {
            self.lately.pop_front();
        }
        self.lately.push_back(moved);
    }

    /// Those that rest.
    pub(super) fn resting(&self, now: Instant) -> impl Iterator<Item = &Moved> {
        let moved = self.lately.iter();
        moved.filter(move |moved| now - moved.at < MOVE_REST)
    }
}

/// Tells publishers to move, and brokers to get ready for them; borrows the parts that it needs for that.
pub(super) struct Mover<'a> {
    pub(super) teller: Teller<'a>,
    pub(super) topics: &'a mut Topics,
    pub(super) moves: &'a mut Moves,
    pub(super) due: &'a mut Due,
}

impl Mover<'_> {
    /// Tells publishers to move, as far as the budget goes.
    pub(super) fn drive(&mut self, name: &str, now: Instant) {
        let Some(topic) = self.topics.get(name).filter(|topic| topic.has_moves()) else {
            self.topics.loads.moving.remove(name);
            return;
        };
        let looked_at = next_misplaced(topic);
        let open = self.open_targets(name, &looked_at, now);
        self.due.work.publishers += looked_at.len() as u64;
        let (brokers, moves) = (&*self.teller.brokers, &mut *self.moves);
        let Some(topic) = self.topics.get_mut(name) else {
            return;
        };
        let mut orders: BTreeMap<BrokerNumber, Vec<Move>> = BTreeMap::new();
        for &index in &looked_at {
            let row = &topic.publishers.rows()[index];
            let (Some(to), Some(from)) = (row.broker, row.attached) else {
                continue;
            };
            // One that is gone is told nothing; its publishers connect elsewhere by themselves.
            let is_deaf = brokers[from].link.is_none();
            let is_told = row.told_at.is_some_and(|at| now - at < REPEAT);
            let is_resting = brokers[from].takes_publishers() && is_resting(row, now);
            let order = orders.entry(from).or_default();
            if is_deaf
                || is_told
                || (is_resting && row.told_at.is_none())
                || order.len() >= MOVES_PER_ORDER
                || !open.contains(&to)
            {
                continue;
            }
            if !moves.budget.try_take(now, 1.0) {
                break;
            }
            order.push(Move {
                publisher: row.spec.id.clone(),
                to: brokers[to].tcp_address.clone(),
            });
            topic.publishers.told(index, now);
            moves.note(Moved {
                at: now,
                topic: Arc::clone(topic.publishers.topic()),
                index: index as u32,
            });
        }
        topic.next_move = looked_at.last().map_or(0, |&last| last as u32 + 1);
        for (from, moves) in orders {
            if moves.is_empty() {
                continue;
            }
            let text = format!("{} publishers are told to move", moves.len());
            self.teller.out.tell(
                "publisher-moved",
                Some(name),
                Some(&self.teller.brokers[from]),
                text,
            );
            self.teller.out.send(
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
            self.teller.prepare(name, number, now);
            if self.teller.brokers[number].takes_publishers()
                && self
                    .teller
                    .catalog
                    .is_held_by(name, &self.teller.brokers[number])
            {
                open.insert(number);
            }
        }
        open
    }
}

/// Publishers that are not where they are to be, by index: a part of them, from where the last look ended.
fn next_misplaced(topic: &Topic) -> Vec<usize> {
    let all = topic.publishers.misplaced();
    let ahead = all.range(topic.next_move..);
    let around = ahead.chain(all.range(..topic.next_move));
    let part = around.take(LOOKED_AT_ONCE);
    part.map(|&index| index as usize).collect()
}

/// Whether a publisher has moved just now.
pub(super) fn is_resting(row: &Row, now: Instant) -> bool {
    row.moved_at.is_some_and(|at| now - at < MOVE_REST)
}
