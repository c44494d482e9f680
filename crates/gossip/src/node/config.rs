//! A node's configuration, and its refusals.

use core::net::SocketAddr;
use std::collections::HashMap;
use std::time::Duration;

use wire::gossip::Key;

use crate::error::GossipError;
use crate::exchange::Branches;

/// What a node needs to know; all but `me`, `incarnation` and `seed` alike at all peers.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Where this one receives, as the others see it.
    pub me: SocketAddr,
    /// All N limiters in the same order everywhere, this one among them.
    pub peers: Vec<SocketAddr>,
    /// The secret that all know.
    pub key: Key,
    /// To how many others updates go.
    pub branches: Branches,
    /// The estimate interval.
    pub interval: Duration,
    /// Greater after every start: the wall clock's nanoseconds will do.
    pub incarnation: u64,
    /// Seed of all random choices. They are no secrets.
    pub seed: u64,
}

/// The place of this limiter among the peers, and that of each address.
pub(super) fn places(config: &NodeConfig) -> Result<(u16, HashMap<SocketAddr, u16>), GossipError> {
    if !(Duration::from_millis(1)..=Duration::from_secs(60)).contains(&config.interval) {
        return Err(GossipError::Interval(config.interval));
    }
    if config.incarnation == 0 {
        return Err(GossipError::Incarnation);
    }
    let mut by_address = HashMap::with_capacity(config.peers.len());
    for (index, address) in config.peers.iter().enumerate() {
        if address.port() == 0 || address.ip().is_unspecified() || address.ip().is_multicast() {
            return Err(GossipError::Unreachable(*address));
        }
        let index =
            u16::try_from(index).map_err(|_| GossipError::TooManyPeers(config.peers.len()))?;
        let canonical = SocketAddr::new(address.ip().to_canonical(), address.port());
        if by_address.insert(canonical, index).is_some() {
            return Err(GossipError::Twice(*address));
        }
    }
    let canonical = SocketAddr::new(config.me.ip().to_canonical(), config.me.port());
    match by_address.get(&canonical) {
        Some(me) => Ok((*me, by_address)),
        None => Err(GossipError::NotAmongPeers(config.me)),
    }
}
