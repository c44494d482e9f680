//! Requests that change something, in their order: each is kept before the core acts on it, and
//! others wait behind.
//!
//! Requests that wait together are kept in one commit, as long as none of them rests on another
//! ([`Group`]): each is checked against what is in force before all of them.
//!
//! A long list of publishers is kept and taken in parts. Between two parts others have their turn,
//! except for requests about the same topic.

use std::collections::{BTreeSet, VecDeque};

use super::answer;
use super::outbox::Answer;
use crate::ControlError;
use crate::core::{Core, Declared};
use crate::handle::{Command, Reply};
use crate::store::{Change, Table};

/// Requests that wait at most; no command is heard beyond them.
pub(super) const REQUESTS_MAX: usize = 1024;
/// Publishers of one list that are kept in one commit at most.
pub(super) const PUBLISHERS_KEPT_AT_ONCE: usize = 2500;
/// Requests that are kept in one commit at most.
pub(super) const REQUESTS_KEPT_AT_ONCE: usize = 64;
/// Records of one commit's requests, after which no further request joins.
const RECORDS_KEPT_AT_ONCE: usize = PUBLISHERS_KEPT_AT_ONCE;

/// Those that wait, and those that are being kept.
#[derive(Debug, Default)]
pub(super) struct Requests {
    waiting: VecDeque<Request>,
    under_way: Vec<Asked>,
}

/// A request with what is kept for it.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) request: Request,
    pub(super) kept: Vec<Change>,
}

/// Requests that are to be kept in one commit: of each topic and broker one at most, none that writes what another one does, and
/// one at most that takes of what all topics have in common (shares of time, numbers of limits, identifiers).
#[derive(Debug, Default)]
pub(super) struct Group {
    asked: Vec<Asked>,
    subjects: BTreeSet<Subject>,
    records: BTreeSet<(Table, String)>,
    is_drawn_from: bool,
}

/// The subject of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Topic(String),
    Broker(String),
}

/// One of them.
#[derive(Debug)]
pub(super) struct Request {
    /// The command; of a long list of publishers one part.
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

    /// Takes the next one, unless its topic is just being removed, or it rests on one of `group`.
    pub(super) fn next(&mut self, core: &Core, group: &Group) -> Option<Request> {
        let next = self.waiting.front()?;
        let is_forgetting = next.topic().is_some_and(|topic| core.is_forgetting(topic));
        match is_forgetting || !group.may_be_joined_by(next) {
            true => None,
            false => self.waiting.pop_front(),
        }
    }

    /// Lets one that was just taken wait before all others.
    pub(super) fn put_back(&mut self, request: Request) {
        self.waiting.push_front(request);
    }

    /// Takes the next waiting request, to answer it undone.
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

    /// What these say is being kept; gives that.
    pub(super) fn begin(&mut self, group: Group) -> Vec<Change> {
        self.under_way = group.asked;
        let kept = self.under_way.iter().flat_map(|asked| &asked.kept);
        kept.cloned().collect()
    }

    /// Those that were being kept, in their order.
    pub(super) fn end(&mut self) -> Vec<Asked> {
        std::mem::take(&mut self.under_way)
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

impl Group {
    /// Lets a request join with what is to be kept for it; gives it back where another one writes some of that.
    pub(super) fn join(&mut self, request: Request, kept: Vec<Change>) -> Option<Request> {
        let records = kept.iter().map(|change| (change.table, change.key.clone()));
        let records: BTreeSet<(Table, String)> = records.collect();
        if !self.records.is_disjoint(&records) {
            return Some(request);
        }
        self.records.extend(records);
        self.subjects.extend(request.subject());
        self.is_drawn_from |= request.draws();
        self.asked.push(Asked { request, kept });
        None
    }

    /// Whether a request rests on none of these, and there is room.
    fn may_be_joined_by(&self, request: &Request) -> bool {
        let has_room = self.asked.len() < REQUESTS_KEPT_AT_ONCE
            && self.records.len() < RECORDS_KEPT_AT_ONCE
            && !(self.is_drawn_from && request.draws());
        let subject = request.subject();
        self.asked.is_empty()
            || has_room && subject.is_some_and(|subject| !self.subjects.contains(&subject))
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

    /// Its subject: requests with the same subject depend on each other.
    fn subject(&self) -> Option<Subject> {
        match &self.command {
            Command::PutName(topic, _) | Command::ChangeTopic(topic, ..) => {
                Some(Subject::Topic(topic.clone()))
            }
            Command::DrainBroker(name, _)
            | Command::ResumeBroker(name, _)
            | Command::RemoveBroker(name, _) => Some(Subject::Broker(name.clone())),
            _ => self.topic().map(|topic| Subject::Topic(topic.to_owned())),
        }
    }

    /// Whether it may take of what all topics have in common.
    fn draws(&self) -> bool {
        matches!(self.command, Command::PutTopic(..) | Command::PutName(..))
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
        ControlError::Elsewhere { leader, .. } => ControlError::Elsewhere { text, leader },
        ControlError::Unavailable(_) => ControlError::Unavailable(text),
    }
}
