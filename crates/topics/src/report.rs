//! Which topics a report to the controller names: those with news.
//!
//! After the last event a topic is named a few more times, so that figures over several reports
//! come to their end, and then no more until something happens.

use clock::Instant;
use limit::adaptor::HistoryLength;
use link::TopicReport;

use super::bounds::Bounds;
use super::channel::{Channel, ChannelKey};
use super::fullness::Full;
use super::topic::{Topic, TopicKey};
use super::tree::Tree;

/// Further reports that name a topic after its last event …
const FADING_REPORTS: u32 = 64;

/// … and where nothing had happened with it before.
const QUIET_REPORTS: u32 = 2;

/// Topics of one reactor in a report at most; the rest follows with the next.
const TOPICS_REPORTED_MAX: usize = 8192;

/// Channels named in a report of one topic at most.
const CHANNELS_REPORTED_MAX: usize = 64;

/// About what a topic takes in a report, without its names.
const TOPIC_BYTES: usize = 400;

/// A report's part about topics.
#[derive(Debug, Default, PartialEq)]
pub struct TopicNews {
    /// Those with news.
    pub topics: Vec<TopicReport>,
    /// Those that were named before and are not to be any more.
    pub gone: Vec<String>,
    /// Further ones follow with the next report.
    pub has_more: bool,
}

/// A report under way, topic by topic: those with a limit first, and each kind from where the report before had to end.
#[derive(Debug)]
pub struct ReportWalk {
    number: u64,
    /// Bytes that are left for topics.
    room: usize,
    /// Slots that there were when it began; who came later is in the next one.
    slots: usize,
    kind: usize,
    place: usize,
    /// By kind, the slot at which there was no more room.
    ended: [Option<usize>; 2],
    news: TopicNews,
}

/// The last report of a topic.
#[derive(Debug, Default)]
pub(super) struct LastReport {
    /// It counts for no other link.
    link: u64,
    report: TopicReport,
    channels: Vec<String>,
    /// How often, one after the other.
    times: u32,
    /// Something happened with it since it was named no more.
    is_fading: bool,
}

/// What was reported, and what is still to be reported.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Length of the history of traffic that reports tell of.
    pub(super) history_length: HistoryLength,
    /// Which link reports are for; each begins with nothing said.
    link: u64,
    /// For topics with a limit and for the others.
    next: [usize; 2],
    gone: Vec<String>,
}

impl Reports {
    /// Nothing of what was said before counts: the next report is the first of a link.
    pub(super) fn begin_link(&mut self) {
        self.link += 1;
        self.next = Default::default();
        self.gone.clear();
    }

    /// Begins report `number` about the topics in `slots` slots, in which topics take about
    /// `bytes_max`.
    pub(super) fn begin(&mut self, number: u64, bytes_max: usize, slots: usize) -> ReportWalk {
        ReportWalk {
            number,
            room: bytes_max,
            slots,
            kind: 0,
            place: 0,
            ended: [None; 2],
            news: TopicNews {
                gone: std::mem::take(&mut self.gone),
                ..TopicNews::default()
            },
        }
    }

    /// Looks at one topic more, once `settle` has had it hear what was said of all; false where there is none.
    pub(super) fn next(
        &self,
        walk: &mut ReportWalk,
        tree: &mut Tree,
        bounds: &Bounds,
        now: Instant,
        settle: impl FnOnce(TopicKey, &mut Topic),
    ) -> bool {
        if walk.place >= walk.slots {
            (walk.kind, walk.place) = (walk.kind + 1, 0);
        }
        let Some(&begin) = self.next.get(walk.kind) else {
            return false;
        };
        if walk.slots == 0 {
            return true;
        }
        let slot = (begin + walk.place) % walk.slots;
        walk.place += 1;
        if let Some(key) = tree.topics.key_at(slot) {
            if let Some(topic) = tree.topics.get_mut(key) {
                settle(key, topic);
            }
            self.look_at((tree, key), slot, bounds, walk, now);
        }
        true
    }

