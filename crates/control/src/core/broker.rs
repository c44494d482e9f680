//! The registry of brokers: join, heartbeat, silence, drain, death.
//!
//! Death needs a proof: the broker's host says that nobody listens, somebody else proves to be at its address, another process
//! of the same identity says hello, or the operator says so. Silence is no proof; what a silent broker may
//! still be doing is accounted for by the leases.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use clock::Instant;
use link::{Door, Hello, Identity, MemoryReport, ToBroker};
use model::ServiceModel;

use super::check::{self, NameKind};
use super::hearing::Hearing;
use super::joining::Joining;
use super::parts::Job;
use super::presence::Presence;
use super::shares::Renewal;
use super::words::{Carried, Flow};
use super::{Core, Effect, Inventory, Refusal};
use crate::ControlError;

/// A broker's place in the registry; it never changes while the controller lives.
pub type BrokerNumber = u32;

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
    /// Which broker has the name; `None`: it was kept by a release that did not know.
    pub identity: Option<Identity>,
    /// Number of its process's life, which no other process of any broker ever had; 0 where none is known.
    pub life: u64,
    /// Another number for every process of every broker that this controller has known.
    pub(super) process: u64,
    /// Where it dialled from.
    pub from: Option<IpAddr>,
    /// Whether it can be counted on.
    pub liveness: Liveness,
    /// Since when it is dead, if it is; no longer than this controller runs.
    pub(super) dead_since: Instant,
    /// What is known of the addresses that it announces, by [`Door`].
    pub(super) presences: [Presence; Door::ALL.len()],
    /// It gets no more publishers and loses those it has.
    pub is_draining: bool,
    /// Who takes what waits there, as it was told on this link.
    pub(super) takers: Vec<String>,
    /// Its publishers were given to others, for it was silent too long.
    pub is_given_up: bool,
    /// The connection that it reports through.
    pub link: Option<u64>,
    /// Since when.
    pub(super) linked_at: Instant,
    /// When it reported last.
    pub reported_at: Instant,
    /// Since when its silence counts: since that report, and the pauses of the controller do not count.
    pub silent_since: Instant,
    /// Number of the last report that was heard in whole, or is by the time that anybody asks.
    pub report_number: u64,
    /// When that one came.
    pub(super) heard_at: Instant,
    /// Its memory, as it said last.
    pub memory: Option<MemoryReport>,
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
    /// Those of them whose promise is broken, and that is to be answered.
    pub(super) troubled: BTreeSet<String>,
    /// What its words come to.
    pub(super) flow: Flow,
    /// Reports that were not heard in whole.
    pub(super) hearing: Hearing,
    /// How long leases there last that were renewed all at once.
    pub(super) renewal: Option<Renewal>,
}

impl Broker {
    /// A broker known only by what was kept of it.
    pub(super) fn remembered(name: String, tcp_address: String, now: Instant) -> Broker {
        Broker {
            name,
            tcp_address,
            http_address: None,
            gossip_address: None,
            identity: None,
            life: 0,
            process: 0,
            from: None,
            liveness: Liveness::Silent(now),
            dead_since: now,
            presences: [Presence::default(); Door::ALL.len()],
            is_draining: false,
            takers: Vec::new(),
            is_given_up: false,
            link: None,
            linked_at: now,
            reported_at: now,
            silent_since: now,
            report_number: 0,
            heard_at: now,
            memory: None,
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
            troubled: BTreeSet::new(),
            flow: Flow::default(),
            hearing: Hearing::default(),
            renewal: None,
        }
    }

    /// It announces the addresses of `hello`; what is known of those that stay holds for the same process only.
    fn announces(&mut self, hello: &Hello, is_same_process: bool) {
        let former = Door::ALL.map(|door| self.announced(door).cloned());
        self.tcp_address.clone_from(&hello.tcp_address);
        self.http_address.clone_from(&hello.http_address);
        self.gossip_address.clone_from(&hello.gossip_address);
        for (door, former) in Door::ALL.into_iter().zip(former) {
            if !is_same_process || self.announced(door) != former.as_ref() {
                *self.presence_mut(door) = Presence::default();
            }
        }
    }

    /// Whether publishers may be placed on it.
    #[must_use]
    pub fn takes_publishers(&self) -> bool {
        self.is_up() && !self.is_draining
    }

    /// Whether it is a broker: a number that was freed stands for none.
    #[must_use]
    pub fn has_name(&self) -> bool {
        !self.name.is_empty()
    }

    /// Whether it reports and is where it says.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.liveness == Liveness::Up && self.has_answered(Door::Clients)
    }

    /// Whether others may reckon with it: it was where it said, and is not dead for certain.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.liveness != Liveness::Dead && self.has_answered(Door::Clients)
    }
}

