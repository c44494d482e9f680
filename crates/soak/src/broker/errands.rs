//! The agent's errands, done with the topics as reactors do it
//! (`broker/reactor/{request,survey,hosted}`, `broker/agent/errands.rs`).

use broker::agent::{Answer, Errand, Figures};
use broker::window::ReactorReport;
use broker::{BrokerError, Operation};
use limit::adaptor::HistoryLength;
use limit::{Grant, Prolongation};
use link::{Attachment, Move, TopicState};
use topics::{TopicKey, TopicTable};
use wire::{ChannelName, TopicName};

use super::catalog;
use super::gossip::prolong;
use super::process::Process;
use super::session::Sessions;
use crate::event::StreamId;
use crate::outside::Outside;

/// Bytes that topics may take in one report.
const REPORT_BYTES_MAX: usize = 1 << 20;

impl Process {
    /// Does what the agent asks; `None`: that takes until the catalog is written.
    pub(super) fn run(&mut self, errand: Errand, out: &mut Outside) -> Option<Answer> {
        let now = self.ground.local(out.net.now);
        let table = &mut self.ground.table;
        Some(match errand {
            Errand::Keep => {
                self.keeping.awaited(out.net.now);
                return None;
            }
            Errand::BeginLink { history, .. } => Answer::Done(self.begin_link(history)),
            Errand::TakeStock => Answer::Stock(Ok(stock(table))),
            Errand::Report { number, is_first } => {
                Answer::Reported(Ok(self.figures(number, is_first, out)))
            }
            Errand::Declare(contracts) => {
                let keeping = &mut self.keeping;
                let (outcomes, unkept) =
                    catalog::declare(&mut self.ground, keeping, &contracts, out);
                Answer::Declared(outcomes, unkept)
            }
            Errand::Grant(grants) => Answer::Granted(hand_out(table, grants, now), Vec::new()),
            Errand::Renew(report) => {
                prolong(table, Prolongation::Renewed { report }, now);
                Answer::Done(Ok(()))
            }
            Errand::Hear(teller) => {
                table.hear(teller);
                while table.settle_next(now) {}
                Answer::Done(Ok(()))
            }
            Errand::Learn(known) => {
                let learned = table.learn(&known);
                Answer::Learned(
                    learned.map_err(|refusal| BrokerError::Refused(refusal.to_string())),
                )
            }
            Errand::Follow(topic, channel, operation) => {
                table.begin_order();
                let followed = match channel {
                    None => operate(table, &topic, operation),
                    Some(channel) => operate_channel(table, &topic, &channel, operation),
                };
                table.end_order();
                Answer::Done(followed)
            }
            Errand::Migrate(topic, moves) => {
                migrate(&mut self.sessions, &topic, &moves);
                Answer::Done(Ok(()))
            }
            Errand::BeginWindow(topic, order) => Answer::Done(find(table, &topic).map(|key| {
                table.begin_window(key, &order, now);
            })),
            Errand::EndWindow(topic) => {
                let none = || BrokerError::TopicNotFound(topic.to_string());
                let key = find(table, &topic);
                let shown = key.and_then(|key| table.end_window(key, now).ok_or_else(none));
                let shown = shown.map(|mut window| {
                    window.arrivals.sort_unstable();
                    window
                });
                Answer::Window(topic, shown)
            }
        })
    }

    fn begin_link(&mut self, history: Option<HistoryLength>) -> Result<(), BrokerError> {
        self.handing.begin_link();
        if let Some(length) = history {
            self.ground.table.set_history_length(length);
        }
        Ok(())
    }

    /// How topics fare, who came and went, and which rounds are left.
    fn figures(&mut self, number: u64, is_first: bool, out: &Outside) -> Figures {
        let now = self.ground.local(out.net.now);
        let (attachments, table) = (&mut self.sessions.attachments, &mut self.ground.table);
        if is_first {
            attachments.begin_link();
            table.begin_reports();
        }
        let came_and_went = std::iter::from_fn(|| attachments.next_news());
        let attachments: Vec<Attachment> = came_and_went.flatten().collect();
        let mut walk = table.begin_report(number, REPORT_BYTES_MAX, now);
        while table.report_next(&mut walk, now) {}
        Figures {
            report: ReactorReport {
                news: table.end_report(walk),
                attachments,
            },
            left_rounds: self.gossip.left(now),
            memory: None,
        }
    }
}

/// Everything that is here.
fn stock(table: &TopicTable) -> Vec<TopicState> {
    let keys = (0..table.topic_slots()).filter_map(|slot| table.topic_at(slot));
    let mut topics: Vec<TopicState> = keys.filter_map(|key| table.topic_state(key)).collect();
    topics.sort_by(|a, b| a.topic.cmp(&b.topic));
    topics
}

/// Topics that have no limit are named.
fn hand_out(
    table: &mut TopicTable,
    mut grants: Vec<(TopicName, Grant)>,
    now: clock::Instant,
) -> Vec<TopicName> {
    grants.retain(|(topic, grant)| {
        let key = table.find(topic.as_str());
        !key.is_some_and(|key| table.grant(key, grant, now))
    });
    grants.into_iter().map(|(topic, _)| topic).collect()
}

fn find(table: &TopicTable, topic: &TopicName) -> Result<TopicKey, BrokerError> {
    let none = || BrokerError::TopicNotFound(topic.to_string());
    table.find(topic.as_str()).ok_or_else(none)
}

fn operate(
    table: &mut TopicTable,
    topic: &TopicName,
    operation: Operation,
) -> Result<(), BrokerError> {
    if operation == Operation::Create {
        let made = table.find_or_create(topic.as_str());
        return made
            .map(|_| ())
            .map_err(|refusal| BrokerError::Refused(refusal.to_string()));
    }
    let key = find(table, topic)?;
    match operation {
        Operation::Create => {}
        Operation::Delete => table.delete(key),
        Operation::Empty => table.empty(key),
        Operation::Pause => table.pause(key, true),
        Operation::Unpause => table.pause(key, false),
    }
    Ok(())
}

fn operate_channel(
    table: &mut TopicTable,
    topic: &TopicName,
    channel: &ChannelName,
    operation: Operation,
) -> Result<(), BrokerError> {
    let key = find(table, topic)?;
    if operation == Operation::Create {
        let made = table.find_or_create_channel(key, channel);
        return made
            .map(|_| ())
            .map_err(|refusal| BrokerError::Refused(refusal.to_string()));
    }
    let none = || BrokerError::ChannelNotFound(channel.to_string());
    let key = table.find_channel(key, channel).ok_or_else(none)?;
    match operation {
        Operation::Create => {}
        Operation::Delete => table.delete_channel(key),
        Operation::Empty => table.empty_channel(key),
        Operation::Pause => table.pause_channel(key, true),
        Operation::Unpause => table.pause_channel(key, false),
    }
    Ok(())
}

fn migrate(sessions: &mut Sessions, topic: &TopicName, moves: &[Move]) {
    for Move { publisher, to } in moves {
        let owner = sessions.attachments.find(topic, publisher);
        let owner = owner.map(|owner| StreamId(owner.connection));
        if let Some(session) = owner.and_then(|stream| sessions.all.get_mut(&stream)) {
            wire::put_migrate(&mut session.output, topic.as_str(), to);
        }
    }
}
