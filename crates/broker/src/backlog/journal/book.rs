//! What waits of a topic's log: batches as pages, and steps.

use std::collections::VecDeque;

use clock::Instant;
use disk::{DiskError, Entry, Logs, Message, Standing, Step, Volume};
use topics::{LogAnswer, LogBatch, LogStep, LoggedStanding, QueueName};
use wire::TopicName;

use crate::backlog::kept_message::Anchor;

/// Steps of a topic that are kept while the disk takes nothing. Beyond, deliveries and delays are not: after a kill such a message is
/// delivered with fewer attempts, or early.
const UNWRITTEN_STEPS_MAX: usize = 256 * 1024;

/// What a topic's log waits for.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// Batches that the disk has not taken yet.
    pub(super) waiting: VecDeque<Page>,
    /// Steps that are so and not written.
    pub(super) unwritten: Vec<Step>,
    /// Batches that are written, of a topic that wants them synced.
    pub(super) unsynced: Vec<Page>,
    /// They have to be written once more before they can be.
    pub(super) is_to_repeat: bool,
    /// When what waits is tried again.
    pub(super) retry_at: Option<Instant>,
    /// Queues whose segments are in the log.
    pub(super) adopted: Vec<QueueName>,
    /// The topic is not durable any more; its log stays while queues need it.
    pub(super) is_over: bool,
}

/// A batch, and the reactor that waits for it.
#[derive(Debug)]
pub(super) struct Page {
    reactor: usize,
    pub(super) batch: Box<LogBatch>,
    pub(super) standings: Vec<Vec<Standing>>,
    steps: Vec<Step>,
    /// So many of its messages are written: where there is little room it is written in pieces.
    pub(super) written: usize,
}

impl Page {
    pub(super) fn new(reactor: usize, mut batch: Box<LogBatch>, anchor: Anchor) -> Page {
        let mut standings = vec![Vec::new(); batch.messages.messages().len()];
        for (place, standing) in std::mem::take(&mut batch.standings) {
            standings[place].push(standing_of(&standing, anchor));
        }
        for standings in standings.iter_mut().filter(|each| each.is_empty()) {
            standings.push(Standing::OWN);
        }
        let steps = std::mem::take(&mut batch.steps);
        Page {
            reactor,
            batch,
            standings,
            steps: steps.iter().map(|step| step_of(step, anchor)).collect(),
            written: 0,
        }
    }

    pub(super) fn has_messages(&self) -> bool {
        !self.standings.is_empty()
    }

    /// Whether somebody may wait for it, or much depends on it: what is passed to a channel is understood only with that.
    pub(super) fn is_awaited(&self) -> bool {
        let mut steps = self.steps.iter();
        self.has_messages() || steps.any(|step| matches!(step, Step::Whole | Step::Channel(..)))
    }

    /// Its messages as they are kept.
    fn messages(&self, anchor: Anchor) -> impl Iterator<Item = (Message<'_>, &[Standing])> + Clone {
        let messages = self.batch.messages.messages().zip(&self.standings);
        messages.map(move |((head, body), standings)| (anchor.message(head, body), &standings[..]))
    }

    /// Writes it to the log of its topic, and before it what is not written yet; as much of it as there is room for. Steps come with the
    /// last of its messages. A message for which there never is room is of the time before its topic was durable, and is written beyond
    /// the bounds.
    pub(super) fn write<V: Volume>(
        &mut self,
        name: &TopicName,
        unwritten: &mut Vec<Step>,
        logs: &mut Logs<V>,
        anchor: Anchor,
    ) -> Result<(), DiskError> {
        let mut count = self.standings.len() - self.written;
        loop {
            let end = self.written + count;
            let is_last = end == self.standings.len();
            let entry = Entry {
                before: unwritten,
                messages: self.messages(anchor).skip(self.written).take(count),
                after: if is_last { &self.steps } else { &[] },
            };
            let written = match count == 1 && self.is_too_long(logs) {
                true => logs.write_beyond(name, entry),
                false => logs.write(name, entry),
            };
            match written {
                Ok(()) => {
                    unwritten.clear();
                    self.written = end;
                    if is_last {
                        return Ok(());
                    }
                    count = self.standings.len() - end;
                }
                Err(error) if count <= 1 => return Err(error),
                Err(_) => count /= 2,
            }
        }
    }

    /// Whether no log has room for its next message.
    fn is_too_long<V: Volume>(&self, logs: &Logs<V>) -> bool {
        let mut rest = self.batch.messages.messages().skip(self.written);
        rest.next()
            .is_some_and(|(_, body)| logs.is_too_long(body.len()))
    }

    /// That it is durable.
    pub(super) fn answer(&self) -> (usize, LogAnswer) {
        self.say(true)
    }

