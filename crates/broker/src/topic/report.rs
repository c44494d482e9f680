//! Which topics a report to the controller names: those of which there is something new.
//!
//! A topic that nothing happens with is named some times more, so that what is reckoned from several reports comes to its
//! end, and then no more until something does.

use clock::Instant;
use link::TopicReport;

use super::channel::{Channel, ChannelKey};
use super::fullness::Full;
use super::table::{Topic, TopicTable};

/// A topic that nothing happens with is named in so many more reports.
const QUIET_REPORTS: u32 = 64;

/// Topics of one reactor in a report at most; the rest follows with the next.
const TOPICS_REPORTED_MAX: usize = 8192;

/// Channels named in a report of one topic at most.
const CHANNELS_REPORTED_MAX: usize = 64;

/// About what a topic takes in a report, without its names.
const TOPIC_BYTES: usize = 400;

/// What a report says of topics.
#[derive(Debug, Default, PartialEq)]
pub struct TopicNews {
    /// Those of which there is something new.
    pub topics: Vec<TopicReport>,
    /// Those that were named before and are not to be any more.
    pub gone: Vec<String>,
    /// Further ones follow with the next report.
    pub has_more: bool,
}

/// What was said of a topic last.
#[derive(Debug, Default)]
pub(super) struct LastWord {
    report: TopicReport,
    channels: Vec<String>,
    /// How often, one after the other.
    times: u32,
}

/// Where reports go on that could not name everything.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// For topics with a limit and for the others.
    next: [usize; 2],
    gone: Vec<String>,
}

impl TopicTable {
    /// Nothing of what was said before counts: the next report is the first of a link.
    pub fn begin_reports(&mut self) {
        self.news = Reports::default();
        for topic in self.topics.values_mut() {
            topic.told = None;
        }
    }

    /// Every topic with a limit, with a share of time, with traffic or with messages that are not finished, as of report `number`, which is sent
    /// now, as far as there is anything new. Of more than 8192, or than fit into `bytes_max`, the rest follows with the next report,
    /// topics without a limit last.
    pub fn report(&mut self, number: u64, bytes_max: usize, now: Instant) -> TopicNews {
        self.reports.report_sent(number, now);
        self.forget_asked();
        let window = self.history_window;
        for topic in self.topics.values_mut() {
            topic.remember_traffic(window, now);
            if let Some(limiter) = &mut topic.limiter {
                limiter.report_sent(number, now);
            }
        }
        let mut news = TopicNews {
            gone: std::mem::take(&mut self.news.gone),
            ..TopicNews::default()
        };
        let mut room = bytes_max;
        for (kind, is_limited) in [true, false].into_iter().enumerate() {
            let begin = self.news.next[kind];
            let ended = self.report_kind(is_limited, begin.., &mut news, &mut room, now);
            let ended = ended.or_else(|| self.report_kind(is_limited, ..begin, &mut news, &mut room, now));
            self.news.next[kind] = ended.unwrap_or(0);
            news.has_more |= ended.is_some();
        }
        news
    }

    /// A topic is gone from the table.
    pub(super) fn note_gone(&mut self, topic: &Topic) {
        if topic.told.is_some() {
            self.news.gone.push(topic.name.to_string());
        }
    }

    /// Names topics within a range of places, with a limit or without. The place where it ended for want of room.
    fn report_kind(
        &mut self,
        is_limited: bool,
        places: impl std::ops::RangeBounds<usize>,
        news: &mut TopicNews,
        room: &mut usize,
        now: Instant,
    ) -> Option<usize> {
        let TopicTable {
            topics,
            channels,
            bounds,
            ..
        } = self;
        let places = topics
            .values_mut()
            .enumerate()
            .filter(|(place, topic)| places.contains(place) && topic.limiter.is_some() == is_limited);
        for (place, topic) in places {
            if news.topics.len() >= TOPICS_REPORTED_MAX || *room < TOPIC_BYTES {
                return Some(place);
            }
            let here = topic.channels.iter().filter_map(|&key| channels.get(key));
            let in_channels = here.map(Channel::unfinished).sum();
            let Some(mut report) = topic.report(in_channels, now) else {
                if topic.told.take().is_some() {
                    news.gone.push(topic.name.to_string());
                }
                continue;
            };
            let has_room = |&key: &ChannelKey| {
                let channel: Option<&Channel> = channels.get(key);
                channel.is_none_or(|channel| {
                    let drops = channel.fullness.full == Some(Full::DropsOldest);
                    drops || channel.has_room(bounds.mem_queue_size)
                })
            };
            let is_open = !topic.paused && topic.awaited.is_none() && !topic.channels.is_empty();
            let waits_for_others = !is_open || !topic.channels.iter().all(has_room);
            let backlog = if waits_for_others { 0 } else { report.depth };
            let latency = topic.latency.as_mut();
            report.lateness = latency.and_then(|latency| latency.take_lateness(backlog));
            let names = topic.channels.iter().take(CHANNELS_REPORTED_MAX);
            let names = names.filter_map(|&key| channels.get(key));
            let names = names.map(|channel| channel.name.as_str());
            if is_news(&mut topic.told, &report, names.clone()) {
                let bytes = names.clone().map(str::len).sum::<usize>() + TOPIC_BYTES;
                *room = room.saturating_sub(bytes);
                news.topics.push(TopicReport {
                    topic: topic.name.to_string(),
                    channels: names.map(str::to_owned).collect(),
                    ..report
                });
            }
        }
        None
    }
}

/// Whether the controller is to hear of a topic; notes what it hears.
fn is_news<'a>(
    told: &mut Option<Box<LastWord>>,
    report: &TopicReport,
    channels: impl Iterator<Item = &'a str> + Clone,
) -> bool {
    let last = told.as_deref_mut();
    if let Some(last) = last.filter(|last| is_quiet(report) && last.report == *report)
        && channels.clone().eq(last.channels.iter().map(String::as_str))
    {
        last.times = last.times.saturating_add(1);
        return last.times <= QUIET_REPORTS;
    }
    *told = Some(Box::new(LastWord {
        report: report.clone(),
        channels: channels.map(str::to_owned).collect(),
        times: 0,
    }));
    true
}

/// Whether nothing arrived, nothing left and nothing was late.
fn is_quiet(report: &TopicReport) -> bool {
    let lateness = report.lateness.unwrap_or_default();
    report.messages == 0 && lateness.delivered == 0 && lateness.late == 0 && lateness.backlog == 0
}
