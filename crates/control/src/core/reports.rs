//! A broker's last report on each topic, and the sums of these.

use std::collections::{BTreeMap, BTreeSet};

use clock::Instant;
use link::TopicReport;
use wire::is_valid_name;

use super::check;
use super::overload::Violation;
use super::rates::Seen;
use super::tally::Count;

/// Weight of the newest report in the rate of clients that cannot be moved.
const FIXED_RATE_WEIGHT: f64 = 0.3;

/// A rate below this of which nothing is seen any more is none, in messages per second.
const FADED_RATE: f64 = 1e-2;

/// The sums of a broker's last reports on all topics, kept with every report.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    /// Messages per second that arrive.
    rate: Count,
    /// Of those, from clients that cannot be moved.
    fixed: Count,
    /// Messages per second that leave queues.
    left: Count,
    /// Messages that it holds.
    unfinished: u64,
}

impl Totals {
    fn change(&mut self, is_more: bool, carried: &Carried) {
        self.rate.change(is_more, carried.rate);
        self.fixed.change(is_more, carried.fixed_rate);
        self.left.change(is_more, carried.left);
        let unfinished = carried.report.unfinished;
        self.unfinished = match is_more {
            true => self.unfinished.saturating_add(unfinished),
            false => self.unfinished.saturating_sub(unfinished),
        };
    }
}

/// A broker's last report on a topic.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    /// The report.
    pub report: TopicReport,
    /// Messages per second that arrive.
    pub rate: f64,
    /// Of those, from clients that cannot be moved; smoothed over several reports.
    pub fixed_rate: f64,
    /// Messages per second that left its queue.
    pub left: f64,
    /// What arrives from publishers that can be moved.
    pub seen: Seen,
    /// How its promise fares.
    pub violation: Violation,
    /// The link that it came through.
    pub(super) link: u64,
    /// Number of the report that it came in, and when that came.
    pub(super) said_in: Option<(u64, Instant)>,
}

impl Carried {
    /// The next report on the topic, over `seconds`, with `connected` publishers.
    pub(super) fn followed_by(
        self,
        report: TopicReport,
        seconds: f64,
        connected: usize,
    ) -> Carried {
        let per_s = |messages: u64| {
            if seconds > 0.0 {
                messages as f64 / seconds
            } else {
                0.0
            }
        };
        let movable = per_s(report.messages - report.fixed_messages);
        let left = (self.report.depth + report.messages).saturating_sub(report.depth);
        Carried {
            rate: per_s(report.messages),
            fixed_rate: smoothed(self.fixed_rate, per_s(report.fixed_messages)),
            left: per_s(left),
            seen: self.seen.next(movable, connected),
            violation: self.violation,
            link: self.link,
            said_in: self.said_in,
            report,
        }
    }

    /// Whether nothing arrives, nothing leaves and no promise is broken.
    pub(super) fn is_quiet(&self) -> bool {
        let is_still = self.rate == 0.0 && self.fixed_rate == 0.0 && self.left == 0.0;
        is_still && !self.violation.is_seen() && !self.violation.is_to_be_answered()
    }
}

/// A broker's last reports on all topics.
#[derive(Debug, Default)]
pub struct Reports {
    by_topic: BTreeMap<String, Carried>,
    /// Topics of which the last report did not say that nothing happens.
    loud: BTreeSet<String>,
    /// Those of them whose promise is broken, and that is to be answered.
    troubled: BTreeSet<String>,
    /// The sums of the reports.
    totals: Totals,
}

impl Reports {
    /// On a topic.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Carried> {
        self.by_topic.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Carried> {
        self.by_topic.get_mut(name)
    }

    /// All of them, in order of name.
    pub(super) fn all(&self) -> &BTreeMap<String, Carried> {
        &self.by_topic
    }

    /// Messages per second that arrive, all topics.
    #[must_use]
    pub fn measured_rate(&self) -> f64 {
        self.totals.rate.rate()
    }