impl Core {
    /// A broker that has proved the key says hello on connection `link` from `from`. Gives its number; the answer to it is
    /// among the effects.
    ///
    /// # Errors
    /// What is wrong with its hello.
    pub fn hello(
        &mut self,
        (link, from): (u64, IpAddr),
        hello: &Hello,
        now: Instant,
    ) -> Result<BrokerNumber, Refusal> {
        check_hello(hello)?;
        let (number, is_new) = self.claim_name(hello, from, now)?;
        let broker = self.broker(number);
        let is_same_process =
            hello.life != 0 && broker.life == hello.life && broker.identity == Some(hello.identity);
        let life = match is_same_process {
            true => hello.life,
            false => self.next_life(),
        };
        let broker = &mut self.brokers[number as usize];
        broker.announces(hello, is_same_process);
        if let Some(old) = broker.link.replace(link) {
            self.effects.push(Effect::CloseLink(old));
        }
        (broker.identity, broker.life, broker.from) = (Some(hello.identity), life, Some(from));
        broker.mcap = hello.mcap.or(broker.mcap);
        broker.model = hello.model.or(broker.model);
        broker.liveness = Liveness::Up;
        broker.is_given_up = false;
        (broker.linked_at, broker.reported_at, broker.silent_since) = (now, now, now);
        broker.report_number = 0;
        broker.memory = None;
        broker.inventory.leave();
        self.hearing.remove(&number);
        broker.hearing = Hearing::default();
        // Reports are counted from 1 again.
        broker.told_again.clear();
        self.joining.remove(&number);
        if is_same_process {
            self.forget_link(number, now);
        } else {
            let former = broker.forget_words();
            self.discard(former);
            self.end_inventory(number);
            if !is_new {
                self.forget_process(number, now);
            }
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
            self.brokers[index].hearing = Hearing::default();
            self.hearing.remove(&(index as BrokerNumber));
            self.brokers[index].joining = Joining::default();
            self.joining.remove(&(index as BrokerNumber));
            self.look_at_all_shares();
            self.probe(index as BrokerNumber, Door::Clients, now);
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

    /// Its process is gone for certain: its shares are free at once, its publishers are placed elsewhere.
    pub(super) fn dead(&mut self, number: BrokerNumber, why: &str, now: Instant) {
        let broker = &mut self.brokers[number as usize];
        if broker.liveness == Liveness::Dead {
            return;
        }
        (broker.liveness, broker.dead_since) = (Liveness::Dead, now);
        if let Some(link) = broker.link.take() {
            self.effects.push(Effect::CloseLink(link));
        }
        self.hearing.remove(&number);
        let broker = &mut self.brokers[number as usize];
        broker.hearing = Hearing::default();
        let former = broker.forget_words();
        let text = format!("{} is dead: {why}", broker.name);
        self.discard(former);
        self.tell("broker-dead", None, Some(number), text);
        self.end_inventory(number);
        self.forget_process(number, now);
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
                _ => self.probe_due(number, now),
            }
        }
        self.forget_long_dead(now);
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

    pub(super) fn insert_broker(&mut self, mut broker: Broker) -> BrokerNumber {
        broker.process = self.next_process();
        let number = self.brokers.len() as BrokerNumber;
        self.broker_by_name.insert(broker.name.clone(), number);
        self.brokers.push(broker);
        number
    }

    fn welcome(&mut self, number: BrokerNumber, now: Instant) {
        let message = ToBroker::Welcome {
            epoch: self.epoch,
            life: self.broker(number).life,
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
        for door in Door::ALL {
            match self.broker(number).has_answered(door) {
                true if door == Door::Clients => self.comes_up(number, now),
                true => {}
                false => self.probe(number, door, now),
            }
        }
    }

    /// Publishers may be placed on it from now on.
    pub(super) fn comes_up(&mut self, number: BrokerNumber, now: Instant) {
        let text = format!("{} is up", self.broker(number).name);
        self.tell("broker-up", None, Some(number), text);
        self.room_came(now);
    }

    /// The process that had this number is gone, and with it its shares and its connections. Ledgers hear of it when their topics are
    /// looked at.
    fn forget_process(&mut self, number: BrokerNumber, now: Instant) {
        self.brokers[number as usize].process = self.next_process();
        self.look_at_all_shares();
        self.begin_job(Job::Detach(number), now);
    }

    /// The same process on another connection: the numbers of its reports begin again, and it says anew who is connected.
    fn forget_link(&mut self, number: BrokerNumber, now: Instant) {
        self.look_at_all_shares();
        self.begin_job(Job::Detach(number), now);
    }

    pub(super) fn next_process(&mut self) -> u64 {
        self.processes += 1;
        self.processes
    }
}

fn check_hello(hello: &Hello) -> Result<(), String> {
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
