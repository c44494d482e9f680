//! The limits that a node knows, with the counters of each pair.

use std::collections::BTreeMap;

use wire::gossip::{LimitId, ReplayWindow};

use crate::error::MAX_LIMITS;
use crate::exchange::Exchange;

/// At most [`MAX_LIMITS`]; one that is there stays.
#[derive(Debug)]
pub(super) struct Limits {
    peers: usize,
    limits: BTreeMap<LimitId, Limit>,
}

/// One limit.
#[derive(Debug)]
pub(super) struct Limit {
    /// `None` while the limit is not shared here, though perhaps by others.
    pub(super) exchange: Option<Exchange>,
    /// Counters to and from each peer.
    pub(super) pairs: Vec<Pair>,
}

/// How many updates went to a peer, and which came from it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pair {
    sent: u64,
    pub(super) heard: ReplayWindow,
}

impl Limits {
    pub(super) fn new(peers: usize) -> Self {
        Limits {
            peers,
            limits: BTreeMap::new(),
        }
    }

    pub(super) fn get(&self, id: LimitId) -> Option<&Limit> {
        self.limits.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: LimitId) -> Option<&mut Limit> {
        self.limits.get_mut(&id)
    }

    /// The limit, if there is room for it.
    pub(super) fn get_or_insert(&mut self, id: LimitId) -> Option<&mut Limit> {
        if self.limits.len() >= MAX_LIMITS && !self.limits.contains_key(&id) {
            return None;
        }
        let peers = self.peers;
        Some(self.limits.entry(id).or_insert_with(|| Limit {
            exchange: None,
            pairs: vec![Pair::default(); peers],
        }))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Limit> {
        self.limits.values_mut()
    }
}

impl Limit {
    pub(super) fn parts(&mut self) -> Option<(&mut Exchange, &mut [Pair])> {
        let exchange = self.exchange.as_mut()?;
        Some((exchange, &mut self.pairs))
    }
}

impl Pair {
    /// The number of the next update.
    pub(super) fn next(&mut self) -> u64 {
        self.sent += 1;
        self.sent
    }
}
