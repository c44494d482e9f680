//! NSQ connections: the real decoder, and what each command means (`broker/reactor/{read,execute}.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use broker::Attachments;
use clock::Instant;
use topics::{ConsumerKey, Subscription, TopicKey};
use wire::identify::{Negotiated, ServerLimits, renegotiate};
use wire::{Command, Decoded, Limits, MessageId, Phase, ProtocolError};

use super::attached::{Name, declared, owner};
use super::ground::Ground;
use super::outlet::Deliveries;
use crate::event::{Packet, StreamId};
use crate::laws::delivery::{Key, Queue};
use crate::outside::Outside;

/// Longest that a consumer may keep a message by touching it.
const MSG_TIMEOUT_MAX: Duration = Duration::from_secs(20);

/// All of a process's connections, and which of them are publishers with a name.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    pub(super) all: BTreeMap<StreamId, Session>,
    pub(super) attachments: Attachments,
    pub(super) deliveries: Deliveries,
    pub(super) is_resuming: bool,
}

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
    /// Messages accepted since IDENTIFY, and durable where they are to be, and those that were told of.
    pub(super) accepted: u64,
    pub(super) told: u64,
    consumer: Option<(ConsumerKey, Queue)>,
    /// Messages that it may have in flight.
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

impl Sessions {
    /// Somebody is connected.
    pub(super) fn accepted(&mut self, stream: StreamId, now: Instant) {
        self.all.insert(stream, Session::new(now));
    }

    /// Bytes arrive.
    pub(super) fn arrives(
        &mut self,
        stream: StreamId,
        bytes: Vec<u8>,
        ground: &mut Ground,
        out: &mut Outside,
    ) {
        if let Some(session) = self.all.get_mut(&stream) {
            session.input.extend(bytes);
            self.read(stream, ground, out);
        }
    }

    /// Has a topic pass on what it may.
    pub(super) fn serve(
        &mut self,
        key: TopicKey,
        messages_max: usize,
        ground: &mut Ground,
        out: &mut Outside,
    ) {
        let now = ground.local(out.net.now);
        let table = &mut ground.table;
        table.run_topic(key, now, messages_max, &mut self.deliveries);
        self.deliveries.hand_on(&mut self.all, ground, out);
    }

    /// When the next heart beats.
    pub(super) fn next_beat(&self) -> Option<Instant> {
        self.all.values().filter_map(Session::next_beat).min()
    }

