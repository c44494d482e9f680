//! One turn of the loop, and how long it takes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use clock::Instant;

use super::step::Step;
use super::{LinkWord, Service, TURN_GOAL};
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

/// The longest step of a turn so far.
#[derive(Debug, Default)]
pub(super) struct Longest(Option<(Duration, Step)>);

impl Service {
    /// Whether something takes long and is done in parts.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.core.is_busy()
    }

    /// One turn: whatever is next, and what follows from it.
    pub fn turn(&mut self, next: Next) {
        let now = self.now();
        self.longest = Longest::default();
        match next {
            Next::Command(command) => {
                let step = Step::from(&command);
                self.command(command);
                self.note_step(step, now);
            }
            Next::Word(word) => self.words_from(word),
            Next::Probed(probe, answer) => {
                self.holdings.fetch_add(1, Ordering::Release);
                self.core.probed(&probe, &answer, now);
                self.note_step(Step::Probed, now);
            }
            Next::Fitted(answer) => {
                self.core.fitted(answer, now);
                self.note_step(Step::Fitted, now);
            }
            Next::Part => {
                self.core.go_on(now);
                self.note_step(Step::Part, now);
            }
            Next::Tick => {
                self.core.tick(now);
                self.placing.expire((&self.core, &self.keeping), now);
                self.note_step(Step::Tick, now);
                self.retry(now);
            }
        }
        self.settle();
        let core = &self.core;
        self.rooms.retain(|number, _| core.is_hearing(*number));
        let rubbish = self.core.take_rubbish();
        if !rubbish.is_empty() {
            self.surroundings.dispose(Box::new(rubbish));
        }
        self.end_turn(now);
    }

    /// A step that began at `began` has just ended.
    pub(super) fn note_step(&mut self, step: Step, began: Instant) -> Instant {
        let now = self.now();
        let took = now.saturating_since(began);
        self.pace.note_step(step, took);
        let Longest(longest) = &mut self.longest;
        if longest.is_none_or(|(most, _)| took > most) {
            *longest = Some((took, step));
        }
        now
    }

    fn end_turn(&self, began: Instant) {
        let end = self.now();
        let (at, took) = (
            end.saturating_since(Instant::ZERO),
            end.saturating_since(began),
        );
        self.pace.note(at, took, self.core.work());
        if let Longest(Some((longest, step))) = self.longest
            && took > TURN_GOAL
        {
            let step = step.name();
            tracing::debug!(?took, step, ?longest, "a long turn, and its longest step");
        }
    }
}
