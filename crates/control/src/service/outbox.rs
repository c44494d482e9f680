//! Orders, events and answers, sent in order once the changes that they rest on are kept.

use std::collections::VecDeque;

use crate::ControlError;
use crate::core::Effect;
use crate::handle::Reply;
use crate::view::PublisherView;

/// Something that goes out.
pub(super) enum Output {
    /// An effect of the core; with the link that an order to a broker is for.
    Effect(Effect, Option<u64>),
    /// An answer.
    Answer(Answer),
    /// An answer that says no although what was asked is kept: only once that is undone there, however long it takes.
    Correction(Answer),
    /// A publisher's place.
    Place(Place),
}

/// Answers somebody.
pub(super) type Answer = Box<dyn FnOnce() + Send>;

/// The place of a publisher as it was when it was told.
#[derive(Debug)]
pub(super) struct Place {
    /// Topic.
    pub(super) topic: String,
    /// Publisher.
    pub(super) id: String,
    /// The answer.
    pub(super) view: Result<PublisherView, ControlError>,
    /// Whom.
    pub(super) reply: Reply<PublisherView>,
}

/// What waits.
#[derive(Default)]
pub(super) struct Outbox {
    /// For the commit that is under way.
    under_way: VecDeque<Output>,
    /// For the next one.
    next: VecDeque<Output>,
    /// For a store that can be written again.
    corrections: Vec<Answer>,
}

impl Outbox {
    /// Lets something wait for the commit under way, or (`is_next`) for the one after it; behind all that waits already.
    pub(super) fn push(&mut self, output: Output, is_next: bool) {
        match is_next || !self.next.is_empty() {
            true => self.next.push_back(output),
            false => self.under_way.push_back(output),
        }
    }

    /// The next commit begins.
    pub(super) fn begin_commit(&mut self) {
        self.under_way.append(&mut self.next);
    }

    /// Takes what has waited for the commit that was under way.
    pub(super) fn kept(&mut self) -> VecDeque<Output> {
        std::mem::take(&mut self.under_way)
    }

    /// Takes all that waits, in order; corrections go on waiting.
    pub(super) fn not_kept(&mut self) -> VecDeque<Output> {
        let mut all = std::mem::take(&mut self.under_way);
        all.append(&mut self.next);
        let mut others = VecDeque::with_capacity(all.len());
        for output in all {
            match output {
                Output::Correction(answer) => self.corrections.push(answer),
                _ => others.push_back(output),
            }
        }
        others
    }

    /// The store can be written again: corrections go out with the next commit.
    pub(super) fn correct(&mut self) {
        let corrections = std::mem::take(&mut self.corrections);
        self.next
            .extend(corrections.into_iter().map(Output::Correction));
    }

    /// How much waits for the next commit.
    pub(super) fn waiting(&self) -> usize {
        self.next.len()
    }
}
