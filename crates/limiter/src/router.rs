//! The router decides about each packet: its site and class, whether it passes, and, in a testbed,
//! when.
//!
//! Without emulation [`Router::route`] decides at once, and nothing is kept. With it the router
//! keeps copies of packets until they arrive; its owner calls [`Router::advance`] when
//! [`Router::due`] says so, and before it hands in packets of the same instant.

mod counters;
mod flows;

use std::net::IpAddr;
use std::time::Duration;

use clock::Instant;
use limit::sharing::{Sharing, SharingError, Verdict};

use crate::address::PrefixTable;
use crate::class::Match;
use crate::config::{Config, ConfigError};
use crate::delay_queue::DelayQueue;
use crate::emulate::Network;
use crate::fabric::Fabric;
use crate::packet::Header;
use crate::site::Standing;

pub use counters::Counters;
pub(crate) use flows::{FLOWS_MAX, Flows};

/// Where packets come in and go out: one of a pair of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Which pair, as the configuration counts them.
    pub pair: usize,
    /// Which of the two.
    pub side: Side,
}

/// The two sides of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Towards the sources.
    Inner,
    /// Towards the sinks.
    Outer,
}

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Send it out at once by the other port of its pair.
    Forward,
    /// Drop it.
    Drop,
    /// Do nothing: the router keeps a copy, and hands it out when it leaves.
    Held,
}

/// Decides about packets; the module says how.
#[derive(Debug)]
pub struct Router {
    classes: Vec<Match>,
    sites: PrefixTable,
    site_count: usize,
    /// For each pair, the site that all its packets belong to.
    pairs: Vec<Option<usize>>,
    /// For each site, its number among all N limiters.
    numbers: Vec<u32>,
    limiters: u32,
    /// The limiters, by site, then by class.
    standings: Vec<Standing>,
    network: Option<Network>,
    /// Packets on their way to their limiter.
    coming: DelayQueue<Parcel>,
    /// Packets on their way from their limiter.
    going: DelayQueue<Parcel>,
    spare: Vec<Vec<u8>>,
    counters: Counters,
    flows: Option<Flows>,
}

/// A packet that is held back.
#[derive(Debug)]
struct Parcel {
    stage: Stage,
    to: Port,
    site: usize,
    class: Option<usize>,
    header: Header,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The packet leaves its bottleneck.
    Link,
    /// The packet reaches its limiter.
    Limiter,
    /// The packet reaches its destination.
    Arrival,
}

/// The most buffers that are kept for later packets.
const SPARE_MAX: usize = 4096;

impl Router {
    /// The router that `config` describes, starting at `now`. It counts flows if `flows` is set.
    ///
    /// # Errors
    /// [`ConfigError`] when a limit cannot be.
    pub fn new(config: &Config, now: Instant, flows: bool) -> Result<Router, ConfigError> {
        let destinations = config.site.iter().enumerate().flat_map(|(number, site)| {
            site.destinations
                .iter()
                .map(move |prefix| (*prefix, number))
        });
        let named = |name: &Option<String>| {
            let name = name.as_ref()?;
            config.site.iter().position(|site| site.name == *name)
        };
        let held = config
            .emulate
            .as_ref()
            .map_or(0, |emulate| emulate.held_packets);
        let mut router = Router {
            classes: config
                .class
                .iter()
                .map(|class| class.matching.clone())
                .collect(),
            sites: PrefixTable::new(destinations),
            site_count: config.site.len(),
            pairs: match config.intake {
                crate::config::Intake::Tun => {
                    config.tun.iter().map(|pair| named(&pair.site)).collect()
                }
                crate::config::Intake::Nfqueue => config
                    .nfqueue
                    .iter()
                    .map(|queue| named(&queue.site))
                    .collect(),
            },
            numbers: config.site_numbers(),
            limiters: config.limiters(),
            standings: Vec::new(),
            network: config
                .emulate
                .as_ref()
                .map(|emulate| Network::new(emulate, config.site.len(), now)),
            coming: DelayQueue::new(held),
            going: DelayQueue::new(held),
            spare: Vec::new(),
            counters: Counters::default(),
            flows: flows.then(Flows::default),
        };
        router.stand(config, now)?;
        Ok(router)
    }

    fn stand(&mut self, config: &Config, now: Instant) -> Result<(), ConfigError> {
        let sharings = config.class.iter().enumerate().map(|(number, class)| {
            let sharing = class.limit.map(|limit| config.sharing(&limit, number));
            let sharing = sharing.transpose().map_err(|source| ConfigError::Limit {
                class: class.name.clone(),
                source,
            })?;
            Ok((class, sharing))
        });
        let sharings: Vec<_> = sharings.collect::<Result<_, ConfigError>>()?;
        for site in 0..self.site_count {
            for (class, sharing) in &sharings {
                let limiter = sharing.map(|sharing| sharing.limiter(self.numbers[site], now));
                let limiter = limiter.transpose().map_err(|source| ConfigError::Limit {
                    class: class.name.clone(),
                    source,
                })?;
                let on_failure = class
                    .limit
                    .map(|limit| limit.on_failure)
                    .unwrap_or_default();
                self.standings.push(Standing::new(limiter, on_failure));
            }
        }
        Ok(())
    }

