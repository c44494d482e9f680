//! Reports, heard in parts: a broker may name thousands of topics in one, and others are served between its parts.
//!
//! What a broker reports is heard in its order. Of topics that a report does not name nothing has changed, which may be said of a
//! topic only once that report has been heard in whole: until then the one before it counts as the last.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::vec::IntoIter;

use clock::Instant;
use link::{Attachment, BrokerReport, TopicReport};

use super::heard::believable;
use super::{BrokerNumber, Core, Liveness, TOPICS_MAX, check};

/// Topics in one report at most.
const REPORTED_TOPICS_MAX: usize = 65_536;

/// What one broker has reported and was not heard yet.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    /// Number of the last report that came.
    number: u64,
    reports: VecDeque<Report>,
    unnamed: Unnamed,
}

/// Topics that the broker named on a former link and has not named on this one: they are gone once all has been named.
#[derive(Debug, Default)]
enum Unnamed {
    /// Not all has been named.
    #[default]
    Expected,
    /// They are looked for behind this one.
    Behind(String),
    /// There are none.
    Gone,
}

impl Hearing {
    /// A topic was removed, or a publisher of it: what was said of whoever comes and goes there was said before.
    pub(super) fn forget(&mut self, topic: &str, id: Option<&str>) {
        let is_meant = |said: &Attachment| {
            said.publisher.topic == topic && id.is_none_or(|id| said.publisher.id == id)
        };
        for report in &mut self.reports {
            let rest = std::mem::take(&mut report.attachments);
            let rest: Vec<Attachment> = rest.filter(|said| !is_meant(said)).collect();
            report.attachments = rest.into_iter();
        }
    }
}

/// The rest of a report.
#[derive(Debug)]
struct Report {
    number: u64,
    came_at: Instant,
    seconds: f64,
    attachments: IntoIter<Attachment>,
    topics: IntoIter<TopicReport>,
    gone: IntoIter<String>,
    has_more: bool,
}

impl Core {
    /// A broker reports.
    pub(super) fn report(&mut self, number: BrokerNumber, report: BrokerReport, now: Instant) {
        let last = self.broker(number).hearing.number;
        if report.number <= last {
            let text = format!("report {} after report {last}", report.number);
            return self.distrust(number, &text);
        }
        if let Err(text) = check::amount("seconds", report.seconds, 1e6) {
            return self.distrust(number, &text);
        }
        let broker = &mut self.brokers[number as usize];
        broker.hearing.number = report.number;
        broker.memory = report.memory;
        (broker.reported_at, broker.silent_since) = (now, now);
        if let Liveness::Silent(_) = broker.liveness {
            broker.liveness = Liveness::Up;
            broker.inventory.waiting.clear();
            broker.is_given_up = false;
            let text = format!("{} reports again", broker.name);
            self.tell("broker-up", None, Some(number), text);
        }
        self.round_left(number, report.left_rounds);
        let mut topics = report.topics;
        if topics.len() > REPORTED_TOPICS_MAX {
            self.distrust(number, &format!("a report on {} topics", topics.len()));
            topics.clear();
        }
        let reports = &mut self.brokers[number as usize].hearing.reports;
        reports.push_back(Report {
            number: report.number,
            came_at: now,
            seconds: report.seconds,
            attachments: report.attachments.into_iter(),
            topics: topics.into_iter(),
            gone: report.gone.into_iter(),
            has_more: report.has_more,
        });
        self.hearing.insert(number);
        self.hear_on(number, now);
    }

    /// Whether a broker has reported what was not heard yet. Whoever hands words on bounds how much that is.
    #[must_use]
    pub fn is_hearing(&self, number: BrokerNumber) -> bool {
        self.hearing.contains(&number)
    }

    /// The next part for the next broker of those that are not heard in whole.
    pub(super) fn go_on_hearing(&mut self, now: Instant) {
        let after = (Bound::Excluded(self.heard_last), Bound::Unbounded);
        let next = self.hearing.range(after).next();
        let Some(&number) = next.or_else(|| self.hearing.first()) else {
            return;
        };
        self.heard_last = number;
        self.hear_on(number, now);
    }

    /// Hears the next part of what a broker has reported.
    fn hear_on(&mut self, number: BrokerNumber, now: Instant) {
        let hearing = &mut self.brokers[number as usize].hearing;
        let Some(mut report) = hearing.reports.pop_front() else {
            self.hearing.remove(&number);
            return;
        };
        for attachment in report.attachments.by_ref().take(self.sizes.topics) {
            self.attachment(number, attachment, now);
        }
        let is_heard = report.attachments.len() == 0 && self.hear_topics(number, &mut report, now);
        let hearing = &mut self.brokers[number as usize].hearing;
        if !is_heard {
            hearing.reports.push_front(report);
        } else if hearing.reports.is_empty() {
            self.hearing.remove(&number);
        }
    }

