//! What brokers say, believed only as far as it can be true.

use clock::Instant;
use link::{Announcement, Attachment, ToController, TopicReport};
use wire::is_valid_name;

use super::moves::is_resting;
use super::words::Carried;
use super::{BrokerNumber, Core, check};
use crate::view::PublisherSpec;

/// Weight of the newest report in the rate of clients that cannot be moved.
const FIXED_RATE_WEIGHT: f64 = 0.3;

/// A rate below this of which nothing is seen any more is none, in messages per second.
const FADED_RATE: f64 = 1e-2;

impl Core {
    /// A broker says something.
    pub fn heard(&mut self, number: BrokerNumber, message: ToController, now: Instant) {
        match message {
            ToController::Hello(_) => self.distrust(number, "a second hello on one link"),
            ToController::Report(report) => self.report(number, report, now),
            ToController::Window(window) => self.window_report(number, window, now),
            ToController::Trace(part) => self.trace_part(number, part),
            ToController::ContractInForce { ticket, .. } => self.contract_in_force(number, ticket),
            ToController::Inventory { topics, is_last } => {
                self.inventory_said(number, &topics, is_last, now);
            }
            ToController::Changed { topic, change } => self.changed(number, &topic, change, now),
            ToController::TopicAsked { topic } => self.topic_asked(number, &topic, now),
            ToController::TopicReady { topic, ticket } => {
                self.topic_ready(number, &topic, ticket, now);
            }
            ToController::Problem { text } => {
                let text: String = text.chars().take(500).collect();
                self.tell("problem", None, Some(number), text);
            }
        }
    }

    /// A publisher came to a broker or went.
    pub(super) fn attachment(
        &mut self,
        number: BrokerNumber,
        attachment: Attachment,
        now: Instant,
    ) {
        let Attachment {
            publisher,
            attached,
            refused,
        } = attachment;
        if let Some(refused) = refused {
            let text: String = format!("publisher {}: {refused}", publisher.id)
                .chars()
                .take(300)
                .collect();
            return self.tell("problem", Some(&publisher.topic), Some(number), text);
        }
        let known = self
            .topics
            .get(&publisher.topic)
            .and_then(|topic| topic.publishers.find(&publisher.id));
        let index = match known {
            Some(index) => index,
            None if !attached => return,
            None => match self.announced(number, &publisher, now) {
                Ok(index) => index,
                Err(text) => return self.distrust(number, &text),
            },
        };
        let Core { topics, loads, .. } = self;
        let Some(topic) = topics.get_mut(&publisher.topic) else {
            return;
        };
        let here = self.brokers[number as usize]
            .topics
            .get_mut(&publisher.topic);
        if let Some(carried) = here {
            carried.seen.churn += 1;
        }
        let row = &topic.publishers.rows()[index];
        let broker = &mut self.brokers[number as usize];
        broker.is_rearranged |= is_resting(row, now);
        if attached {
            let link = broker.link.unwrap_or(0);
            topic.publishers.attach(index, (number, link), loads);
            if topic.spec.slo.is_some() {
                self.due.fits.insert(&publisher.topic);
            }
        } else {
            topic.publishers.detach(index, number, loads);
        }
    }

    /// A publisher that was not declared announces itself at a broker: it is taken as declared.
    fn announced(
        &mut self,
        number: BrokerNumber,
        publisher: &Announcement,
        now: Instant,
    ) -> Result<usize, String> {
        let spec = PublisherSpec {
            id: publisher.id.clone(),
            rate: publisher.rate.unwrap_or(1.0),
            batch: publisher.batch,
            group: publisher.group.clone(),
        };
        self.put_publishers(&publisher.topic, vec![spec], now)
            .map_err(|error| {
                format!(
                    "a publisher announced itself at {}: {error}",
                    self.broker(number).name
                )
            })?;
        let topic = self.topics.get(&publisher.topic);
        topic
            .and_then(|topic| topic.publishers.find(&publisher.id))
            .ok_or_else(|| String::from("it is gone again"))
    }

    /// Says that something a broker said is not believed.
    pub(super) fn distrust(&mut self, number: BrokerNumber, what: &str) {
        let text = format!("not believed: {what}");
        self.tell("problem", None, Some(number), text);
    }
}

impl Carried {
    /// The next word on the topic, over `seconds`, with so many publishers `connected`.
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
}

impl Carried {
    /// Whether nothing arrives, nothing leaves and no promise is broken.
    pub(super) fn is_quiet(&self) -> bool {
        let is_still = self.rate == 0.0 && self.fixed_rate == 0.0 && self.left == 0.0;
        is_still && !self.violation.is_seen() && !self.violation.is_to_be_answered()
    }
}

/// The next rate of clients that cannot be moved. What has faded is nothing.
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
