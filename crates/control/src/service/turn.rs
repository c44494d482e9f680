//! One turn of the loop, and how long it takes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use clock::Instant;

use link::ToBroker;

use super::requests::Request;
use super::step::Step;
use super::{FromLink, Service, TURN_GOAL, Written};
use crate::core::{FitAnswer, Probe, ProbeAnswer};
use crate::handle::Command;
use crate::leadership::{Leader, Standing, elsewhere};

/// The cause of a turn of the loop.
#[derive(Debug)]
pub enum Next {
    /// Somebody asks or orders something.
    Command(Command),
    /// A link brings something.
    FromLink(FromLink),
    /// The answer of whoever is at an address.
    Probed(Probe, ProbeAnswer),
    /// A fit was computed.
    Fitted(FitAnswer),
    /// A commit has ended.
    Written(Written),
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
        let is_request_next = self.requests.waiting() > 0 && !self.keeping.is_writing();
        !self.is_deposed && (self.core.is_busy() || is_request_next)
    }

    /// One turn: whatever is next, and what follows from it.
    pub fn turn(&mut self, next: Next) {
        let now = self.now();
        self.longest = Longest::default();
        if let Err(leader) = self.leads() {
            self.follow(next, leader.as_ref());
            return self.end_turn(now);
        }
        match next {
            Next::Command(command) => {
                let step = Step::from(&command);
                self.command(command);
                self.note_step(step, now);
            }
            Next::FromLink(brought) => self.hear_links(brought),
            Next::Probed(probe, answer) => {
                self.holdings.fetch_add(1, Ordering::Release);
                self.core.probed(&probe, &answer, now);
                self.note_step(Step::Probed, now);
            }
            Next::Fitted(answer) => {
                self.core.fitted(answer, now);
                self.note_step(Step::Fitted, now);
            }
            Next::Written(written) => {
                self.written(written);
                self.note_step(Step::Store, now);
            }
            Next::Part => {
                self.core.go_on(now);
                self.note_step(Step::Part, now);
            }
            Next::Tick => {
                self.core.tick(now);
                for late in self.placing.expire(now) {
                    self.tell_place(late);
                }
                self.note_step(Step::Tick, now);
                self.keeping.retry(now);
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

    /// Whether this process leads still; otherwise who does, where that is known.
    fn leads(&mut self) -> Result<(), Option<Leader>> {
        match self.leadership.standing() {
            Standing::Leads { epoch } if epoch == self.core.epoch() && !self.is_deposed => Ok(()),
            standing => {
                let leader = match standing {
                    Standing::Leads { .. } => None,
                    Standing::Follows { leader } => leader,
                };
                if !std::mem::replace(&mut self.is_deposed, true) {
                    self.step_down(leader.as_ref());
                }
                Err(leader)
            }
        }
    }

    /// Another controller leads: decisions no longer go out, and nothing more is kept. Requests not
    /// known to be kept get no answer.
    fn step_down(&mut self, leader: Option<&Leader>) {
        let error = elsewhere(leader);
        tracing::warn!("{error}");
        self.links.close_all();
        self.outbox = super::Outbox::default();
        self.placing = super::Placing::default();
        (self.waiting, self.declared) = Default::default();
        self.requests.end();
        while let Some(request) = self.requests.next_of_all() {
            request.refusal(error.clone())();
        }
    }

    /// A turn of one that does not lead.
    fn follow(&mut self, next: Next, leader: Option<&Leader>) {
        match next {
            Next::Command(command) if Step::from(&command) == Step::Question => {
                self.command(command);
            }
            Next::Command(command) => {
                Request::new(command).refusal(elsewhere(leader))();
            }
            Next::FromLink(FromLink::Hello { orders, .. }) => {
                let leader = leader.map(|leader| leader.link.clone());
                self.links.refuse(&orders, ToBroker::NotLeading { leader });
            }
            Next::Written(_) => self.keeping.has_written(),
            Next::FromLink(_) | Next::Probed(..) | Next::Fitted(_) | Next::Part | Next::Tick => {}
        }
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
