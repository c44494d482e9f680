//! Laws that must hold, whatever fails. Each keeps its own books, from what is seen at the
//! processes' edges.

pub mod contracts;
pub mod delivery;
pub mod gossip;
pub mod limits;
pub mod names;

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Instant;

use contracts::Contracts;
use delivery::{Deliveries, Memory};
use gossip::Gossiped;
use limits::Limits;
use names::Names;

/// A law that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When, in simulated time since the beginning.
    pub at: Instant,
    /// Which.
    pub law: &'static str,
    /// What happened.
    pub what: String,
}

/// The books of all laws; the first violation counts.
#[derive(Debug, Default)]
pub struct Books {
    /// The instant that it is.
    pub now: Instant,
    /// What is delivered, and how often.
    pub deliveries: Deliveries,
    /// What passes of topics with a limit.
    pub limits: Limits,
    /// How long it takes until brokers have heard of each other's demand.
    pub heard_after: Duration,
    /// Those of them that brokers share by gossip.
    pub gossiped: BTreeMap<String, Gossiped>,
    /// Lives and epochs.
    pub names: Names,
    /// Contracts over restarts of brokers.
    pub contracts: Contracts,
    /// Messages that have passed of topics whose limits are shared by gossip.
    pub messages_passed: u64,
    violation: Option<Violation>,
}

impl Books {
    /// A law is broken.
    pub fn breaks(&mut self, law: &'static str, what: String) {
        let at = self.now;
        self.violation.get_or_insert(Violation { at, law, what });
    }

    /// Takes note of what a look at a law came to.
    pub fn check(&mut self, law: &'static str, looked: Result<(), String>) {
        if let Err(what) = looked {
            self.breaks(law, what);
        }
    }

    /// Messages of a topic with a limit pass at a broker.
    pub fn passed(&mut self, topic: &str, messages: usize, at: Memory) {
        let (law, passed) = match self.gossiped.get_mut(topic) {
            Some(gossiped) => {
                self.messages_passed += messages as u64;
                ("gossip", gossiped.pass(messages, at.0, self.now))
            }
            None => ("limits", self.limits.pass(topic, messages, self.now)),
        };
        self.check(law, passed.map_err(|what| format!("{what} (at {at:?})")));
    }

    /// The first law that was broken.
    #[must_use]
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }
}
