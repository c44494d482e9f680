//! A broker's last word on each topic, and what those come to.

use link::TopicReport;

use super::Broker;
use super::overload::Violation;
use super::rates::Seen;

/// Messages per second, all topics of a broker.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    /// That arrive.
    pub rate: f64,
    /// Of those, from clients that cannot be moved.
    pub fixed_rate: f64,
    /// That leave queues.
    pub left: f64,
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
}

impl Broker {
    /// Messages per second that arrive, all topics.
    #[must_use]
    pub fn measured_rate(&self) -> f64 {
        self.flow.rate
    }

    /// Messages per second from clients that cannot be moved, all topics.
    pub(super) fn fixed_rate(&self) -> f64 {
        self.flow.fixed_rate
    }

    /// Nothing that it said of topics counts any more.
    pub(super) fn forget_words(&mut self) {
        self.topics.clear();
        self.unnamed.clear();
        self.loud.clear();
        self.flow = Flow::default();
    }

    /// Topics that something happens with, with its last word on each.
    pub(super) fn loud_topics(&self) -> impl Iterator<Item = (&String, &Carried)> {
        let loud = self.loud.iter();
        loud.filter_map(|name| Some((name, self.topics.get(name)?)))
    }

    /// Adds up its last words.
    pub(super) fn add_up(&mut self) {
        let mut flow = Flow::default();
        for (_, carried) in self.loud_topics() {
            flow.rate += carried.rate;
            flow.fixed_rate += carried.fixed_rate;
            flow.left += carried.left;
        }
        self.flow = flow;
    }
}
