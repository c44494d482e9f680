//! One connection to an nsqlookupd as a state machine: which command comes next, and what its
//! answers mean.
//!
//! It introduces the broker, waits for the lookup's introduction, registers everything that the
//! broker has, and then every change. Commands are pipelined, at most [`UNANSWERED_MAX`] at a time;
//! a lookup answers in order. A [`Command::Ping`] goes out every [`PING_INTERVAL`], whatever else
//! is sent: it is the only sign by which a lookup knows that the broker lives. Does not read, write
//! or wait.

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;
use wire::lookup::{Command, Identity, Introduction, MAGIC, decode_answer, put_command};

/// Time between pings; nsqd's.
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(15);
/// A lookup that does not answer within this time is left.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Commands that wait for their answers.
pub(super) const UNANSWERED_MAX: usize = 64;

/// What an answer means for the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// The lookup's introduction; the first answer.
    Introduction(Introduction),
    /// A refused command, in the lookup's words.
    Refused(String),
}

/// A connection.
#[derive(Debug)]
pub(super) struct Registration {
    has_met: bool,
    /// What the broker had when the connection was made.
    waiting: VecDeque<Command>,
    /// When the commands without an answer went out.
    unanswered: VecDeque<Instant>,
    input: Vec<u8>,
    ping_at: Instant,
}

impl Registration {
    /// A connection made at `now`, over which `registrations` is to be said. Appends how it opens.
    pub(super) fn open(
        identity: &Identity,
        registrations: impl Iterator<Item = Command>,
        now: Instant,
        output: &mut Vec<u8>,
    ) -> Registration {
        let mut registration = Registration {
            has_met: false,
            waiting: registrations.collect(),
            unanswered: VecDeque::new(),
            input: Vec::new(),
            ping_at: now + PING_INTERVAL,
        };
        output.extend_from_slice(&MAGIC);
        registration.put(&Command::Identify(identity.clone()), now, output);
        registration
    }

    /// Takes bytes that came.
    ///
    /// # Errors
    /// Why the connection cannot go on.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<Vec<Heard>, String> {
        self.input.extend_from_slice(bytes);
        let (mut heard, mut used) = (Vec::new(), 0);
        loop {
            let decoded = decode_answer(&self.input[used..]).map_err(|error| error.to_string())?;
            let Some((answer, bytes)) = decoded else {
                break;
            };
            if self.unanswered.pop_front().is_none() {
                return Err(String::from("it sends an answer to no question"));
            }
            let text = || String::from_utf8_lossy(answer).into_owned();
            if !self.has_met {
                let introduction = Introduction::from_json(answer)
                    .ok_or_else(|| format!("it answers IDENTIFY with {:?}", text()))?;
                self.has_met = true;
                heard.push(Heard::Introduction(introduction));
            } else if answer != b"OK" {
                heard.push(Heard::Refused(text()));
            }
            used += bytes;
        }
        self.input.drain(..used);
        Ok(heard)
    }

    /// Appends what is due at `now`: pings, and what the broker had, as far as answers have come.
    ///
    /// # Errors
    /// Why the connection cannot go on: an answer is overdue.
    pub(super) fn tick(&mut self, now: Instant, output: &mut Vec<u8>) -> Result<(), String> {
        if self.overdue_at().is_some_and(|at| at <= now) {
            return Err(format!("no answer within {ANSWER_TIMEOUT:?}"));
        }
        if self.has_met && self.ping_at <= now {
            self.ping_at = now + PING_INTERVAL;
            self.put(&Command::Ping, now, output);
        }
        while self.has_met && self.unanswered.len() < UNANSWERED_MAX {
            let Some(command) = self.waiting.pop_front() else {
                break;
            };
            self.put(&command, now, output);
        }
        Ok(())
    }

    /// Whether a change can be said now: everything before it has been.
    pub(super) fn takes_changes(&self) -> bool {
        self.has_met && self.waiting.is_empty() && self.unanswered.len() < UNANSWERED_MAX
    }

    /// Appends a change; only while [`Registration::takes_changes`].
    pub(super) fn say(&mut self, change: &Command, now: Instant, output: &mut Vec<u8>) {
        debug_assert!(self.takes_changes());
        self.put(change, now, output);
    }

    /// When [`Registration::tick`] has something to do, if nothing comes before.
    pub(super) fn due_at(&self) -> Instant {
        let ping_at = self.has_met.then_some(self.ping_at);
        let due = ping_at.into_iter().chain(self.overdue_at()).min();
        // Before the introduction an answer is awaited, so there is one of the two.
        due.unwrap_or(self.ping_at)
    }

    fn overdue_at(&self) -> Option<Instant> {
        self.unanswered.front().map(|&said| said + ANSWER_TIMEOUT)
    }

    fn put(&mut self, command: &Command, now: Instant, output: &mut Vec<u8>) {
        put_command(command, output);
        self.unanswered.push_back(now);
    }
}
