//! A broker as the controller knows it.
//!
//! Death needs a proof: the broker's host says that nobody listens, somebody else proves to be at
//! its address, another process with the same identity says hello, or the operator says so. Silence
//! is no proof; leases account for what a silent broker may still be doing.

use std::collections::BTreeMap;
use std::net::IpAddr;

use clock::Instant;
use link::{Door, Hello, Identity, MemoryReport};
use model::ServiceModel;

use super::Inventory;
use super::check::{self, NameKind};
use super::hearing::Hearing;
use super::joining::Joining;
use super::presence::Presence;
use super::reports::Reports;
use super::shares::Renewal;

/// A broker's place in the registry; it never changes while the controller lives.
pub type BrokerNumber = u32;

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
    /// The brokers that take its queues, as it was told on this link.
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
    pub reports: Reports,
    /// Topics and channels that it has.
    pub inventory: Inventory,
    /// Topics that it had another contract of than declared, with the report at which it was told again.
    pub(super) told_again: BTreeMap<String, u64>,
    pub(super) joining: Joining,
    /// The latest contract that is in force there.
    pub(super) confirmed_ticket: u64,
    /// Reports that were not heard in whole.
    pub(super) hearing: Hearing,
    /// How long leases there last that were renewed all at once.
    pub(super) renewal: Option<Renewal>,
}

impl Broker {
    /// A broker known only from the store.
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
            reports: Reports::default(),
            inventory: Inventory::default(),
            told_again: BTreeMap::new(),
            joining: Joining::default(),
            confirmed_ticket: 0,
            hearing: Hearing::default(),
            renewal: None,
        }
    }

    /// It announces the addresses of `hello`; what is known of those that stay holds for the same process only.
    pub(super) fn announces(&mut self, hello: &Hello, is_same_process: bool) {
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

    /// The most messages per second that arrived by one of the last two reports.
    pub(super) fn recent_rate(&self) -> f64 {
        self.recent_rates[0].max(self.recent_rates[1])
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

/// Whether a hello can be believed.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check_hello(hello: &Hello) -> Result<(), String> {
    check::name(NameKind::Broker, &hello.broker)?;
    check::address("tcp_address", &hello.tcp_address)?;
    if let Some(http) = &hello.http_address {
        check::address("http_address", http::is_encrypted(http).0)?;
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
        return Err(format!("the service model {model:?} is out of range"));
    }
    Ok(())
}
