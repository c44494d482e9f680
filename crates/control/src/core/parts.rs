//! Long work on all topics, or on all publishers of a topic: it is done in parts, and others are
//! heard between them.
//!
//! Topics are taken in order of name, publishers of a topic from the last to the first: when one is
//! removed meanwhile, the last takes its place, and that one has been looked at by then. Topics and
//! publishers that come meanwhile need no looking at.

use std::collections::BTreeMap;
use std::ops::Bound;

use clock::Instant;

use super::BrokerNumber;
use super::publisher::Looked;
use super::registry::Brokers;
use super::relief::Rebalancer;
use super::topics::Topics;

/// How much is done in one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Topics.
    pub(super) topics: usize,
    /// Publishers of a topic that are placed, or changed otherwise.
    pub(super) rows: usize,
    /// Publishers of a topic that are looked at.
    pub(super) looks: usize,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes {
            topics: 100,
            rows: 1000,
            looks: 32_768,
        }
    }
}

/// A job done for all topics, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Job {
    /// A link or a process of a broker is gone: whoever was connected through it is not any more.
    Detach(BrokerNumber),
    /// Nothing is heard of a broker any more: whoever seems to be connected there and was elsewhere before is there again.
    Recall(BrokerNumber),
    /// There is room again: what waited for it gets its part.
    Room,
    /// A broker takes no publishers any more: those that it has are placed elsewhere.
    GiveUp(BrokerNumber),
}

/// How far a job has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The last topic that it was done for.
    topic: String,
    /// That one is done but for its publishers below this index.
    rows_left: Option<usize>,
}

/// The work of one part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    topics: usize,
    looks: usize,
    changes: usize,
}

impl Done {
    /// Publishers were looked for.
    pub(super) fn looked(&mut self, looked: &Looked) {
        self.looks += looked.rows;
        self.changes += looked.found.len();
    }

    /// So many were changed.
    pub(super) fn changed(&mut self, publishers: usize) {
        self.changes += publishers;
    }

    fn is_enough(&self, sizes: Sizes) -> bool {
        self.topics >= sizes.topics || self.looks >= sizes.looks || self.changes >= sizes.rows
    }
}

/// The jobs over all topics, and their progress.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    open: BTreeMap<Job, Place>,
}

impl Jobs {
    /// Whether something is being worked off.
    pub(super) fn is_busy(&self) -> bool {
        !self.open.is_empty()
    }

    /// Begins a job, or begins it anew; with few topics it is done at once.
    pub(super) fn begin(&mut self, job: Job, by: &mut Rebalancer<'_>, now: Instant) {
        self.open.insert(job, Place::default());
        self.do_part(job, by, now);
    }

    /// Does the next part of the first of them.
    pub(super) fn go_on(&mut self, by: &mut Rebalancer<'_>, now: Instant) {
        if let Some((&job, _)) = self.open.first_key_value() {
            self.do_part(job, by, now);
        }
    }

    fn do_part(&mut self, job: Job, by: &mut Rebalancer<'_>, now: Instant) {
        let Some(mut place) = self
            .open
            .remove(&job)
            .filter(|_| is_wanted(job, by.brokers))
        else {
            return;
        };
        let mut done = Done::default();
        while !done.is_enough(by.rules.sizes) {
            if place.rows_left.is_none() && !place.go_to_next(by.topics) {
                if job == Job::Room {
                    by.relieve_all(now);
                }
                return;
            }
            done.topics += 1;
            place.rows_left = do_for(job, &place, &mut done, by, now);
        }
        self.open.insert(job, place);
    }
}

impl Place {
    /// Goes to the topic behind; false where there is none.
    fn go_to_next(&mut self, topics: &Topics) -> bool {
        let behind = (Bound::Excluded(self.topic.as_str()), Bound::Unbounded);
        let Some((name, topic)) = topics.all().range::<str, _>(behind).next() else {
            return false;
        };
        let rows = topic.publishers.rows().len();
        name.clone_into(&mut self.topic);
        self.rows_left = Some(rows);
        true
    }
}

/// Does a job for a topic as far as one part goes; says below which index publishers are left.
fn do_for(
    job: Job,
    place: &Place,
    done: &mut Done,
    by: &mut Rebalancer<'_>,
    now: Instant,
) -> Option<usize> {
    let (name, below) = (place.topic.as_str(), place.rows_left?);
    match job {
        Job::Detach(number) => {
            let link = by.brokers[number].link;
            detach(
                by.topics,
                name,
                (number, link),
                (below, by.rules.sizes),
                done,
            )
        }
        Job::Recall(number) => {
            let (topic, loads) = by.topics.with_loads(name)?;
            let sizes = by.rules.sizes;
            let looked = topic.publishers.recall(number, (below, sizes), loads);
            done.looked(&looked);
            looked.rows_left
        }
        Job::Room => by.fitter().room_for(name, below, done, now),
        Job::GiveUp(number) => {
            let mut distributor = by.distributor();
            distributor.give_up_places_of(name, number, below, done, now)
        }
    }
}

/// Whether there is still a reason for it.
fn is_wanted(job: Job, brokers: &Brokers) -> bool {
    match job {
        Job::Detach(_) | Job::Room => true,
        Job::Recall(number) => brokers[number].link.is_none(),
        Job::GiveUp(number) => !brokers[number].takes_publishers(),
    }
}

/// Publishers connected to a broker through another link than its present one are no longer
/// connected.
fn detach(
    topics: &mut Topics,
    name: &str,
    (number, link): (BrokerNumber, Option<u64>),
    (below, sizes): (usize, Sizes),
    done: &mut Done,
) -> Option<usize> {
    let (topic, loads) = topics.with_loads(name)?;
    let looked = topic
        .publishers
        .detach_stale(number, link, (below, sizes), loads);
    done.looked(&looked);
    looked.rows_left
}
