//! Work on all topics that takes long where there are many of them, or many publishers: it is done in parts, and others are heard
//! between them.
//!
//! Topics are taken in order of name, publishers of a topic from the last to the first: one that is removed meanwhile has the last
//! take its place, which has been looked at by then. Topics and publishers that come meanwhile need no looking at.

use std::ops::Bound;

use clock::Instant;

use super::publisher::Looked;
use super::{BrokerNumber, Core};

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

/// What is done for all topics, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Job {
    /// A link or a process of a broker is gone: whoever was connected through it is not any more.
    Detach(BrokerNumber),
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

/// What one part has done.
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

impl Core {
    /// Whether something is being worked off in parts: [`Core::go_on`] does the next.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let is_idle = self.joining.is_empty() && self.hearing.is_empty() && self.jobs.is_empty();
        let is_told = !self.declaring.is_busy() && self.forgetting.is_empty();
        self.due.is_busy() || self.orphans.is_some() || !is_told || !is_idle
    }

    /// Does the next part of everything that is worked off in parts.
    pub fn go_on(&mut self, now: Instant) {
        self.go_on_joining(now);
        self.go_on_hearing(now);
        self.go_on_orphans();
        self.go_on_declaring(now);
        self.go_on_forgetting();
        self.go_on_due(now);
        if let Some((&job, _)) = self.jobs.first_key_value() {
            self.do_part(job, now);
        }
    }

    /// Begins a job, or begins it anew; with few topics it is done at once.
    pub(super) fn begin_job(&mut self, job: Job, now: Instant) {
        self.jobs.insert(job, Place::default());
        self.do_part(job, now);
    }

    fn do_part(&mut self, job: Job, now: Instant) {
        let Some(mut place) = self.jobs.remove(&job).filter(|_| self.is_wanted(job)) else {
            return;
        };
        let mut done = Done::default();
        while !done.is_enough(self.sizes) {
            if place.rows_left.is_none() && !self.next_topic(&mut place) {
                return self.end_job(job, now);
            }
            done.topics += 1;
            place.rows_left = self.do_for(job, &place, &mut done, now);
        }
        self.jobs.insert(job, place);
    }

    /// Goes to the topic behind; false where there is none.
    fn next_topic(&self, place: &mut Place) -> bool {
        let behind = (Bound::Excluded(place.topic.as_str()), Bound::Unbounded);
        let Some((name, topic)) = self.topics.range::<str, _>(behind).next() else {
            return false;
        };
        let rows = topic.publishers.rows().len();
        name.clone_into(&mut place.topic);
        place.rows_left = Some(rows);
        true
    }

    /// Does a job for a topic as far as one part goes; says below which index publishers are left.
    fn do_for(&mut self, job: Job, place: &Place, done: &mut Done, now: Instant) -> Option<usize> {
        let (name, below) = (place.topic.as_str(), place.rows_left?);
        match job {
            Job::Detach(number) => self.detach(name, number, below, done),
            Job::Room => self.room_for(name, below, done, now),
            Job::GiveUp(number) => self.give_up_places_of(name, number, below, done, now),
        }
    }

    fn end_job(&mut self, job: Job, now: Instant) {
        if job == Job::Room {
            self.relieve_all(now);
        }
    }

    /// Whether there is still a reason for it.
    fn is_wanted(&self, job: Job) -> bool {
        match job {
            Job::Detach(_) | Job::Room => true,
            Job::GiveUp(number) => !self.broker(number).takes_publishers(),
        }
    }

    /// Whoever was connected to a broker through another link than it has now is not any more.
    fn detach(
        &mut self,
        name: &str,
        number: BrokerNumber,
        below: usize,
        done: &mut Done,
    ) -> Option<usize> {
        let (link, sizes) = (self.broker(number).link, self.sizes);
        let Core { topics, loads, .. } = self;
        let topic = topics.get_mut(name)?;
        let looked = topic
            .publishers
            .detach_stale(number, link, (below, sizes), loads);
        done.looked(&looked);
        looked.rows_left
    }
}
