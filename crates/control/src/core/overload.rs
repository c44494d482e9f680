//! Violations that reports show without a window.
//!
//! Each second a broker says how many deliveries of a promised topic were late and what waits. Two
//! things are violations as they stand:
//!
//! * *a queue*: what waits takes longer than promised at the rate at which it leaves, or most
//!   deliveries of the last second were late;
//! * *lateness*: of the deliveries of the last ten reports more were late than the percentile
//!   allows.
//!
//! A third is not a violation yet but becomes one: more arrives at a broker than it can carry
//! (mcap). [`super::relief`] deals with them.

use std::collections::VecDeque;

use clock::Instant;
use link::Lateness;

use super::rates::correct_rates;
use super::registry::Brokers;
use super::relief::Rebalancer;
use super::topics::Topics;
use super::{Broker, BrokerNumber, Settings};
use crate::view::Slo;

/// Reports that lateness is judged by.
const HISTORY_REPORTS: usize = 10;

/// Fewer deliveries than this say nothing about a percentile.
const DELIVERED_MIN: u64 = 100;

/// A queue, or too much traffic, is answered when this many reports in a row show it: one may have
/// seen a burst.
const ANSWERED_REPORTS: u32 = 2;

/// Lateness is answered when this many reports show it: one may have seen a machine that stood
/// still.
const LATE_REPORTS_MIN: usize = 3;

/// What a broker's reports say about a promise.
#[derive(Clone, Debug, Default)]
pub struct Violation {
    history: VecDeque<Lateness>,
    /// Reports in a row that showed a queue.
    pub(super) queued_reports: u32,
    /// Time that what waits takes to leave, in microseconds, by the last report.
    wait_us: f64,
    /// More deliveries were late than the percentile allows.
    is_late: bool,
    /// The last report had no queue any more, and still showed what one before it had made late.
    is_passing: bool,
    /// Reports of the history that showed it.
    late_reports: usize,
}

impl Violation {
    /// Takes the next report; `left_per_s` messages per second left the queue meanwhile.
    /// `is_rearranged`: publishers moved to or from the broker as they were told.
    fn next(&mut self, said: Lateness, slo: Slo, left_per_s: f64, is_rearranged: bool) {
        // Where less than a message per second leaves, a rate says nothing.
        self.wait_us = said.backlog as f64 / left_per_s.max(1.0) * 1e6;
        let is_mostly_late = said.delivered > 0 && 2 * said.late > said.delivered;
        let has_queue = said.backlog > 1 && self.wait_us > slo.latency_us && said.late > 0;
        let had_queue = self.queued_reports > 0;
        self.queued_reports = if has_queue || is_mostly_late {
            self.queued_reports.saturating_add(1)
        } else {
            0
        };
        // What a queue made late, also while it was worked off, says nothing of what follows it; nor does what was late before
        // publishers moved.
        if had_queue || self.queued_reports > 0 || is_rearranged {
            self.history.clear();
        } else {
            self.history.push_back(said);
        }
        if self.history.len() > HISTORY_REPORTS {
            self.history.pop_front();
        }
        let (delivered, late) = self.history.iter().fold((0, 0), |(delivered, late), said| {
            (delivered + said.delivered, late + said.late)
        });
        let allowed = 1.0 - slo.percentile / 100.0;
        let is_beyond = |late: u64, delivered: u64| late as f64 > allowed * delivered as f64;
        let had_any = had_queue && self.queued_reports == 0;
        self.is_passing = had_any && said.late > 1 && is_beyond(said.late, said.delivered);
        self.is_late = delivered >= DELIVERED_MIN && is_beyond(late, delivered) && late > 1;
        let late_reports = self.history.iter();
        let late_reports = late_reports.filter(|said| is_beyond(said.late, said.delivered));
        self.late_reports = late_reports.count();
    }

    /// Whether reports have shown it for long enough.
    pub(super) fn is_to_be_answered(&self) -> bool {
        let is_often_late = self.is_late && self.late_reports >= LATE_REPORTS_MIN;
        self.queued_reports >= ANSWERED_REPORTS || is_often_late
    }

    /// Whether the promise is being broken.
    pub(super) fn is_seen(&self) -> bool {
        self.queued_reports > 0 || self.is_late || self.is_passing
    }

    /// In words.
    fn describe(&self, broker: &str, slo: Slo) -> String {
        if self.queued_reports > 0 {
            return format!(
                "messages wait {:.0} ms at {broker}, but the promise is {} ms",
                self.wait_us / 1e3,
                slo.latency_us / 1e3
            );
        }
        if self.is_passing {
            return format!("the queue at {broker} is gone; the messages it held are late");
        }
        let late: u64 = self.history.iter().map(|said| said.late).sum();
        let delivered: u64 = self.history.iter().map(|said| said.delivered).sum();
        format!(
            "{late} of the last {delivered} messages at {broker} took longer than {} ms",
            slo.latency_us / 1e3
        )
    }
}

/// Whether a broker's reports show that it is given more than it carries.
pub(super) fn has_overload(broker: &Broker) -> bool {
    broker.over_reports >= ANSWERED_REPORTS || broker.reports.has_trouble()
}

/// Whether what waits of a topic at a broker is more than a whole report's worth.
pub(super) fn has_standing_queue(broker: &Broker, settings: &Settings) -> bool {
    let standing_us = settings.report_interval.as_secs_f64() * 1e6;
    broker.reports.troubled().any(|(_, carried)| {
        let violation = &carried.violation;
        violation.queued_reports >= ANSWERED_REPORTS && violation.wait_us > standing_us
    })
}

