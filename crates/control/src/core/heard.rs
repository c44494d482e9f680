//! Messages of brokers and changes in their state: join, reports, silence, death. Death needs a proof
//! (`broker.rs`). What brokers say is believed only as far as it can be true.

use std::net::IpAddr;

use clock::Instant;
use link::{
    Attachment, BrokerReport, Declaration, Door, Hello, ToBroker, ToController, TopicReport,
};

use super::broker::check_hello;
use super::hearing::{Hearing, REPORTED_TOPICS_MAX, Report};
use super::joining::Joining;
use super::moves::is_resting;
use super::parts::Job;
use super::presence::Shown;
use super::reports::believable;
use super::{
    BrokerNumber, Core, Effect, FitAnswer, Liveness, Probe, ProbeAnswer, Refusal, TOPICS_MAX,
    check, contract,
};
use crate::view::PublisherSpec;

impl Core {
    /// A broker that has proved the key says hello on connection `link` from `from`. Gives its number; the answer to it is
    /// among the effects.
    ///
    /// # Errors
    /// What is wrong with its hello.
    pub fn hello(
        &mut self,
        (link, from): (u64, IpAddr),
        hello: &Hello,
        now: Instant,
    ) -> Result<BrokerNumber, Refusal> {
        check_hello(hello)?;
        let (number, is_new) = self.brokers.claim_name(hello, from, now, &mut self.out)?;
        let broker = &self.brokers[number];
        let is_same_process =
            hello.life != 0 && broker.life == hello.life && broker.identity == Some(hello.identity);
        // Another life of the controller took it, and could not keep that: what is reserved for the name is what it may hold.
        let was_taken = hello.life != 0 && broker.identity == Some(hello.identity);
        let life = match is_same_process {
            true => hello.life,
            false => self.brokers.next_life(self.rules.epoch),
        };
        let broker = &mut self.brokers[number];
        broker.announces(hello, is_same_process);
        if let Some(old) = broker.link.replace(link) {
            self.out.push(Effect::CloseLink(old));
        }
        (broker.identity, broker.life, broker.from) = (Some(hello.identity), life, Some(from));
        broker.mcap = hello.mcap.or(broker.mcap);
        broker.model = hello.model.or(broker.model);
        broker.liveness = Liveness::Up;
        broker.is_given_up = false;
        (broker.linked_at, broker.reported_at, broker.silent_since) = (now, now, now);
        broker.report_number = 0;
        broker.memory = None;
        broker.inventory.leave();
        self.hearing.remove(number);
        broker.hearing = Hearing::default();
        // Reports are counted from 1 again.
        broker.told_again.clear();
        self.joining.remove(number);
        if is_same_process {
            self.forget_link(number, now);
        } else {
            self.out.discard(std::mem::take(&mut broker.reports));
            self.end_inventory(number);
            match is_new {
                true => {}
                false if was_taken => self.forget_link(number, now),
                false => self.forget_process(number, now),
            }
        }
        self.welcome(number, now);
        Ok(number)
    }

    /// The connection is gone. Whether its broker is, a probe finds out.
    pub fn link_lost(&mut self, link: u64, now: Instant) {
        let found = self
            .brokers
            .numbered()
            .find(|(_, broker)| broker.link == Some(link));
        let Some(number) = found.map(|(number, _)| number) else {
            return;
        };
        let broker = &mut self.brokers[number];
        broker.link = None;
        broker.inventory.leave();
        broker.hearing = Hearing::default();
        broker.joining = Joining::default();
        self.hearing.remove(number);
        self.joining.remove(number);
        self.look_at_all_shares();
        self.brokers
            .probe(number, Door::Clients, now, &mut self.out);
        self.recall_publishers(number, now);
    }

