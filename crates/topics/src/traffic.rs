//! A topic's traffic, backlog and share in force, as reported to a controller.
//!
//! Kept only under a controller. Rates and backlogs are those of the TB Adaptor (SRTM-long, section
//! 5.4): means and maxima over ten steps of a second, or over as long as the controller says, in
//! tokens *asked for*, refused ones included.

use clock::Instant;
use limit::adaptor::{History, HistoryLength};
use link::TopicReport;

use super::limiter::TopicLimiter;
use super::topic::Topic;

/// One publish command's demand on a topic.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// Its messages.
    pub messages: u64,
    /// Their body bytes.
    pub bytes: u64,
    /// Those of them that were refused or dropped.
    pub refused_messages: u64,
    /// Their body bytes.
    pub refused_bytes: u64,
}

impl Asked {
    /// Of these bodies, none refused so far.
    #[inline]
    pub fn of<'a>(bodies: impl Iterator<Item = &'a [u8]>) -> Asked {
        bodies.fold(Asked::default(), |asked, body| Asked {
            messages: asked.messages + 1,
            bytes: asked.bytes + body.len() as u64,
            ..asked
        })
    }
}

/// One topic's traffic.
#[derive(Clone, Debug)]
pub struct Traffic {
    length: HistoryLength,
    history: History,
    told_messages: u64,
    told_fixed: u64,
}

impl Traffic {
    /// Nothing has arrived.
    #[must_use]
    pub fn new(now: Instant) -> Traffic {
        Traffic {
            length: HistoryLength::default(),
            history: History::new(HistoryLength::default(), now),
            told_messages: 0,
            told_fixed: 0,
        }
    }

    /// Forgets what was asked for, which was in another unit.
    pub fn begin_anew(&mut self, now: Instant) {
        self.history = History::new(self.length, now);
    }

    /// Notes a command that asked for `tokens`, while `unfinished` are owed.
    pub(super) fn asked(&mut self, now: Instant, tokens: f64, unfinished: f64) {
        self.history.arrived(now, tokens, unfinished);
    }

    /// Begins anew if the history is to be of another length.
    fn remember(&mut self, length: HistoryLength, now: Instant) {
        if self.length != length {
            self.length = length;
            self.begin_anew(now);
        }
    }
}

impl Topic {
    /// Its report, without its names and its promise; `None` where nobody needs to hear of it.
    pub(super) fn report(&mut self, in_channels: u64, now: Instant) -> Option<TopicReport> {
        let unfinished = self.unfinished_tokens(now);
        if self.reported.traffic.is_none() && self.limiter.is_none() {
            return self.entitled();
        }
        let traffic = self
            .reported
            .traffic
            .get_or_insert_with(|| Box::new(Traffic::new(now)));
        traffic.history.waiting(now, unfinished);
        let seen = traffic.history.traffic(now);
        let told = std::mem::replace(&mut traffic.told_messages, self.counts.messages);
        let told_fixed = std::mem::replace(&mut traffic.told_fixed, self.counts.fixed);
        let length_s = traffic.length.duration().as_secs_f64();
        let (share, waiting) = match &self.limiter {
            Some(limiter) => (
                share_of(limiter, now),
                limiter.tokens_of(self.waiting.queue.len() as u64, self.waiting.bytes),
            ),
            None => (TopicReport::default(), 0.0),
        };
        let report = TopicReport {
            messages: self.counts.messages - told,
            fixed_messages: self.counts.fixed - told_fixed,
            depth: self.depth() as u64,
            unfinished: self.unfinished() + in_channels,
            // A full queue keeps publishers from asking; what waits in it asks for them.
            mean_rate: seen.mean_rate() + waiting / length_s,
            max_backlog: seen.max_backlog(),
            cpu_share: self.declared.cpu_share,
            on_full: self.declared.on_full,
            durability: self.declared.durability,
            ..share
        };
        let has_traffic = report.messages > 0 || report.unfinished > 0 || report.mean_rate > 0.0;
        let is_said = self.limiter.is_some() || has_traffic || !self.declared.is_empty();
        is_said.then_some(report)
    }

    /// The controller hears of every share and every word that is declared, also where nothing else is to be said: it puts right what is not
    /// as declared.
    fn entitled(&self) -> Option<TopicReport> {
        (!self.declared.is_empty()).then(|| TopicReport {
            cpu_share: self.declared.cpu_share,
            on_full: self.declared.on_full,
            durability: self.declared.durability,
            ..TopicReport::default()
        })
    }

    pub(super) fn remember_traffic(&mut self, length: HistoryLength, now: Instant) {
        if let Some(traffic) = &mut self.reported.traffic {
            traffic.remember(length, now);
        }
    }
}

fn share_of(limiter: &TopicLimiter, now: Instant) -> TopicReport {
    TopicReport {
        is_limited: true,
        held: limiter.share(now).filter(|_| limiter.is_part()),
        confirmed: limiter.confirmation(),
        ..TopicReport::default()
    }
}
