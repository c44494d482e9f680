//! Requests that change something, one after the other: what one says is kept before the core acts on it, and others wait behind it.
//!
//! A long list of publishers is kept and taken in parts. Between two of them others have their turn, but for those about the same
//! topic.

use std::collections::VecDeque;

use super::answer;
use super::outbox::Answer;
use crate::ControlError;
use crate::core::{Core, Declared};
use crate::handle::{Command, Reply};
use crate::store::Change;

/// Requests that wait at most; no command is heard beyond them.
pub(super) const REQUESTS_MAX: usize = 1024;
/// Publishers of one list that are kept in one commit at most.
pub(super) const PUBLISHERS_KEPT_AT_ONCE: usize = 2500;

/// Those that wait, and the one that is being kept.
#[derive(Debug, Default)]
pub(super) struct Requests {
    waiting: VecDeque<Request>,
    /// With what is being kept for it.
    under_way: Option<(Request, Vec<Change>)>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Request {
    /// What is asked; of a long list of publishers one part.
    pub(super) command: Command,
    /// Publishers of the list that were taken already.
    taken: usize,
    /// Publishers of the list behind this part.
    behind: Option<Declared>,
}

impl Requests {
    /// Lets one wait behind the others.
    pub(super) fn push(&mut self, request: Request) {
        self.waiting.push_back(request);
    }

    /// Takes the next one, unless its topic is just being removed.
    pub(super) fn next(&mut self, core: &Core) -> Option<Request> {
        let topic = self.waiting.front()?.topic();
        match topic.is_some_and(|topic| core.is_forgetting(topic)) {
            true => None,
            false => self.waiting.pop_front(),
        }
    }

    /// Takes the next one of those that are not done any more.
    pub(super) fn next_of_all(&mut self) -> Option<Request> {
        self.waiting.pop_front()
    }

    /// The rest of a list comes behind requests about other topics.
    pub(super) fn go_on_with(&mut self, rest: Request) {
        let mut others = self.waiting.iter();
        match others.any(|other| other.topic() == rest.topic()) {
            true => self.waiting.push_front(rest),
            false => self.waiting.push_back(rest),
        }
    }

    /// What one says is being kept.
    pub(super) fn begin(&mut self, request: Request, asked: Vec<Change>) {
        self.under_way = Some((request, asked));
    }

    /// The one that was being kept, with what was to be kept.
    pub(super) fn end(&mut self) -> Option<(Request, Vec<Change>)> {
        self.under_way.take()
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Those that wait are not done: whoever asked hears that nobody answers.
    pub(super) fn give_up(&mut self) {
        self.waiting.clear();
    }
}

impl Request {
    /// One that nothing was done for.
    pub(super) fn new(command: Command) -> Request {
        Request {
            command,
            taken: 0,
            behind: None,
        }
    }

    /// The topic that it is about, if it is about one.
    fn topic(&self) -> Option<&str> {
        match &self.command {
            Command::PutTopic(topic, ..)
            | Command::DeleteTopic(topic, _)
            | Command::PutPublishers(topic, ..)
            | Command::DeletePublisher(topic, ..) => Some(topic),
            _ => None,
        }
    }

    /// What is to be kept before it is done. Of a long list of publishers only the first part stays in this request.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn asks(&mut self, core: &Core) -> Result<Vec<Change>, ControlError> {
        match &mut self.command {
            Command::PutTopic(name, spec, _) => core.asks_put_topic(name, spec),
            Command::DeleteTopic(name, _) => core.asks_delete_topic(name),
            Command::PutPublishers(name, list, _) => {
                core.check_declare(name, list)?;
                let behind = list.split_off(PUBLISHERS_KEPT_AT_ONCE);
                self.behind = Some(behind).filter(|behind| !behind.is_empty());
                core.asks_declare(name, list)
            }
            Command::DeletePublisher(name, id, _) => core.asks_delete_publisher(name, id),
            Command::DrainBroker(name, _) => core.asks_drain_broker(name, true),
            Command::ResumeBroker(name, _) => core.asks_drain_broker(name, false),
            Command::RemoveBroker(name, _) => core.asks_remove_broker(name),
            // Two topics of one identifier would receive each other's messages.
            Command::PutName(topic, _) => core.asks_put_name(topic),
            Command::ChangeTopic(topic, change, _) => core.asks_change_topic(topic, change),
            // The others change nothing that is kept.
            _ => Ok(Vec::new()),
        }
    }

    /// Of a list of publishers of which a part was taken: what is left, to which the answer goes.
    pub(super) fn rest(topic: &str, taken: usize, behind: Declared, reply: Reply<()>) -> Request {
        Request {
            command: Command::PutPublishers(topic.to_owned(), behind, reply),
            taken,
            behind: None,
        }
    }

    /// Publishers of its list that are taken once this part is, and those behind it.
    pub(super) fn progress(&mut self) -> (usize, Option<Declared>) {
        let part = match &self.command {
            Command::PutPublishers(_, list, _) => list.len(),
            _ => 0,
        };
        (self.taken + part, self.behind.take())
    }

    /// The answer that it is not done.
    pub(super) fn refusal(mut self, error: ControlError) -> Answer {
        let before = self.taken;
        let (with_part, behind) = self.progress();
        let all = with_part + behind.map_or(0, |behind| behind.len());
        match self.command {
            Command::PutTopic(_, _, reply) => refused(reply, error),
            Command::PutPublishers(_, _, reply) if before > 0 => {
                refused(reply, in_part(error, before, all))
            }
            Command::PutPublishers(_, _, reply)
            | Command::DeleteTopic(_, reply)
            | Command::DeletePublisher(_, _, reply)
            | Command::RemoveBroker(_, reply)
            | Command::ChangeTopic(_, _, reply) => refused(reply, error),
            Command::DrainBroker(_, reply) | Command::ResumeBroker(_, reply) => {
                refused(reply, error)
            }
            Command::PutName(_, reply) => refused(reply, error),
            Command::Publisher { reply, .. } => refused(reply, error),
            Command::PlaceTombstone { reply, .. } => refused(reply, error),
            // The others are questions.
            _ => Box::new(|| ()),
        }
    }
}

fn refused<T: Send + 'static>(reply: Reply<T>, error: ControlError) -> Answer {
    Box::new(|| answer(reply, Err(error)))
}

/// Of a list a part was taken before this went wrong.
fn in_part(error: ControlError, taken: usize, all: usize) -> ControlError {
    let why = match &error {
        // Its text says that nothing was changed.
        ControlError::NotKept(_) => String::from("the store cannot be written; make room"),
        error => error.to_string(),
    };
    let text = format!(
        "the first {taken} of {all} publishers are declared and kept, the others are not: {why}; then declare the list again"
    );
    match error {
        ControlError::Invalid(_) => ControlError::Invalid(text),
        ControlError::NotFound(_) => ControlError::NotFound(text),
        ControlError::Conflict(_) => ControlError::Conflict(text),
        ControlError::NotKept(_) => ControlError::NotKept(text),
        ControlError::Elsewhere(_) => ControlError::Elsewhere(text),
        ControlError::Unavailable(_) => ControlError::Unavailable(text),
    }
}