    /// A broker says something.
    pub fn heard(&mut self, number: BrokerNumber, message: ToController, now: Instant) {
        match message {
            ToController::Hello(_) => self
                .out
                .distrust(&self.brokers[number], "a second hello on one link"),
            ToController::Report(report) => self.report(number, report, now),
            ToController::Window(window) => self.fitter().window_report(number, window, now),
            ToController::Trace(part) => self.fitter().trace_part(number, part),
            ToController::ContractInForce { ticket, .. } => {
                let (brokers, out) = (&mut self.brokers, &mut self.out);
                self.contracts.in_force(number, ticket, brokers, out);
            }
            ToController::Inventory { topics, is_last } => {
                self.channels()
                    .inventory_said(number, &topics, is_last, now);
            }
            ToController::Changed { topic, change } => {
                self.channels().changed(number, &topic, change, now)
            }
            ToController::Followed { topic, change } => {
                self.channels().followed(number, &topic, &change);
            }
            ToController::DeletionKept { topic, change } => {
                self.channels().deletion_kept(number, &topic, &change);
            }
            ToController::TopicAsked { topic } => self.channels().topic_asked(number, &topic, now),
            ToController::TopicReady { topic, ticket } => {
                self.mover().topic_ready(number, &topic, ticket, now);
            }
            ToController::Problem { text } => {
                let text: String = text.chars().take(500).collect();
                self.out
                    .tell("problem", None, Some(&self.brokers[number]), text);
            }
        }
    }

    /// The result of a probe of a broker's address.
    pub fn probed(&mut self, probe: &Probe, answer: &ProbeAnswer, now: Instant) {
        let (number, door) = (probe.broker, probe.door);
        match self.brokers.probed(probe, answer, &mut self.out) {
            Shown::Nothing => {}
            Shown::Here => self.is_where_it_says(number, door, now),
            Shown::Gone(why) => self.dead(number, why, now),
        }
    }

    /// Takes the answer of a [`FitJob`](super::FitJob).
    pub fn fitted(&mut self, answer: FitAnswer, now: Instant) {
        self.fitter().fitted(answer, now);
    }

    fn is_where_it_says(&mut self, number: BrokerNumber, door: Door, now: Instant) {
        self.out.keep_broker(&self.brokers[number]);
        if door != Door::Http {
            self.drive_sharers();
            self.drive_rounds();
        }
        if door == Door::Clients {
            self.comes_up(number, now);
        }
    }

    /// A broker reports.
    fn report(&mut self, number: BrokerNumber, mut report: BrokerReport, now: Instant) {
        let broker = &mut self.brokers[number];
        let last = broker.hearing.last();
        if report.number <= last {
            let text = format!("report {} after report {last}", report.number);
            return self.out.distrust(broker, &text);
        }
        if let Err(text) = check::amount("seconds", report.seconds, 1e6) {
            return self.out.distrust(broker, &text);
        }
        broker.memory = report.memory;
        (broker.reported_at, broker.silent_since) = (now, now);
        if let Liveness::Silent(_) = broker.liveness {
            broker.liveness = Liveness::Up;
            broker.inventory.waiting.clear();
            broker.is_given_up = false;
            let text = format!("{} reports again", broker.name);
            self.out.tell("broker-up", None, Some(broker), text);
        }
        if self.rounds.left(number, report.left_rounds) {
            self.due.look_at_all(self.topics.all().len());
        }
        let topics = report.topics.len();
        if topics > REPORTED_TOPICS_MAX {
            self.out
                .distrust(broker, &format!("a report on {topics} topics"));
            report.topics.clear();
        }
        broker.hearing.push(report, now);
        self.hearing.insert(number);
        self.hear_on(number, now);
    }

    /// Whether a broker has reported something not heard yet. The caller bounds how much that is.
    #[must_use]
    pub fn is_hearing(&self, number: BrokerNumber) -> bool {
        self.hearing.contains(number)
    }

    /// Hears the next part for the next broker whose report is not heard in whole.
    pub(super) fn go_on_hearing(&mut self, now: Instant) {
        if let Some(number) = self.hearing.next() {
            self.hear_on(number, now);
        }
    }

    /// Its process is gone for certain: its shares are free at once, its publishers are placed elsewhere.
    pub(super) fn dead(&mut self, number: BrokerNumber, why: &str, now: Instant) {
        let broker = &mut self.brokers[number];
        if broker.liveness == Liveness::Dead {
            return;
        }
        (broker.liveness, broker.dead_since) = (Liveness::Dead, now);
        if let Some(link) = broker.link.take() {
            self.out.push(Effect::CloseLink(link));
        }
        self.hearing.remove(number);
        let broker = &mut self.brokers[number];
        broker.hearing = Hearing::default();
        let former = std::mem::take(&mut broker.reports);
        let text = format!("{} is dead: {why}", broker.name);
        self.out.discard(former);
        self.out
            .tell("broker-dead", None, Some(&self.brokers[number]), text);
        self.end_inventory(number);
        self.forget_process(number, now);
        self.give_up_placements(number, now);
        self.out.keep_broker(&self.brokers[number]);
    }

