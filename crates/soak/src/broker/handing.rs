//! Queues of a drained broker, carried to others (`broker/handover/sender.rs`,
//! `broker/http/handover.rs`): the product's own batches and its own way from receiver to receiver
//! ([`Stream`], [`Carriage`]), over simulated connections.

use std::collections::VecDeque;
use std::time::Duration;

use broker::handover::{
    ANSWER_TIMEOUT, Carriage, LOOK_INTERVAL, Outcome, PATIENCE, Step, Stream, read_batch,
};
use bytes::Bytes;
use clock::Instant;
use link::Durability;
use rustc_hash::FxHashSet;
use topics::{Handed, Published, QueueName, StrandedWalk};

use super::ground::Ground;
use super::place_of;
use super::waiters::{Waiter, Who};
use crate::event::{Actor, Answer, Ask, Packet, Port, StreamId};
use crate::laws::delivery::Key;
use crate::outside::Outside;

/// A dial takes so long at most (`broker/agent/mod.rs`).
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest message, and longest delay, that are taken.
const MSG_BYTES_MAX: u32 = 1 << 20;
const DELAY_MAX: Duration = Duration::from_secs(3600);

/// To whom, and what is on its way.
#[derive(Debug)]
pub(super) struct Handing {
    takers: Vec<String>,
    pass: Option<String>,
    stream: Stream,
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
    bytes: Bytes,
    keys: Vec<Key>,
    carriage: Carriage,
    on: StreamId,
    is_said: bool,
    until: Instant,
}

