//! Reports: one as soon as a link stands, then one per interval, and early ones when something
//! waits for them.

use std::time::Duration;

use clock::Instant;
use link::{BrokerReport, ToController};

use super::Asked;
use super::errand::{Errand, Figures};
use super::outbox::Outbox;
use crate::BrokerError;

/// Reports that are wanted early are so far apart.
const EARLY_REPORT_SPACING: Duration = Duration::from_millis(100);
/// Bounds on the interval that a controller may ask for.
const REPORT_INTERVALS_MS: std::ops::RangeInclusive<u64> = 10..=60_000;

/// The reports of the link that stands.
#[derive(Debug)]
pub(super) struct Reports {
    interval: Duration,
    number: u64,
    asked: Asked,
    next_at: Option<Instant>,
    /// An early one was wanted while one was on its way.
    is_wanted: bool,
    /// When the reactors were asked last, on whichever link: their counts are of the time since then.
    reported_at: Instant,
}

impl Reports {
    pub(super) fn new(now: Instant) -> Reports {
        Reports {
            interval: Duration::ZERO,
            number: 0,
            asked: Asked::Nothing,
            next_at: None,
            is_wanted: false,
            reported_at: now,
        }
    }

    /// Sets the interval that the controller of a link asks for.
    pub(super) fn set_interval(&mut self, interval_ms: u64) {
        let (least, most) = (*REPORT_INTERVALS_MS.start(), *REPORT_INTERVALS_MS.end());
        self.interval = Duration::from_millis(interval_ms.clamp(least, most));
    }

    /// A link stands.
    pub(super) fn begins(&mut self, now: Instant) {
        (self.number, self.next_at, self.is_wanted) = (0, Some(now), false);
    }

    /// It is gone.
    pub(super) fn ends(&mut self) {
        self.next_at = None;
        self.asked.ends();
    }

    /// When the next one is due.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.next_at.filter(|_| self.asked == Asked::Nothing)
    }

    /// Something waits for what the next one brings.
    pub(super) fn want(&mut self, now: Instant) {
        self.is_wanted |= self.asked == Asked::Now;
        let early = (self.reported_at + EARLY_REPORT_SPACING).max(now);
        self.next_at = self.next_at.map(|at| at.min(early));
    }

    /// Has the reactors asked, if that is due.
    pub(super) fn drive(&mut self, now: Instant, outbox: &mut Outbox) {
        if self.next_at().is_some_and(|at| at <= now) && outbox.has_room() {
            self.number += 1;
            self.asked = Asked::Now;
            outbox.ask(Errand::Report {
                number: self.number,
                is_first: self.number == 1,
            });
        }
    }

    /// The reactors have answered. Nobody waits for it where its link is gone.
    ///
    /// # Errors
    /// They could not.
    pub(super) fn taken(
        &mut self,
        figures: Result<Figures, BrokerError>,
        now: Instant,
        outbox: &mut Outbox,
    ) -> Result<(), BrokerError> {
        let is_awaited = self.asked.is_answered();
        let Figures {
            report,
            left_rounds,
            memory,
        } = match figures {
            Ok(figures) => figures,
            Err(error) if is_awaited || matches!(error, BrokerError::Exiting) => return Err(error),
            Err(_) => return Ok(()),
        };
        let since = std::mem::replace(&mut self.reported_at, now);
        if !is_awaited {
            return Ok(());
        }
        let is_early = report.news.has_more || std::mem::take(&mut self.is_wanted);
        let pause = match is_early {
            true => EARLY_REPORT_SPACING.min(self.interval),
            false => self.interval,
        };
        self.next_at = Some(now + pause);
        outbox.say(ToController::Report(BrokerReport {
            number: self.number,
            seconds: (now - since).as_secs_f64(),
            topics: report.news.topics,
            gone: report.news.gone,
            has_more: report.news.has_more,
            attachments: report.attachments,
            left_rounds,
            memory,
        }));
        Ok(())
    }
}
