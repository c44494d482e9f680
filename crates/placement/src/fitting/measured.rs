//! Windows' measurements on each broker: of the topic itself, and of those beside it.

use super::beside::Beside;
use super::status::Deciding;
use super::{FitConfig, Window};
use crate::{BrokerIndex, Neighbour};

/// Latencies of the last window, by broker, in microseconds.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    own_us: Vec<Option<f64>>,
    /// The latency under which the topic's promise would be as strained as that of a neighbour was.
    pressed_us: Vec<Option<f64>>,
}

impl Measured {
    /// No measurements, of this many brokers.
    pub(super) fn new(brokers: usize) -> Measured {
        Measured {
            own_us: vec![None; brokers],
            pressed_us: vec![None; brokers],
        }
    }

    /// One broker more.
    pub(super) fn add(&mut self) {
        self.own_us.push(None);
        self.pressed_us.push(None);
    }

    /// The measurement at a broker no longer counts.
    pub(super) fn lose(&mut self, broker: BrokerIndex) {
        self.own_us[broker.0 as usize] = None;
        self.pressed_us[broker.0 as usize] = None;
    }

    /// Nothing that was measured counts any more.
    pub(super) fn clear(&mut self) {
        self.own_us.fill(None);
        self.pressed_us.fill(None);
    }

    /// How many brokers there are.
    pub(super) fn brokers(&self) -> usize {
        self.own_us.len()
    }

    /// The topic's own, by broker.
    pub(super) fn own(&self) -> &[Option<f64>] {
        &self.own_us
    }

    /// A search has found the topic's own latency at a broker.
    pub(super) fn set(&mut self, broker: BrokerIndex, latency_us: Option<f64>) {
        self.own_us[broker.0 as usize] = latency_us;
    }

    /// Takes in what every broker measured, leaving out what cannot be true; says what that was.
    pub(super) fn read(&mut self, window: &Window<'_>) -> Vec<String> {
        let mut problems = Vec::new();
        for (at, own) in self.own_us.iter_mut().enumerate() {
            let answer = window.brokers.get(at).copied().unwrap_or_default();
            let absurd = match answer.p99_us {
                None => None,
                Some(_) if answer.messages == 0 => Some("comes without messages"),
                Some(latency) if !(0.0..1e15).contains(&latency) => Some("is not a latency"),
                Some(_) => None,
            };
            if let (Some(reason), Some(latency)) = (absurd, answer.p99_us) {
                problems.push(format!(
                    "broker {at}: a report of {latency} us was ignored: it {reason}"
                ));
            }
            *own = answer.p99_us.filter(|_| absurd.is_none());
        }
        problems
    }

    /// Takes in what neighbours measured on the brokers that carry the topic, by its publishers' `counts`; gives the one that
    /// decided what a broker holds, if one did.
    pub(super) fn read_beside(
        &mut self,
        window: &Window<'_>,
        counts: &[usize],
        config: &FitConfig,
    ) -> Option<Deciding> {
        let mut decided_by = None;
        self.pressed_us.fill(None);
        for neighbour in window.neighbours {
            let brokers = (0u32..).zip(neighbour.latency_us).zip(counts);
            for ((at, latency), _) in brokers.filter(|(_, count)| **count > 0) {
                let sane = latency.filter(|us| (0.0..1e15).contains(us));
                let Some(latency_us) = sane.filter(|_| neighbour.promise_us > 0.0) else {
                    continue;
                };
                let pressed = latency_us / neighbour.promise_us * config.slo_us;
                let worst = &mut self.pressed_us[at as usize];
                if worst.is_none_or(|worst| pressed > worst) {
                    *worst = Some(pressed);
                }
                let own = self.own_us[at as usize].unwrap_or(0.0);
                if pressed > config.slo_us && pressed > own {
                    let beside = Beside::of(&Neighbour {
                        trace: None,
                        publishers: &[],
                        placed: &[],
                        ..*neighbour
                    });
                    decided_by = Some(beside.deciding(BrokerIndex(at), latency_us));
                }
            }
        }
        decided_by
    }

    /// What a broker is judged by: its latency, or that under which the topic's promise would be as strained as the most
    /// strained neighbour's.
    pub(super) fn judged_us(&self, broker: BrokerIndex) -> Option<f64> {
        let at = broker.0 as usize;
        match (self.own_us[at], self.pressed_us[at]) {
            (Some(own), Some(pressed)) => Some(own.max(pressed)),
            (own, pressed) => own.or(pressed),
        }
    }
}
