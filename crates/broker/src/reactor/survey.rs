//! Questions about everything: answered in slices, between turns.
//!
//! What is asked of all topics, connections or tasks may take milliseconds; messages would wait for it. So a reactor goes on with such a
//! question for [`SLICE`] at the end of a turn, and while it has other work for no more than a part of its time ([`PART`]). Questions take turns: a
//! short one does not wait for a long one. Each answer begins after its question came, so it tells of all that had
//! happened by then.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use clock::Instant;
use link::TopicState;
use topics::{Arena, ConsumerKey, IntervalEnd, ReportWalk, Step, TopicTable, Walk};

use super::Reactor;
use super::line::Whose;
use super::serve::{TaskReport, TaskRow};
use crate::BrokerError;
use crate::connection::{Connection, ConnectionKey};
use crate::handle::{Question, Reply};
use crate::sharing::Remotes;
use crate::stats::{Catalog, ClientStats, Stats, StatsFilter};
use crate::sys;
use crate::window::ReactorReport;

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

/// What is asked for, what has been gathered of it, and who waits for it.
#[derive(Debug)]
enum Subject {
    Stats(Box<Counting>),
    Tasks(TaskReport, Reply<Box<TaskReport>>),
    /// Whether it is the first report.
    Report(ReportWalk, bool, Reply<Box<ReactorReport>>),
    Catalog(Catalog, Reply<Catalog>),
    Inventory(Vec<TopicState>, Reply<Vec<TopicState>>),
    /// The estimate intervals of shared limits end, with what is known of the others.
    Intervals(Arc<Remotes>, Vec<IntervalEnd>, Reply<Vec<IntervalEnd>>),
    /// All leases hear what they were prolonged by.
    Leases(Reply<()>),
}

/// The counters so far.
#[derive(Debug)]
struct Counting {
    filter: StatsFilter,
    /// Through the topics; the connections come after them.
    topics: Option<Walk>,
    stats: Stats,
    producers: u64,
    reply: Reply<Box<Stats>>,
}

impl Subject {
    /// Whether somebody still waits for the answer.
    fn is_awaited(&self) -> bool {
        match self {
            Subject::Stats(counting) => counting.reply.is_awaited(),
            Subject::Tasks(_, reply) => reply.is_awaited(),
            Subject::Report(_, _, reply) => reply.is_awaited(),
            Subject::Catalog(_, reply) => reply.is_awaited(),
            Subject::Inventory(_, reply) => reply.is_awaited(),
            Subject::Intervals(_, _, reply) => reply.is_awaited(),
            Subject::Leases(reply) => reply.is_awaited(),
        }
    }
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
            let is_more = self.step(survey);
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

    /// One step; false where there was nothing left to be gathered.
    fn step(&mut self, survey: &mut Survey) -> bool {
        let number = survey.seen;
        match &mut survey.subject {
            Subject::Stats(counting) => {
                let connections = &self.peers.connections;
                let Some(walk) = &mut counting.topics else {
                    survey.seen += 1;
                    if let Some(key) = connections.key_at(number) {
                        counting.count(connections.get(key));
                    }
                    return number < connections.slots();
                };
                let client = |table: &TopicTable, key| {
                    connection_of(table, connections, key)
                        .map_or_else(ClientStats::default, Connection::stats)
                };
                match self.topics.table.walk(walk, self.time.now, client) {
                    Step::Topic(topic) => counting.stats.topics.push(*topic),
                    Step::Part => {}
                    Step::End => counting.topics = None,
                }
                true
            }
            Subject::Tasks(report, _) => {
                survey.seen += 1;
                report.tasks.extend(self.task_row(number));
                number < self.topics.schedule.tasks()
            }
            Subject::Report(walk, ..) => self.topics.table.report_next(walk, self.time.now),
            Subject::Catalog(catalog, _) => {
                survey.seen += 1;
                let topic = self.topics.table.topic_at(number);
                let told = topic.and_then(|key| self.topics.table.catalog_topic(key));
                catalog.topics.extend(told);
                number < self.topics.table.topic_slots()
            }
            Subject::Inventory(topics, _) => {
                survey.seen += 1;
                let topic = self.topics.table.topic_at(number);
                topics.extend(topic.and_then(|key| self.topics.table.topic_state(key)));
                number < self.topics.table.topic_slots()
            }
            Subject::Intervals(remotes, ends, _) => {
                let known = |number| remotes.get(&number).copied();
                self.topics
                    .table
                    .end_next_interval(&mut survey.seen, self.time.now, known, ends)
            }
            Subject::Leases(_) => {
                survey.seen += 1;
                self.topics.table.settle_lease(number, self.time.now)
            }
        }
    }
}

impl Reactor {
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

    fn task_row(&self, number: usize) -> Option<TaskRow> {
        let (whose, stats) = self.topics.schedule.task(number, self.time.now)?;
        let topic = match whose {
            Whose::Nobody => None,
            Whose::Here(key) => Some(self.topics.table.topic(*key)?.name.to_string()),
            Whose::Elsewhere(topic) => Some(topic.to_string()),
        };
        Some(TaskRow {
            topic,
            is_home: matches!(whose, Whose::Here(_)),
            stats,
        })
    }
}

impl Counting {
    /// Nothing is counted yet of about so many `topics`.
    fn new(filter: StatsFilter, topics: usize, reply: Reply<Box<Stats>>) -> Box<Counting> {
        let mut stats = Stats::default();
        if filter.topic.is_empty() {
            stats.topics.reserve(topics);
        }
        Box::new(Counting {
            topics: Some(Walk::new(filter.clone())),
            filter,
            stats,
            producers: 0,
            reply,
        })
    }

    fn count(&mut self, connection: Option<&Connection>) {
        let Some(producer) = connection.filter(|connection| connection.is_producer()) else {
            return;
        };
        self.producers += 1;
        let topic = &self.filter.topic;
        let is_wanted = topic.is_empty() || producer.has_published_to(topic);
        if self.filter.include_clients && is_wanted {
            self.stats.producers.push(producer.stats());
        }
    }
}

/// The connection of a consumer.
fn connection_of<'a>(
    table: &TopicTable,
    connections: &'a Arena<Connection>,
    consumer: ConsumerKey,
) -> Option<&'a Connection> {
    let connection = table.consumer(consumer)?.subscription.connection;
    connections.get(ConnectionKey::from_bits(connection))
}

#[cfg(test)]
mod tests;
