//! Questions about everything: answered in slices, between turns.
//!
//! What is asked of all topics, connections or tasks may take milliseconds; messages would wait for it. So a reactor goes on with such a
//! question for [`SLICE`] at the end of a turn, and while it has other work for no more than a part of its time ([`PART`]). Questions take turns: a
//! short one does not wait for a long one. Each answer begins after its question came, so it tells of all that had
//! happened by then.

mod subject;

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;

use super::Reactor;
use super::serve::TaskReport;
use crate::BrokerError;
use crate::handle::{Question, Reply};
use crate::stats::{Catalog, Stats};
use crate::sys;
use crate::window::ReactorReport;

use subject::{Counting, Subject};

/// One slice; its last step may take longer by itself.
const SLICE: Duration = Duration::from_micros(20);

/// Steps of a slice at most. A step is a topic with up to 64 channels and consumers, a connection, or a task.
pub(super) const STEPS_MAX: usize = 64;

/// Of the reactor's time, slices take at most 1 / PART while it has other work.
const PART: u32 = 10;

/// Questions under way at most; the handle's bound is that of those which have not been begun.
const SURVEYS_MAX: usize = super::inbox::REQUESTS_MAX;

/// The questions under way, the next to go on with first.
#[derive(Debug, Default)]
pub(super) struct Surveys {
    waiting: VecDeque<Survey>,
    /// No slice before.
    rests_until: Instant,
}

#[derive(Debug)]
struct Survey {
    subject: Subject,
    /// Slots seen of what is gone through at present.
    seen: usize,
}

impl Surveys {
    /// Whether no more questions are taken in.
    fn is_full(&self) -> bool {
        self.waiting.len() >= SURVEYS_MAX
    }

    fn begin(&mut self, subject: Subject) {
        self.waiting.push_back(Survey { subject, seen: 0 });
    }

    /// When the next slice is due.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then_some(self.rests_until)
    }

    /// After a slice of `used` that ended at `now`.
    fn rest(&mut self, used: Duration, now: Instant, is_busy: bool) {
        self.rests_until = match is_busy {
            true => now + used * (PART - 1),
            false => now,
        };
    }
}

impl Reactor {
    /// Takes a question in; the first slice is at the end of this turn.
    pub(super) fn begin_survey(&mut self, question: Question) {
        if self.surveys.is_full() {
            return question.refuse(BrokerError::Busy(SURVEYS_MAX));
        }
        // All at once: a list that grows is copied.
        let topics = self.topics.table.topic_slots();
        let subject = match question {
            Question::Stats(filter, reply) => Subject::Stats(Counting::new(filter, topics, reply)),
            Question::Tasks(reply) => {
                let report = TaskReport {
                    period: self.shared.config.share_period,
                    periods: self.topics.schedule.periods(),
                    busy: self.peers.counters.busy,
                    tasks: Vec::new(),
                };
                Subject::Tasks(report, reply)
            }
            Question::Report(order, reply) => {
                if order.is_first {
                    self.topics.table.begin_reports();
                }
                let (number, bytes_max) = (order.number, order.bytes_max);
                let walk = self
                    .topics
                    .table
                    .begin_report(number, bytes_max, self.time.now);
                Subject::Report(walk, order.is_first, reply)
            }
            Question::Catalog(reply) => {
                let topics = Vec::with_capacity(topics);
                Subject::Catalog(Catalog { topics }, reply)
            }
            Question::Inventory(reply) => Subject::Inventory(Vec::with_capacity(topics), reply),
            Question::EndInterval(remotes, reply) => Subject::Intervals(remotes, Vec::new(), reply),
        };
        self.surveys.begin(subject);
    }

    /// Lets all leases hear what they were prolonged by.
    pub(super) fn survey_leases(&mut self, reply: Reply<()>) {
        match self.surveys.is_full() {
            true => reply.send(Err(BrokerError::Busy(SURVEYS_MAX))),
            false => self.surveys.begin(Subject::Leases(reply)),
        }
    }

    /// Goes on with the questions for a slice, if it is time. No topic is charged with it. `is_busy`: the turn had other work.
    pub(super) fn survey(&mut self, is_busy: bool) {
        if self.surveys.due().is_none_or(|due| due > self.time.now) {
            return;
        }
        let began = sys::monotonic_now();
        // What this turn did after its last task was served is that one's.
        self.topics
            .schedule
            .charge_rest(began.saturating_since(self.time.now));
        self.time.now = began;
        let mut steps = 0;
        while let Some(mut survey) = self.surveys.waiting.pop_front() {
            if !survey.subject.is_awaited() {
                continue;
            }
            match self.go_on(&mut survey, began, &mut steps) {
                true => self.conclude(survey.subject),
                false => self.surveys.waiting.push_back(survey),
            }
            if steps >= STEPS_MAX || self.time.now - began >= SLICE {
                break;
            }
        }
        self.surveys
            .rest(self.time.now - began, self.time.now, is_busy);
    }

    /// Goes on until the slice that `began` is over; true where nothing is left to be gathered.
    fn go_on(&mut self, survey: &mut Survey, began: Instant, steps: &mut usize) -> bool {
        while *steps < STEPS_MAX {
            let (topics, now) = (&mut self.topics, self.time.now);
            let is_more = survey
                .subject
                .step(&mut survey.seen, topics, &self.peers, now);
            *steps += 1;
            self.time.look();
            if !is_more {
                return true;
            }
            if self.time.now - began >= SLICE {
                return false;
            }
        }
        false
    }

    fn conclude(&mut self, subject: Subject) {
        match subject {
            Subject::Stats(counting) => {
                let stats = self.with_reactor(counting.stats, counting.producers);
                counting.reply.send(Ok(Box::new(stats)));
            }
            Subject::Tasks(report, reply) => reply.send(Ok(Box::new(report))),
            Subject::Report(walk, is_first, reply) => reply.send(Ok(Box::new(ReactorReport {
                news: self.topics.table.end_report(walk),
                attachments: self.report_publishers(is_first),
            }))),
            Subject::Catalog(catalog, reply) => reply.send(Ok(catalog)),
            Subject::Inventory(topics, reply) => reply.send(Ok(topics)),
            Subject::Intervals(_, ends, reply) => reply.send(Ok(ends)),
            Subject::Leases(reply) => reply.done(),
        }
        self.time.look();
    }

    /// Adds the reactor's own counters.
    fn with_reactor(&self, stats: Stats, producers: u64) -> Stats {
        let mut reactor = self.peers.counters.clone();
        reactor.connections = self.peers.connections.len() as u64;
        reactor.publishers = self.topics.attachments.len() as u64;
        reactor.producers = producers;
        (reactor.messages_stored, reactor.bytes_stored) = self.topics.table.stored();
        Stats {
            reactors: vec![reactor],
            ..stats
        }
    }
}

#[cfg(test)]
mod tests;
