//! The registry of brokers: join, heartbeat, silence, drain, death.
//!
//! Death needs a proof: the broker's host says that nobody listens, a process with the same name and a
//! later incarnation says hello, or the operator says so. Silence is no proof; what a silent broker may
//! still be doing is accounted for by the leases.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clock::Instant;
use link::{Hello, LINK_VERSION, ToBroker, TopicReport};
use placement::ServiceModel;

use super::check::{self, NameKind};
use super::joining::Joining;
use super::overload::Violation;
use super::rates::Seen;
use super::shares::Renewal;
use super::{BROKERS_MAX, Core, Effect, Inventory, ProbeAnswer};
use crate::ControlError;

/// A broker's place in the registry; it never changes while the controller lives.
pub type BrokerNumber = u32;

/// Time between probes of a broker that has just lost its link.
const PROBE_INTERVAL: Duration = Duration::from_millis(50);

/// Between two looks at the brokers there is less time than this, unless the controller was kept from running.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Whether a broker can be counted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It reports.
    Up,
    /// It has not reported for a while; since when.
    Silent(Instant),
    /// Its process is gone.
    Dead,
}

/// One broker.
#[derive(Debug)]
pub struct Broker {
    /// Unique name, kept over restarts.
    pub name: String,
    /// Where NSQ clients connect.
    pub tcp_address: String,
    /// Where HTTP is served.
    pub http_address: Option<String>,
    /// Where other brokers gossip with it.
    pub gossip_address: Option<String>,
    /// Which process of that name.
    pub incarnation: u64,
    /// Whether it can be counted on.
    pub liveness: Liveness,
    /// It gets no more publishers and loses those it has.
    pub is_draining: bool,
    /// Who takes what waits there, as it was told on this link.
    pub(super) takers: Vec<String>,
    /// Its publishers were given to others, for it was silent too long.
    pub is_given_up: bool,
    /// The connection that it reports through.
    pub link: Option<u64>,
    /// When it reported last.
    pub reported_at: Instant,
    /// Since when its silence counts: since that report, and the pauses of the controller do not count.
    pub silent_since: Instant,
    /// Number of that report.
    pub report_number: u64,
    /// When its address was probed last.
    pub(super) probed_at: Option<Instant>,
    /// Messages per second that it carries, if calibrated.
    pub mcap: Option<f64>,
    /// Its service model, if calibrated or emulated.
    pub model: Option<ServiceModel>,
    /// Messages per second that arrived, by the last report and the one before.
    pub(super) recent_rates: [f64; 2],
    /// Reports in a row by which more arrives than it carries.
    pub(super) over_reports: u32,
    /// Publishers came or went as they were told since it was judged last.
    pub(super) is_rearranged: bool,
    /// Reports in a row that found no room for what is too much for it.
    pub(super) short_reports: u32,
    /// When another broker was asked for to relieve it.
    pub(super) spawned_for_at: Option<Instant>,
    /// Its last word on each topic.
    pub topics: BTreeMap<String, Carried>,
    /// Topics and channels that it has.
    pub inventory: Inventory,
    /// Topics that it had another contract of than declared, with the report at which it was told again.
    pub(super) told_again: BTreeMap<String, u64>,
    pub(super) joining: Joining,
    /// The latest contract that is in force there.
    pub(super) confirmed_ticket: u64,
    /// Topics of which the last word was not that nothing happens.
    pub(super) loud: BTreeSet<String>,
    /// What those come to.
    pub(super) flow: Flow,
    /// Topics that it named on a former link and has not named on this one.
    pub(super) unnamed: BTreeSet<String>,
    /// How long leases there last that were renewed all at once.
    pub(super) renewal: Option<Renewal>,
}

/// Messages per second, all topics of a broker.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    /// That arrive.
    pub rate: f64,
    /// Of those, from clients that cannot be moved.
    pub fixed_rate: f64,
    /// That leave queues.
    pub left: f64,
}

/// A broker's last word on a topic.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    /// The report.
    pub report: TopicReport,
    /// Messages per second that arrive.
    pub rate: f64,
    /// Of those, from clients that cannot be moved; smoothed over several reports.
    pub fixed_rate: f64,
    /// Messages per second that left its queue.
    pub left: f64,
    /// What arrives from publishers that can be moved.
    pub seen: Seen,
    /// How its promise fares.
    pub violation: Violation,
}

