//! Orders of the controller, carried out in the order in which they come (`broker/agent/{orders,contracts,grants,topics}.rs`,
//! `broker/reactor/request.rs`, `broker/catalog_file/contracts.rs`).

use std::time::Duration;

use limit::{Limit, Prolongation};
use link::{Move, OnFull, ToBroker, ToController, TopicChange, TopicState, Traced, WindowReport};
use topics::stats::CatalogTopic;
use topics::{KnownTopic, Teller, WindowOrder};
use wire::ChannelName;

use super::Process;
use super::agent::OpenWindow;
use crate::disk::Folder;
use crate::event::StreamId;
use crate::outside::Outside;

/// A contract as ordered.
struct Contract {
    topic: String,
    limit: Option<Limit>,
    on_full: Option<OnFull>,
    number: Option<u16>,
}

impl Process {
    pub(super) fn ordered(
        &mut self,
        stream: StreamId,
        order: ToBroker,
        folder: &mut Folder,
        out: &mut Outside,
    ) {
        if !self.agent.is_on(stream) {
            return;
        }
        match order {
            ToBroker::Welcome {
                epoch: _,
                life,
                report_interval_ms,
                history_window_ms,
            } => self.welcomed(life, (report_interval_ms, history_window_ms), out),
            ToBroker::Refused { passes, .. } => self.turned_away(passes, out),
            order if self.agent.stream() == Some(stream) => self.carry_out(order, folder, out),
            _ => {}
        }
    }

