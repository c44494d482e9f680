//! What has come up since the last turn: readiness from epoll, and post.

use std::sync::atomic::Ordering;

use kernel::TaskId;

use super::Reactor;
use super::admission;
use super::door::LISTENER_TOKEN;
use super::inbox::{Mail, TopicMail};
use super::layers;
use super::schedule::Readiness;
use crate::connection::{ConnectionKey, maker_at};

/// What epoll calls the inbox's waker.
pub(super) const WAKER_TOKEN: u64 = u64::MAX - 1;

impl Reactor {
    /// Puts what epoll told into the queues of the topics that it belongs to.
    pub(super) fn gather_events(&mut self) {
        let events = std::mem::take(&mut self.events);
        for event in &events {
            match event.token {
                LISTENER_TOKEN => {
                    self.hall.accept(&mut self.door);
                    // No topic is charged with it.
                    self.hall.time.look();
                }
                WAKER_TOKEN => {
                    self.hall.post.has_come = true;
                    let is_open = self.hall.shared.open.load(Ordering::Acquire);
                    self.door.open(is_open, &self.hall.peers.epoll);
                }
                token => {
                    let key = ConnectionKey::from_bits(token);
                    self.hall.topics.schedule.notice(key, Readiness::of(event));
                }
            }
        }
        self.events = events;
    }

    /// Does what post asks for, or puts it into the queue of the topic that it is for.
    pub(super) fn take_mail(&mut self) {
        let Some(mut mail) = self.hall.post.take() else {
            return;
        };
        self.hall.time.note_post();
        let mut is_for_nobody = false;
        for piece in mail.drain(..) {
            is_for_nobody |= piece.is_for_nobody();
            match piece {
                Mail::Adopt(connection) => {
                    let _key = self.hall.adopt(*connection);
                }
                Mail::Publish(batch) => {
                    let maker = batch
                        .items
                        .first()
                        .and_then(|item| maker_at(item.peer.ip()));
                    let now = self.hall.time.now;
                    let task = self.hall.topics.task_of_name(&batch.topic, maker, now);
                    self.put_in_queue(task, TopicMail::Publish(batch));
                }
                Mail::Answered(batch) => self.put_in_queue(batch.task, TopicMail::Answered(batch)),
                Mail::Settled(settled) => {
                    self.put_in_queue(settled.task, TopicMail::Settled(settled))
                }
                Mail::Backlog(answer) => {
                    self.hall
                        .topics
                        .table
                        .hear_backlog(answer, self.hall.time.now);
                }
                Mail::Logged(answer) => self.relay().take_log_answer(answer),
                Mail::Restore(found) => self.restore(&found),
                Mail::ShareGone(topic) => self.declare_elsewhere(&topic, None),
                Mail::Publisher(news) => self.hall.publishers().hear(news),
                Mail::Subscribe(request) => {
                    let from = request.from;
                    let seated = self.guests.welcome(*request, &mut self.hall.topics);
                    self.hall.post.send(from, Mail::Seated(seated));
                }
                Mail::Seated(seated) => self.hall.hear_seated(seated),
                Mail::Order(said) => {
                    let task = self.guests.task_of(said.guest);
                    let task = task.unwrap_or(self.hall.topics.schedule.common());
                    self.put_in_queue(task, TopicMail::Order(said));
                }
                Mail::Ordered(answer) => self.hall.hear_ordered(&answer),
                Mail::Unseated(key) => self.hall.close(key, "its channel was deleted"),
                Mail::Deliveries(batch) => {
                    self.put_in_queue(batch.task, TopicMail::Deliveries(batch))
                }
                Mail::Returned(batch) => {
                    let table = &mut self.hall.topics.table;
                    let memory = &mut self.hall.peers.memory;
                    self.guests.take_back(batch, table, memory);
                }
                Mail::Permitted(permitted) => admission::hear_permitted(&mut self.hall, *permitted),
                Mail::Shaken(shaken) => layers::hear_shaken(&mut self.hall, *shaken),
                Mail::Landed(landed) => self.hall.topics.table.record_landed(&landed),
                Mail::Request(request) => {
                    self.answer(request);
                }
            }
        }
        self.hall.post.give_back(mail);
        if is_for_nobody {
            // No topic is charged with it.
            self.hall.time.look();
        }
    }

    /// Has a topic's task do what post asks for.
    fn put_in_queue(&mut self, task: TaskId, mail: TopicMail) {
        self.hall.topics.schedule.notice_mail(task, mail);
    }
}