    /// Decides about `packet`, which came in by `from` at `now`.
    pub fn route(&mut self, now: Instant, from: Port, packet: &[u8]) -> Route {
        let header = match Header::parse(packet) {
            Ok(header) => header,
            Err(odd) => {
                self.counters.odd[odd.index()] += 1;
                return Route::Drop;
            }
        };
        match from.side {
            Side::Inner => self.limit(now, from, header, packet),
            Side::Outer => self.pass_back(now, from, header, packet),
        }
    }

    /// Decides about a packet of `length` bytes of which only the beginning is there; what is held back cannot be so.
    pub(crate) fn route_head(
        &mut self,
        now: Instant,
        from: Port,
        head: &[u8],
        length: usize,
    ) -> Route {
        match Header::parse_head(head, length) {
            Ok(header) => self.limit(now, from, header, head),
            Err(odd) => {
                self.counters.odd[odd.index()] += 1;
                Route::Drop
            }
        }
    }

    /// Moves on whatever is due at `now`; `deliver` gets what leaves, and by which port.
    pub fn advance(&mut self, now: Instant, mut deliver: impl FnMut(Port, &[u8])) {
        // All that comes before all that goes: a packet that was forwarded late may have to leave at once.
        while let Some((at, parcel)) = self.coming.pop_due(now) {
            match parcel.stage {
                Stage::Link => self.reach_link(at, parcel),
                Stage::Limiter | Stage::Arrival => self.reach_limiter(at, parcel),
            }
        }
        while let Some((due, parcel)) = self.going.pop_due(now) {
            let late_ns = now.as_nanos() - due.as_nanos();
            self.counters.delivered += 1;
            self.counters.late_ns += late_ns;
            self.counters.latest_ns = self.counters.latest_ns.max(late_ns);
            deliver(parcel.to, &parcel.bytes);
            self.take_back(parcel.bytes);
        }
    }

    /// When [`Router::advance`] is to be called next. A packet on its way to its limiter may be judged later than it is
    /// there, as of the instant when it was, as long as that is before it would arrive.
    pub fn due(&self) -> Option<Instant> {
        let grace = self
            .network
            .as_ref()
            .map_or(Duration::ZERO, Network::least_delay);
        let coming = self.coming.due().map(|due| due + grace / 2);
        [coming, self.going.due()].into_iter().flatten().min()
    }

    /// Ends an estimate interval of `site`: what it found goes to `fabric`, and what it heard from there counts.
    pub fn estimate_site(&mut self, now: Instant, site: usize, fabric: &mut dyn Fabric) {
        let classes = self.classes.len();
        for class in 0..classes {
            let standing = &mut self.standings[site * classes + class];
            if standing.local_limit().is_none() {
                continue;
            }
            let remote = fabric.remote(now, site, class);
            if let Some(update) = standing.estimate(now, remote, self.limiters == 1) {
                fabric.tell(now, site, class, update);
            }
        }
    }

    /// Puts another limit of `class` into force at all sites: their parts change in proportion, and no tokens are given.
    ///
    /// # Errors
    /// [`SharingError`] when it cannot be divided among so many; then nothing changes.
    pub fn set_limit(
        &mut self,
        now: Instant,
        class: usize,
        sharing: &Sharing,
    ) -> Result<(), SharingError> {
        let (rate, burst) = (sharing.config().rate, sharing.config().burst);
        let classes = self.classes.len();
        for site in 0..self.site_count {
            self.standings[site * classes + class].set_limit(now, rate, burst)?;
        }
        Ok(())
    }

    /// The limiter of `class` at `site`, with its counters.
    pub fn standing(&self, site: usize, class: usize) -> &Standing {
        &self.standings[site * self.classes.len() + class]
    }

    /// Counts of packets that no limit decided about.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Packets that are held back.
    pub fn held(&self) -> usize {
        self.coming.len() + self.going.len()
    }

    /// The counts of flows, if they are kept.
    pub(crate) fn flows(&self) -> Option<&Flows> {
        self.flows.as_ref()
    }

