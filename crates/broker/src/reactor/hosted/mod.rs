//! The topics that live on a reactor, the tasks that serve them, and who waits at them.

mod contract;
pub(super) mod observe;
mod operate;
mod tasks;

use topics::{Arena, Key, TopicKey, TopicTable, WaitingPublisher};

use super::attachments::Attachments;
use super::durable::Waiters;
use super::schedule::Schedule;
use super::subscribers::Identifiers;
use super::waiting::WaitingPublish;

/// Topics and tasks of a reactor.
#[derive(Debug)]
pub(super) struct Hosted {
    pub(super) table: TopicTable,
    pub(super) schedule: Schedule,
    /// Their publishers.
    pub(super) attachments: Attachments,
    /// Which topics Tempo's identifiers stand for, here or elsewhere.
    pub(super) identifiers: Identifiers,
    /// Who waits until what was published is durable.
    pub(super) waiters: Waiters,
    /// Publishes that wait for room.
    pub(super) waiting: Arena<WaitingPublish>,
    /// Topics with room again and publishers that wait for it.
    pub(super) roomy: Vec<TopicKey>,
    /// One that waited is tried again: nobody is to wait behind the others for that.
    pub(super) is_resuming: bool,
}

impl Hosted {
    /// No topic yet but those of `table`.
    pub(super) fn new(table: TopicTable, schedule: Schedule) -> Hosted {
        Hosted {
            table,
            schedule,
            attachments: Attachments::default(),
            identifiers: Identifiers::default(),
            waiters: Waiters::default(),
            waiting: Arena::default(),
            roomy: Vec::new(),
            is_resuming: false,
        }
    }

    /// Puts a publish at the end of those that wait at a topic, or (`first`) back at their head.
    pub(super) fn keep_waiting(&mut self, topic: TopicKey, publish: WaitingPublish, first: bool) {
        let number = WaitingPublisher(self.waiting.insert(publish).to_bits());
        self.table.hold(topic, number, first);
    }

    /// What stands at a place of the line of a topic.
    pub(super) fn take_waiting(&mut self, number: WaitingPublisher) -> Option<WaitingPublish> {
        self.waiting.remove(Key::from_bits(number.0))
    }
}