    /// What there was to say. The next report goes on where this one had to end.
    pub(super) fn end(&mut self, walk: ReportWalk) -> TopicNews {
        self.next = walk.ended.map(Option::unwrap_or_default);
        TopicNews {
            has_more: walk.ended.iter().any(Option::is_some),
            ..walk.news
        }
    }

    /// A topic is gone from the table.
    pub(super) fn note_gone(&mut self, topic: &Topic) {
        if was_told(topic.reported.told.as_deref(), self.link) {
            self.gone.push(topic.name.to_string());
        }
    }

    fn look_at(
        &self,
        (tree, key): (&mut Tree, TopicKey),
        slot: usize,
        bounds: &Bounds,
        walk: &mut ReportWalk,
        now: Instant,
    ) {
        let Tree {
            topics, channels, ..
        } = tree;
        let Some(topic) = topics.get_mut(key) else {
            return;
        };
        if !was_told(topic.reported.told.as_deref(), self.link) {
            topic.reported.told = None;
        }
        if walk.kind == 0 {
            topic.remember_traffic(self.history_length, now);
            if let Some(limiter) = &mut topic.limiter {
                limiter.report_sent(walk.number, now);
            }
        }
        let is_meant = topic.limiter.is_some() == (walk.kind == 0);
        if !is_meant || walk.ended[walk.kind].is_some() {
            return;
        }
        if walk.news.topics.len() >= TOPICS_REPORTED_MAX || walk.room < TOPIC_BYTES {
            walk.ended[walk.kind] = Some(slot);
            return;
        }
        let here = topic.channels.iter().filter_map(|&key| channels.get(key));
        let in_channels = here.map(Channel::unfinished).sum();
        let Some(mut report) = topic.report(in_channels, now) else {
            if topic.reported.told.take().is_some() {
                walk.news.gone.push(topic.name.to_string());
            }
            return;
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
        let latency = topic.observed.latency.as_mut();
        report.lateness = latency.and_then(|latency| latency.take_lateness(backlog));
        let names = topic.channels.iter().take(CHANNELS_REPORTED_MAX);
        let names = names.filter_map(|&key| channels.get(key));
        let names = names.map(|channel| channel.name.as_str());
        if is_news(&mut topic.reported.told, self.link, &report, names.clone()) {
            let bytes = names.clone().map(str::len).sum::<usize>() + TOPIC_BYTES;
            walk.room = walk.room.saturating_sub(bytes);
            walk.news.topics.push(TopicReport {
                topic: topic.name.to_string(),
                channels: names.map(str::to_owned).collect(),
                ..report
            });
        }
    }
}

/// Whether the controller is to hear of a topic; notes what it hears.
fn is_news<'a>(
    told: &mut Option<Box<LastReport>>,
    link: u64,
    report: &TopicReport,
    channels: impl Iterator<Item = &'a str> + Clone,
) -> bool {
    let was_fading = told.as_ref().is_some_and(|last| last.is_fading);
    let last = told.as_deref_mut();
    if let Some(last) = last.filter(|last| is_quiet(report) && last.report == *report)
        && (channels.clone()).eq(last.channels.iter().map(String::as_str))
    {
        last.times = last.times.saturating_add(1);
        let most = match last.is_fading {
            true => FADING_REPORTS,
            false => QUIET_REPORTS,
        };
        last.is_fading &= last.times <= most;
        return last.times <= most;
    }
    *told = Some(Box::new(LastReport {
        link,
        report: report.clone(),
        channels: channels.map(str::to_owned).collect(),
        times: 0,
        is_fading: was_fading || !is_quiet(report),
    }));
    true
}

/// Whether something was said on this link.
fn was_told(told: Option<&LastReport>, link: u64) -> bool {
    told.is_some_and(|last| last.link == link)
}

/// Whether nothing arrived, nothing left and nothing was late.
fn is_quiet(report: &TopicReport) -> bool {
    let lateness = report.lateness.unwrap_or_default();
    report.messages == 0 && lateness.delivered == 0 && lateness.late == 0 && lateness.backlog == 0
}