    fn limit(&mut self, now: Instant, from: Port, header: Header, packet: &[u8]) -> Route {
        let class = self.classes.iter().position(|class| class.covers(&header));
        if class.is_none() {
            self.counters.unclassed += 1;
        }
        let site = match self.site_of(from, header.destination) {
            Some(site) => site,
            None if class.is_none() => return self.pass_on(now, from, header, packet),
            None => {
                self.counters.unplaced += 1;
                return Route::Drop;
            }
        };
        if self.network.is_none() {
            return match self.judge(now, site, class, &header) {
                Verdict::Forward => Route::Forward,
                Verdict::Drop => Route::Drop,
            };
        }
        self.set_out(now, from, (site, class), header, packet)
    }

    /// Lets a packet go on its way from source to limiter.
    fn set_out(
        &mut self,
        now: Instant,
        from: Port,
        (site, class): (usize, Option<usize>),
        header: Header,
        packet: &[u8],
    ) -> Route {
        let Some(network) = &mut self.network else {
            return Route::Drop;
        };
        let Some(out) = network.through_bottleneck(now, header.source, header.length) else {
            self.counters.lost_at_bottlenecks += 1;
            return Route::Drop;
        };
        let parcel = Parcel {
            stage: Stage::Link,
            to: from.other(),
            site,
            class,
            header,
            bytes: self.copy(packet),
        };
        if out > now {
            self.keep_coming(out, parcel);
        } else {
            self.reach_link(now, parcel);
        }
        Route::Held
    }

    fn reach_link(&mut self, at: Instant, mut parcel: Parcel) {
        let Some(network) = &mut self.network else {
            return;
        };
        match network.through_link(at, parcel.site, parcel.header.length) {
            Some(there) => {
                parcel.stage = Stage::Limiter;
                self.keep_coming(there, parcel);
            }
            None => {
                self.counters.lost_at_links += 1;
                self.take_back(parcel.bytes);
            }
        }
    }

    fn reach_limiter(&mut self, at: Instant, parcel: Parcel) {
        match self.judge(at, parcel.site, parcel.class, &parcel.header) {
            Verdict::Forward => self.send(at, parcel.header.destination, parcel),
            Verdict::Drop => self.take_back(parcel.bytes),
        }
    }

    fn judge(
        &mut self,
        at: Instant,
        site: usize,
        class: Option<usize>,
        header: &Header,
    ) -> Verdict {
        let Some(class) = class else {
            return Verdict::Forward;
        };
        let flow = header.flow();
        let standing = &mut self.standings[site * self.classes.len() + class];
        let verdict = standing.judge(at, flow, header.length);
        if let Some(flows) = &mut self.flows {
            flows.count(at, flow, (site, class), header, verdict);
        }
        verdict
    }

    /// Passes on a packet to a sink that no site stands for; nothing limits it.
    fn pass_on(&mut self, now: Instant, from: Port, header: Header, packet: &[u8]) -> Route {
        self.pass(now, from, header, header.destination, packet)
    }

    fn pass_back(&mut self, now: Instant, from: Port, header: Header, packet: &[u8]) -> Route {
        self.counters.returned += 1;
        self.counters.returned_bytes += u64::from(header.length);
        self.pass(now, from, header, header.source, packet)
    }

    fn pass(
        &mut self,
        now: Instant,
        from: Port,
        header: Header,
        sink: IpAddr,
        packet: &[u8],
    ) -> Route {
        if self.network.is_none() {
            return Route::Forward;
        }
        let parcel = Parcel {
            stage: Stage::Arrival,
            to: from.other(),
            site: 0,
            class: None,
            header,
            bytes: self.copy(packet),
        };
        self.send(now, sink, parcel);
        Route::Held
    }

    /// Sends a packet over the path between limiter and `sink`, either way.
    fn send(&mut self, at: Instant, sink: IpAddr, mut parcel: Parcel) {
        let delay = self.network.as_ref().map(|network| network.delay(sink));
        parcel.stage = Stage::Arrival;
        if let Err(parcel) = self.going.push(at + delay.unwrap_or_default(), parcel) {
            self.counters.lost_in_hold += 1;
            self.take_back(parcel.bytes);
        }
    }

    fn keep_coming(&mut self, at: Instant, parcel: Parcel) {
        if let Err(parcel) = self.coming.push(at, parcel) {
            self.counters.lost_in_hold += 1;
            self.take_back(parcel.bytes);
        }
    }

    fn site_of(&self, from: Port, sink: IpAddr) -> Option<usize> {
        let only = (self.site_count == 1).then_some(0);
        let pair = self.pairs.get(from.pair).copied().flatten();
        pair.or_else(|| self.sites.find(sink)).or(only)
    }

    fn copy(&mut self, packet: &[u8]) -> Vec<u8> {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(packet);
        bytes
    }

    fn take_back(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE_MAX {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}

impl Port {
    /// The other port of the pair.
    pub const fn other(self) -> Port {
        let side = match self.side {
            Side::Inner => Side::Outer,
            Side::Outer => Side::Inner,
        };
        Port { side, ..self }
    }
}

#[cfg(test)]
mod tests;
