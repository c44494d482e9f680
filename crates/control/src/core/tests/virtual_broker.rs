//! One broker of a [`Cluster`](super::cluster::Cluster): it holds leases, does what it is told, and
//! reports what it has.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clock::Instant;
use limit::{LeaseHolder, Limit, Prolongation};
use link::{
    Attachment, BrokerReport, Declaration, Door, Durability, Hello, Identity, OnFull, Sharers,
    ToBroker, ToController, TopicReport,
};
use model::ServiceModel;

use super::cluster::TOPIC;
use super::rounds::Held;
use super::stage::VirtualTopics;

/// What a contract says beside the limit and the share of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ContractWords {
    pub(super) on_full: Option<OnFull>,
    pub(super) durability: Durability,
}

/// One virtual broker.
pub(super) struct VirtualBroker {
    pub(super) name: String,
    pub(super) gossip_address: Option<String>,
    pub(super) number: u32,
    pub(super) is_running: bool,
    pub(super) is_stopped: bool,
    pub(super) link: u64,
    pub(super) identity: Identity,
    /// As it was told last.
    pub(super) life: u64,
    pub(super) tcp_address: String,
    /// Ports that a firewall closes.
    pub(super) shut: BTreeSet<Door>,
    reports: u64,
    pub(super) reported_at: Instant,
    pub(super) holder: LeaseHolder,
    pub(super) limit: Option<Limit>,
    pub(super) limit_number: Option<u16>,
    /// The list of brokers that share limits by gossip.
    pub(super) sharers: Option<Sharers>,
    /// What it vouches for.
    pub(super) held: Held,
    /// The controller neither hears nor reaches it, others do.
    pub(super) is_cut: bool,
    pub(super) cpu_shares: BTreeMap<String, kernel::CpuShare>,
    /// By topic, what contracts say beside limits and shares of time.
    pub(super) contract_words: BTreeMap<String, ContractWords>,
    /// Contracts that it was told.
    pub(super) told: Vec<String>,
    pub(super) attached: BTreeSet<String>,
    /// Topics with their channels.
    pub(super) topics: VirtualTopics,
    /// It has heard that everything was told.
    pub(super) is_complete: bool,
    /// It does not confirm topics.
    pub(super) is_mute: bool,
    /// Who takes what waits here.
    pub(super) takers: Vec<String>,
    /// By what brokers know each other.
    pub(super) pass: Option<String>,
    /// Messages that each topic holds.
    pub(super) unfinished: BTreeMap<String, u64>,
    /// Publishers that came and went, to be told.
    pub(super) changes: Vec<(String, bool)>,
    /// Windows that are open: number, end, seconds, whether with a trace.
    pub(super) windows: Vec<(u64, Instant, f64, bool)>,
    /// What it says of its traffic, whatever that is: rate and backlog.
    pub(super) claims: Option<(f64, f64)>,
    /// What it said of topics on this link.
    pub(super) said: Said,
}

/// Topics that were named on a link.
#[derive(Default)]
pub(super) struct Said(BTreeMap<String, TopicReport>);

impl Said {
    /// What is new: a topic that nothing has happened with since it was named is not named again.
    fn news(&mut self, topics: Vec<TopicReport>) -> (Vec<TopicReport>, Vec<String>) {
        let here: BTreeMap<String, TopicReport> = topics
            .into_iter()
            .map(|said| (said.topic.clone(), said))
            .collect();
        let former = std::mem::replace(&mut self.0, here.clone());
        let gone = former.keys().filter(|name| !here.contains_key(*name));
        let gone = gone.cloned().collect();
        let is_news = |said: &TopicReport| {
            let is_idle = said.messages == 0 && said.depth == 0 && said.mean_rate == 0.0;
            !is_idle || former.get(&said.topic) != Some(said)
        };
        (here.into_values().filter(is_news).collect(), gone)
    }
}

