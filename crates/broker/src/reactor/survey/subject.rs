//! One question about everything: what is gathered for it, step by step.

use std::sync::Arc;

use clock::Instant;
use link::TopicState;
use topics::{Arena, ConsumerKey, IntervalEnd, ReportWalk, Step, TopicTable, Walk};

use crate::connection::{Connection, ConnectionKey};
use crate::handle::Reply;
use crate::reactor::hosted::Hosted;
use crate::reactor::line::Whose;
use crate::reactor::peers::Peers;
use crate::reactor::serve::{TaskReport, TaskRow};
use crate::sharing::Remotes;
use crate::stats::{Catalog, ClientStats, Stats, StatsFilter};
use crate::window::ReactorReport;

/// What is asked for, what has been gathered of it, and who waits for it.
#[derive(Debug)]
pub(super) enum Subject {
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
            Subject::Report(_, _, reply) => reply.is_awaited(),
            Subject::Catalog(_, reply) => reply.is_awaited(),
            Subject::Inventory(_, reply) => reply.is_awaited(),
            Subject::Intervals(_, _, reply) => reply.is_awaited(),
            Subject::Leases(reply) => reply.is_awaited(),
        }
    }

    /// One step; false where there was nothing left to be gathered.
    pub(super) fn step(
        &mut self,
        seen: &mut usize,
        topics: &mut Hosted,
        peers: &Peers,
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
                let client = |table: &TopicTable, key| {
                    connection_of(table, connections, key)
                        .map_or_else(ClientStats::default, Connection::stats)
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
            Subject::Report(walk, ..) => table.report_next(walk, now),
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
            Subject::Leases(_) => {
                *seen += 1;
                table.settle_lease(number, now)
            }
        }
    }
}

impl Counting {
    /// Nothing is counted yet of about so many `topics`.
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

/// The connection of a consumer.
fn connection_of<'a>(
    table: &TopicTable,
    connections: &'a Arena<Connection>,
    consumer: ConsumerKey,
) -> Option<&'a Connection> {
    let connection = table.consumer(consumer)?.subscription.connection;
    connections.get(ConnectionKey::from_bits(connection))
}
