//! Profiling windows: run at the same time on all brokers that carry a topic.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Instant;
use link::{ToBroker, Traced, WindowReport};
use placement::Mode;

use super::fit::{Phase, URGENT_WINDOW};
use super::trace::TraceParts;
use super::{BrokerNumber, Core, check};

/// Reports that come later than this after a window's end are not waited for.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// A window that runs, and what is known of it so far.
#[derive(Debug)]
pub(super) struct OpenWindow {
    number: u64,
    seconds: f64,
    ends_at: Instant,
    /// By topic: the one that the window is for, and those beside it that a search counts.
    parts: BTreeMap<String, Part>,
}

/// One topic's part of a window.
#[derive(Debug, Default)]
pub(super) struct Part {
    reports: BTreeMap<BrokerNumber, Option<WindowReport>>,
    trace: TraceParts,
}

impl OpenWindow {
    /// Whether all brokers have reported or too much time has passed.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let mut reports = self.parts.values().flat_map(|part| part.reports.values());
        reports.all(Option::is_some) || now >= self.ends_at + REPORT_TIMEOUT
    }

    /// Its number.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether it is still open after `at`.
    pub(super) fn ends_after(&self, at: Instant) -> bool {
        self.ends_at > at
    }
}

impl Part {
    fn of(brokers: impl IntoIterator<Item = BrokerNumber>) -> Part {
        Part {
            reports: brokers.into_iter().map(|number| (number, None)).collect(),
            trace: TraceParts::default(),
        }
    }

    /// What was measured: broker, latency in microseconds, messages; and what was traced.
    pub(super) fn into_answers(self) -> (Vec<(BrokerNumber, Option<f64>, u64)>, TraceParts) {
        let answers = self.reports.into_iter();
        let answers = answers.map(|(number, report)| match report {
            Some(report) => (number, report.latency_us, report.messages),
            None => (number, None, 0),
        });
        (answers.collect(), self.trace)
    }
}

impl Core {
    /// Begins a window on all brokers where publishers of the topic are placed; one of a search covers the promised topics
    /// beside it too, and waits for that of another search on the same brokers.
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
        let with_trace = topic.fit.wants_trace() || topic.spec.infer_groups;
        let beside = if topic.fit.is_under_way() {
            self.beside(name, with_trace && topic.spec.fit == Mode::Replay)
        } else {
            Vec::new()
        };
        if self.is_searched_beside(&beside) {
            return;
        }
        let length = if topic.fit.is_urgent {
            self.settings.profile_window.min(URGENT_WINDOW)
        } else {
            self.settings.profile_window
        };
        self.last_window += 1;
        let window = self.last_window;
        let mut parts = BTreeMap::from([(name.to_owned(), Part::of(carriers))]);
        for (other, brokers) in beside {
            if let Some(topic) = self.topics.get_mut(&other) {
                topic.fit.begin_guest(window, now);
            }
            parts.insert(other, Part::of(brokers));
        }
        for (topic, part) in &parts {
            self.order_window(window, topic, part, length, with_trace);
        }
        let open = OpenWindow {
            number: window,
            seconds: length.as_secs_f64(),
            ends_at: now + length,
            parts,
        };
        if let Some(topic) = self.topics.get_mut(name) {
            topic.fit.is_urgent = false;
            topic.fit.phase = Phase::Measuring(Box::new(open));
            self.due.fits.insert(name);
        }
        self.windows.insert(window, name.to_owned());
        let topics = &self.topics;
        let is_open = |number: u64, owner: &String| {
            let topic = topics.get(owner);
            topic.is_some_and(|topic| topic.fit.has_open(number))
        };
        self.windows.retain(|&number, owner| is_open(number, owner));
    }

    /// Whether this window is open.
    pub(super) fn is_window_open(&self, window: u64) -> bool {
        let owner = self.windows.get(&window);
        let topic = owner.and_then(|owner| self.topics.get(owner));
        topic.is_some_and(|topic| topic.fit.has_open(window))
    }

    fn order_window(
        &mut self,
        window: u64,
        name: &str,
        part: &Part,
        length: Duration,
        with_trace: bool,
    ) {
        let slo = self.topics.get(name).and_then(|topic| topic.spec.slo);
        for &number in part.reports.keys() {
            let order = ToBroker::Measure {
                window,
                topic: name.to_owned(),
                seconds: length.as_secs_f64(),
                percentile: slo.map_or(99.0, |slo| slo.percentile),
                promise_us: slo.map(|slo| slo.latency_us),
                with_trace,
            };
            self.send(number, order);
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
        let Some(part) = self.open_part(&report.topic, report.window) else {
            return;
        };
        let Some(place) = part.reports.get_mut(&number) else {
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
        let window = report.window;
        *place = Some(report);
        self.tell("window", Some(&name), Some(number), text);
        if let Some(owner) = self.windows.get(&window).cloned() {
            self.drive_fit(&owner, now);
        }
    }

    /// A part of an arrival trace.
    pub(super) fn trace_part(&mut self, number: BrokerNumber, part: Traced) {
        if let Some(open) = self.open_part(&part.topic, part.window)
            && open.reports.contains_key(&number)
        {
            open.trace.add(number, part);
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
            number,
            seconds,
            mut parts,
            ..
        } = *open;
        self.windows.remove(&number);
        let own = parts.remove(name).unwrap_or_default();
        let beside = parts.into_iter();
        let beside = beside
            .filter_map(|(other, part)| self.beside_answered(&other, part))
            .collect();
        let (answers, trace) = own.into_answers();
        self.window_answered(name, &answers, trace, beside, seconds, now);
    }

    /// What a window that is open says of a topic.
    fn open_part(&mut self, topic: &str, window: u64) -> Option<&mut Part> {
        let owner = self.windows.get(&window)?;
        match &mut self.topics.get_mut(owner)?.fit.phase {
            Phase::Measuring(open) if open.number == window => open.parts.get_mut(topic),
            _ => None,
        }
    }
}
