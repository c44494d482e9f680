//! Queues of a broker that is drained, carried to others (`broker/handover/sender.rs`, `broker/http/handover.rs`).

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;
use rustc_hash::FxHashSet;
use topics::{Batch, Handed, QueueName};

use super::{Process, place_of};
use crate::event::{Actor, Answer, Ask, Packet, Port, StreamId};
use crate::laws::delivery::Key;
use crate::outside::Outside;

/// What flows is given so long to flow before it is handed over.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at what waits.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// A dial, and a taker's answer, take so long at most.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a batch is said to a taker that may have it already, before another gets it.
const TRIES: u32 = 3;

/// To whom, and what is on its way.
#[derive(Debug)]
pub(super) struct Handing {
    takers: Vec<String>,
    pass: Option<String>,
    stream: u64,
    last: u64,
    look_at: Instant,
    queues: VecDeque<QueueName>,
    carried: Option<Carried>,
    /// Batches of others that were taken, for the laws: a second one of a number is none.
    taken: FxHashSet<(QueueName, u64, u64)>,
}

/// A batch on its way.
#[derive(Debug)]
struct Carried {
    queue: QueueName,
    batch: Batch,
    /// Takers that are still to be tried, the present one first.
    takers: VecDeque<String>,
    tries: u32,
    /// The present taker may have it.
    is_unclear: bool,
    on: StreamId,
    is_said: bool,
    until: Instant,
}

/// What became of one try.
enum Outcome {
    Taken,
    Refused,
    Unclear,
}

impl Handing {
    pub(super) fn new(stream: u64) -> Handing {
        Handing {
            takers: Vec::new(),
            pass: None,
            stream,
            last: 0,
            look_at: Instant::MAX,
            queues: VecDeque::new(),
            carried: None,
            taken: FxHashSet::default(),
        }
    }

    /// A controller that has just said hello has not said yet whether anything is to be handed over.
    pub(super) fn begin_link(&mut self) {
        self.takers.clear();
    }

    pub(super) fn set_takers(&mut self, takers: Vec<String>, now: Instant) {
        self.takers = takers;
        self.look_at = now;
    }

    pub(super) fn set_pass(&mut self, pass: String) {
        self.pass = Some(pass);
    }

    pub(super) fn next_at(&self) -> Option<Instant> {
        match &self.carried {
            Some(carried) => Some(carried.until),
            None if self.takers.is_empty() => None,
            None => Some(self.look_at),
        }
    }
}

impl Process {
    /// Does what is due of a hand-over.
    pub(super) fn drive_handing(&mut self, out: &mut Outside) {
        let now = out.net.now;
        if let Some(carried) = &self.handing.carried {
            if carried.until <= now {
                let (stream, is_said) = (carried.on, carried.is_said);
                out.net.close(stream, self.me);
                let outcome = if is_said {
                    Outcome::Unclear
                } else {
                    Outcome::Refused
                };
                self.carried(outcome, out);
            }
            return;
        }
        if self.handing.takers.is_empty() || self.handing.look_at > now {
            return;
        }
        self.handing.look_at = now + LOOK_INTERVAL;
        self.handing.queues = self.table.stranded(PATIENCE, self.local(now)).into();
        self.carry_next(out);
    }

    /// The next batch of the queues that were found.
    fn carry_next(&mut self, out: &mut Outside) {
        let now = self.local(out.net.now);
        while let Some(queue) = self.handing.queues.front().cloned() {
            let messages = self.table.lift(&queue, PATIENCE, now);
            if messages.is_empty() {
                self.handing.queues.pop_front();
                continue;
            }
            return self.carry(queue, messages, out);
        }
    }

    fn carry(&mut self, queue: QueueName, messages: Vec<Handed>, out: &mut Outside) {
        self.handing.last += 1;
        let batch = Batch {
            stream: self.handing.stream,
            number: self.handing.last,
            messages,
        };
        let mut takers: VecDeque<String> = self.handing.takers.iter().cloned().collect();
        let first = queue.topic.as_str().len()
            + queue.channel.as_ref().map_or(0, |name| name.as_str().len());
        let count = takers.len().max(1);
        takers.rotate_left(first % count);
        self.handing.carried = Some(Carried {
            queue,
            batch,
            takers,
            tries: 0,
            is_unclear: false,
            on: StreamId(0),
            is_said: false,
            until: out.net.now,
        });
        self.try_taker(out);
    }

