//! The transport of gossip: this process's memory, or UDP.

use std::os::fd::AsFd;
use std::time::Duration;

use clock::Instant;

use super::nodes::{Nodes, Unsent};
use crate::config::{Config, Transport};
use crate::error::LimiterError;
use crate::fabric::{Fabric, MemoryFabric};

/// Carries demand between sites; the module says how.
#[derive(Debug)]
pub(super) enum GossipTransport {
    Memory(MemoryFabric),
    Udp(Nodes),
}

impl GossipTransport {
    pub(super) fn open(config: &Config, now: Instant) -> Result<GossipTransport, LimiterError> {
        // One site has nobody to talk to, and needs no address.
        if config.gossip.transport == Transport::Udp && config.limiters() > 1 {
            return Ok(GossipTransport::Udp(Nodes::open(config, now)?));
        }
        let emulate = config.emulate.clone().unwrap_or_default();
        Ok(GossipTransport::Memory(MemoryFabric::new(
            config.site.len(),
            config.class.len(),
            Duration::from_micros(emulate.gossip_delay_us),
            emulate.gossip_loss,
            config.gossip.seed,
        )))
    }

    pub(super) fn fabric(&mut self) -> &mut dyn Fabric {
        match self {
            GossipTransport::Memory(fabric) => fabric,
            GossipTransport::Udp(nodes) => nodes,
        }
    }

    /// The sockets that are to be watched, by site.
    pub(super) fn each(&self) -> impl Iterator<Item = impl AsFd + '_> {
        let nodes = match self {
            GossipTransport::Memory(_) => None,
            GossipTransport::Udp(nodes) => Some(nodes.each()),
        };
        nodes.into_iter().flatten()
    }

    pub(super) fn receive(&mut self, now: Instant, site: usize) {
        if let GossipTransport::Udp(nodes) = self {
            nodes.receive(now, site);
        }
    }

    pub(super) fn wake(&mut self, now: Instant) {
        if let GossipTransport::Udp(nodes) = self {
            nodes.wake(now);
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        match self {
            GossipTransport::Memory(_) => None,
            GossipTransport::Udp(nodes) => Some(nodes.due()),
        }
    }

    pub(super) fn leave(&mut self) {
        if let GossipTransport::Udp(nodes) = self {
            nodes.leave();
        }
    }

    pub(super) fn counters(&self, site: usize) -> Option<gossip::Counters> {
        match self {
            GossipTransport::Memory(_) => None,
            GossipTransport::Udp(nodes) => nodes.counters(site),
        }
    }

    pub(super) fn unsent(&self, site: usize) -> Unsent {
        match self {
            GossipTransport::Memory(_) => Unsent::default(),
            GossipTransport::Udp(nodes) => nodes.unsent(site),
        }
    }

    pub(super) fn unsent_by_none(&self) -> Unsent {
        match self {
            GossipTransport::Memory(_) => Unsent::default(),
            GossipTransport::Udp(nodes) => nodes.unsent_by_none(),
        }
    }
}