    fn welcome(&mut self, number: BrokerNumber, now: Instant) {
        let message = ToBroker::Welcome {
            life: self.brokers[number].life,
            report_interval_ms: self.rules.settings.report_interval.as_millis() as u64,
            history_window_ms: self.rules.settings.adapt_window.as_millis() as u64,
        };
        self.out.send(number, message);
        self.handovers
            .welcome(number, &mut self.brokers, &mut self.out);
        // Who was told this list before it was told anything else knows what to make of the contracts.
        self.drive_sharers();
        self.sharing
            .send(number, &self.rules, &self.brokers, &mut self.out);
        self.drive_rounds();
        let key = self.sharing.key.as_ref();
        self.rounds.send(number, key, &self.brokers, &mut self.out);
        self.channels().begin_joining(number, now);
        self.out.keep_broker(&self.brokers[number]);
        for door in Door::ALL {
            match self.brokers[number].has_answered(door) {
                true if door == Door::Clients => self.comes_up(number, now),
                true => {}
                false => self.brokers.probe(number, door, now, &mut self.out),
            }
        }
    }

    /// Publishers may be placed on it from now on.
    fn comes_up(&mut self, number: BrokerNumber, now: Instant) {
        let text = format!("{} is up", self.brokers[number].name);
        self.out
            .tell("broker-up", None, Some(&self.brokers[number]), text);
        self.begin_job(Job::Room, now);
    }

    /// The process with this number is gone, and its shares and connections with it. Ledgers are
    /// told when their topics are looked at.
    fn forget_process(&mut self, number: BrokerNumber, now: Instant) {
        self.brokers[number].process = self.brokers.next_process();
        self.forget_link(number, now);
    }

    /// A process that holds its shares still, on another connection: the numbers of its reports begin again, and it says anew who is connected.
    fn forget_link(&mut self, number: BrokerNumber, now: Instant) {
        self.look_at_all_shares();
        self.begin_job(Job::Detach(number), now);
    }

    /// Publishers of a broker that takes none any more are placed elsewhere, all topics.
    pub(super) fn give_up_placements(&mut self, number: BrokerNumber, now: Instant) {
        self.begin_job(Job::GiveUp(number), now);
        self.look_at_all_shares();
    }

    /// Once a broker is given up as silent and its former link is gone, publishers that it reported last,
    /// and that were connected elsewhere before that, are taken to be there again.
    pub(super) fn recall_publishers(&mut self, number: BrokerNumber, now: Instant) {
        let broker = &self.brokers[number];
        if broker.is_given_up && broker.link.is_none() {
            self.begin_job(Job::Recall(number), now);
        }
    }

    /// What a broker had is gone with its process.
    fn end_inventory(&mut self, number: BrokerNumber) {
        let former = self.brokers[number].inventory.end();
        self.out.discard(former);
        let sizes = self.rules.sizes;
        self.catalog.forget_orphans(&self.brokers, sizes.topics);
    }

    /// Hears the next part of what a broker has reported.
    fn hear_on(&mut self, number: BrokerNumber, now: Instant) {
        let hearing = &mut self.brokers[number].hearing;
        let Some(mut report) = hearing.reports.pop_front() else {
            self.hearing.remove(number);
            return;
        };
        for attachment in report.attachments.by_ref().take(self.rules.sizes.topics) {
            self.attachment(number, attachment, now);
        }
        let is_heard = report.attachments.len() == 0 && self.hear_topics(number, &mut report, now);
        let hearing = &mut self.brokers[number].hearing;
        if !is_heard {
            hearing.reports.push_front(report);
        } else if hearing.reports.is_empty() {
            self.hearing.remove(number);
        }
    }