    fn try_taker(&mut self, out: &mut Outside) {
        let me = self.me;
        let Some(carried) = &mut self.handing.carried else {
            return;
        };
        let taker = carried.takers.front().and_then(|taker| place_of(taker));
        let Some(place) = taker else {
            return self.end_batch(false, out);
        };
        carried.on = out.net.dial(me, Actor::Broker(place), Port::Http);
        carried.is_said = false;
        carried.until = out.net.now + DIAL_TIMEOUT;
    }

    pub(super) fn hand_over_connected(&mut self, stream: StreamId, out: &mut Outside) {
        let pass = self.handing.pass.clone();
        let carried = self.handing.carried.as_mut();
        if let Some(carried) = carried.filter(|carried| carried.on == stream) {
            let ask = Ask::HandOver(pass, carried.queue.clone(), carried.batch.clone());
            carried.is_said = true;
            carried.until = out.net.now + ANSWER_TIMEOUT;
            out.net.send(stream, self.me, Packet::Ask(Box::new(ask)));
        }
    }

    pub(super) fn hand_over_answered(
        &mut self,
        stream: StreamId,
        answer: &Answer,
        out: &mut Outside,
    ) {
        if self.is_carried_on(stream) {
            out.net.close(stream, self.me);
            let outcome = match answer {
                Answer::TakenOver(Ok(())) => Outcome::Taken,
                _ => Outcome::Refused,
            };
            self.carried(outcome, out);
        }
    }

    /// Whether a stream that is gone was that of a hand-over.
    pub(super) fn hand_over_gone(&mut self, stream: StreamId, out: &mut Outside) -> bool {
        let is_carried = self.is_carried_on(stream);
        if is_carried {
            let is_said = self
                .handing
                .carried
                .as_ref()
                .is_some_and(|carried| carried.is_said);
            let outcome = if is_said {
                Outcome::Unclear
            } else {
                Outcome::Refused
            };
            self.carried(outcome, out);
        }
        is_carried
    }

    fn is_carried_on(&self, stream: StreamId) -> bool {
        let carried = self.handing.carried.as_ref();
        carried.is_some_and(|carried| carried.on == stream)
    }

    fn carried(&mut self, outcome: Outcome, out: &mut Outside) {
        let Some(carried) = &mut self.handing.carried else {
            return;
        };
        match outcome {
            Outcome::Taken => return self.end_batch(true, out),
            Outcome::Refused => carried.tries = TRIES,
            Outcome::Unclear => {
                carried.tries += 1;
                carried.is_unclear = true;
            }
        }
        if carried.tries >= TRIES {
            carried.takers.pop_front();
            carried.tries = 0;
            if std::mem::take(&mut carried.is_unclear) {
                for key in carried
                    .batch
                    .messages
                    .iter()
                    .filter_map(|each| Key::of(&each.body))
                {
                    out.books.deliveries.unclear(key);
                }
            }
        }
        self.try_taker(out);
    }

    fn end_batch(&mut self, is_taken: bool, out: &mut Outside) {
        let now = self.local(out.net.now);
        let Some(carried) = self.handing.carried.take() else {
            return;
        };
        self.table.settle(&carried.queue, is_taken, now);
        match is_taken {
            true => self.carry_next(out),
            false => self.handing.queues.clear(),
        }
    }

    /// Another broker hands a batch over.
    pub(super) fn asked(&mut self, stream: StreamId, ask: Ask, out: &mut Outside) {
        let Ask::HandOver(pass, queue, batch) = ask else {
            return;
        };
        let answer = match pass.is_some() && pass == self.handing.pass {
            false => Answer::Stranger,
            true => {
                let now = self.local(out.net.now);
                let taken = self.table.take_over(&queue, &batch, now);
                let name = (queue, batch.stream, batch.number);
                if taken.is_ok() && self.handing.taken.insert(name) {
                    let keys = batch.messages.iter().filter_map(|each| Key::of(&each.body));
                    for key in keys {
                        out.books
                            .deliveries
                            .taken_over(key, (self.place, self.life));
                    }
                }
                Answer::TakenOver(taken)
            }
        };
        out.net
            .send(stream, self.me, Packet::Answer(Box::new(answer)));
    }
}
