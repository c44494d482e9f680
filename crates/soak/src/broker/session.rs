//! One NSQ connection: the real decoder, and what each command means (`broker/reactor/{read,execute}.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Instant;
use topics::{ConsumerKey, Subscription};
use wire::identify::{Negotiated, ServerLimits, renegotiate};
use wire::{Command, Decoded, Limits, MessageId, Phase, ProtocolError};

use super::Process;
use super::attached::Name;
use crate::event::{Packet, StreamId};
use crate::laws::delivery::{Key, Queue};
use crate::outside::Outside;

/// Longest that a consumer may keep a message by touching it.
const MSG_TIMEOUT_MAX: Duration = Duration::from_secs(20);

/// A connection.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) input: Vec<u8>,
    pub(super) output: Vec<u8>,
    has_magic: bool,
    pub(super) terms: Negotiated,
    pub(super) is_held: bool,
    /// It is closed once its output is written.
    is_ending: bool,
    /// Messages accepted since IDENTIFY, and those that were told of.
    pub(super) accepted: u64,
    pub(super) told: u64,
    consumer: Option<(ConsumerKey, Queue)>,
    /// What it may have in flight.
    pub(super) flights: BTreeMap<u64, Key>,
    next_beat: Instant,
    pub(super) name: Option<Name>,
}

impl Session {
    pub(super) fn new(now: Instant) -> Session {
        Session {
            input: Vec::new(),
            output: Vec::new(),
            has_magic: false,
            terms: Negotiated::unidentified(&ServerLimits::default()),
            is_held: false,
            is_ending: false,
            accepted: 0,
            told: 0,
            consumer: None,
            flights: BTreeMap::new(),
            next_beat: now + Duration::from_secs(30),
            name: None,
        }
    }

    /// The channel that it consumes.
    pub(super) fn queue(&self) -> Option<Queue> {
        self.consumer.as_ref().map(|(_, queue)| queue.clone())
    }

    pub(super) fn msg_timeout(&self) -> Duration {
        Duration::from_millis(self.terms.msg_timeout_ms)
    }

    pub(super) fn next_beat(&self) -> Option<Instant> {
        self.terms.heartbeats_enabled().then_some(self.next_beat)
    }
}

impl Process {
    /// Acts on the commands of a connection, as far as they go.
    pub(super) fn read(&mut self, stream: StreamId, out: &mut Outside) {
        loop {
            let Some(session) = self.sessions.get_mut(&stream) else {
                return;
            };
            if session.is_held || session.is_ending {
                return;
            }
            if !session.has_magic {
                if session.input.len() < wire::MAGIC_V2.len() {
                    return;
                }
                session.input.drain(..wire::MAGIC_V2.len());
                session.has_magic = true;
            }
            let input = std::mem::take(&mut session.input);
            let phase = match session.consumer {
                Some(_) => Phase::Subscribed,
                None => Phase::Init,
            };
            let consumed = match wire::decode(&input, &Limits::default(), phase, true) {
                Ok(Decoded::Complete { command, consumed }) => {
                    match self.execute(stream, command, out) {
                        true => consumed,
                        false => 0,
                    }
                }
                Ok(Decoded::Incomplete { .. }) => 0,
                Err(error) => {
                    out.books
                        .breaks("protocol", format!("a client was refused: {error}"));
                    0
                }
            };
            let Some(session) = self.sessions.get_mut(&stream) else {
                return;
            };
            session.input = input;
            session.input.drain(..consumed);
            if consumed == 0 {
                return;
            }
        }
    }

    /// Whether the command is done; one that is held stays in the input.
    fn execute(&mut self, stream: StreamId, command: Command<'_>, out: &mut Outside) -> bool {
        match command {
            Command::Identify { body } => self.identify(stream, body, out),
            Command::Pub { topic, body } => {
                return self.publish(stream, topic, std::iter::once(body), out);
            }
            Command::Mpub { topic, messages } => {
                return self.publish(stream, topic, messages.iter(), out);
            }
            Command::Sub { topic, channel } => self.subscribe(stream, topic, channel),
            Command::Rdy { count } => {
                if let Some((key, _)) = self.consumer_of(stream) {
                    self.table.set_ready(key, count);
                }
            }
            Command::Fin { id } => self.finish(stream, id, out),
            Command::Req { id, delay_ms } => self.requeue(stream, id, delay_ms, out),
            Command::Touch { id } => self.touch(stream, id, out),
            _ => {}
        }
        true
    }

    fn identify(&mut self, stream: StreamId, body: &[u8], out: &mut Outside) {
        let Some(session) = self.sessions.get_mut(&stream) else {
            return;
        };
        match renegotiate(body, &ServerLimits::default(), &session.terms) {
            Ok((terms, answer)) => {
                let answer = answer.unwrap_or_else(|| b"OK".to_vec());
                wire::put_response(&mut session.output, &answer);
                let beat = terms.heartbeat_interval_ms.unwrap_or(30_000);
                session.next_beat = out.net.now + Duration::from_millis(beat);
                session.terms = terms;
                self.announce(stream);
            }
            Err(error) => out
                .books
                .breaks("protocol", format!("IDENTIFY was refused: {error}")),
        }
    }