    /// Takes over the news in a part of a report's topics; returns whether it was the last part.
    fn hear_topics(&mut self, number: BrokerNumber, report: &mut Report, now: Instant) -> bool {
        let topics = report
            .topics
            .by_ref()
            .take(self.rules.sizes.topics)
            .collect();
        let is_named = report.topics.len() == 0;
        let mut gone: Vec<String> = report.gone.by_ref().take(self.rules.sizes.topics).collect();
        self.brokers[number].reports.forget(&gone);
        let is_whole = is_named && report.gone.len() == 0;
        if is_whole {
            let broker = &mut self.brokers[number];
            (broker.report_number, broker.heard_at) = (report.number, report.came_at);
        }
        let named = self.take_words(number, report, topics, now);
        let mut is_last = is_whole;
        if is_whole && !report.has_more {
            let broker = &mut self.brokers[number];
            let link = broker.link.unwrap_or(0);
            let sizes = self.rules.sizes;
            let (unnamed, is_all) = broker.hearing.take_unnamed(&broker.reports, link, sizes);
            broker.reports.forget(&unnamed);
            gone.extend(unnamed);
            is_last = is_all;
        }
        self.due.work.reported += named.len() as u64;
        if is_last {
            let broker = &mut self.brokers[number];
            if broker.renew_leases(&self.rules.ledger_config(), now) {
                let report = broker.report_number;
                self.out.send(number, ToBroker::Renewed { report });
            }
        }
        let (topics, brokers) = (&self.topics, &mut self.brokers);
        contract::refresh(
            number,
            report.number,
            &named,
            topics,
            brokers,
            &mut self.out,
        );
        self.rebalancer()
            .judge_topics(number, report.seconds, &named, now);
        if is_last {
            self.rebalancer().judge_broker(number, now);
        }
        for name in named.iter().chain(&gone) {
            self.adaptor().drive(name, now);
        }
        is_last
    }

    /// Takes over what is said of topics; returns the names of those for which it can be true.
    fn take_words(
        &mut self,
        number: BrokerNumber,
        report: &Report,
        topics: Vec<TopicReport>,
        now: Instant,
    ) -> Vec<String> {
        let link = self.brokers[number].link.unwrap_or(0);
        let mut named = Vec::with_capacity(topics.len());
        for topic in topics {
            if let Err(text) = believable(&topic, report.seconds) {
                let shown: String = topic.topic.chars().take(70).collect();
                self.out
                    .distrust(&self.brokers[number], &format!("topic {shown:?}: {text}"));
                continue;
            }
            let broker = &mut self.brokers[number];
            let before = broker.reports.take(&topic.topic);
            if before.is_none() && broker.reports.all().len() >= TOPICS_MAX {
                self.out.distrust(
                    &self.brokers[number],
                    &format!("reports on more than {TOPICS_MAX} topics"),
                );
                break;
            }
            let here = self.topics.get(&topic.topic);
            let connected = here.and_then(|topic| topic.publishers.at(number));
            let connected = connected.map_or(0, |at| at.attached.number());
            let before = before.unwrap_or_default();
            let mut carried = before.followed_by(topic, report.seconds, connected);
            carried.link = link;
            carried.said_in = Some((report.number, report.came_at));
            self.adaptor()
                .reported(number, report.number, &carried, now);
            let name = carried.report.topic.clone();
            self.brokers[number].reports.put(name.clone(), carried);
            named.push(name);
        }
        named
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
            return self.out.tell(
                "problem",
                Some(&publisher.topic),
                Some(&self.brokers[number]),
                text,
            );
        }
        let known = self
            .topics
            .get(&publisher.topic)
            .and_then(|topic| topic.publishers.find(&publisher.id));
        let index = match known {
            Some(index) => index,
            None if !attached => return,
            None => match self.declared(number, &publisher, now) {
                Ok(index) => index,
                Err(text) => return self.out.distrust(&self.brokers[number], &text),
            },
        };
        let Some((topic, loads)) = self.topics.with_loads(&publisher.topic) else {
            return;
        };
        let broker = &mut self.brokers[number];
        if let Some(carried) = broker.reports.get_mut(&publisher.topic) {
            carried.seen.churn += 1;
        }
        let row = &topic.publishers.rows()[index];
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

    /// A publisher that the controller does not know declares itself at a broker: it is taken in.
    fn declared(
        &mut self,
        number: BrokerNumber,
        publisher: &Declaration,
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
                    "a publisher declared itself at {}: {error}",
                    self.brokers[number].name
                )
            })?;
        let topic = self.topics.get(&publisher.topic);
        topic
            .and_then(|topic| topic.publishers.find(&publisher.id))
            .ok_or_else(|| String::from("it is gone again"))
    }
}