impl VirtualBroker {
    /// One that was never started.
    pub(super) fn new(index: usize, now: Instant) -> VirtualBroker {
        VirtualBroker {
            name: format!("b{}", index + 1),
            gossip_address: Some(format!("10.0.0.{}:4150", index + 1)),
            number: 0,
            is_running: false,
            is_stopped: false,
            link: 0,
            identity: Identity([index as u8; 16]),
            life: 0,
            tcp_address: format!("10.0.0.{}:4150", index + 1),
            shut: BTreeSet::new(),
            reports: 0,
            reported_at: now,
            holder: LeaseHolder::new(),
            limit: None,
            limit_number: None,
            sharers: None,
            held: Held::default(),
            is_cut: false,
            cpu_shares: BTreeMap::new(),
            contract_words: BTreeMap::new(),
            told: Vec::new(),
            attached: BTreeSet::new(),
            topics: VirtualTopics::default(),
            is_complete: false,
            is_mute: false,
            takers: Vec::new(),
            pass: None,
            unfinished: BTreeMap::new(),
            changes: Vec::new(),
            windows: Vec::new(),
            claims: None,
            said: Said::default(),
        }
    }

    /// Its process starts: it knows nothing but the topics that it kept.
    pub(super) fn start(&mut self) {
        self.is_running = true;
        self.life = 0;
        self.holder = LeaseHolder::new();
        self.limit = None;
        self.limit_number = None;
        self.sharers = None;
        self.held = Held::default();
        self.cpu_shares.clear();
        self.contract_words.clear();
        self.attached.clear();
        self.windows.clear();
    }

    /// It dials the controller: its hello.
    pub(super) fn dial(&mut self, link: u64, truth: ServiceModel) -> Hello {
        self.link = link;
        self.is_complete = false;
        self.takers.clear();
        self.reports = 0;
        self.said = Said::default();
        let here = self.attached.iter();
        self.changes = here.map(|id| (id.clone(), true)).collect();
        Hello {
            broker: self.name.clone(),
            identity: self.identity,
            life: self.life,
            tcp_address: self.tcp_address.clone(),
            http_address: self.announced(Door::Http),
            gossip_address: self.gossip_address.clone(),
            mcap: None,
            model: Some(truth),
        }
    }

    /// The address that it announces.
    pub(super) fn announced(&self, door: Door) -> Option<String> {
        match door {
            Door::Clients => Some(self.tcp_address.clone()),
            Door::Http => Some(self.tcp_address.replace(":4150", ":4151")),
            Door::Gossip => self.gossip_address.clone(),
        }
    }

    /// Whether it has this number and orders reach it.
    pub(super) fn hears(&self, number: u32) -> bool {
        let is_linked = self.number == number && self.is_running && self.link != 0;
        is_linked && !self.is_stopped && !self.is_cut
    }

    /// Does what it is told but move publishers; what it says to that.
    pub(super) fn obey(&mut self, order: ToBroker, now: Instant) -> Option<ToController> {
        match order {
            ToBroker::Contract {
                topic,
                contract,
                limit_number,
                ticket,
            } => {
                let words = ContractWords {
                    on_full: contract.on_full,
                    durability: contract.durability,
                };
                self.take_contract(&topic, (contract.limit, limit_number), words);
                return Some(match self.entitle(&topic, contract.cpu_share) {
                    Ok(()) => ToController::ContractInForce { topic, ticket },
                    Err(error) => ToController::Problem {
                        text: error.to_string(),
                    },
                });
            }
            ToBroker::Welcome { life, .. } => self.life = life,
            ToBroker::Sharers(sharers) => self.sharers = Some(sharers),
            ToBroker::Grant { grant, .. } => drop(self.holder.receive(&grant, now)),
            ToBroker::Renewed { report } => {
                self.holder.prolong(Prolongation::Renewed { report }, now);
            }
            ToBroker::Measure {
                window,
                seconds,
                with_trace,
                ..
            } => {
                let until = now + Duration::from_secs_f64(seconds);
                self.windows.push((window, until, seconds, with_trace));
            }
            ToBroker::Round(round) => self.held.told(round, now),
            ToBroker::HandOver { to } => self.takers = to,
            ToBroker::TakeOver { pass } => self.pass = Some(pass),
            ToBroker::Complete => self.is_complete = true,
            ToBroker::Topic { state, ticket } => {
                let topic = state.topic.clone();
                self.topics.learn(state);
                return (!self.is_mute).then_some(ToController::TopicReady { topic, ticket });
            }
            ToBroker::Change { topic, change } => {
                self.topics.change(&topic, &change);
                let is_said = change.is_deletion() && !self.is_mute;
                return is_said.then_some(ToController::Followed { topic, change });
            }
            ToBroker::Migrate { .. } | ToBroker::Refused { .. } | ToBroker::NotLeading { .. } => {}
        }
        None
    }

