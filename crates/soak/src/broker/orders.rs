//! Orders of the controller, carried out in the order in which they come (`broker/agent/{orders,contracts,grants,topics}.rs`,
//! `broker/reactor/request.rs`, `broker/catalog_file/contracts.rs`).

use limit::Prolongation;
use link::{Move, Order, ToBroker, ToController, TopicChange, TopicState};
use topics::{KnownTopic, Teller, TopicTable};
use wire::{ChannelName, TopicName};

use super::catalog::{self, Contract};
use super::gossip::prolong;
use super::ground::Ground;
use super::process::Process;
use super::session::Sessions;
use crate::disk::Folder;
use crate::event::StreamId;
use crate::outside::Outside;

impl Process {
    pub(super) fn ordered(
        &mut self,
        stream: StreamId,
        Order { epoch, order }: Order,
        folder: &mut Folder,
        out: &mut Outside,
    ) {
        if !self.agent.is_on(stream) || epoch < self.agent.epoch {
            return;
        }
        self.agent.epoch = epoch;
        match order {
            ToBroker::Welcome {
                life,
                report_interval_ms,
                history_window_ms,
            } => {
                let spans = (report_interval_ms, history_window_ms);
                if self.agent.welcomed(life, spans, &mut self.ground, out) {
                    self.handing.begin_link();
                    self.report(out);
                }
            }
            ToBroker::Refused { passes, .. } => self.agent.turned_away(passes, &self.ground, out),
            ToBroker::NotLeading { .. } => self.agent.turned_away(true, &self.ground, out),
            order if self.agent.stream() == Some(stream) => self.carry_out(order, folder, out),
            _ => {}
        }
    }

    fn carry_out(&mut self, order: ToBroker, folder: &mut Folder, out: &mut Outside) {
        let now = self.ground.local(out.net.now);
        let ground = &mut self.ground;
        match order {
            ToBroker::Contract {
                topic,
                contract,
                limit_number: number,
                ticket,
            } => {
                let contract = Contract {
                    topic: topic.clone(),
                    limit: contract.limit,
                    on_full: contract.on_full,
                    number,
                };
                let word = match catalog::declare(ground, &contract, folder, out.net.now) {
                    Ok(is_kept) => {
                        if !is_kept {
                            let text =
                                format!("contract of {topic}: it is in force, but not kept yet");
                            self.agent.tell(ToController::Problem { text }, ground, out);
                        }
                        ToController::ContractInForce { topic, ticket }
                    }
                    Err(text) => ToController::Problem { text },
                };
                self.agent.tell(word, ground, out);
            }
            ToBroker::Grant { topic, grant } => {
                let key = ground.table.find(&topic);
                if !key.is_some_and(|key| ground.table.grant(key, &grant, now)) {
                    let text = format!("share of {topic}: the topic has no limit here");
                    self.agent.tell(ToController::Problem { text }, ground, out);
                }
            }
            ToBroker::Renewed { report } => {
                prolong(&mut ground.table, Prolongation::Renewed { report }, now);
            }
            ToBroker::Round(round) => self.gossip.told_round(&round, now),
            ToBroker::Sharers(sharers) => self.gossip.told_sharers(&sharers, ground, out),
            ToBroker::HandOver { to } => self.handing.set_takers(to, out.net.now),
            ToBroker::TakeOver { pass } => self.handing.set_pass(pass),
            ToBroker::Complete => {
                self.agent.complete();
                ground.table.hear(Teller::Answering);
                while ground.table.settle_next(now) {}
            }
            ToBroker::Topic { state, ticket } => {
                if let Some(word) = learn(ground, state, ticket) {
                    self.agent.tell(word, ground, out);
                }
            }
            ToBroker::Change { topic, change } => {
                if !follow(&mut ground.table, &topic, &change) && change.is_deletion() {
                    let word = ToController::Followed { topic, change };
                    self.agent.tell(word, ground, out);
                }
            }
            ToBroker::Measure { .. } => self.agent.begin_window(order, ground, out),
            ToBroker::Migrate { topic, moves } => migrate(&mut self.sessions, &topic, &moves),
            ToBroker::Welcome { .. } | ToBroker::Refused { .. } | ToBroker::NotLeading { .. } => {}
        }
    }
}

/// Makes a topic as said; what to say to that.
fn learn(ground: &mut Ground, state: TopicState, ticket: u64) -> Option<ToController> {
    let channels = state.channels.iter();
    let channels = channels.filter_map(|each| Some((each.channel.parse().ok()?, each.is_paused)));
    let known = KnownTopic {
        name: state.topic.parse().ok()?,
        is_paused: state.is_paused,
        channels: channels.collect(),
    };
    match ground.table.learn(&known) {
        Ok(true) => Some(ToController::TopicReady {
            topic: state.topic,
            ticket,
        }),
        Ok(false) => None,
        Err(refusal) => Some(ToController::Problem {
            text: format!("channels of {}: {refusal}", state.topic),
        }),
    }
}

/// Does here what was done elsewhere; whether what it is about is here.
fn follow(table: &mut TopicTable, topic: &str, change: &TopicChange) -> bool {
    let Some(key) = table.find(topic) else {
        return false;
    };
    let mut is_here = true;
    let channel = |name: &str| name.parse::<ChannelName>().ok();
    let find = |table: &TopicTable, name: &str| table.find_channel(key, &channel(name)?);
    table.begin_order();
    match change {
        TopicChange::TopicCreated => {}
        TopicChange::TopicDeleted => table.delete(key),
        TopicChange::TopicPaused => table.pause(key, true),
        TopicChange::TopicResumed => table.pause(key, false),
        TopicChange::TopicEmptied => table.empty(key),
        TopicChange::ChannelCreated { channel: name } => {
            if let Some(name) = channel(name).filter(|name| !name.is_ephemeral()) {
                let _ = table.find_or_create_channel(key, &name);
            }
        }
        TopicChange::ChannelDeleted { channel } => {
            let found = find(table, channel);
            is_here = found.is_some();
            if let Some(key) = found {
                table.delete_channel(key);
            }
        }
        TopicChange::ChannelPaused { channel } => {
            if let Some(key) = find(table, channel) {
                table.pause_channel(key, true);
            }
        }
        TopicChange::ChannelResumed { channel } => {
            if let Some(key) = find(table, channel) {
                table.pause_channel(key, false);
            }
        }
        TopicChange::ChannelEmptied { channel } => {
            if let Some(key) = find(table, channel) {
                table.empty_channel(key);
            }
        }
    }
    table.end_order();
    is_here
}

fn migrate(sessions: &mut Sessions, topic: &str, moves: &[Move]) {
    let Ok(name) = topic.parse::<TopicName>() else {
        return;
    };
    for Move { publisher, to } in moves {
        let owner = sessions.attachments.find(&name, publisher);
        let owner = owner.map(|owner| StreamId(owner.connection));
        if let Some(session) = owner.and_then(|stream| sessions.all.get_mut(&stream)) {
            wire::put_migrate(&mut session.output, topic, to);
        }
    }
}