    /// Takes over what is new of a part of a report's topics: of those that are not named, nothing is. Whether that was the last.
    fn hear_topics(&mut self, number: BrokerNumber, report: &mut Report, now: Instant) -> bool {
        let topics = report.topics.by_ref().take(self.sizes.topics).collect();
        let is_named = report.topics.len() == 0;
        let mut gone: Vec<String> = report.gone.by_ref().take(self.sizes.topics).collect();
        self.forget_topics(number, &gone);
        let is_whole = is_named && report.gone.len() == 0;
        if is_whole {
            let broker = &mut self.brokers[number as usize];
            (broker.report_number, broker.heard_at) = (report.number, report.came_at);
        }
        let named = self.take_words(number, report, topics, now);
        let mut is_last = is_whole;
        if is_whole && !report.has_more {
            let (unnamed, is_all) = self.take_unnamed(number);
            self.forget_topics(number, &unnamed);
            gone.extend(unnamed);
            is_last = is_all;
        }
        self.work.reported += named.len() as u64;
        if is_last {
            self.renew_leases(number, now);
        }
        self.refresh_contracts(number, report.number, &named);
        self.judge_topics(number, report.seconds, &named, now);
        if is_last {
            self.judge_broker(number, now);
        }
        for name in named.iter().chain(&gone) {
            self.drive_shares(name, now);
        }
        is_last
    }

    /// Takes over what is said of topics; gives the names of those of which it can be true.
    fn take_words(
        &mut self,
        number: BrokerNumber,
        report: &Report,
        topics: Vec<TopicReport>,
        now: Instant,
    ) -> Vec<String> {
        let link = self.broker(number).link.unwrap_or(0);
        let mut named = Vec::with_capacity(topics.len());
        for topic in topics {
            if let Err(text) = believable(&topic, report.seconds) {
                let shown: String = topic.topic.chars().take(70).collect();
                self.distrust(number, &format!("topic {shown:?}: {text}"));
                continue;
            }
            let broker = &mut self.brokers[number as usize];
            let before = broker.take_word(&topic.topic);
            if before.is_none() && broker.topics.len() >= TOPICS_MAX {
                self.distrust(number, &format!("reports on more than {TOPICS_MAX} topics"));
                break;
            }
            let here = self.topics.get(&topic.topic);
            let connected = here.and_then(|topic| topic.publishers.at(number));
            let connected = connected.map_or(0, |at| at.attached.number());
            let before = before.unwrap_or_default();
            let mut carried = before.followed_by(topic, report.seconds, connected);
            carried.link = link;
            carried.said_in = Some((report.number, report.came_at));
            self.share_reported(number, report.number, &carried, now);
            let name = carried.report.topic.clone();
            self.brokers[number as usize].put_word(name.clone(), carried);
            named.push(name);
        }
        named
    }

    /// A part of the topics that were named on a former link only, and whether that was the last. All that there is has been named.
    fn take_unnamed(&mut self, number: BrokerNumber) -> (Vec<String>, bool) {
        let broker = &mut self.brokers[number as usize];
        let link = broker.link.unwrap_or(0);
        let last = match std::mem::take(&mut broker.hearing.unnamed) {
            Unnamed::Expected => String::new(),
            Unnamed::Behind(last) => last,
            Unnamed::Gone => {
                broker.hearing.unnamed = Unnamed::Gone;
                return (Vec::new(), true);
            }
        };
        let (mut unnamed, mut looked_at, mut next) = (Vec::new(), 0, None);
        for (name, carried) in behind(&broker.topics, &last) {
            looked_at += 1;
            if carried.link != link {
                unnamed.push(name.clone());
            }
            if unnamed.len() >= self.sizes.topics || looked_at >= self.sizes.looks {
                next = Some(name.clone());
                break;
            }
        }
        let is_all = next.is_none();
        broker.hearing.unnamed = next.map_or(Unnamed::Gone, Unnamed::Behind);
        (unnamed, is_all)
    }

    fn forget_topics(&mut self, number: BrokerNumber, gone: &[String]) {
        let broker = &mut self.brokers[number as usize];
        for name in gone {
            broker.forget_word(name);
        }
    }
}

fn behind<'a, T>(
    topics: &'a BTreeMap<String, T>,
    last: &str,
) -> impl Iterator<Item = (&'a String, &'a T)> {
    topics.range::<str, _>((Bound::Excluded(last), Bound::Unbounded))
}
