//! Post of a reactor, outgoing and incoming.

use std::sync::Arc;

use wire::TopicName;

use super::batches::Batches;
use super::home_of;
use super::inbox::{Inbox, Mail};

/// Post, and who it goes to.
#[derive(Debug)]
pub(super) struct Post {
    /// Of this reactor.
    pub(super) number: usize,
    /// The reactors', by number.
    inboxes: Arc<[Arc<Inbox>]>,
    outboxes: Vec<Vec<Mail>>,
    /// Publishes to topics of other reactors.
    pub(super) batches: Batches,
    /// Buffer for what is taken out of the inbox.
    mail: Vec<Mail>,
    /// Some has come.
    pub(super) has_come: bool,
}

impl Post {
    /// The post of reactor `number` of those with `inboxes`.
    pub(super) fn new(number: usize, inboxes: Arc<[Arc<Inbox>]>) -> Post {
        Post {
            number,
            outboxes: inboxes.iter().map(|_| Vec::new()).collect(),
            inboxes,
            batches: Batches::default(),
            mail: Vec::new(),
            has_come: false,
        }
    }

    /// Reactors of the broker.
    #[inline]
    pub(super) fn reactors(&self) -> usize {
        self.outboxes.len()
    }

    /// The reactor that owns a topic.
    #[inline]
    pub(super) fn home_of(&self, topic: &str) -> usize {
        home_of(topic, self.outboxes.len())
    }

    /// Has a piece leave when the turn ends.
    pub(super) fn send(&mut self, reactor: usize, mail: Mail) {
        self.outboxes[reactor].push(mail);
    }

    /// The post that has come, if any. The list is to be [given back](Post::give_back).
    pub(super) fn take(&mut self) -> Option<Vec<Mail>> {
        if !std::mem::take(&mut self.has_come) {
            return None;
        }
        let mut mail = std::mem::take(&mut self.mail);
        self.inboxes[self.number].take(&mut mail);
        Some(mail)
    }

    /// Keeps an emptied list for the next time.
    pub(super) fn give_back(&mut self, mail: Vec<Mail>) {
        self.mail = mail;
    }

    /// Posts what has gathered in this turn.
    pub(super) fn post(&mut self) {
        let outboxes = &mut self.outboxes;
        self.batches
            .take(|batch| outboxes[batch.home].push(Mail::Publish(batch)));
        for (outbox, inbox) in outboxes.iter_mut().zip(self.inboxes.iter()) {
            if !outbox.is_empty() {
                inbox.post(outbox);
            }
        }
    }

    /// Tells the other reactors that a topic of this one gives its share back. At once: what is declared next may count on it.
    pub(super) fn tell_share_gone(&self, topic: &TopicName) {
        for (number, inbox) in self.inboxes.iter().enumerate() {
            if number != self.number {
                inbox.post(&mut vec![Mail::ShareGone(topic.clone())]);
            }
        }
    }

    /// Takes nothing any more from the handle.
    pub(super) fn close(&self) {
        self.inboxes[self.number].close();
    }
}