    /// That it was written or found not to be taken, where somebody wants to hear that.
    pub(super) fn word(&self) -> Option<(usize, LogAnswer)> {
        self.batch.is_word_wanted.then(|| self.say(false))
    }

    fn say(&self, is_durable: bool) -> (usize, LogAnswer) {
        let answer = LogAnswer {
            topic: self.batch.topic,
            number: self.batch.number,
            is_durable,
        };
        (self.reactor, answer)
    }
}

impl Book {
    pub(super) fn is_behind(&self) -> bool {
        !self.waiting.is_empty() || !self.unwritten.is_empty() || self.is_to_repeat
    }

    pub(super) fn messages_waiting(&self) -> u64 {
        let waiting = self.waiting.iter();
        waiting
            .map(|page| (page.standings.len() - page.written) as u64)
            .sum()
    }

    /// Lets steps that are not about messages which wait themselves take effect.
    pub(super) fn let_known_steps_pass<V: Volume>(&mut self, name: &TopicName, logs: &mut Logs<V>) {
        for page in &mut self.waiting {
            let steps = std::mem::take(&mut page.steps);
            let mut known = Vec::new();
            for step in steps {
                match step.message() {
                    Some(id) if logs.knows(name, id) => known.push(step),
                    Some(_) => page.steps.push(step),
                    // What waits is not in the log.
                    None if step == Step::Whole => page.steps.push(step),
                    None => {
                        // Of messages that wait it is so as well, once they are here.
                        let is_of_all = matches!(step, Step::Emptied(_) | Step::ChannelGone(_));
                        page.steps.extend(is_of_all.then(|| step.clone()));
                        known.push(step);
                    }
                }
            }
            logs.apply_unwritten(name, &known);
            self.unwritten.append(&mut known);
        }
        let is_bare = |page: &Page| !page.has_messages() && page.steps.is_empty();
        self.waiting.retain(|page| !is_bare(page));
        if self.unwritten.len() > UNWRITTEN_STEPS_MAX {
            let is_kept =
                |step: &Step| !matches!(step, Step::Delivered { .. } | Step::Deferred { .. });
            self.unwritten.retain(is_kept);
        }
    }

    /// Writes once more what a failed sync may have lost.
    pub(super) fn repeat<V: Volume>(
        &mut self,
        name: &TopicName,
        logs: &mut Logs<V>,
        anchor: Anchor,
    ) -> Result<(), DiskError> {
        let written = self.unsynced.iter();
        let written = written.map(|page| (page, page.standings.len(), &page.steps[..]));
        let begun = self.waiting.front().filter(|page| page.batch.is_synced);
        let begun = begun.map(|page| (page, page.written, &[][..]));
        for (page, written, steps) in written.chain(begun) {
            let messages = page.messages(anchor).take(written);
            let live = messages.filter(|(message, _)| logs.knows(name, message.id));
            let live: Vec<(Message<'_>, Vec<Standing>)> = live
                .map(|(message, _)| (message, logs.standings(name, message.id).to_vec()))
                .collect();
            let steps = steps.iter().filter(|step| step.may_be_repeated());
            let steps: Vec<Step> = steps.cloned().collect();
            let entry = Entry {
                before: &[],
                messages: live
                    .iter()
                    .map(|(message, standings)| (*message, &standings[..])),
                after: &steps,
            };
            // It is on disk already, and what makes room waits for it.
            logs.write_beyond(name, entry)?;
        }
        Ok(())
    }
}

fn standing_of(standing: &LoggedStanding, anchor: Anchor) -> Standing {
    Standing {
        queue: standing.queue,
        attempts: standing.attempts,
        due_ns: standing.due.map_or(0, |due| anchor.wall_ns(due)),
    }
}

fn step_of(step: &LogStep, anchor: Anchor) -> Step {
    match step {
        LogStep::Channel(number, name) => Step::Channel(*number, name.clone()),
        LogStep::ChannelGone(number) => Step::ChannelGone(*number),
        LogStep::Passed(id) => Step::Passed(*id),
        LogStep::Discarded(id) => Step::Discarded(*id),
        LogStep::Delivered {
            channel,
            id,
            attempts,
        } => Step::Delivered {
            channel: *channel,
            id: *id,
            attempts: *attempts,
        },
        LogStep::Deferred {
            channel,
            id,
            attempts,
            due,
        } => Step::Deferred {
            channel: *channel,
            id: *id,
            attempts: *attempts,
            due_ns: anchor.wall_ns(*due),
        },
        LogStep::Finished { channel, id } => Step::Finished {
            channel: *channel,
            id: *id,
        },
        LogStep::Emptied(queue) => Step::Emptied(*queue),
        LogStep::Whole => Step::Whole,
    }
}
