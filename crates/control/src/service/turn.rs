//! One turn of the loop, and how long it takes.

use std::sync::atomic::Ordering;

use clock::Instant;

use super::{LinkWord, Service};
use crate::core::{FitAnswer, Probe, ProbeAnswer};
use crate::handle::Command;

/// What a turn of the loop is about.
#[derive(Debug)]
pub enum Next {
    /// Somebody asks or orders something.
    Command(Command),
    /// A link brings something.
    Word(LinkWord),
    /// Who is at an address.
    Probed(Probe, ProbeAnswer),
    /// A fit was computed.
    Fitted(FitAnswer),
    /// A part of what takes long, as long as [`Service::is_busy`].
    Part,
    /// Time has passed: every 50 ms.
    Tick,
}

impl Service {
    /// Whether something takes long and is done in parts.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.core.is_busy()
    }

    /// One turn: whatever is next, and what follows from it.
    pub fn turn(&mut self, next: Next) {
        let now = self.now();
        match next {
            Next::Command(command) => self.command(command),
            Next::Word(word) => self.words_from(word),
            Next::Probed(probe, answer) => {
                self.holdings.fetch_add(1, Ordering::Release);
                self.core.probed(&probe, &answer, now);
            }
            Next::Fitted(answer) => self.core.fitted(answer, now),
            Next::Part => self.core.go_on(now),
            Next::Tick => {
                self.core.tick(now);
                self.placing.expire((&self.core, &self.keeping), now);
                self.retry(now);
            }
        }
        self.settle();
        let end = self.now();
        let at = end.saturating_since(Instant::ZERO);
        self.pace
            .note(at, end.saturating_since(now), self.core.work());
    }
}