    /// How it fares, with publishers that send so many messages per second.
    pub(super) fn report(&mut self, rate: f64, now: Instant) -> BrokerReport {
        let seconds = (now - self.reported_at).as_secs_f64();
        self.reported_at = now;
        self.reports += 1;
        self.holder.report_sent(self.reports, now);
        let (claimed, backlog) = self.claims.unwrap_or((rate, rate.sqrt()));
        let topic = TopicReport {
            topic: TOPIC.to_owned(),
            channels: vec![String::from("all")],
            messages: (claimed.min(1e9) * seconds) as u64,
            fixed_messages: self
                .claims
                .map_or(0, |_| (claimed.min(1e9) * seconds) as u64),
            mean_rate: claimed,
            max_backlog: backlog,
            is_limited: self.limit.is_some(),
            held: self.holder.in_force(now),
            cpu_share: self.cpu_shares.get(TOPIC).copied(),
            on_full: self.words(TOPIC).on_full,
            durability: self.words(TOPIC).durability,
            confirmed: self.holder.confirmation(),
            ..TopicReport::default()
        };
        let others = self.declared_elsewhere();
        let attachments = self.changes.drain(..).map(|(id, attached)| Attachment {
            publisher: Declaration {
                id,
                topic: TOPIC.to_owned(),
                group: None,
                rate: Some(10.0),
                batch: 10,
            },
            attached,
            refused: None,
        });
        let holding = self
            .unfinished
            .iter()
            .map(|(name, &unfinished)| TopicReport {
                topic: name.clone(),
                unfinished,
                ..TopicReport::default()
            });
        let is_declared = topic.cpu_share.is_some() || self.contract_words.contains_key(TOPIC);
        let is_told = rate > 0.0 || self.limit.is_some() || is_declared;
        let topics = others
            .into_iter()
            .chain(is_told.then_some(topic))
            .chain(holding);
        let topics: Vec<TopicReport> = topics.collect();
        let (topics, gone) = self.said.news(topics);
        BrokerReport {
            number: self.reports,
            seconds,
            topics,
            gone,
            attachments: attachments.collect(),
            left_rounds: self.held.vouches.left(now),
            ..BrokerReport::default()
        }
    }

    fn take_contract(
        &mut self,
        topic: &str,
        (limit, number): (Option<Limit>, Option<u16>),
        words: ContractWords,
    ) {
        self.told.push(topic.to_owned());
        if topic == TOPIC {
            self.limit = limit;
            self.limit_number = number;
            if number.is_some() {
                // What was granted of a limit that is shared by gossip now is forgotten.
                self.holder = LeaseHolder::new();
            }
        }
        match words == ContractWords::default() {
            true => self.contract_words.remove(topic),
            false => self.contract_words.insert(topic.to_owned(), words),
        };
    }

    /// What a topic's contract says beside limit and share of time, as this broker knows it.
    pub(super) fn words(&self, topic: &str) -> ContractWords {
        self.contract_words.get(topic).copied().unwrap_or_default()
    }

    /// What is declared of other topics than that of the sensors.
    fn declared_elsewhere(&self) -> Vec<TopicReport> {
        let names = self.cpu_shares.keys().chain(self.contract_words.keys());
        let names: BTreeSet<&String> = names.filter(|name| *name != TOPIC).collect();
        let reports = names.into_iter().map(|name| TopicReport {
            topic: name.clone(),
            cpu_share: self.cpu_shares.get(name).copied(),
            on_full: self.words(name).on_full,
            durability: self.words(name).durability,
            ..TopicReport::default()
        });
        reports.collect()
    }

    /// As the scheduler of a broker with one thread does.
    fn entitle(
        &mut self,
        topic: &str,
        share: Option<kernel::CpuShare>,
    ) -> Result<(), kernel::KernelError> {
        let mut all = kernel::Shares::default();
        let mut others = self.cpu_shares.iter().filter(|(name, _)| *name != topic);
        others.try_for_each(|(_, other)| all.add(Some(*other)))?;
        all.add(share)?;
        match share {
            Some(share) => self.cpu_shares.insert(topic.to_owned(), share),
            None => self.cpu_shares.remove(topic),
        };
        Ok(())
    }
}