    /// Messages per second from clients that cannot be moved, all topics.
    pub(super) fn fixed_rate(&self) -> f64 {
        self.totals.fixed.rate()
    }

    /// Messages per second that leave queues, all topics.
    pub(super) fn left_rate(&self) -> f64 {
        self.totals.left.rate()
    }

    /// Messages that the broker holds, all topics: whoever stops it now loses them.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.totals.unfinished
    }

    /// Takes the last report on a topic back, to be followed by the next one.
    pub(super) fn take(&mut self, name: &str) -> Option<Carried> {
        let carried = self.by_topic.remove(name)?;
        self.totals.change(false, &carried);
        Some(carried)
    }

    /// The last report on a topic.
    pub(super) fn put(&mut self, name: String, carried: Carried) {
        self.totals.change(true, &carried);
        self.by_topic.insert(name, carried);
    }

    /// The broker has nothing of these topics any more.
    pub(super) fn forget(&mut self, names: &[String]) {
        for name in names {
            self.take(name);
            self.loud.remove(name);
            self.troubled.remove(name);
        }
    }

    /// Notes what has become of a topic by the judgement of a report.
    pub(super) fn note_judged(&mut self, name: &str) {
        let carried = self.by_topic.get(name);
        let is_loud = carried.is_some_and(|carried| !carried.is_quiet());
        let is_troubled = carried.is_some_and(|carried| carried.violation.is_to_be_answered());
        note(&mut self.loud, name, is_loud);
        note(&mut self.troubled, name, is_troubled);
    }

    /// Whether any arriving traffic belongs to one of these topics.
    pub(super) fn is_any_loud(&self, promised: &BTreeSet<String>) -> bool {
        match promised.len() < self.loud.len() {
            true => promised.iter().any(|name| self.loud.contains(name)),
            false => self.loud.iter().any(|name| promised.contains(name)),
        }
    }

    /// Whether a promise is broken, and that is to be answered.
    pub(super) fn has_trouble(&self) -> bool {
        !self.troubled.is_empty()
    }

    /// Topics of which that is so, with the last report on each.
    pub(super) fn troubled(&self) -> impl Iterator<Item = (&String, &Carried)> {
        let troubled = self.troubled.iter();
        troubled.filter_map(|name| Some((name, self.by_topic.get(name)?)))
    }
}

fn note(names: &mut BTreeSet<String>, name: &str, is_in: bool) {
    if !is_in {
        names.remove(name);
    } else if !names.contains(name) {
        names.insert(name.to_owned());
    }
}

/// The next rate of clients that cannot be moved. A faded rate is zero.
fn smoothed(before: f64, seen: f64) -> f64 {
    let next = before + FIXED_RATE_WEIGHT * (seen - before);
    if seen == 0.0 && next < FADED_RATE {
        return 0.0;
    }
    next
}

/// Whether a topic's numbers can be true.
pub(super) fn believable(report: &TopicReport, seconds: f64) -> Result<(), String> {
    if !is_valid_name(report.topic.as_bytes()) {
        return Err(String::from("not a topic name"));
    }
    let most = check::RATE_MAX * seconds.max(1.0);
    check::amount("messages", report.messages as f64, most)?;
    if report.fixed_messages > report.messages {
        return Err(format!(
            "{} fixed messages of {} in all",
            report.fixed_messages, report.messages
        ));
    }
    check::amount("unfinished", report.unfinished as f64, 1e12)?;
    if let Some(said) = report.lateness.filter(|said| said.late > said.delivered) {
        return Err(format!(
            "{} of {} deliveries late",
            said.late, said.delivered
        ));
    }
    check::amount("depth", report.depth as f64, 1e15)?;
    check::amount("mean_rate", report.mean_rate, 1e12)?;
    check::amount("max_backlog", report.max_backlog, 1e12)
}
