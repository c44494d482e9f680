//! The event queue of one task.
//!
//! It holds connections that have become ready, post to be carried out, and topics that have
//! something to pass on. It is bounded: each connection and each topic stands in one queue, once;
//! post is bounded by what connections may have in transit and by the handle's bound.

use std::collections::VecDeque;

use clock::Instant;
use kernel::TaskId;
use topics::TopicKey;
use wire::TopicName;

use crate::connection::ConnectionKey;
use crate::reactor::inbox::TopicMail;

/// Whom a task serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::reactor) enum Whose {
    /// What belongs to no topic, and topics for which no task is left.
    Nobody,
    /// A topic of this reactor.
    Here(TopicKey),
    /// A topic of another reactor: its publishers whose connections are here.
    Elsewhere(TopicName),
}

/// The event queue of one task.
#[derive(Debug)]
pub(in crate::reactor) struct Line {
    pub(in crate::reactor) task: TaskId,
    pub(in crate::reactor) whose: Whose,
    pub(in crate::reactor) ready: VecDeque<ConnectionKey>,
    pub(in crate::reactor) mail: VecDeque<TopicMail>,
    pub(in crate::reactor) topics: VecDeque<TopicKey>,
    /// Since when the first of the topics has had something to do.
    pub(in crate::reactor) topics_since: Instant,
    /// Events not yet reported to the scheduler, which hears of them all at once.
    pub(in crate::reactor) untold: usize,
    /// Connections that are served with the task.
    pub(in crate::reactor) connections: u32,
    /// Its topic has declared a share.
    pub(in crate::reactor) is_declared: bool,
}

impl Line {
    /// An empty queue.
    pub(in crate::reactor) fn new(task: TaskId, whose: Whose) -> Line {
        Line {
            task,
            whose,
            ready: VecDeque::new(),
            mail: VecDeque::new(),
            topics: VecDeque::new(),
            topics_since: Instant::ZERO,
            untold: 0,
            connections: 0,
            is_declared: false,
        }
    }

    /// Whether it belongs to a topic elsewhere that nobody here publishes to and that declares
    /// nothing.
    pub(in crate::reactor) fn is_vacant(&self) -> bool {
        matches!(self.whose, Whose::Elsewhere(_)) && self.connections == 0 && !self.is_declared
    }
}
