//! What a controller is told of topics: traffic, backlog, and the share that is in force.
//!
//! Kept only under a controller. Rates and backlogs are those of the TB Adaptor (SRTM-long, section
//! 5.4): means and maxima over ten steps of a second or as long as the controller says, in tokens *asked for*, refused ones included.

use clock::Instant;
use limit::adaptor::{History, Window};
use link::TopicReport;

use super::channel::{Channel, ChannelKey};
use super::limiter::TopicLimiter;
use super::table::{Topic, TopicKey, TopicTable};

/// Topics of one reactor in a report at most, those with a limit first.
const TOPICS_REPORTED_MAX: usize = 8192;

/// Channels named in a report of one topic at most.
const CHANNELS_REPORTED_MAX: usize = 64;

/// What one publish command asks of a topic.
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

/// One topic's traffic.
#[derive(Clone, Debug)]
pub struct Traffic {
    window: Window,
    history: History,
    told_messages: u64,
    told_fixed: u64,
}

impl Traffic {
    /// Nothing has arrived.
    #[must_use]
    pub fn new(now: Instant) -> Traffic {
        Traffic {
            window: Window::default(),
            history: History::new(Window::default(), now),
            told_messages: 0,
            told_fixed: 0,
        }
    }

    /// Forgets what was asked for, which was in another unit.
    pub fn begin_anew(&mut self, now: Instant) {
        self.history = History::new(self.window, now);
    }

    /// Begins anew if the history is to be of another length.
    fn remember(&mut self, window: Window, now: Instant) {
        if self.window != window {
            self.window = window;
            self.begin_anew(now);
        }
    }
}

impl Topic {
    /// Notes a command, refused messages included: they asked for tokens too.
    pub(super) fn note_asked(&mut self, asked: &Asked, now: Instant) {
        let tokens = match &self.limiter {
            Some(limiter) => limiter.tokens_of(asked.messages, asked.bytes),
            None => asked.messages as f64,
        };
        let refused = match &self.limiter {
            Some(limiter) => limiter.tokens_of(asked.refused_messages, asked.refused_bytes),
            None => 0.0,
        };
        let backlog = self.backlog(now) + refused;
        let traffic = self
            .traffic
            .get_or_insert_with(|| Box::new(Traffic::new(now)));
        traffic.history.arrived(now, tokens, backlog);
    }

    /// Whether messages wait, or would, for a share of the limit.
    pub(super) fn asks_for_share(&self, now: Instant) -> bool {
        let limiter = self.limiter.as_ref();
        limiter.is_some_and(|limiter| limiter.asks_for_share(now))
    }

    /// Everything that waits for tokens, and what the bucket is short of being full.
    fn backlog(&self, now: Instant) -> f64 {
        let Some(limiter) = &self.limiter else {
            return 0.0;
        };
        // Where nobody subscribes, messages do not wait for tokens.
        let waiting = if limiter.delays() && !self.channels.is_empty() && !self.paused {
            limiter.tokens_of(self.depth() as u64, self.waiting_bytes)
        } else {
            0.0
        };
        waiting + limiter.unfinished_at(now)
    }
}

impl TopicTable {
    /// Every topic with a limit, with traffic or with messages that are not finished, as of report `number`, which is sent now. Of more than
    /// 8192 those beyond are left out, topics without a limit first.
    pub fn report(&mut self, number: u64, now: Instant) -> Vec<TopicReport> {
        self.reports.report_sent(number, now);
        self.forget_asked();
        let (mut limited, mut free) = (Vec::new(), Vec::new());
        let TopicTable {
            topics,
            channels,
            history_window,
            bounds,
            ..
        } = self;
        for topic in topics.values_mut() {
            if let Some(traffic) = &mut topic.traffic {
                traffic.remember(*history_window, now);
            }
            if let Some(limiter) = &mut topic.limiter {
                limiter.report_sent(number, now);
            }
            let list = match topic.limiter {
                Some(_) => &mut limited,
                None => &mut free,
            };
            if list.len() >= TOPICS_REPORTED_MAX {
                continue;
            }
            let here = topic.channels.iter().filter_map(|&key| channels.get(key));
            let in_channels = here.map(Channel::unfinished).sum();
            let has_room = |&key: &ChannelKey| {
                let channel: Option<&Channel> = channels.get(key);
                channel.is_none_or(|channel| channel.has_room(bounds.mem_queue_size))
            };
            let is_open = !topic.paused && topic.awaited.is_none() && !topic.channels.is_empty();
            let waits_for_others = !is_open || !topic.channels.iter().all(has_room);
            if let Some(report) = topic.report(in_channels, now) {
                let backlog = if waits_for_others { 0 } else { report.depth };
                let latency = topic.latency.as_mut();
                let names = topic.channels.iter().take(CHANNELS_REPORTED_MAX);
                let names = names.filter_map(|&key| channels.get(key));
                list.push(TopicReport {
                    channels: names.map(|channel| channel.name.to_string()).collect(),
                    lateness: latency.and_then(|latency| latency.take_lateness(backlog)),
                    ..report
                });
            }
        }
        limited.append(&mut free);
        limited.truncate(TOPICS_REPORTED_MAX);
        limited
    }

    /// Takes the releases logged since the last call: nanoseconds of the monotonic clock, ascending.
    pub fn take_releases(&mut self, key: TopicKey) -> Vec<u64> {
        let topic = self.topics.get_mut(key);
        topic.map_or_else(Vec::new, |topic| std::mem::take(&mut topic.releases))
    }
}

impl Topic {
    fn report(&mut self, in_channels: u64, now: Instant) -> Option<TopicReport> {
        let backlog = self.backlog(now);
        if self.traffic.is_none() && self.limiter.is_none() {
            return None;
        }
        let traffic = self
            .traffic
            .get_or_insert_with(|| Box::new(Traffic::new(now)));
        traffic.history.waiting(now, backlog);
        let seen = traffic.history.traffic(now);
        let told = std::mem::replace(&mut traffic.told_messages, self.message_count);
        let told_fixed = std::mem::replace(&mut traffic.told_fixed, self.fixed_count);
        let length_s = traffic.window.length().as_secs_f64();
        let (share, waiting) = match &self.limiter {
            Some(limiter) => (
                share_of(limiter, now),
                limiter.tokens_of(self.queue.len() as u64, self.waiting_bytes),
            ),
            None => (TopicReport::default(), 0.0),
        };
        let report = TopicReport {
            messages: self.message_count - told,
            fixed_messages: self.fixed_count - told_fixed,
            depth: self.depth() as u64,
            unfinished: self.unfinished() + in_channels,
            // A full queue keeps publishers from asking; what waits in it asks for them.
            mean_rate: seen.mean_rate() + waiting / length_s,
            max_backlog: seen.max_backlog(),
            ..share
        };
        let has_traffic = report.messages > 0 || report.unfinished > 0 || report.mean_rate > 0.0;
        (self.limiter.is_some() || has_traffic).then(|| TopicReport {
            topic: self.name.to_string(),
            ..report
        })
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