impl Broker {
    /// A broker known only by what was kept of it.
    pub(super) fn remembered(name: String, tcp_address: String, now: Instant) -> Broker {
        Broker {
            name,
            tcp_address,
            http_address: None,
            gossip_address: None,
            incarnation: 0,
            liveness: Liveness::Silent(now),
            is_draining: false,
            takers: Vec::new(),
            is_given_up: false,
            link: None,
            reported_at: now,
            silent_since: now,
            report_number: 0,
            probed_at: None,
            mcap: None,
            model: None,
            recent_rates: [0.0; 2],
            over_reports: 0,
            is_rearranged: false,
            short_reports: 0,
            spawned_for_at: None,
            topics: BTreeMap::new(),
            inventory: Inventory::default(),
            told_again: BTreeMap::new(),
            joining: Joining::default(),
            confirmed_ticket: 0,
            loud: BTreeSet::new(),
            flow: Flow::default(),
            unnamed: BTreeSet::new(),
            renewal: None,
        }
    }

    /// Whether publishers may be placed on it.
    #[must_use]
    pub fn takes_publishers(&self) -> bool {
        self.liveness == Liveness::Up && !self.is_draining
    }

    /// Messages per second that arrive, all topics.
    #[must_use]
    pub fn measured_rate(&self) -> f64 {
        self.flow.rate
    }

    /// Messages per second from clients that cannot be moved, all topics.
    pub(super) fn fixed_rate(&self) -> f64 {
        self.flow.fixed_rate
    }

    /// Nothing that it said of topics counts any more.
    fn forget_words(&mut self) {
        self.topics.clear();
        self.unnamed.clear();
        self.loud.clear();
        self.flow = Flow::default();
    }

    /// Topics that something happens with, with its last word on each.
    pub(super) fn loud_topics(&self) -> impl Iterator<Item = (&String, &Carried)> {
        let loud = self.loud.iter();
        loud.filter_map(|name| Some((name, self.topics.get(name)?)))
    }

    /// Adds up its last words.
    pub(super) fn add_up(&mut self) {
        let mut flow = Flow::default();
        for (_, carried) in self.loud_topics() {
            flow.rate += carried.rate;
            flow.fixed_rate += carried.fixed_rate;
            flow.left += carried.left;
        }
        self.flow = flow;
    }
}

impl Core {
    /// A broker says hello on connection `link`. Gives its number; the answer to it is among the effects.
    ///
    /// # Errors
    /// A text for the broker: what is wrong with its hello.
    pub fn hello(
        &mut self,
        link: u64,
        hello: &Hello,
        now: Instant,
    ) -> Result<BrokerNumber, String> {
        check_hello(hello)?;
        let number = match self.broker_by_name.get(&hello.broker) {
            Some(&number) => number,
            None => self.add_broker(hello, now)?,
        };
        let broker = &mut self.brokers[number as usize];
        let is_other_process = broker.incarnation != hello.incarnation;
        if hello.incarnation < broker.incarnation {
            return Err(format!(
                "broker {} has been started again since (incarnation {} after {}); give each broker a name of its own",
                hello.broker, broker.incarnation, hello.incarnation
            ));
        }
        let was_known = broker.incarnation != 0;
        if let Some(old) = broker.link.replace(link) {
            self.effects.push(Effect::CloseLink(old));
        }
        broker.incarnation = hello.incarnation;
        broker.tcp_address.clone_from(&hello.tcp_address);
        broker.http_address.clone_from(&hello.http_address);
        broker.gossip_address.clone_from(&hello.gossip_address);
        broker.mcap = hello.mcap.or(broker.mcap);
        broker.model = hello.model.or(broker.model);
        broker.liveness = Liveness::Up;
        broker.is_given_up = false;
        (broker.reported_at, broker.silent_since) = (now, now);
        broker.report_number = 0;
        broker.inventory.leave();
        self.joining.remove(&number);
        if is_other_process {
            broker.forget_words();
            self.end_inventory(number);
            if was_known {
                self.forget_process(number);
            }
        } else {
            broker.unnamed = broker.topics.keys().cloned().collect();
            self.rejoin_ledgers(number, now);
        }
        self.welcome(number, now);
        Ok(number)
    }

    /// The connection is gone. Whether its broker is, a probe finds out.
    pub fn link_lost(&mut self, link: u64, now: Instant) {
        let mut all = self.brokers.iter_mut();
        let found = all.position(|broker| broker.link == Some(link));
        if let Some(index) = found {
            self.brokers[index].link = None;
            self.brokers[index].inventory.leave();
            self.brokers[index].joining = Joining::default();
            self.joining.remove(&(index as BrokerNumber));
            self.look_at_all_shares();
            self.probe(index as BrokerNumber, now);
        }
    }