    fn carry_out(&mut self, order: ToBroker, folder: &mut Folder, out: &mut Outside) {
        let now = self.local(out.net.now);
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
                let word = match self.declare(&contract, folder, out) {
                    Ok(()) => ToController::ContractInForce { topic, ticket },
                    Err(text) => ToController::Problem { text },
                };
                self.tell(word, out);
            }
            ToBroker::Grant { topic, grant } => {
                let key = self.table.find(&topic);
                if !key.is_some_and(|key| self.table.grant(key, &grant, now)) {
                    let text = format!("share of {topic}: it has no limit here");
                    self.tell(ToController::Problem { text }, out);
                }
            }
            ToBroker::Renewed { report } => self.prolong(Prolongation::Renewed { report }, now),
            ToBroker::Round(round) => self.vouching.told(&round, now),
            ToBroker::Sharers(_) => {}
            ToBroker::HandOver { to } => self.handing.set_takers(to, out.net.now),
            ToBroker::TakeOver { pass } => self.handing.set_pass(pass),
            ToBroker::Complete => {
                self.agent.is_complete = true;
                self.table.hear(Teller::Answering);
            }
            ToBroker::Topic { state, ticket } => self.learn(state, ticket, out),
            ToBroker::Change { topic, change } => self.follow(&topic, &change),
            ToBroker::Measure { .. } => self.begin_window(order, out),
            ToBroker::Migrate { topic, moves } => self.migrate(&topic, &moves),
            ToBroker::Welcome { .. } | ToBroker::Refused { .. } => {}
        }
    }

    /// On disk first, then in force.
    fn declare(
        &mut self,
        contract: &Contract,
        folder: &mut Folder,
        out: &mut Outside,
    ) -> Result<(), String> {
        let now = self.local(out.net.now);
        if !self.is_kept(contract, folder) && !self.write_ahead(contract, folder) {
            return Err(format!(
                "contract of {}: it cannot be written",
                contract.topic
            ));
        }
        let Contract {
            topic,
            limit,
            on_full,
            number,
        } = contract;
        if on_full.is_some() || self.table.find(topic).is_some() {
            let key = self.table.find_or_create(topic);
            let key = key.map_err(|refusal| refusal.to_string())?;
            self.table.set_on_full(key, *on_full);
        }
        let key = match limit {
            Some(_) => Some(
                self.table
                    .find_or_create(topic)
                    .map_err(|refusal| refusal.to_string())?,
            ),
            None => self.table.find(topic),
        };
        if let Some(key) = key {
            self.table.set_shared_limit(key, *limit, *number, now);
        }
        Ok(())
    }

    fn is_kept(&self, contract: &Contract, folder: &Folder) -> bool {
        let mut kept = folder.catalog();
        let kept = kept.find(|kept| kept.name == contract.topic);
        match kept {
            Some(kept) => {
                (kept.contract.limit, kept.contract.on_full) == (contract.limit, contract.on_full)
            }
            None => contract.limit.is_none() && contract.on_full.is_none(),
        }
    }

    fn write_ahead(&mut self, contract: &Contract, folder: &mut Folder) -> bool {
        let slots = 0..self.table.topic_slots();
        let keys = slots.filter_map(|slot| self.table.topic_at(slot));
        let mut topics: Vec<CatalogTopic> = keys
            .filter_map(|key| self.table.catalog_topic(key))
            .collect();
        let place = topics
            .iter()
            .position(|topic| topic.name == contract.topic)
            .unwrap_or_else(|| {
                topics.push(CatalogTopic {
                    name: contract.topic.clone(),
                    ..CatalogTopic::default()
                });
                topics.len() - 1
            });
        let kept = &mut topics[place].contract;
        (kept.limit, kept.on_full) = (contract.limit, contract.on_full);
        folder.save(topics)
    }

    fn learn(&mut self, state: TopicState, ticket: u64, out: &mut Outside) {
        let channels = state.channels.iter();
        let channels =
            channels.filter_map(|each| Some((each.channel.parse().ok()?, each.is_paused)));
        let Ok(name) = state.topic.parse() else {
            return;
        };
        let known = KnownTopic {
            name,
            is_paused: state.is_paused,
            channels: channels.collect(),
        };
        match self.table.learn(&known) {
            Ok(true) => {
                let topic = state.topic;
                self.tell(ToController::TopicReady { topic, ticket }, out);
            }
            Ok(false) => {}
            Err(refusal) => {
                let text = format!("channels of {}: {refusal}", state.topic);
                self.tell(ToController::Problem { text }, out);
            }
        }
    }

    /// Does here what was done elsewhere.
    fn follow(&mut self, topic: &str, change: &TopicChange) {
        let Some(key) = self.table.find(topic) else {
            return;
        };
        let channel = |name: &str| name.parse::<ChannelName>().ok();
        let find =
            |table: &topics::TopicTable, name: &str| table.find_channel(key, &channel(name)?);
        self.table.begin_order();
        match change {
            TopicChange::TopicCreated => {}
            TopicChange::TopicDeleted => self.table.delete(key),
            TopicChange::TopicPaused => self.table.pause(key, true),
            TopicChange::TopicResumed => self.table.pause(key, false),
            TopicChange::TopicEmptied => self.table.empty(key),
            TopicChange::ChannelCreated { channel: name } => {
                if let Some(name) = channel(name).filter(|name| !name.is_ephemeral()) {
                    let _ = self.table.find_or_create_channel(key, &name);
                }
            }
            TopicChange::ChannelDeleted { channel } => {
                if let Some(key) = find(&self.table, channel) {
                    self.table.delete_channel(key);
                }
            }
            TopicChange::ChannelPaused { channel } => {
                if let Some(key) = find(&self.table, channel) {
                    self.table.pause_channel(key, true);
                }
            }
            TopicChange::ChannelResumed { channel } => {
                if let Some(key) = find(&self.table, channel) {
                    self.table.pause_channel(key, false);
                }
            }
            TopicChange::ChannelEmptied { channel } => {
                if let Some(key) = find(&self.table, channel) {
                    self.table.empty_channel(key);
                }
            }
        }
        self.table.end_order();
    }

    fn migrate(&mut self, topic: &str, moves: &[Move]) {
        for Move { publisher, to } in moves {
            let stream = self.attached.find(topic, publisher);
            let session = stream.and_then(|stream| self.sessions.get_mut(&stream));
            if let Some(session) = session {
                wire::put_migrate(&mut session.output, topic, to);
            }
        }
    }

    fn begin_window(&mut self, order: ToBroker, out: &mut Outside) {
        let ToBroker::Measure {
            window,
            topic,
            seconds,
            percentile,
            promise_us,
            with_trace,
        } = order
        else {
            return;
        };
        self.agent.windows.retain(|open| open.topic != topic);
        let Some(key) = self.table.find(&topic) else {
            let report = WindowReport {
                window,
                topic,
                seconds,
                ..WindowReport::default()
            };
            return self.tell(ToController::Window(report), out);
        };
        let order = WindowOrder {
            percentile,
            promise_us,
            with_trace,
        };
        self.table
            .begin_window(key, &order, self.local(out.net.now));
        self.agent.windows.push(OpenWindow {
            number: window,
            topic,
            key,
            order,
            seconds,
            until: out.net.now + Duration::from_secs_f64(seconds),
        });
    }

    /// Says what the windows showed whose time is over.
    pub(super) fn end_windows(&mut self, out: &mut Outside) {
        let (now, local) = (out.net.now, self.local(out.net.now));
        let windows = std::mem::take(&mut self.agent.windows);
        let (over, open) = windows.into_iter().partition(|window| window.until <= now);
        self.agent.windows = open;
        let over: Vec<OpenWindow> = over;
        for window in over {
            let mut result = self.table.end_window(window.key, local).unwrap_or_default();
            result.arrivals.sort_unstable();
            if window.order.with_trace {
                let part = Traced {
                    window: window.number,
                    topic: window.topic.clone(),
                    publishers: result.publishers,
                    arrivals: result.arrivals,
                };
                self.tell(ToController::Trace(part), out);
            }
            let report = WindowReport {
                window: window.number,
                topic: window.topic,
                seconds: window.seconds,
                messages: result.messages,
                latency_us: result.latency_us,
                p50_us: result.p50_us,
                samples: result.samples,
                is_trace_cut: result.is_trace_cut,
            };
            self.tell(ToController::Window(report), out);
        }
    }
}
