//! Profiling windows: run at the same time on all brokers that carry a topic.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Instant;
use link::{ToBroker, Traced, WindowReport};
use placement::Mode;

use super::beside::{Beside, beside, is_searched_beside};
use super::fit::{Fitter, Phase, URGENT_WINDOW};
use super::topics::Topics;
use super::trace::TraceParts;
use super::{BrokerNumber, check};

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

/// Windows that are open.
#[derive(Debug, Default)]
pub(super) struct Windows {
    last: u64,
    /// Topics by the number of the window that they have open.
    owners: BTreeMap<u64, String>,
}

impl Windows {
    /// Whether this window is open.
    pub(super) fn is_open(&self, window: u64, topics: &Topics) -> bool {
        let owner = self.owners.get(&window);
        let topic = owner.and_then(|owner| topics.get(owner));
        topic.is_some_and(|topic| topic.fit.has_open(window))
    }

    /// A topic opens a window; gives its number.
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Notes whose an open window is; those that are open no more are forgotten.
    fn note(&mut self, window: u64, owner: &str, topics: &Topics) {
        self.owners.insert(window, owner.to_owned());
        let is_open = |number: u64, owner: &String| {
            let topic = topics.get(owner);
            topic.is_some_and(|topic| topic.fit.has_open(number))
        };
        self.owners.retain(|&number, owner| is_open(number, owner));
    }

    /// What a window that is open says of a topic.
    fn part<'a>(&self, topic: &str, window: u64, topics: &'a mut Topics) -> Option<&'a mut Part> {
        let owner = self.owners.get(&window)?;
        match &mut topics.get_mut(owner)?.fit.phase {
            Phase::Measuring(open) if open.number == window => open.parts.get_mut(topic),
            _ => None,
        }
    }
}

impl Fitter<'_> {
    /// Begins a window on all brokers where publishers of the topic are placed; one of a search covers the promised topics
    /// beside it too, and waits for that of another search on the same brokers.
    pub(super) fn open_window(&mut self, name: &str, now: Instant) {
        let Some(topic) = self.ground.topics.get(name) else {
            return;
        };
        let placed = topic.placed_rates(self.ground.brokers.len());
        let carriers: Vec<BrokerNumber> = (0u32..)
            .zip(&placed)
            .filter(|&(number, &rate)| rate > 0.0 && self.ground.brokers[number].link.is_some())
            .map(|(number, _)| number)
            .collect();
        let with_trace = topic.fit.wants_trace() || topic.spec.infer_groups;
        let beside = if topic.fit.is_under_way() {
            beside(
                self.ground.topics,
                self.ground.brokers,
                name,
                with_trace && topic.spec.fit == Mode::Replay,
            )
        } else {
            Vec::new()
        };
        if is_searched_beside(self.ground.topics, &beside) {
            return;
        }
        let length = if topic.fit.is_urgent {
            self.ground.rules.settings.profile_window.min(URGENT_WINDOW)
        } else {
            self.ground.rules.settings.profile_window
        };
        let window = self.windows.next();
        let mut parts = BTreeMap::from([(name.to_owned(), Part::of(carriers))]);
        for (other, brokers) in beside {
            if let Some(topic) = self.ground.topics.get_mut(&other) {
                topic.fit.begin_cover(window, now);
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
        if let Some(topic) = self.ground.topics.get_mut(name) {
            topic.fit.is_urgent = false;
            topic.fit.phase = Phase::Measuring(Box::new(open));
            self.ground.due.fits.insert(name);
        }
        self.windows.note(window, name, self.ground.topics);
    }

    fn order_window(
        &mut self,
        window: u64,
        name: &str,
        part: &Part,
        length: Duration,
        with_trace: bool,
    ) {
        let slo = self
            .ground
            .topics
            .get(name)
            .and_then(|topic| topic.spec.slo);
        for &number in part.reports.keys() {
            let order = ToBroker::Measure {
                window,
                topic: name.to_owned(),
                seconds: length.as_secs_f64(),
                percentile: slo.map_or(99.0, |slo| slo.percentile),
                promise_us: slo.map(|slo| slo.latency_us),
                with_trace,
            };
            self.ground.out.send(number, order);
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
            return self.ground.out.distrust(
                &self.ground.brokers[number],
                &format!("window {} with latencies {latencies:?}", report.window),
            );
        }
        let Some(part) = self
            .windows
            .part(&report.topic, report.window, self.ground.topics)
        else {
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
        self.ground.out.tell(
            "window",
            Some(&name),
            Some(&self.ground.brokers[number]),
            text,
        );
        if let Some(owner) = self.windows.owners.get(&window).cloned() {
            self.drive(&owner, now);
        }
    }

    /// A part of an arrival trace.
    pub(super) fn trace_part(&mut self, number: BrokerNumber, part: Traced) {
        if let Some(open) = self
            .windows
            .part(&part.topic, part.window, self.ground.topics)
            && open.reports.contains_key(&number)
        {
            open.trace.add(number, part);
        }
    }

    /// Hands on what a window showed.
    pub(super) fn close_window(&mut self, name: &str, now: Instant) {
        let Some(topic) = self.ground.topics.get_mut(name) else {
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
        self.windows.owners.remove(&number);
        let own = parts.remove(name).unwrap_or_default();
        let beside = parts.into_iter();
        let beside = beside
            .filter_map(|(other, part)| self.beside_answered(&other, part))
            .collect();
        let (answers, trace) = own.into_answers();
        self.window_answered(name, &answers, trace, beside, seconds, now);
    }

    /// Takes what a window showed of a topic beside.
    fn beside_answered(&mut self, name: &str, part: Part) -> Option<Beside> {
        let (answers, parts) = part.into_answers();
        self.covering_window_answered(name, &answers);
        let topic = self.ground.topics.get(name)?;
        let brokers = self.ground.brokers.len();
        Some(Beside::of(name, topic, &answers, parts, brokers))
    }
}
