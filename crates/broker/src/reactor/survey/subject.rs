//! One question about everything: its answer is gathered step by step.

use std::sync::Arc;

use clock::Instant;
use link::{Attachment, TopicState};
use topics::{IntervalEnd, QueueName, ReportWalk, Step, StrandedWalk, Subscription, Walk};

use crate::connection::Connection;
use crate::handle::Reply;
use crate::reactor::guests::{Guests, Recipient};
use crate::reactor::hosted::Hosted;
use crate::reactor::peers::Peers;
use crate::reactor::schedule::Whose;
use crate::reactor::serve::{TaskReport, TaskRow};
use crate::sharing::Remotes;
use crate::stats::{Catalog, Stats, StatsFilter};
use crate::window::ReactorReport;

/// A question, the answer gathered so far, and who waits for it.
#[derive(Debug)]
pub(super) enum Subject {
    Stats(Box<Counting>),
    Tasks(TaskReport, Reply<Box<TaskReport>>),
    Report(Box<Reporting>, Reply<Box<ReactorReport>>),
    Catalog(Catalog, Reply<Catalog>),
    Inventory(Vec<TopicState>, Reply<Vec<TopicState>>),
    /// The estimate intervals of shared limits end, with what is known of the others.
    Intervals(Arc<Remotes>, Vec<IntervalEnd>, Reply<Vec<IntervalEnd>>),
    /// Queues to hand over.
    Stranded(StrandedWalk, Reply<Vec<QueueName>>),
    /// All topics hear what was said of them; nobody waits for it, and it is never given up.
    Settling,
}

/// A report so far.
#[derive(Debug)]
pub(super) struct Reporting {
    /// Through the topics; the publishers come after them.
    pub(super) walk: ReportWalk,
    has_topics: bool,
    /// Those that came and went.
    pub(super) publishers: Vec<Attachment>,
    publishers_max: usize,
}

/// The counters so far.
#[derive(Debug)]
pub(super) struct Counting {
    filter: StatsFilter,
    /// Through the topics; the connections come after them.
    topics: Option<Walk>,
    pub(super) stats: Stats,
    pub(super) producers: u64,
    pub(super) reply: Reply<Box<Stats>>,
}

impl Subject {
    /// Whether somebody still waits for the answer.
    pub(super) fn is_awaited(&self) -> bool {
        match self {
            Subject::Stats(counting) => counting.reply.is_awaited(),
            Subject::Tasks(_, reply) => reply.is_awaited(),
            Subject::Report(_, reply) => reply.is_awaited(),
            Subject::Catalog(_, reply) => reply.is_awaited(),
            Subject::Inventory(_, reply) => reply.is_awaited(),
            Subject::Intervals(_, _, reply) => reply.is_awaited(),
            Subject::Stranded(_, reply) => reply.is_awaited(),
            Subject::Settling => true,
        }
    }

    /// One step; false where there was nothing left to be gathered.
    pub(super) fn step(
        &mut self,
        seen: &mut usize,
        topics: &mut Hosted,
        (peers, guests): (&Peers, &Guests),
        now: Instant,
    ) -> bool {
        let (table, connections) = (&mut topics.table, &peers.connections);
        let number = *seen;
        match self {
            Subject::Stats(counting) => {
                let Some(walk) = &mut counting.topics else {
                    *seen += 1;
                    if let Some(key) = connections.key_at(number) {
                        counting.count(connections.get(key));
                    }
                    return number < connections.slots();
                };
                let client = |subscription: &Subscription| {
                    let known = match Recipient::from_bits(subscription.connection) {
                        Recipient::Connection(key) => connections.get(key).map(Connection::stats),
                        Recipient::Guest(key) => guests.client(key).cloned(),
                    };
                    known.unwrap_or_default()
                };
                match table.walk(walk, now, client) {
                    Step::Topic(topic) => counting.stats.topics.push(*topic),
                    Step::Part => {}
                    Step::End => counting.topics = None,
                }
                true
            }
            Subject::Tasks(report, _) => {
                *seen += 1;
                report.tasks.extend(task_row(topics, number, now));
                number < topics.schedule.tasks()
            }
            Subject::Report(reporting, _) => reporting.step(topics, now),
            Subject::Catalog(catalog, _) => {
                *seen += 1;
                let topic = table.topic_at(number);
                let told = topic.and_then(|key| table.catalog_topic(key));
                catalog.topics.extend(told);
                number < table.topic_slots()
            }
            Subject::Inventory(states, _) => {
                *seen += 1;
                let topic = table.topic_at(number);
                states.extend(topic.and_then(|key| table.topic_state(key)));
                number < table.topic_slots()
            }
            Subject::Intervals(remotes, ends, _) => {
                let known = |number| remotes.get(&number).copied();
                table.end_next_interval(seen, now, known, ends)
            }
            Subject::Stranded(walk, _) => table.stranded_next(walk, now),
            Subject::Settling => {
                *seen += 1;
                table.settle_next(now)
            }
        }
    }
}

impl Reporting {
    /// An empty report, of this many publishers at most.
    pub(super) fn new(walk: ReportWalk, publishers_max: usize) -> Box<Reporting> {
        Box::new(Reporting {
            walk,
            has_topics: false,
            publishers: Vec::new(),
            publishers_max,
        })
    }

    /// Looks at one topic or publisher more; false where there was nothing left.
    fn step(&mut self, topics: &mut Hosted, now: Instant) -> bool {
        if !self.has_topics {
            self.has_topics = !topics.table.report_next(&mut self.walk, now);
            return true;
        }
        if self.publishers.len() >= self.publishers_max {
            return false;
        }
        let news = topics.attachments.next_news();
        let is_more = news.is_some();
        self.publishers.extend(news.flatten());
        is_more
    }
}

impl Counting {
    /// No counts yet, of about this many `topics`.
    pub(super) fn new(
        filter: StatsFilter,
        topics: usize,
        reply: Reply<Box<Stats>>,
    ) -> Box<Counting> {
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

fn task_row(topics: &Hosted, number: usize, now: Instant) -> Option<TaskRow> {
    let (whose, stats) = topics.schedule.task(number, now)?;
    let topic = match whose {
        Whose::Nobody => None,
        Whose::Here(key) => Some(topics.table.topic(*key)?.name.to_string()),
        Whose::Elsewhere(topic) => Some(topic.to_string()),
    };
    Some(TaskRow {
        topic,
        is_home: matches!(whose, Whose::Here(_)),
        stats,
    })
}