    /// Acts on the commands of a connection, as far as they go.
    pub(super) fn read(&mut self, stream: StreamId, ground: &mut Ground, out: &mut Outside) {
        loop {
            let Some(session) = self.all.get_mut(&stream) else {
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
                    match self.execute(stream, command, ground, out) {
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
            let Some(session) = self.all.get_mut(&stream) else {
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
    fn execute(
        &mut self,
        stream: StreamId,
        command: Command<'_>,
        ground: &mut Ground,
        out: &mut Outside,
    ) -> bool {
        match command {
            Command::Identify { body } => self.identify(stream, body, out),
            Command::Pub { topic, body } => {
                return self.publish(stream, topic, std::iter::once(body), ground, out);
            }
            Command::Mpub { topic, messages } => {
                return self.publish(stream, topic, messages.iter(), ground, out);
            }
            Command::Sub { topic, channel } => self.subscribe(stream, topic, channel, ground),
            Command::Rdy { count } => {
                if let Some((key, _)) = self.consumer_of(stream) {
                    ground.table.set_ready(key, count);
                }
            }
            Command::Fin { id } => self.finish(stream, id, ground, out),
            Command::Req { id, delay_ms } => self.requeue(stream, id, delay_ms, ground, out),
            Command::Touch { id } => self.touch(stream, id, ground, out),
            _ => {}
        }
        true
    }

    fn identify(&mut self, stream: StreamId, body: &[u8], out: &mut Outside) {
        let Some(session) = self.all.get_mut(&stream) else {
            return;
        };
        match renegotiate(body, &ServerLimits::default(), &session.terms) {
            Ok((terms, answer)) => {
                let answer = answer.unwrap_or_else(|| b"OK".to_vec());
                wire::put_response(&mut session.output, &answer);
                let beat = terms.heartbeat_interval_ms.unwrap_or(30_000);
                session.next_beat = out.net.now + Duration::from_millis(beat);
                session.terms = terms;
                if let Some((name, declaration)) = declared(session) {
                    session.name = Some(name.clone());
                    let holder = owner(stream);
                    let former = self.attachments.attach(&name.topic, declaration, holder);
                    let former = former.map(|former| StreamId(former.connection));
                    // Whoever had the name goes on as nobody.
                    if let Some(former) = former.and_then(|stream| self.all.get_mut(&stream)) {
                        former.name = former.name.take().filter(|own| *own != name);
                    }
                }
            }
            Err(error) => out
                .books
                .breaks("protocol", format!("IDENTIFY was refused: {error}")),
        }
    }

    fn subscribe(&mut self, stream: StreamId, topic: &str, channel: &str, ground: &mut Ground) {
        let Some(session) = self.all.get_mut(&stream) else {
            return;
        };
        let subscription = Subscription {
            connection: stream.0,
            number: 0,
            msg_timeout: session.msg_timeout(),
            sample_rate: 0,
            is_finished_when_sent: false,
        };
        let Ok(name) = channel.parse() else {
            return;
        };
        match ground.table.subscribe(topic, &name, subscription) {
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
        self.all.get(&stream)?.consumer.clone()
    }

    fn finish(&mut self, stream: StreamId, id: MessageId, ground: &mut Ground, out: &mut Outside) {
        let now = ground.local(out.net.now);
        let (Some((key, queue)), Some(number)) = (self.consumer_of(stream), id.to_u64()) else {
            return;
        };
        let topic = ground.table.find(&queue.0);
        let is_logged = topic.is_some_and(|topic| ground.table.is_logged(topic));
        let finished = ground.table.finish(key, number, now);
        let Some(session) = self.all.get_mut(&stream) else {
            return;
        };
        match finished {
            Ok(()) => {
                if let Some(message) = session.flights.remove(&number) {
                    let flight = (ground.memory(), queue, number);
                    let finished = out.books.deliveries.finished(flight, message, is_logged);
                    out.books.check("deliveries", finished);
                }
            }
            Err(_) => {
                let error = ProtocolError::fin_failed(id, "not in flight");
                wire::put_error(&mut session.output, &error);
            }
        }
    }

    fn requeue(
        &mut self,
        stream: StreamId,
        id: MessageId,
        delay_ms: u64,
        ground: &mut Ground,
        out: &mut Outside,
    ) {
        let now = ground.local(out.net.now);
        let (Some((key, queue)), Some(number)) = (self.consumer_of(stream), id.to_u64()) else {
            return;
        };
        let delay = Duration::from_millis(delay_ms);
        let requeued = ground.table.requeue(key, number, delay, now);
        let Some(session) = self.all.get_mut(&stream) else {
            return;
        };
        match requeued {
            Ok(()) => {
                session.flights.remove(&number);
                let flight = (ground.memory(), queue, number);
                out.books.deliveries.came_back(flight);
            }
            Err(_) => {
                let error = ProtocolError::req_failed(id, "not in flight");
                wire::put_error(&mut session.output, &error);
            }
        }
    }

    fn touch(&mut self, stream: StreamId, id: MessageId, ground: &mut Ground, out: &mut Outside) {
        let now = ground.local(out.net.now);
        let (Some((key, queue)), Some(number)) = (self.consumer_of(stream), id.to_u64()) else {
            return;
        };
        if ground
            .table
            .touch(key, number, MSG_TIMEOUT_MAX, now)
            .is_ok()
            && let Some(session) = self.all.get(&stream)
        {
            let flight = (ground.memory(), queue, number);
            // Short of what the bound on touches may allow: an early redelivery is what the law is about.
            let due = out.net.now + session.msg_timeout().min(Duration::from_millis(1));
            out.books.deliveries.touched(flight, due);
        }
    }

    /// A connection is gone.
    pub(super) fn leave(&mut self, stream: StreamId, ground: &mut Ground, out: &mut Outside) {
        let Some(session) = self.all.remove(&stream) else {
            return;
        };
        if let Some((key, queue)) = session.consumer {
            for &number in session.flights.keys() {
                let flight = (ground.memory(), queue.clone(), number);
                out.books.deliveries.came_back(flight);
            }
            ground.table.unsubscribe(key, ground.local(out.net.now));
        }
        if let Some(name) = session.name {
            self.attachments
                .detach(&name.topic, &name.id, owner(stream));
        }
    }

    /// The broker closes a connection.
    pub(super) fn hang_up(&mut self, stream: StreamId, ground: &mut Ground, out: &mut Outside) {
        self.leave(stream, ground, out);
        out.net.close(stream, ground.me);
    }

    /// Beats hearts that are due.
    pub(super) fn beat_hearts(&mut self, now: Instant) {
        for session in self.all.values_mut() {
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
    pub(super) fn flush(&mut self, ground: &mut Ground, out: &mut Outside) {
        let mut ending = Vec::new();
        for (&stream, session) in &mut self.all {
            if session.terms.acks.is_some() && session.accepted > session.told {
                session.told = session.accepted;
                wire::put_ack(&mut session.output, session.accepted);
            }
            if !session.output.is_empty() {
                let bytes = std::mem::take(&mut session.output);
                out.net.send(stream, ground.me, Packet::Bytes(bytes));
            }
            if session.is_ending {
                ending.push(stream);
            }
        }
        for stream in ending {
            self.hang_up(stream, ground, out);
        }
    }
}
