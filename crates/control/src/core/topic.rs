//! A topic: its contract, its publishers, and the state of its shares and its fit.

use clock::Instant;
use link::Durability;
use placement::BrokerIndex;

use super::fit::Fit;
use super::publisher::Publishers;
use super::seats::Shares;
use crate::ControlError;
use crate::view::{Contract, TopicSpec};

/// One topic.
#[derive(Debug)]
pub struct Topic {
    /// What was declared.
    pub spec: TopicSpec,
    /// Number of its contract, 0 where none was ever declared.
    pub ticket: u64,
    /// Who publishes.
    pub publishers: Publishers,
    /// Who may use how much of the limit.
    pub shares: Shares,
    /// The number that gossip knows its limit by, where brokers share it among themselves; then there is no ledger.
    pub limit_number: Option<u16>,
    /// Where the fit to its promise stands.
    pub fit: Fit,
    /// When publishers were placed last: traffic of before says nothing about what follows.
    pub(super) placed_at: Option<Instant>,
    /// Publishers for which there was no room when all without a place were tried.
    pub(super) stranded: usize,
    /// Where looking for publishers to move goes on.
    pub(super) next_move: u32,
    /// Below which index looking for publishers that leave a broker goes on, in a topic with many.
    pub(super) next_shed: Option<usize>,
}

impl Topic {
    pub(super) fn new(name: &str, spec: TopicSpec) -> Topic {
        let promise_us = spec.slo.map(|slo| slo.latency_us);
        Topic {
            spec,
            ticket: 0,
            publishers: Publishers::new(name, promise_us),
            shares: Shares::default(),
            limit_number: None,
            fit: Fit::default(),
            placed_at: None,
            stranded: 0,
            next_move: 0,
            next_shed: None,
        }
    }

    /// Whether the ledger of the shares goes on under `spec`, which holds as long as the unit does.
    pub(super) fn keeps_ledger(&self, spec: &TopicSpec) -> bool {
        let (limit, former) = (spec.contract.limit, self.spec.contract.limit);
        self.shares.go_on_under(limit, former)
    }

    /// Largest batch of its publishers, in tokens of its limit.
    pub(super) fn largest_batch_tokens(&self) -> f64 {
        let limit = self.spec.contract.limit;
        self.publishers
            .largest_batch_tokens(limit.map(|limit| limit.unit))
    }

    /// Its contract in words.
    pub(super) fn describe(&self) -> String {
        let Contract {
            limit,
            cpu_share,
            on_full,
            durability,
        } = self.spec.contract;
        let limit = limit.map_or_else(|| String::from("no limit"), |limit| limit.to_string());
        let promise = match &self.spec.slo {
            Some(slo) => format!("p{} within {} us", slo.percentile, slo.latency_us),
            None => String::from("nothing promised"),
        };
        let share = cpu_share.map_or_else(String::new, |share| {
            format!("; {share} of its thread's time")
        });
        let on_full =
            on_full.map_or_else(String::new, |on_full| format!("; full channels: {on_full}"));
        let durability = match durability {
            Durability::Memory => String::new(),
            kept => format!("; durability: {kept}"),
        };
        format!("{limit}; {promise}{share}{on_full}{durability}")
    }

    /// Where each publisher is to publish, as the distributor sees it.
    pub(super) fn placed(&self) -> Vec<Option<BrokerIndex>> {
        let rows = self.publishers.rows().iter();
        rows.map(|row| row.broker.map(BrokerIndex)).collect()
    }

    /// By broker: the rate placed there, as measured where that is known.
    pub(super) fn placed_rates(&self, brokers: usize) -> Vec<f64> {
        let mut rates = vec![0.0; brokers];
        for (number, tally) in self.publishers.tallies() {
            rates[number as usize] = tally.placed.rate();
        }
        rates
    }

    /// Whether some publisher is not where it is to be.
    pub(super) fn has_moves(&self) -> bool {
        !self.publishers.misplaced().is_empty()
    }
}

/// There is no such publisher.
pub fn no_publisher(topic: &str, id: &str) -> ControlError {
    ControlError::NotFound(format!(
        "topic {topic:?} has no publisher {id:?}; POST /v1/topics/{topic}/publishers adds it"
    ))
}
