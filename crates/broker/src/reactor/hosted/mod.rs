//! The topics that live on a reactor, the tasks that serve them, and who waits at them.

mod contract;
mod observe;
mod operate;
mod tasks;

use topics::{Arena, TopicKey, TopicTable};

use super::attachments::Attachments;
use super::held::HeldPublish;
use super::schedule::Schedule;
use super::tempo::Identifiers;

/// Topics and tasks of a reactor.
#[derive(Debug)]
pub(super) struct Hosted {
    pub(super) table: TopicTable,
    pub(super) schedule: Schedule,
    /// Their publishers.
    pub(super) attachments: Attachments,
    /// Which topics Tempo's identifiers stand for, here or elsewhere.
    pub(super) identifiers: Identifiers,
    /// Publishes that wait for room.
    pub(super) held: Arena<HeldPublish>,
    /// Topics with publishers held and room again.
    pub(super) roomy: Vec<TopicKey>,
}

impl Hosted {
    /// No topic yet but those of `table`.
    pub(super) fn new(table: TopicTable, schedule: Schedule) -> Hosted {
        Hosted {
            table,
            schedule,
            attachments: Attachments::default(),
            identifiers: Identifiers::default(),
            held: Arena::default(),
            roomy: Vec::new(),
        }
    }
}
