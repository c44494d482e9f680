//! A request is written, then comes into force; a decision is written, then carried out.
//!
//! The loop goes on while a commit is under way: what is decided meanwhile forms the next commit.
//! Outgoing messages, including answers, wait in order for the commit that they rest on. What
//! cannot be written waits, and what rests on it waits too, except for requests: those are refused.

use std::collections::{BTreeMap, VecDeque};

use clock::Instant;
use serde_json::Value;

use super::Service;
use super::outbox::Output;
use super::requests::{Asked, Group, REQUESTS_KEPT_AT_ONCE};
use super::step::Step;
use super::writer::Written;
use crate::ControlError;
use crate::core::{BrokerNumber, Effect};
use crate::store::{Change, Table};

/// Requests that keep nothing and are done in one turn at most.
const REQUESTS_AT_ONCE: usize = 8;
/// Requests that one turn takes at most.
const REQUESTS_TAKEN_AT_ONCE: usize = REQUESTS_KEPT_AT_ONCE + REQUESTS_AT_ONCE;

impl Service {
    /// Has what is to be kept written, and what is to be done done once it is.
    pub(super) fn settle(&mut self) {
        if self.is_deposed {
            return;
        }
        let began = self.now();
        self.take_effects();
        if self.keeping.is_waiting() {
            let nothing_kept = self.next_requests();
            debug_assert!(nothing_kept.is_empty(), "it would be refused");
            self.take_effects();
            let changes = self.core.take_changes();
            self.keeping.wait(changes);
            self.outbox.begin_commit();
            let outputs = self.outbox.kept();
            self.go_out(outputs);
        } else if !self.keeping.is_writing() {
            self.begin_commit();
        }
        self.note_step(Step::Effects, began);
    }

    /// Whether everything that was decided is kept, or waits for a store that cannot be written.
    pub(super) fn is_all_kept(&self) -> bool {
        let is_idle = !self.keeping.is_writing() && self.core.changes() == 0;
        self.is_deposed || self.keeping.is_waiting() || is_idle && self.left.is_empty()
    }

    /// Lets something wait for the commit that it rests on, behind all that waits.
    pub(super) fn let_wait(&mut self, output: Output) {
        let is_next = self.core.changes() > 0 || !self.left.is_empty();
        self.outbox.push(output, is_next);
    }

    /// A commit has ended.
    pub(super) fn written(&mut self, written: Written) {
        let (now, Written { changes, result }) = (self.now(), written);
        self.keeping.has_written();
        if self.keeping.is_waiting() {
            if let Some(since) = self.keeping.retried(changes, result, now) {
                self.go_on_after_waiting(since);
            }
            return;
        }
        let asked = self.requests.end();
        if let Err(error) = result {
            return self.not_written(changes, asked, &error, now);
        }
        let outputs = self.outbox.kept();
        self.go_out(outputs);
        // Where nothing has changed since they were written, they are not written again.
        let is_alone = self.core.changes() == 0;
        for Asked { request, kept } in asked {
            self.act(request, &kept);
            if is_alone {
                self.kept_first.extend(kept);
            }
        }
    }

    /// Writes what was decided, with what the next requests say; with nothing to be kept what waits goes out at once.
    fn begin_commit(&mut self) {
        let asked = self.next_requests();
        self.take_effects();
        let kept = std::mem::take(&mut self.kept_first);
        let mut changes = std::mem::take(&mut self.left);
        changes.extend(without(self.core.take_changes(), &kept));
        changes.extend(asked);
        self.outbox.begin_commit();
        match changes.is_empty() {
            true => {
                let outputs = self.outbox.kept();
                self.go_out(outputs);
            }
            false => self.keeping.write(changes),
        }
    }

    /// Takes requests in turn that can be kept together: gives what they say. Those that keep nothing are done, and what cannot be
    /// granted is refused.
    fn next_requests(&mut self) -> Vec<Change> {
        let (mut group, mut others) = (Group::default(), 0);
        for _ in 0..REQUESTS_TAKEN_AT_ONCE {
            if others >= REQUESTS_AT_ONCE {
                break;
            }
            let Some(mut request) = self.requests.next(&self.core, &group) else {
                break;
            };
            match request.asks(&self.core) {
                Ok(kept) if !kept.is_empty() && !self.keeping.is_waiting() => {
                    if let Some(request) = group.join(request, kept) {
                        self.requests.put_back(request);
                        break;
                    }
                    continue;
                }
                Ok(kept) if kept.is_empty() => self.act(request, &[]),
                Ok(_) => {
                    let refusal = request.refusal(self.keeping.refusal());
                    self.say(refusal);
                }
                Err(error) => self.say(request.refusal(error)),
            }
            others += 1;
        }
        self.requests.begin(group)
    }

