//! Asking the controller where to publish: when, how, and what its answer means.
//!
//! One question is under way at most. A question without a useful answer is repeated with growing
//! waits for as long as the publisher has no broker, and ten times less often while it has one.

use clock::Instant;

use super::Follower;
use crate::placed::backoff::Backoff;

/// A question to the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enquiry {
    /// Declare the publisher first (`POST /v1/topics/{t}/publishers`); otherwise ask for its place
    /// (`GET /v1/topics/{t}/publishers/{id}`).
    pub register: bool,
    /// Address of a broker that did not answer.
    pub avoid: Option<String>,
}

/// The controller's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Publish at this `host:port`.
    At(String),
    /// It is known and has no place yet.
    Unplaced,
    /// The controller does not know it (404).
    Unknown,
    /// The controller does not accept what the publisher says of itself (400, 409), and why.
    Refused(String),
    /// The controller is out of reach or cannot answer now (503), and why.
    Failed(String),
}

/// While there is a broker, questions are so much rarer.
const CALM_FACTOR: u32 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Due(Instant),
    UnderWay {
        /// Something happened since that the answer cannot know.
        is_stale: bool,
    },
}

#[derive(Debug)]
pub(super) struct Enquiring {
    may_register: bool,
    is_registered: bool,
    avoid: Option<String>,
    state: State,
    backoff: Backoff,
}

impl Enquiring {
    pub(super) fn new(may_register: bool, seed: u64) -> Self {
        Self {
            may_register,
            is_registered: false,
            avoid: None,
            state: State::Idle,
            backoff: Backoff::new(seed),
        }
    }

    /// Asks at `at`, or again after the question that is under way.
    pub(super) fn ask_at(&mut self, at: Instant) {
        self.state = match self.state {
            State::UnderWay { .. } => State::UnderWay { is_stale: true },
            State::Due(earlier) => State::Due(earlier.min(at)),
            State::Idle => State::Due(at),
        };
    }

    pub(super) fn due_at(&self) -> Option<Instant> {
        match self.state {
            State::Due(at) => Some(at),
            State::Idle | State::UnderWay { .. } => None,
        }
    }

    /// The question to put now.
    pub(super) fn due(&mut self, now: Instant) -> Option<Enquiry> {
        if self.due_at()? > now {
            return None;
        }
        self.state = State::UnderWay { is_stale: false };
        Some(Enquiry {
            register: self.may_register && !self.is_registered,
            avoid: self.avoid.clone(),
        })
    }

    /// A connection is lost; `has_lasted` says that it was no accident right after connecting.
    pub(super) fn lost(&mut self, address: Option<String>, has_lasted: bool) {
        if address.is_some() {
            self.avoid = address;
        }
        if has_lasted {
            self.backoff.reset();
        }
    }

    /// A connection to `address` became active.
    pub(super) fn arrived(&mut self, address: &str, is_fallback: bool) {
        if !is_fallback {
            self.avoid = None;
            if matches!(self.state, State::Due(_)) {
                self.state = State::Idle;
            }
        } else if self.avoid.as_deref() == Some(address) {
            self.avoid = None;
        }
    }

    /// A broker accepts messages.
    pub(super) fn went_well(&mut self) {
        self.backoff.reset();
    }

    /// Whether the answer to the question under way is worth anything.
    fn answered(&mut self) -> bool {
        let is_fresh = self.state == State::UnderWay { is_stale: false };
        self.state = State::Idle;
        is_fresh
    }
}

impl Follower {
    /// The controller's answer to the question that is under way.
    pub fn told(&mut self, now: Instant, answer: Answer) {
        let is_fresh = self.enquiring.answered();
        match &answer {
            Answer::At(_) | Answer::Unplaced => self.enquiring.is_registered = true,
            Answer::Unknown => self.enquiring.is_registered = false,
            Answer::Refused(_) | Answer::Failed(_) => {}
        }
        if !is_fresh {
            self.ask_again(now);
            return;
        }
        match answer {
            Answer::At(address) => self.place(now, address),
            Answer::Unplaced => {
                self.retry(now, "the controller has no broker for the publisher yet")
            }
            Answer::Unknown => self.retry(now, "the controller does not know the publisher"),
            Answer::Refused(text) if self.last_address.is_none() => self.verdict = Some(text),
            Answer::Refused(text) => self.retry(now, &text),
            Answer::Failed(text) => {
                self.fall_back(now);
                self.retry(now, &text);
            }
        }
    }

    /// Asks soon, unless a connection is in the making: then only if it fails.
    pub(super) fn ask_again(&mut self, now: Instant) {
        if self.connections.making.is_none() {
            let wait = self.enquiring.backoff.next();
            self.enquiring.ask_at(now + wait);
        }
    }

    fn retry(&mut self, now: Instant, trouble: &str) {
        trouble.clone_into(&mut self.trouble);
        let mut wait = self.enquiring.backoff.next();
        if self.connections.active.is_some() {
            wait *= CALM_FACTOR;
        }
        self.enquiring.ask_at(now + wait);
    }

    fn place(&mut self, now: Instant, address: String) {
        if let Some(active) = &self.connections.active
            && active.address == address
        {
            self.enquiring.avoid = None;
            return;
        }
        match &mut self.connections.making {
            Some(making) if making.connection.address == address => making.is_fallback = false,
            // A broker has said later than the controller was asked where to go.
            Some(making) if !making.is_fallback => {}
            _ => self.make(now, address, false),
        }
    }

    /// Without controller and broker: tries the broker that it had.
    fn fall_back(&mut self, now: Instant) {
        if self.connections.active.is_none()
            && self.connections.making.is_none()
            && let Some(address) = self.last_address.clone()
        {
            self.make(now, address, true);
        }
    }
}
