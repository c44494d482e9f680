//! Passes messages through topics to consumers, and handles what follows for others.

use topics::{LogAnswer, LogOrder, TopicKey};

use super::durable::Undurable;
use super::full::log_full;
use super::guests::{Guests, Recipient};
use super::hall::Hall;
use super::inbox::{Mail, TopicMail};
use super::write::Outputs;
use crate::backlog::Orders;
use crate::config::ArrivalClock;

/// Messages of one topic that are passed on in one go.
const MESSAGES_MAX: usize = 1024;

/// The same while topics compete.
const MESSAGES_SHARED_MAX: usize = 64;

/// Takes messages from publishers (`publish.rs`, `batch.rs`, `waiting.rs`) through topics to consumers; borrows what it needs for that.
pub(super) struct Relay<'a> {
    pub(super) hall: &'a mut Hall,
    pub(super) guests: &'a mut Guests,
    /// Whoever keeps messages outside memory.
    pub(super) backlog: Option<&'a Orders>,
}

impl Relay<'_> {
    /// Passes messages of a topic on and writes them to its consumers.
    pub(super) fn serve_topic(&mut self, topic: TopicKey) {
        let mut outlet = Outputs {
            peers: &mut self.hall.peers,
            guests: self.guests,
            home: self.hall.post.number,
            with_arrivals: self.hall.shared.config.arrival_clock == ArrivalClock::Kernel,
            now: self.hall.time.now,
        };
        let messages_max = match self.hall.topics.schedule.is_shared(self.hall.time.now) {
            true => MESSAGES_SHARED_MAX,
            false => MESSAGES_MAX,
        };
        self.hall
            .topics
            .table
            .run_topic(topic, self.hall.time.now, messages_max, &mut outlet);
        self.hall.write(|writer| writer.flush_consumers());
        self.carry_out_effects();
    }

    /// Does what follows for others from what was done to topics.
    pub(super) fn carry_out_effects(&mut self) {
        let effects = &mut self.hall.topics.table.effects;
        if std::mem::take(&mut effects.catalog_changed) {
            self.hall.shared.changed.notify_one();
        }
        if !effects.told.is_empty() {
            self.hall.shared.changes.post(&mut effects.told);
        }
        if std::mem::take(&mut effects.report_wanted) {
            self.hall.shared.report_wanted.notify_one();
        }
        if std::mem::take(&mut effects.sharing_began) {
            self.hall.shared.sharing.began();
        }
        self.hall.topics.roomy.append(&mut effects.roomy);
        // Logs first: one that begins has what queues have outside copied, before any of it is forgotten there.
        self.write_logs();
        if let Some(backlog) = self.backlog {
            let orders = &mut self.hall.topics.table.effects.backlog;
            orders.drain(..).for_each(|order| backlog.give(order));
        }
        self.hall
            .topics
            .table
            .effects
            .full
            .drain(..)
            .for_each(log_full);
        while let Some((topic, task)) = self.hall.topics.table.effects.ended.pop() {
            if self.hall.topics.schedule.end(task) {
                self.hall.post.tell_share_gone(&topic);
            }
        }
        while let Some(recipient) = self.hall.topics.table.effects.close.pop() {
            self.turn_out(Recipient::from_bits(recipient));
        }
        self.hall.close_failed();
        while let Some(number) = self.hall.topics.table.effects.without_topic.pop() {
            self.settle_without_topic(number);
        }
    }

    /// Has a topic hear how far its log is, and answers those whose messages are durable.
    pub(super) fn hear_log(&mut self, answer: LogAnswer) {
        self.hall.topics.table.hear_log(answer);
        while answer.is_durable
            && let Some(waiter) = self.hall.topics.waiters.pop(answer)
        {
            match waiter {
                Undurable::Here(command) => self.settle_here(&command),
                Undurable::Away(reactor, settled) => {
                    self.hall.post.send(reactor, Mail::Settled(settled));
                }
                Undurable::Request(reply) => reply.send(Ok(())),
                Undurable::Handed(reply) => reply.send(Ok(Ok(()))),
            }
        }
    }

    /// Has written what was logged in this turn, and those answered whose topics are not durable any more.
    pub(super) fn write_logs(&mut self) {
        let effects = &mut self.hall.topics.table.effects;
        if effects.logged.is_empty() && effects.log_ends.is_empty() {
            return;
        }
        self.hall.shared.note_durable_topics();
        let ends = std::mem::take(&mut effects.log_ends);
        let undurable = std::mem::take(&mut effects.undurable);
        let logged = std::mem::take(&mut effects.logged);
        let Some(backlog) = self.backlog else {
            return;
        };
        for name in ends {
            backlog.log(LogOrder::End(name));
        }
        for topic in logged {
            for batch in self.hall.topics.table.take_logged(topic) {
                backlog.log(LogOrder::Write(Box::new(batch)));
            }
        }
        for answer in undurable {
            self.take_log_answer(answer);
        }
    }

    /// A topic hears of its log in its turn; those who wait at one that is gone hear at once.
    pub(super) fn take_log_answer(&mut self, answer: LogAnswer) {
        match self.hall.topics.task_of(answer.topic) {
            Some(task) => {
                let mail = TopicMail::Logged(answer);
                self.hall.topics.schedule.notice_mail(task, mail);
            }
            None => self.hear_log(answer),
        }
    }

    /// Closes the connection of a consumer whose channel was deleted, wherever it is.
    fn turn_out(&mut self, recipient: Recipient) {
        match recipient {
            Recipient::Connection(key) => self.hall.close(key, "its channel was deleted"),
            Recipient::Guest(key) => {
                if let Some((reactor, connection)) = self.guests.whereabouts(key) {
                    self.hall.post.send(reactor, Mail::Unseated(connection));
                }
                self.guests.leave(key);
            }
        }
    }
}