    /// Effects of the core go out in order; those that nobody outside hears of are carried out at
    /// once.
    fn take_effects(&mut self) {
        for effect in self.core.take_effects() {
            let link = match &effect {
                Effect::Send(number, _) => self.links.of(*number),
                Effect::CloseLink(_) | Effect::Spawn { .. } | Effect::Tell(_) => None,
                Effect::Probe(_)
                | Effect::Fit(_)
                | Effect::ContractSettled { .. }
                | Effect::Declared(_)
                | Effect::Prepared { .. } => {
                    self.carry_out(effect);
                    continue;
                }
            };
            self.let_wait(Output::Effect(effect, link));
        }
    }

    /// Lets out what has waited.
    fn go_out(&mut self, outputs: VecDeque<Output>) {
        for output in outputs {
            match output {
                // Orders for a link that is gone by now are lost with it.
                Output::Effect(Effect::Send(number, order), link) => {
                    if self.links.of(number) == link {
                        self.links.order(&self.keeping, number, *order);
                    }
                }
                Output::Effect(effect, _) => self.carry_out(effect),
                Output::Answer(said) | Output::Correction(said) => said(),
                Output::Place(place) => self.give_place(place),
            }
        }
    }

    /// Nothing can be kept now: not these changes, nor those since. What requests say among them is forgotten.
    pub(super) fn not_written(
        &mut self,
        mut changes: Vec<Change>,
        asked: Vec<Asked>,
        error: &ControlError,
        now: Instant,
    ) {
        let of_requests: usize = asked.iter().map(|asked| asked.kept.len()).sum();
        changes.truncate(changes.len() - of_requests);
        self.keeping.begin_waiting(changes, error, now);
        let (effects, others) = self.split_outputs();
        let effects = self.core.hold(effects);
        let changes = self.core.take_changes();
        self.keeping.wait(changes);
        self.go_out(others);
        for effect in effects {
            match effect {
                Effect::Send(number, order) => self.links.order(&self.keeping, number, *order),
                effect => self.carry_out(effect),
            }
        }
        for Asked { request, .. } in asked {
            request.refusal(self.keeping.refusal())();
        }
    }

    /// All that waits: what the core wants done, but for orders whose links are gone, and the rest.
    fn split_outputs(&mut self) -> (Vec<Effect>, VecDeque<Output>) {
        let (mut effects, mut others) = (Vec::new(), VecDeque::new());
        let is_there = |number: &BrokerNumber, link| self.links.of(*number) == link;
        for output in self.outbox.not_kept() {
            match output {
                Output::Effect(Effect::Send(number, order), link) => {
                    if is_there(&number, link) {
                        effects.push(Effect::Send(number, order));
                    }
                }
                Output::Effect(effect, _) => effects.push(effect),
                other => others.push_back(other),
            }
        }
        effects.append(&mut self.core.take_effects());
        (effects, others)
    }

    /// The store can be written again: what waited for it goes out with the next commit, that of what has come `since`.
    fn go_on_after_waiting(&mut self, since: Vec<Change>) {
        self.core.release();
        self.left = since;
        for (number, order) in self.links.release() {
            let link = self.links.of(number);
            let order = Effect::Send(number, Box::new(order));
            self.let_wait(Output::Effect(order, link));
        }
        self.outbox.correct();
    }
}

/// Of some changes those that do more than was `kept` already; of each record the last word counts.
fn without(changes: Vec<Change>, kept: &[Change]) -> Vec<Change> {
    if kept.is_empty() {
        return changes;
    }
    let records = changes.into_iter();
    let mut last: BTreeMap<(Table, String), Option<Value>> = records
        .map(|Change { table, key, value }| ((table, key), value))
        .collect();
    for Change { table, key, value } in kept {
        let record = (*table, key.clone());
        if last.get(&record) == Some(value) {
            last.remove(&record);
        }
    }
    let rest = last.into_iter();
    rest.map(|((table, key), value)| Change { table, key, value })
        .collect()
}