    /// What a probe of the broker's address found.
    pub fn probed(&mut self, number: BrokerNumber, answer: ProbeAnswer, now: Instant) {
        let broker = &self.brokers[number as usize];
        if answer == ProbeAnswer::Refused && broker.link.is_none() {
            self.dead(number, "nobody listens at its address", now);
        }
    }

    /// Moves a broker's publishers away and gives it no more.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn drain_broker(&mut self, name: &str, now: Instant) -> Result<BrokerNumber, ControlError> {
        let number = self.broker_number(name)?;
        self.brokers[number as usize].is_draining = true;
        self.keep_broker(number);
        self.tell(
            "broker-draining",
            None,
            Some(number),
            format!("{name} is being drained"),
        );
        self.give_up_placements(number, now);
        Ok(number)
    }

    /// Ends a drain: the broker may be given publishers again.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn resume_broker(
        &mut self,
        name: &str,
        now: Instant,
    ) -> Result<BrokerNumber, ControlError> {
        let number = self.broker_number(name)?;
        self.brokers[number as usize].is_draining = false;
        self.keep_broker(number);
        self.tell(
            "broker-resumed",
            None,
            Some(number),
            format!("{name} takes publishers again"),
        );
        self.room_came(now);
        Ok(number)
    }

    /// Takes the operator's word that a broker is dead.
    ///
    /// # Errors
    /// [`ControlError::NotFound`]; [`ControlError::Conflict`] while it reports.
    pub fn remove_broker(&mut self, name: &str, now: Instant) -> Result<(), ControlError> {
        let number = self.broker_number(name)?;
        if self.brokers[number as usize].link.is_some() {
            return Err(ControlError::Conflict(format!(
                "broker {name} is connected and reports; stop it first, or drain it: POST /v1/brokers/{name}/drain"
            )));
        }
        self.dead(number, "removed by an operator", now);
        Ok(())
    }

    /// Its process is gone for certain: its shares are free at once, its publishers are placed elsewhere.
    fn dead(&mut self, number: BrokerNumber, why: &str, now: Instant) {
        let broker = &mut self.brokers[number as usize];
        if broker.liveness == Liveness::Dead {
            return;
        }
        broker.liveness = Liveness::Dead;
        broker.forget_words();
        let text = format!("{} is dead: {why}", broker.name);
        self.tell("broker-dead", None, Some(number), text);
        self.end_inventory(number);
        self.forget_process(number);
        self.give_up_placements(number, now);
        self.keep_broker(number);
    }

    /// Looks who has not reported for too long.
    ///
    /// A controller that was kept from running, by a busy machine or as a stopped process, has not read what was reported
    /// meanwhile: such a pause is nobody's silence.
    pub(super) fn watch_brokers(&mut self, now: Instant) {
        let pause = now.saturating_since(self.watched_at);
        self.watched_at = now;
        if pause >= PAUSE_MIN {
            for broker in &mut self.brokers {
                broker.silent_since = now.min(broker.silent_since + pause);
                for since in broker.inventory.waiting.values_mut() {
                    *since = now.min(*since + pause);
                }
            }
        }
        for number in 0..self.brokers.len() as BrokerNumber {
            let (silent_after, lost_after) = (self.settings.silent_after, self.settings.lost_after);
            let broker = &mut self.brokers[number as usize];
            let quiet = now - broker.silent_since;
            match broker.liveness {
                Liveness::Up if quiet >= silent_after => {
                    broker.liveness = Liveness::Silent(now);
                    let text = format!("{} has not reported for {quiet:.1?}", broker.name);
                    self.tell("broker-silent", None, Some(number), text);
                    self.look_at_all_shares();
                }
                Liveness::Silent(_) if quiet >= lost_after && !broker.is_given_up => {
                    broker.is_given_up = true;
                    let text = format!(
                        "{} stays silent: its publishers are placed elsewhere",
                        broker.name
                    );
                    self.tell("broker-lost", None, Some(number), text);
                    self.give_up_placements(number, now);
                }
                _ => self.probe_unlinked(number, now),
            }
        }
    }

    /// A broker without a link may have died just now, or its host still be closing its sockets: it is asked for
    /// again, and often while it is not silent yet.
    fn probe_unlinked(&mut self, number: BrokerNumber, now: Instant) {
        let broker = &self.brokers[number as usize];
        let interval = match broker.liveness {
            Liveness::Up => PROBE_INTERVAL,
            Liveness::Silent(_) => self.settings.report_interval,
            Liveness::Dead => return,
        };
        let is_due = broker.probed_at.is_none_or(|at| now - at >= interval);
        if broker.link.is_none() && is_due {
            self.probe(number, now);
        }
    }

    fn probe(&mut self, number: BrokerNumber, now: Instant) {
        let broker = &mut self.brokers[number as usize];
        broker.probed_at = Some(now);
        let address = broker.tcp_address.clone();
        self.effects.push(Effect::Probe(number, address));
    }

    pub(super) fn broker_number(&self, name: &str) -> Result<BrokerNumber, ControlError> {
        self.broker_by_name.get(name).copied().ok_or_else(|| {
            ControlError::NotFound(format!(
                "there is no broker {name}; GET /v1/brokers lists them"
            ))
        })
    }

    pub(super) fn broker(&self, number: BrokerNumber) -> &Broker {
        &self.brokers[number as usize]
    }

    /// Takes note of a broker that was never heard of.
    fn add_broker(&mut self, hello: &Hello, now: Instant) -> Result<BrokerNumber, String> {
        if self.brokers.len() >= BROKERS_MAX {
            return Err(format!(
                "the controller knows {BROKERS_MAX} brokers already and takes no more"
            ));
        }
        let broker = Broker::remembered(hello.broker.clone(), hello.tcp_address.clone(), now);
        Ok(self.insert_broker(broker))
    }

    pub(super) fn insert_broker(&mut self, broker: Broker) -> BrokerNumber {
        let number = self.brokers.len() as BrokerNumber;
        self.broker_by_name.insert(broker.name.clone(), number);
        self.brokers.push(broker);
        number
    }

    fn welcome(&mut self, number: BrokerNumber, now: Instant) {
        let message = ToBroker::Welcome {
            epoch: self.epoch,
            report_interval_ms: self.settings.report_interval.as_millis() as u64,
            history_window_ms: self.settings.adapt_window.as_millis() as u64,
        };
        self.send(number, message);
        self.send_handover_pass(number);
        // Who was told this list before it was told anything else knows what to make of the contracts.
        self.drive_sharers();
        self.send_sharers(number);
        self.drive_rounds();
        self.send_round(number);
        self.begin_joining(number, now);
        self.keep_broker(number);
        let text = format!("{} is up", self.broker(number).name);
        self.tell("broker-up", None, Some(number), text);
        self.room_came(now);
    }

    /// The process that had this number is gone, and with it its shares and its connections.
    fn forget_process(&mut self, number: BrokerNumber) {
        self.look_at_all_shares();
        let Core { topics, loads, .. } = self;
        for topic in topics.values_mut() {
            topic.publishers.detach_all(number, loads);
            topic.carriers.retain(|carrier| carrier.broker != number);
            if let Some(shares) = &mut topic.shares {
                shares.dead(number);
            }
        }
    }

    /// The same process on another connection: the numbers of its reports begin again.
    fn rejoin_ledgers(&mut self, number: BrokerNumber, now: Instant) {
        self.look_at_all_shares();
        let Core { topics, loads, .. } = self;
        for topic in topics.values_mut() {
            topic.publishers.detach_all(number, loads);
            if let Some(shares) = &mut topic.shares {
                shares.reconnected(number, now);
            }
        }
    }
}

fn check_hello(hello: &Hello) -> Result<(), String> {
    if hello.version != LINK_VERSION {
        return Err(format!(
            "the broker speaks version {} of the link, the controller {LINK_VERSION}; run the same release of both",
            hello.version
        ));
    }
    check::name(NameKind::Broker, &hello.broker)?;
    check::address("tcp_address", &hello.tcp_address)?;
    if let Some(http) = &hello.http_address {
        check::address("http_address", http)?;
    }
    if let Some(gossip) = &hello.gossip_address
        && gossip.parse::<std::net::SocketAddr>().is_err()
    {
        return Err(format!("gossip_address {gossip:?} is not ip:port"));
    }
    if hello.incarnation == 0 {
        return Err(String::from("incarnation 0 names no process"));
    }
    if let Some(mcap) = hello.mcap {
        check::rate("mcap", mcap)?;
    }
    if let Some(model) = hello.model.filter(|model| !model.is_sane()) {
        return Err(format!(
            "a service model with {model:?} describes no broker"
        ));
    }
    Ok(())
}