/// Where a topic's promise is being broken, in words; the broker where it is worst.
pub(super) fn seen_violation(topics: &Topics, brokers: &Brokers, name: &str) -> Option<String> {
    let slo = topics.get(name)?.spec.slo?;
    let seen = brokers.iter().filter_map(|broker| {
        let carried = broker.word(name)?;
        carried.violation.is_seen().then_some((broker, carried))
    });
    let worst = seen.max_by(|(_, a), (_, b)| a.violation.wait_us.total_cmp(&b.violation.wait_us));
    worst.map(|(broker, carried)| carried.violation.describe(&broker.name, slo))
}

impl Rebalancer<'_> {
    /// Judges what a broker has just reported of topics.
    pub(super) fn judge_topics(
        &mut self,
        number: BrokerNumber,
        seconds: f64,
        named: &[String],
        now: Instant,
    ) {
        let is_rearranged = self.brokers[number].is_rearranged;
        for name in named {
            let slo = self.topics.get(name).and_then(|topic| topic.spec.slo);
            let broker = &mut self.brokers[number];
            let Some(carried) = broker.reports.get_mut(name) else {
                continue;
            };
            let was_seen = carried.violation.is_seen();
            match (slo, carried.report.lateness) {
                (Some(slo), Some(said)) => {
                    let left = carried.left;
                    carried.violation.next(said, slo, left, is_rearranged);
                }
                _ => carried.violation = Violation::default(),
            }
            let (seen, has_queue) = (carried.seen, carried.violation.queued_reports > 0);
            let is_seen = carried.violation.is_seen();
            let is_new = is_seen && !was_seen;
            if let Some(slo) = slo.filter(|_| is_new) {
                let text = carried.violation.describe(&broker.name, slo);
                self.out
                    .tell("violated", Some(name), Some(&self.brokers[number]), text);
            }
            if was_seen && !is_seen && seen_violation(self.topics, self.brokers, name).is_none() {
                self.fitter().violation_passed(name, now);
            }
            correct_rates(self.topics, number, name, seen, seconds, has_queue);
            self.brokers[number].reports.note_judged(name);
        }
    }

    /// Answers what is wrong at a broker by all that its last report says.
    pub(super) fn judge_broker(&mut self, number: BrokerNumber, now: Instant) {
        self.brokers[number].is_rearranged = false;
        let rate = self.brokers[number].reports.measured_rate();
        let broker = &self.brokers[number];
        let has_promise = broker.reports.is_any_loud(&self.topics.promised);
        let is_over = has_promise && rate > self.rules.mcap_of(broker);
        let broker = &mut self.brokers[number];
        broker.recent_rates = [rate, broker.recent_rates[0]];
        broker.over_reports = if is_over {
            broker.over_reports.saturating_add(1)
        } else {
            0
        };
        if has_overload(&self.brokers[number]) {
            self.relieve(number, now);
        } else {
            self.brokers[number].short_reports = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLO: Slo = Slo {
        percentile: 99.0,
        latency_us: 40_000.0,
    };

    fn said(delivered: u64, late: u64, backlog: u64) -> Lateness {
        Lateness {
            delivered,
            late,
            backlog,
        }
    }

    #[test]
    fn a_queue_that_takes_longer_than_promised_is_a_violation_at_once() {
        // (deliveries, late, waiting, left per second), and whether a queue is seen.
        let cases = [
            ((1000, 100, 50, 1000.0), true),
            ((1000, 100, 30, 1000.0), false),
            // A burst that was in time so far.
            ((1000, 0, 50, 1000.0), false),
            // Most were late, though nothing waits now.
            ((100, 51, 0, 100.0), true),
            ((100, 50, 0, 100.0), false),
            // Nothing leaves, and nothing was late: nobody takes it.
            ((0, 0, 500, 0.0), false),
        ];
        for ((delivered, late, backlog, left), expected) in cases {
            let mut violation = Violation::default();
            violation.next(said(delivered, late, backlog), SLO, left, false);
            let is_queued = violation.queued_reports > 0;
            assert_eq!(
                is_queued, expected,
                "{delivered}, {late}, {backlog}, {left}"
            );
        }
    }

    #[test]
    fn lateness_is_judged_over_ten_reports_at_the_percentile() {
        let mut violation = Violation::default();
        violation.next(said(50, 3, 0), SLO, 50.0, false);
        assert!(!violation.is_seen(), "fifty deliveries say nothing");
        violation.next(said(150, 0, 0), SLO, 150.0, false);
        assert!(violation.is_late, "3 of 200");
        violation.next(said(100, 0, 0), SLO, 100.0, false);
        assert!(!violation.is_seen(), "3 of 300 are within the percentile");
        for _ in 0..10 {
            violation.next(said(100, 2, 0), SLO, 100.0, false);
        }
        assert!(violation.is_to_be_answered());
        assert_eq!(
            violation.describe("b1", SLO),
            "20 of the last 1000 messages at b1 took longer than 40 ms"
        );
        for _ in 0..6 {
            violation.next(said(100, 0, 0), SLO, 100.0, false);
        }
        assert!(!violation.is_seen(), "8 of 1000: what was late is over");
        for is_rearranged in [false, true] {
            violation.next(said(100, 40, 0), SLO, 100.0, is_rearranged);
            assert_ne!(
                violation.is_seen(),
                is_rearranged,
                "who moved away is not judged"
            );
        }
    }
}
