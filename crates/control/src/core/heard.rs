//! What brokers say, believed only as far as it can be true.

use clock::Instant;
use link::{Announcement, Attachment, BrokerReport, ToController, TopicReport};
use wire::is_valid_name;

use super::moves::is_resting;
use super::words::Carried;
use super::{BrokerNumber, Core, Liveness, TOPICS_MAX, check};
use crate::view::PublisherSpec;

/// Topics in one report at most.
const REPORTED_TOPICS_MAX: usize = 65_536;

/// Weight of the newest report in the rate of clients that cannot be moved.
const FIXED_RATE_WEIGHT: f64 = 0.3;

/// A rate below this of which nothing is seen any more is none, in messages per second.
const FADED_RATE: f64 = 1e-2;

/// What a report says of topics.
struct Heard {
    number: u64,
    seconds: f64,
    topics: Vec<TopicReport>,
    gone: Vec<String>,
    has_more: bool,
}

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

    fn report(&mut self, number: BrokerNumber, report: BrokerReport, now: Instant) {
        let broker = &mut self.brokers[number as usize];
        if report.number <= broker.report_number {
            let text = format!(
                "report {} after report {}",
                report.number, broker.report_number
            );
            return self.distrust(number, &text);
        }
        if let Err(text) = check::amount("seconds", report.seconds, 1e6) {
            return self.distrust(number, &text);
        }
        broker.report_number = report.number;
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
        for attachment in report.attachments {
            self.attachment(number, attachment, now);
        }
        let heard = Heard {
            number: report.number,
            seconds: report.seconds,
            topics: report.topics,
            gone: report.gone,
            has_more: report.has_more,
        };
        self.topics_reported(number, heard, now);
    }

    /// Takes over what is new of topics: of those that are not named, nothing is.
    fn topics_reported(&mut self, number: BrokerNumber, report: Heard, now: Instant) {
        let Heard {
            number: report,
            seconds,
            topics,
            mut gone,
            has_more,
        } = report;
        if topics.len() > REPORTED_TOPICS_MAX {
            return self.distrust(number, &format!("a report on {} topics", topics.len()));
        }
        self.forget_topics(number, &gone);
        let mut named = Vec::with_capacity(topics.len());
        for topic in topics {
            if let Err(text) = believable(&topic, seconds) {
                let shown: String = topic.topic.chars().take(70).collect();
                self.distrust(number, &format!("topic {shown:?}: {text}"));
                continue;
            }
            let former = &mut self.brokers[number as usize].topics;
            let before = former.remove(&topic.topic).unwrap_or_default();
            if before.report.topic.is_empty() && former.len() >= TOPICS_MAX {
                self.distrust(number, &format!("reports on more than {TOPICS_MAX} topics"));
                break;
            }
            let here = self.topics.get(&topic.topic);
            let connected = here.and_then(|topic| topic.publishers.at(number));
            let connected = connected.map_or(0, |at| at.attached.number());
            let carried = before.followed_by(topic, seconds, connected);
            self.share_reported(number, report, &carried, now);
            let name = carried.report.topic.clone();
            let topics = &mut self.brokers[number as usize].topics;
            topics.insert(name.clone(), carried);
            named.push(name);
        }
        let broker = &mut self.brokers[number as usize];
        if !broker.unnamed.is_empty() {
            for name in &named {
                broker.unnamed.remove(name);
            }
        }
        if !has_more {
            let unnamed: Vec<String> = std::mem::take(&mut broker.unnamed).into_iter().collect();
            self.forget_topics(number, &unnamed);
            gone.extend(unnamed);
        }
        self.work.reported += named.len() as u64;
        self.renew_leases(number, now);
        self.refresh_contracts(number, report, &named);
        self.judge_report(number, seconds, &named, now);
        for name in named.iter().chain(&gone) {
            self.drive_shares(name, now);
        }
    }

    fn forget_topics(&mut self, number: BrokerNumber, gone: &[String]) {
        let broker = &mut self.brokers[number as usize];
        for name in gone {
            broker.topics.remove(name);
            broker.loud.remove(name);
        }
    }

    /// A publisher came to a broker or went.
    fn attachment(&mut self, number: BrokerNumber, attachment: Attachment, now: Instant) {
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
    fn followed_by(self, report: TopicReport, seconds: f64, connected: usize) -> Carried {
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
fn believable(report: &TopicReport, seconds: f64) -> Result<(), String> {
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