    fn subscribe(&mut self, stream: StreamId, topic: &str, channel: &str) {
        let Some(session) = self.sessions.get_mut(&stream) else {
            return;
        };
        let subscription = Subscription {
            connection: stream.0,
            msg_timeout: session.msg_timeout(),
            sample_rate: 0,
            is_finished_when_sent: false,
        };
        let Ok(name) = channel.parse() else {
            return;
        };
        match self.table.subscribe(topic, &name, subscription) {
            Ok(key) => {
                session.consumer = Some((key, (topic.to_owned(), channel.to_owned())));
                session.output.extend(wire::OK_FRAME);
            }
            Err(refusal) => {
                let error = ProtocolError::sub_failed(&refusal.to_string());
                wire::put_error(&mut session.output, &error);
                session.is_ending = true;
            }
        }
    }

    fn consumer_of(&self, stream: StreamId) -> Option<(ConsumerKey, Queue)> {
        self.sessions.get(&stream)?.consumer.clone()
    }

    fn finish(&mut self, stream: StreamId, id: MessageId, out: &mut Outside) {
        let now = self.local(out.net.now);
        let (Some((key, queue)), Some(number)) = (self.consumer_of(stream), id.to_u64()) else {
            return;
        };
        let finished = self.table.finish(key, number, now);
        let Some(session) = self.sessions.get_mut(&stream) else {
            return;
        };
        match finished {
            Ok(()) => {
                if let Some(message) = session.flights.remove(&number) {
                    let flight = ((self.place, self.life), queue, number);
                    let finished = out.books.deliveries.finished(flight, message);
                    out.books.check("deliveries", finished);
                }
            }
            Err(_) => {
                let error = ProtocolError::fin_failed(id, "not in flight");
                wire::put_error(&mut session.output, &error);
            }
        }
    }

    fn requeue(&mut self, stream: StreamId, id: MessageId, delay_ms: u64, out: &mut Outside) {
        let now = self.local(out.net.now);
        let (Some((key, queue)), Some(number)) = (self.consumer_of(stream), id.to_u64()) else {
            return;
        };
        let delay = Duration::from_millis(delay_ms);
        let requeued = self.table.requeue(key, number, delay, now);
        let Some(session) = self.sessions.get_mut(&stream) else {
            return;
        };
        match requeued {
            Ok(()) => {
                session.flights.remove(&number);
                let flight = ((self.place, self.life), queue, number);
                out.books.deliveries.came_back(flight);
            }
            Err(_) => {
                let error = ProtocolError::req_failed(id, "not in flight");
                wire::put_error(&mut session.output, &error);
            }
        }
    }

    fn touch(&mut self, stream: StreamId, id: MessageId, out: &mut Outside) {
        let now = self.local(out.net.now);
        let (Some((key, queue)), Some(number)) = (self.consumer_of(stream), id.to_u64()) else {
            return;
        };
        if self.table.touch(key, number, MSG_TIMEOUT_MAX, now).is_ok()
            && let Some(session) = self.sessions.get(&stream)
        {
            let flight = ((self.place, self.life), queue, number);
            // Short of what the bound on touches may allow: an early redelivery is what the law is about.
            let due = out.net.now + session.msg_timeout().min(Duration::from_millis(1));
            out.books.deliveries.touched(flight, due);
        }
    }

    /// A connection is gone.
    pub(super) fn leave(&mut self, stream: StreamId, out: &mut Outside) {
        let Some(session) = self.sessions.remove(&stream) else {
            return;
        };
        if let Some((key, queue)) = session.consumer {
            for &number in session.flights.keys() {
                let flight = ((self.place, self.life), queue.clone(), number);
                out.books.deliveries.came_back(flight);
            }
            self.table.unsubscribe(key, self.local(out.net.now));
        }
        if let Some(name) = session.name {
            self.attached.detach(&name, stream);
        }
    }

    /// The broker closes a connection.
    pub(super) fn hang_up(&mut self, stream: StreamId, out: &mut Outside) {
        self.leave(stream, out);
        out.net.close(stream, self.me);
    }

    pub(super) fn beat_hearts(&mut self, out: &mut Outside) {
        let now = out.net.now;
        for session in self.sessions.values_mut() {
            let Some(beat) = session.terms.heartbeat_interval_ms else {
                continue;
            };
            if session.next_beat <= now {
                session.next_beat = now + Duration::from_millis(beat);
                session.output.extend(wire::HEARTBEAT_FRAME);
            }
        }
    }

    /// Writes what connections are owed.
    pub(super) fn flush(&mut self, out: &mut Outside) {
        let mut ending = Vec::new();
        for (&stream, session) in &mut self.sessions {
            if session.terms.acks.is_some() && session.accepted > session.told {
                session.told = session.accepted;
                wire::put_ack(&mut session.output, session.accepted);
            }
            if !session.output.is_empty() {
                let bytes = std::mem::take(&mut session.output);
                out.net.send(stream, self.me, Packet::Bytes(bytes));
            }
            if session.is_ending {
                ending.push(stream);
            }
        }
        for stream in ending {
            self.hang_up(stream, out);
        }
    }
}