impl Handing {
    /// Of a process with a number that no other has.
    pub(super) fn new(number: u64) -> Handing {
        Handing {
            takers: Vec::new(),
            pass: None,
            stream: Stream::new(number),
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

    /// Does what is due of a hand-over.
    pub(super) fn drive(&mut self, ground: &mut Ground, out: &mut Outside) {
        let now = out.net.now;
        if let Some(carried) = &self.carried {
            if carried.until <= now {
                out.net.close(carried.on, ground.me);
                self.broken(ground, out);
            }
            return;
        }
        if self.takers.is_empty() || self.look_at > now {
            return;
        }
        self.look_at = now + LOOK_INTERVAL;
        let (mut walk, local) = (StrandedWalk::new(PATIENCE), ground.local(now));
        while ground.table.stranded_next(&mut walk, local) {}
        self.queues = walk.queues().into();
        self.carry_next(ground, out);
    }

    /// A dial has come through.
    pub(super) fn connected(&mut self, stream: StreamId, ground: &Ground, out: &mut Outside) {
        let pass = self.pass.clone();
        let carried = self.carried.as_mut();
        if let Some(carried) = carried.filter(|carried| carried.on == stream) {
            let ask = Ask::HandOver(pass, carried.queue.clone(), carried.bytes.clone());
            carried.is_said = true;
            carried.until = out.net.now + ANSWER_TIMEOUT;
            out.net.send(stream, ground.me, Packet::Ask(Box::new(ask)));
        }
    }

    /// A taker answers.
    pub(super) fn answered(
        &mut self,
        stream: StreamId,
        answer: &Answer,
        ground: &mut Ground,
        out: &mut Outside,
    ) {
        if self.is_carried_on(stream) {
            out.net.close(stream, ground.me);
            let outcome = match answer {
                Answer::TakenOver(Ok(())) => Outcome::Taken,
                answer => Outcome::Refused(format!("{answer:?}")),
            };
            self.tried(outcome, ground, out);
        }
    }

    /// Whether a stream that is gone was that of a hand-over.
    pub(super) fn gone(
        &mut self,
        stream: StreamId,
        ground: &mut Ground,
        out: &mut Outside,
    ) -> bool {
        let is_carried = self.is_carried_on(stream);
        if is_carried {
            self.broken(ground, out);
        }
        is_carried
    }

    /// Another broker hands a batch over.
    pub(super) fn asked(
        &mut self,
        stream: StreamId,
        ask: Ask,
        ground: &mut Ground,
        out: &mut Outside,
    ) {
        let Ask::HandOver(pass, queue, bytes) = ask else {
            return;
        };
        let answer = match pass.is_some() && pass == self.pass {
            false => Some(Answer::Stranger),
            true => self.take_over(stream, queue, &bytes, ground, out),
        };
        if let Some(answer) = answer {
            out.net
                .send(stream, ground.me, Packet::Answer(Box::new(answer)));
        }
    }

    /// What a broker has handed over is durable here.
    pub(super) fn confirm(stream: StreamId, ground: &Ground, out: &mut Outside) {
        let answer = Answer::TakenOver(Ok(()));
        out.net
            .send(stream, ground.me, Packet::Answer(Box::new(answer)));
    }

    /// The answer, unless that is to wait until what was taken is durable.
    fn take_over(
        &mut self,
        stream: StreamId,
        queue: QueueName,
        bytes: &Bytes,
        ground: &mut Ground,
        out: &mut Outside,
    ) -> Option<Answer> {
        let batch = match read_batch(bytes, MSG_BYTES_MAX, DELAY_MAX) {
            Ok(batch) => batch,
            Err(error) => {
                let what = format!("a broker was handed over {error}");
                out.books.breaks("frames", what);
                return Some(Answer::Stranger);
            }
        };
        let now = ground.local(out.net.now);
        let taken = ground.table.take_over(&queue, &batch, now);
        let key = ground.table.find(queue.topic.as_str());
        let name = (queue, batch.stream, batch.number);
        if taken.is_ok() && self.taken.insert(name) {
            for key in keys(&batch.messages) {
                out.books.deliveries.taken_over(key, ground.memory());
            }
        }
        if let (Ok(Published::Logged(number)), Some(key)) = (&taken, key) {
            let waiter = Waiter {
                who: Who::Broker(stream),
                keys: keys(&batch.messages).collect(),
                is_synced: ground.durability(key) == Durability::Fsync,
            };
            ground.waiters.push(key, *number, waiter);
            return None;
        }
        Some(Answer::TakenOver(taken.map(drop)))
    }

    /// The next batch of the queues that were found.
    fn carry_next(&mut self, ground: &mut Ground, out: &mut Outside) {
        let now = ground.local(out.net.now);
        while let Some(queue) = self.queues.front().cloned() {
            let messages = ground.table.lift(&queue, PATIENCE, now);
            if messages.is_empty() {
                self.queues.pop_front();
                continue;
            }
            let carriage = Carriage::new(&queue, &self.takers);
            self.carried = Some(Carried {
                bytes: Bytes::from(self.stream.next_batch(&messages)),
                keys: keys(&messages).collect(),
                queue,
                carriage,
                on: StreamId(0),
                is_said: false,
                until: out.net.now,
            });
            return self.say(ground, out);
        }
    }

    /// Dials the taker whose turn it is.
    fn say(&mut self, ground: &mut Ground, out: &mut Outside) {
        let Some(carried) = &mut self.carried else {
            return;
        };
        let Some(place) = carried.carriage.taker().and_then(place_of) else {
            return self.end_batch(false, ground, out);
        };
        carried.on = out.net.dial(ground.me, Actor::Broker(place), Port::Http);
        carried.is_said = false;
        carried.until = out.net.now + DIAL_TIMEOUT;
    }

    fn is_carried_on(&self, stream: StreamId) -> bool {
        let carried = self.carried.as_ref();
        carried.is_some_and(|carried| carried.on == stream)
    }

    /// No answer will come: who was told the batch may have it.
    fn broken(&mut self, ground: &mut Ground, out: &mut Outside) {
        let is_said = self.carried.as_ref().is_some_and(|carried| carried.is_said);
        let outcome = match is_said {
            true => Outcome::Unclear(String::from("no answer")),
            false => Outcome::Refused(String::from("nobody listens")),
        };
        self.tried(outcome, ground, out);
    }

    fn tried(&mut self, outcome: Outcome, ground: &mut Ground, out: &mut Outside) {
        let Some(carried) = &mut self.carried else {
            return;
        };
        match carried.carriage.tried(outcome) {
            Step::Done => self.end_batch(true, ground, out),
            Step::Say { is_passed_over } => {
                if is_passed_over {
                    for key in &carried.keys {
                        out.books.deliveries.unclear(*key);
                    }
                }
                self.say(ground, out);
            }
        }
    }

    fn end_batch(&mut self, is_taken: bool, ground: &mut Ground, out: &mut Outside) {
        let now = ground.local(out.net.now);
        let Some(carried) = self.carried.take() else {
            return;
        };
        ground.table.settle(&carried.queue, is_taken, now);
        match is_taken {
            true => self.carry_next(ground, out),
            false => self.queues.clear(),
        }
    }
}

fn keys(messages: &[Handed]) -> impl Iterator<Item = Key> {
    messages.iter().filter_map(|each| Key::of(&each.body))
}
