//! Work on all topics that takes long where there are many: it is done in parts, and others are heard between them.

use std::ops::Bound;

use clock::Instant;

use super::{BrokerNumber, Core};

/// Topics in one part.
const TOPICS_AT_ONCE: usize = 500;

/// What is done for all topics, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Job {
    /// There is room again: what waited for it gets its part.
    Room,
    /// A broker takes no publishers any more: those that it has are placed elsewhere.
    GiveUp(BrokerNumber),
}

impl Core {
    /// Whether something is being worked off in parts: [`Core::go_on`] does the next.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.joining.is_empty() || !self.jobs.is_empty()
    }

    /// Does the next part of everything that is worked off in parts.
    pub fn go_on(&mut self, now: Instant) {
        self.go_on_joining(now);
        if let Some((&job, _)) = self.jobs.first_key_value() {
            self.do_part(job, now);
        }
    }

    /// Begins a job, or begins it anew; with few topics it is done at once.
    pub(super) fn begin_job(&mut self, job: Job, now: Instant) {
        self.jobs.insert(job, String::new());
        self.do_part(job, now);
    }

    fn do_part(&mut self, job: Job, now: Instant) {
        let Some(last) = self.jobs.remove(&job).filter(|_| self.is_wanted(job)) else {
            return;
        };
        let behind = (Bound::Excluded(last.as_str()), Bound::Unbounded);
        let part = self.topics.range::<str, _>(behind).take(TOPICS_AT_ONCE);
        let part: Vec<String> = part.map(|(name, _)| name.clone()).collect();
        for name in &part {
            match job {
                Job::Room => self.room_for(name, now),
                Job::GiveUp(number) => self.give_up_places_of(name, number, now),
            }
        }
        match part.into_iter().nth(TOPICS_AT_ONCE - 1) {
            Some(last) => drop(self.jobs.insert(job, last)),
            None if job == Job::Room => self.relieve_all(now),
            None => {}
        }
    }

    /// Whether there is still a reason for it.
    fn is_wanted(&self, job: Job) -> bool {
        match job {
            Job::Room => true,
            Job::GiveUp(number) => !self.broker(number).takes_publishers(),
        }
    }
}
