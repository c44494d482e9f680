//! Answers questions about everything in slices, between turns.
//!
//! A question about all topics, connections or tasks may take milliseconds, and messages would wait
//! for it. So a reactor works on it for [`SLICE`] at the end of a turn, and while there is other
//! work for no more than [`PART`] of its time. Questions take turns: a short one does not wait for
//! a long one. Each answer begins after its question came, so it covers everything that had
//! happened by then.

mod subject;

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;
use topics::StrandedWalk;

use super::guests::Guests;
use super::hosted::Hosted;
use super::peers::Peers;
use super::serve::TaskReport;
use super::time::Time;
use crate::BrokerError;
use crate::handle::Question;
use crate::stats::{Catalog, Stats};
use crate::sys;
use crate::window::ReactorReport;

use subject::{Counting, Reporting, Subject};

/// One slice; its last step may take longer by itself.
const SLICE: Duration = Duration::from_micros(20);

/// Steps of a slice at most. A step is a topic with up to 64 channels and consumers, a connection, or a task.
pub(super) const STEPS_MAX: usize = 64;

/// Of the reactor's time, slices take at most 1 / PART while it has other work.
const PART: u32 = 10;

/// Publishers named in one report at most, over all reactors. At their longest they fill half of what
/// a message of the link may hold; those beyond follow with the next reports.
const PUBLISHERS_REPORTED_MAX: usize = 2048;

/// Questions under way at most; the handle's bound is that of those which have not been begun.
const SURVEYS_MAX: usize = super::inbox::REQUESTS_MAX;

/// The questions under way, the next to go on with first.
#[derive(Debug, Default)]
pub(super) struct Surveys {
    waiting: VecDeque<Survey>,
    /// Topics hear what was said of all.
    is_settling: bool,
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

/// What questions are about: all that a reactor has.
pub(super) struct Surveyed<'a> {
    pub(super) topics: &'a mut Hosted,
    pub(super) peers: &'a Peers,
    pub(super) guests: &'a Guests,
    pub(super) time: &'a mut Time,
    /// T, of CPU shares.
    pub(super) period: Duration,
    /// Reactors of the broker.
    pub(super) reactors: usize,
}

impl Surveys {
    /// Takes a question in; the first slice is at the end of this turn.
    pub(super) fn ask(&mut self, question: Question, surveyed: &mut Surveyed<'_>) {
        if self.is_full() {
            return question.refuse(BrokerError::Busy(SURVEYS_MAX));
        }
        self.begin(surveyed.subject(question));
    }

    /// Goes on with the questions for a slice, if it is time. No topic is charged with it. `is_busy`: the turn had other work.
    pub(super) fn go_on_for_a_slice(&mut self, is_busy: bool, surveyed: &mut Surveyed<'_>) {
        if surveyed.topics.table.is_settling() && !self.is_settling {
            self.is_settling = true;
            self.begin(Subject::Settling);
        }
        if self.due().is_none_or(|due| due > surveyed.time.now) {
            return;
        }
        let began = sys::monotonic_now();
        // What this turn did after its last task was served is that one's.
        let rest = began.saturating_since(surveyed.time.now);
        surveyed.topics.schedule.charge_rest(rest);
        surveyed.time.now = began;
        let mut steps = 0;
        while let Some(mut survey) = self.waiting.pop_front() {
            if !survey.subject.is_awaited() {
                continue;
            }
            match survey.go_on(began, &mut steps, surveyed) {
                true => {
                    self.is_settling &= !matches!(survey.subject, Subject::Settling);
                    surveyed.conclude(survey.subject);
                }
                false => self.waiting.push_back(survey),
            }
            if steps >= STEPS_MAX || surveyed.time.now - began >= SLICE {
                break;
            }
        }
        let now = surveyed.time.now;
        self.rest(now - began, now, is_busy);
    }
}

impl Survey {
    /// Goes on until the slice that `began` is over; true where nothing is left to be gathered.
    fn go_on(&mut self, began: Instant, steps: &mut usize, surveyed: &mut Surveyed<'_>) -> bool {
        while *steps < STEPS_MAX {
            let Surveyed {
                topics,
                peers,
                guests,
                time,
                ..
            } = surveyed;
            let is_more = self
                .subject
                .step(&mut self.seen, topics, (peers, guests), time.now);
            *steps += 1;
            time.look();
            if !is_more {
                return true;
            }
            if time.now - began >= SLICE {
                return false;
            }
        }
        false
    }
}

impl Surveyed<'_> {
    fn subject(&mut self, question: Question) -> Subject {
        let table = &mut self.topics.table;
        // All at once: a list that grows is copied.
        let topics = table.topic_slots();
        match question {
            Question::Stats(filter, reply) => Subject::Stats(Counting::new(filter, topics, reply)),
            Question::Tasks(reply) => {
                let report = TaskReport {
                    period: self.period,
                    periods: self.topics.schedule.periods(),
                    busy: self.peers.counters.busy,
                    tasks: Vec::new(),
                };
                Subject::Tasks(report, reply)
            }
            Question::Report(order, reply) => {
                if order.is_first {
                    table.begin_reports();
                    self.topics.attachments.begin_link();
                }
                let (number, bytes_max) = (order.number, order.bytes_max);
                let walk = table.begin_report(number, bytes_max, self.time.now);
                let publishers_max = PUBLISHERS_REPORTED_MAX / self.reactors;
                Subject::Report(Reporting::new(walk, publishers_max), reply)
            }
            Question::Catalog(reply) => {
                let topics = Vec::with_capacity(topics);
                Subject::Catalog(Catalog { topics }, reply)
            }
            Question::Inventory(reply) => Subject::Inventory(Vec::with_capacity(topics), reply),
            Question::CollectEstimates(remotes, reply) => {
                Subject::Intervals(remotes, Vec::new(), reply)
            }
            Question::Stranded(patience, reply) => {
                Subject::Stranded(StrandedWalk::new(patience), reply)
            }
        }
    }

    fn conclude(&mut self, subject: Subject) {
        match subject {
            Subject::Stats(counting) => {
                let stats = self.with_reactor(counting.stats, counting.producers);
                counting.reply.send(Ok(Box::new(stats)));
            }
            Subject::Tasks(report, reply) => reply.send(Ok(Box::new(report))),
            Subject::Report(reporting, reply) => reply.send(Ok(Box::new(ReactorReport {
                news: self.topics.table.end_report(reporting.walk),
                attachments: reporting.publishers,
            }))),
            Subject::Catalog(catalog, reply) => reply.send(Ok(catalog)),
            Subject::Inventory(topics, reply) => reply.send(Ok(topics)),
            Subject::Intervals(_, ends, reply) => reply.send(Ok(ends)),
            Subject::Stranded(walk, reply) => reply.send(Ok(walk.queues())),
            Subject::Settling => {}
        }
        self.time.look();
    }

    /// Adds the reactor's own counters.
    fn with_reactor(&self, stats: Stats, producers: u64) -> Stats {
        let mut reactor = self.peers.counters.clone();
        reactor.connections = self.peers.connections.len() as u64;
        reactor.strangers = self.peers.strangers.count() as u64;
        reactor.publishers = self.topics.attachments.count() as u64;
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
