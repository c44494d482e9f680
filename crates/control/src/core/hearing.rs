//! Hears reports in parts: one report may name thousands of topics, and others are served between
//! its parts.
//!
//! Each broker's reports are heard in order. A topic that a report does not name is unchanged, but
//! that is known only once the whole report has been heard: until then the one before it counts as
//! the last.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::vec::IntoIter;

use clock::Instant;
use link::{Attachment, BrokerReport, TopicReport};

use super::parts::Sizes;
use super::reports::Reports;

/// Topics in one report at most.
pub(super) const REPORTED_TOPICS_MAX: usize = 65_536;

/// One broker's reports that were not heard yet.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    /// Number of the last report that came.
    number: u64,
    pub(super) reports: VecDeque<Report>,
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
    /// Number of the last report that came.
    pub(super) fn last(&self) -> u64 {
        self.number
    }

    /// A report came, and is to be heard.
    pub(super) fn push(&mut self, report: BrokerReport, now: Instant) {
        self.number = report.number;
        self.reports.push_back(Report {
            number: report.number,
            came_at: now,
            seconds: report.seconds,
            attachments: report.attachments.into_iter(),
            topics: report.topics.into_iter(),
            gone: report.gone.into_iter(),
            has_more: report.has_more,
        });
    }

    /// A part of the topics that were named on a former link than `link` only, and whether that was the last. All that there is has
    /// been named.
    pub(super) fn take_unnamed(
        &mut self,
        reports: &Reports,
        link: u64,
        sizes: Sizes,
    ) -> (Vec<String>, bool) {
        let last = match std::mem::take(&mut self.unnamed) {
            Unnamed::Expected => String::new(),
            Unnamed::Behind(last) => last,
            Unnamed::Gone => {
                self.unnamed = Unnamed::Gone;
                return (Vec::new(), true);
            }
        };
        let (mut unnamed, mut looked_at, mut next) = (Vec::new(), 0, None);
        for (name, carried) in behind(reports.all(), &last) {
            looked_at += 1;
            if carried.link != link {
                unnamed.push(name.clone());
            }
            if unnamed.len() >= sizes.topics || looked_at >= sizes.looks {
                next = Some(name.clone());
                break;
            }
        }
        let is_all = next.is_none();
        self.unnamed = next.map_or(Unnamed::Gone, Unnamed::Behind);
        (unnamed, is_all)
    }

    /// A topic or one of its publishers was removed: earlier reports of its publishers' comings and
    /// goings are void.
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
pub(super) struct Report {
    pub(super) number: u64,
    pub(super) came_at: Instant,
    pub(super) seconds: f64,
    pub(super) attachments: IntoIter<Attachment>,
    pub(super) topics: IntoIter<TopicReport>,
    pub(super) gone: IntoIter<String>,
    pub(super) has_more: bool,
}

fn behind<'a, T>(
    topics: &'a BTreeMap<String, T>,
    last: &str,
) -> impl Iterator<Item = (&'a String, &'a T)> {
    topics.range::<str, _>((Bound::Excluded(last), Bound::Unbounded))
}
