//! Profiling windows: run at the same time on all brokers that carry a topic.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Instant;
use link::{ToBroker, Traced, WindowReport};

use super::fit::Phase;
use super::trace::TraceParts;
use super::{BrokerNumber, Core, check};

/// Reports that come later than this after a window's end are not waited for.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// A window that runs, and what is known of it so far.
#[derive(Debug)]
pub(super) struct OpenWindow {
    number: u64,
    seconds: f64,
    until: Instant,
    reports: BTreeMap<BrokerNumber, Option<WindowReport>>,
    parts: TraceParts,
}

impl OpenWindow {
    /// Whether all brokers have reported or too much time has passed.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.reports.values().all(Option::is_some) || now >= self.until
    }
}

impl Core {
    /// Begins a window on all brokers where publishers of the topic are placed.
    pub(super) fn open_window(&mut self, name: &str, now: Instant) {
        let Some(topic) = self.topics.get(name) else {
            return;
        };
        let placed = topic.placed_rates(self.brokers.len());
        let carriers: Vec<BrokerNumber> = (0u32..)
            .zip(&placed)
            .filter(|&(number, &rate)| rate > 0.0 && self.broker(number).link.is_some())
            .map(|(number, _)| number)
            .collect();
        let has_trace = topic.fit.wants_trace() || topic.spec.infer_groups;
        let percentile = topic.spec.slo.map_or(99.0, |slo| slo.percentile);
        self.last_window += 1;
        let (window, seconds) = (self.last_window, self.settings.profile_window.as_secs_f64());
        for &number in &carriers {
            let topic = name.to_owned();
            let order = ToBroker::Measure {
                window,
                topic,
                seconds,
                percentile,
                with_trace: has_trace,
            };
            self.send(number, order);
        }
        if let Some(topic) = self.topics.get_mut(name) {
            topic.fit.phase = Phase::Measuring(Box::new(OpenWindow {
                number: window,
                seconds,
                until: now + self.settings.profile_window + REPORT_TIMEOUT,
                reports: carriers.into_iter().map(|number| (number, None)).collect(),
                parts: TraceParts::default(),
            }));
        }
    }

    /// A broker's answer to a window.
    pub(super) fn window_report(
        &mut self,
        number: BrokerNumber,
        report: WindowReport,
        now: Instant,
    ) {
        let latencies = [report.latency_us, report.p50_us];
        let is_sane = latencies
            .iter()
            .flatten()
            .all(|&us| check::amount("latency", us, 3.6e9).is_ok());
        if !is_sane {
            return self.distrust(
                number,
                &format!("window {} with latencies {latencies:?}", report.window),
            );
        }
        let Some(open) = self.open_window_of(&report.topic, report.window) else {
            return;
        };
        let Some(place) = open.reports.get_mut(&number) else {
            return;
        };
        let name = report.topic.clone();
        let shown = report.latency_us.map_or_else(
            || String::from("too few samples"),
            |us| format!("{us:.0} us"),
        );
        let text = format!(
            "window {}: {shown} over {} messages",
            report.window, report.messages
        );
        *place = Some(report);
        self.tell("window", Some(&name), Some(number), text);
        self.drive_fit(&name, now);
    }

    /// A part of an arrival trace.
    pub(super) fn trace_part(&mut self, number: BrokerNumber, part: Traced) {
        if let Some(open) = self.open_window_of(&part.topic, part.window)
            && open.reports.contains_key(&number)
        {
            open.parts.add(number, part);
        }
    }

    /// Hands on what a window showed.
    pub(super) fn close_window(&mut self, name: &str, now: Instant) {
        let Some(topic) = self.topics.get_mut(name) else {
            return;
        };
        let Phase::Measuring(open) = std::mem::take(&mut topic.fit.phase) else {
            return;
        };
        let OpenWindow {
            reports,
            parts,
            seconds,
            ..
        } = *open;
        let answers: Vec<_> = reports
            .into_iter()
            .map(|(number, report)| match report {
                Some(report) => (number, report.latency_us, report.messages),
                None => (number, None, 0),
            })
            .collect();
        self.window_answered(name, &answers, parts, seconds, now);
    }

    fn open_window_of(&mut self, topic: &str, window: u64) -> Option<&mut OpenWindow> {
        match &mut self.topics.get_mut(topic)?.fit.phase {
            Phase::Measuring(open) if open.number == window => Some(open),
            _ => None,
        }
    }
}
