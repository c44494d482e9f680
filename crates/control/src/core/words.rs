//! A broker's last word on each topic, and what those come to.

use std::collections::{BTreeMap, BTreeSet};

use clock::Instant;
use link::TopicReport;

use super::Broker;
use super::overload::Violation;
use super::rates::Seen;
use super::tally::Count;

/// What a broker's last words on all topics come to, kept with every word.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flow {
    /// Messages per second that arrive.
    rate: Count,
    /// Of those, from clients that cannot be moved.
    fixed: Count,
    /// Messages per second that leave queues.
    left: Count,
    /// Messages that it holds.
    unfinished: u64,
}

impl Flow {
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

/// A broker's last word on a topic.
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

impl Broker {
    /// Messages per second that arrive, all topics.
    #[must_use]
    pub fn measured_rate(&self) -> f64 {
        self.flow.rate.rate()
    }

    /// Messages per second from clients that cannot be moved, all topics.
    pub(super) fn fixed_rate(&self) -> f64 {
        self.flow.fixed.rate()
    }

    /// Messages per second that leave queues, all topics.
    pub(super) fn left_rate(&self) -> f64 {
        self.flow.left.rate()
    }

    /// Messages that it holds, all topics: whoever stops it now loses them.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.flow.unfinished
    }

    /// Takes its last word on a topic back, to be followed by the next one.
    pub(super) fn take_word(&mut self, name: &str) -> Option<Carried> {
        let carried = self.topics.remove(name)?;
        self.flow.change(false, &carried);
        Some(carried)
    }

    /// Its last word on a topic.
    pub(super) fn put_word(&mut self, name: String, carried: Carried) {
        self.flow.change(true, &carried);
        self.topics.insert(name, carried);
    }

    /// It has nothing of a topic any more.
    pub(super) fn forget_word(&mut self, name: &str) {
        self.take_word(name);
        self.loud.remove(name);
        self.troubled.remove(name);
    }

    /// Nothing that it said of topics counts any more; gives what it said.
    pub(super) fn forget_words(&mut self) -> BTreeMap<String, Carried> {
        self.loud = BTreeSet::new();
        self.troubled = BTreeSet::new();
        self.flow = Flow::default();
        std::mem::take(&mut self.topics)
    }

    /// Notes what has become of a topic by the judgement of a report.
    pub(super) fn note_judged(&mut self, name: &str) {
        let carried = self.topics.get(name);
        let is_loud = carried.is_some_and(|carried| !carried.is_quiet());
        let is_troubled = carried.is_some_and(|carried| carried.violation.is_to_be_answered());
        note(&mut self.loud, name, is_loud);
        note(&mut self.troubled, name, is_troubled);
    }

    /// Topics whose promise is broken, and that is to be answered, with its last word on each.
    pub(super) fn troubled_topics(&self) -> impl Iterator<Item = (&String, &Carried)> {
        let troubled = self.troubled.iter();
        troubled.filter_map(|name| Some((name, self.topics.get(name)?)))
    }
}

fn note(names: &mut BTreeSet<String>, name: &str, is_in: bool) {
    if !is_in {
        names.remove(name);
    } else if !names.contains(name) {
        names.insert(name.to_owned());
    }
}
