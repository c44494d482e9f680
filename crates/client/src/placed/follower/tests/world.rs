//! Brokers, a controller and a network in virtual time, with one follower in it.
//!
//! Brokers decode what they get with the real decoder; bytes travel in order on each connection, in
//! pieces and with delays drawn from the test's seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::time::Duration;

use clock::{Instant, Xoshiro256PlusPlus};
use rand::Rng;
use wire::{Command, Decoded, Limits, Phase};

use super::super::{Action, Answer, Enquiry, Follower};
use crate::placed::{ConnectionId, PlacedOptions};

pub(super) const TOPIC: &str = "telemetry";
const HEARTBEATS: Duration = Duration::from_secs(5);

/// What a test does to the world.
#[derive(Debug, Clone)]
pub(super) enum Deed {
    /// Publishes a message, or so many in one command.
    Publish(u32),
    /// The controller wants the publisher there, and its broker tells it.
    Move(usize),
    /// The broker ends with all connections; what it had not sent is lost.
    Kill(usize),
    /// The broker is there again.
    Revive(usize),
    /// All connections to the broker hang: nothing arrives, nothing is closed.
    Freeze(usize),
    /// New connections to the broker get no answer; those that are made go on.
    Block(usize, bool),
    /// The controller answers, or does not.
    Controller(bool),
    /// The broker's answers are held back, or no more: the limit has no tokens.
    Hold(usize, bool),
}

#[derive(Debug)]
enum Event {
    Connect(ConnectionId, usize),
    Connected(ConnectionId),
    Refused(ConnectionId),
    ToBroker(ConnectionId, Vec<u8>),
    ToClient(ConnectionId, Vec<u8>),
    Gone(ConnectionId),
    Left(ConnectionId),
    Told(Answer),
    /// All brokers send heartbeats, every 5 s.
    Heartbeats,
}

#[derive(Debug, Default)]
struct Broker {
    is_dead: bool,
    is_blocked: bool,
    is_held: bool,
    accepted: Vec<u32>,
}

#[derive(Debug)]
struct Session {
    broker: usize,
    input: Vec<u8>,
    has_magic: bool,
    is_cumulative: bool,
    accepted: u64,
    /// Answers held back.
    held: Vec<u8>,
    is_frozen: bool,
    /// When the last bytes of each direction arrive: they keep their order.
    last_to_broker: Instant,
    last_to_client: Instant,
}

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) follower: Follower,
    pub(super) enquiries: Vec<(Instant, Enquiry)>,
    pub(super) published: u32,
    brokers: Vec<Broker>,
    sessions: BTreeMap<ConnectionId, Session>,
    place: usize,
    controller_answers: bool,
    is_known: bool,
    events: BinaryHeap<Reverse<(Instant, u64)>>,
    pending: HashMap<u64, Event>,
    numbers: u64,
    random: Xoshiro256PlusPlus,
    is_cumulative: bool,
}

impl World {
    pub(super) fn new(brokers: usize, options: PlacedOptions, seed: u64) -> Self {
        let is_cumulative = options.acknowledgement != crate::Acknowledgement::Each;
        let mut world = Self {
            now: Instant::ZERO,
            follower: Follower::new(options, seed, Instant::ZERO).expect("valid options"),
            enquiries: Vec::new(),
            published: 0,
            brokers: (0..brokers).map(|_| Broker::default()).collect(),
            sessions: BTreeMap::new(),
            place: 0,
            controller_answers: true,
            is_known: false,
            events: BinaryHeap::new(),
            pending: HashMap::new(),
            numbers: 0,
            random: clock::stream(seed, "world"),
            is_cumulative,
        };
        world.schedule(Instant::ZERO + HEARTBEATS, Event::Heartbeats);
        world.act();
        world
    }

    pub(super) fn options() -> PlacedOptions {
        PlacedOptions::new("controller:4180", TOPIC, "s1")
    }

    pub(super) fn name(broker: usize) -> String {
        format!("b{broker}:4150")
    }

    /// How often each message was accepted, by number.
    pub(super) fn accepted(&self) -> Vec<u32> {
        let mut times = vec![0; self.published as usize];
        for number in self.brokers.iter().flat_map(|broker| &broker.accepted) {
            times[*number as usize] += 1;
        }
        times
    }

    pub(super) fn accepted_by(&self, broker: usize) -> &[u32] {
        &self.brokers[broker].accepted
    }

    /// Everything that was cut off is reachable again; connections that are made stay.
    pub(super) fn unblock(&mut self) {
        for broker in 0..self.brokers.len() {
            self.perform(Deed::Block(broker, false));
            self.perform(Deed::Hold(broker, false));
        }
        self.perform(Deed::Controller(true));
        self.act();
    }

    /// Everything works again, and all brokers have begun anew.
    pub(super) fn heal(&mut self) {
        for broker in 0..self.brokers.len() {
            self.perform(Deed::Revive(broker));
        }
        self.unblock();
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let event = self.events.peek().map_or(Instant::MAX, |next| next.0.0);
            let deadline = self.follower.next_deadline();
            let next = event.min(deadline);
            if next > end {
                break;
            }
            assert!(next >= self.now, "time runs forward");
            self.now = next;
            if deadline <= event {
                self.follower.tick(self.now);
                assert!(
                    self.follower.next_deadline() > self.now,
                    "a tick settles what was due"
                );
            } else if let Some(Reverse((_, number))) = self.events.pop() {
                let event = self.pending.remove(&number).expect("scheduled");
                self.happen(event);
            }
            self.act();
        }
        self.now = end;
    }

    /// Does what the follower says.
    pub(super) fn act(&mut self) {
        while let Some(action) = self.follower.next_action() {
            match action {
                Action::Connect {
                    connection,
                    address,
                } => {
                    let broker = (0..self.brokers.len()).find(|n| Self::name(*n) == address);
                    let after = self.delay();
                    self.schedule(after, Event::Connect(connection, broker.expect("known")));
                }
                Action::Close(connection) => {
                    let at = match self.sessions.get(&connection) {
                        Some(session) => session.last_to_broker.max(self.now),
                        None => self.now,
                    };
                    self.schedule(at, Event::Left(connection));
                }
                Action::Ask(enquiry) => self.answer(enquiry),
            }
        }
        let connections: Vec<ConnectionId> = self.follower.connections().collect();
        for connection in connections {
            self.carry_output(connection);
        }
    }

    /// Moves output into the network in pieces; sometimes the socket takes only a part.
    fn carry_output(&mut self, connection: ConnectionId) {
        while !self.follower.output(connection).is_empty() {
            let most = self.follower.output(connection).len() as u64;
            let Some(session) = self.sessions.get(&connection) else {
                return;
            };
            if session.is_frozen && self.random.next_u64().is_multiple_of(2) {
                return;
            }
            let bytes = 1 + (self.random.next_u64() % most) as usize;
            let piece = self.follower.output(connection)[..bytes].to_vec();
            self.follower.written(connection, bytes);
            let delay = self.delay();
            if let Some(session) = self.sessions.get_mut(&connection) {
                session.last_to_broker = session.last_to_broker.max(delay);
                let at = session.last_to_broker;
                self.schedule(at, Event::ToBroker(connection, piece));
            }
        }
    }

    fn answer(&mut self, enquiry: Enquiry) {
        self.enquiries.push((self.now, enquiry.clone()));
        let answer = if !self.controller_answers {
            Answer::Failed("no answer".to_owned())
        } else if !self.is_known && !enquiry.register {
            Answer::Unknown
        } else {
            self.is_known = true;
            let avoided = |n: &usize| enquiry.avoid.as_deref() == Some(&Self::name(*n));
            if avoided(&self.place) {
                let other = (0..self.brokers.len()).find(|n| !avoided(n));
                self.place = other.unwrap_or(self.place);
            }
            Answer::At(Self::name(self.place))
        };
        let at = self.delay();
        self.schedule(at, Event::Told(answer));
    }

    fn happen(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Connect(connection, broker) if self.brokers[broker].is_dead => {
                let at = self.delay();
                self.schedule(at, Event::Refused(connection));
            }
            Event::Connect(_, broker) if self.brokers[broker].is_blocked => {}
            Event::Connect(connection, broker) => {
                self.sessions.insert(connection, Session::new(broker, now));
                let at = self.delay();
                self.schedule(at, Event::Connected(connection));
            }
            Event::Connected(connection) => self.follower.connected(now, connection),
            Event::Refused(connection) => self.follower.closed(now, connection, "refused"),
            Event::ToBroker(connection, bytes) => self.serve(connection, &bytes),
            Event::ToClient(connection, bytes) => {
                if self.sessions.get(&connection).is_some_and(|s| !s.is_frozen) {
                    self.follower.received(now, connection, &bytes);
                }
            }
            Event::Gone(connection) => self.follower.closed(now, connection, "reset"),
            Event::Left(connection) => drop(self.sessions.remove(&connection)),
            Event::Told(answer) => self.follower.told(now, answer),
            Event::Heartbeats => {
                let greeted = self
                    .sessions
                    .iter()
                    .filter(|(_, session)| session.has_magic);
                for connection in greeted
                    .map(|(connection, _)| *connection)
                    .collect::<Vec<_>>()
                {
                    self.send(connection, wire::HEARTBEAT_FRAME.to_vec());
                }
                self.schedule(now + HEARTBEATS, Event::Heartbeats);
            }
        }
    }

    pub(super) fn perform(&mut self, deed: Deed) {
        match deed {
            Deed::Publish(1) => {
                let body = self.published.to_be_bytes();
                if self.follower.publish(&body).is_ok() {
                    self.published += 1;
                }
            }
            Deed::Publish(messages) => {
                let numbers = self.published..self.published + messages;
                let bodies: Vec<[u8; 4]> = numbers.map(u32::to_be_bytes).collect();
                if self.follower.publish_batch(&bodies).is_ok() {
                    self.published += messages;
                }
            }
            Deed::Move(broker) => self.move_to(broker),
            Deed::Kill(broker) => self.kill(broker),
            Deed::Revive(broker) => {
                // A frozen connection does not thaw: its peer has rebooted.
                self.kill(broker);
                self.brokers[broker].is_dead = false;
            }
            Deed::Freeze(broker) => {
                for session in self.sessions.values_mut().filter(|s| s.broker == broker) {
                    session.is_frozen = true;
                }
            }
            Deed::Block(broker, is_blocked) => self.brokers[broker].is_blocked = is_blocked,
            Deed::Controller(answers) => self.controller_answers = answers,
            Deed::Hold(broker, is_held) => self.hold(broker, is_held),
        }
    }

    fn move_to(&mut self, broker: usize) {
        self.place = broker;
        let newest = self.sessions.iter().next_back();
        if let Some((connection, session)) = newest
            && session.broker != broker
        {
            let connection = *connection;
            let mut frame = Vec::new();
            wire::put_migrate(&mut frame, TOPIC, &Self::name(broker));
            self.send(connection, frame);
        }
    }

    fn kill(&mut self, broker: usize) {
        self.brokers[broker].is_dead = true;
        let ended: Vec<ConnectionId> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.broker == broker)
            .map(|(connection, _)| *connection)
            .collect();
        for connection in ended {
            self.sessions.remove(&connection);
            let at = self.delay();
            self.schedule(at, Event::Gone(connection));
        }
    }

    fn hold(&mut self, broker: usize, is_held: bool) {
        self.brokers[broker].is_held = is_held;
        if is_held {
            return;
        }
        let connections: Vec<ConnectionId> = self.sessions.keys().copied().collect();
        for connection in connections {
            let held = match self.sessions.get_mut(&connection) {
                Some(session) if session.broker == broker => std::mem::take(&mut session.held),
                _ => continue,
            };
            self.send(connection, held);
        }
    }

    /// A broker's side of a connection: decodes commands and answers them.
    fn serve(&mut self, connection: ConnectionId, bytes: &[u8]) {
        let Some(session) = self.sessions.get_mut(&connection) else {
            return;
        };
        if session.is_frozen {
            return;
        }
        let broker = &mut self.brokers[session.broker];
        session.input.extend_from_slice(bytes);
        let answers = session.execute(&mut broker.accepted, self.is_cumulative);
        if broker.is_held {
            session.held.extend(answers);
        } else {
            self.send(connection, answers);
        }
    }

    fn send(&mut self, connection: ConnectionId, bytes: Vec<u8>) {
        let delay = self.delay();
        let cut = match bytes.len() {
            0 => return,
            length => (self.random.next_u64() % length as u64) as usize,
        };
        if let Some(session) = self.sessions.get_mut(&connection) {
            session.last_to_client = session.last_to_client.max(delay);
            let at = session.last_to_client;
            for piece in [&bytes[..cut], &bytes[cut..]] {
                self.schedule(at, Event::ToClient(connection, piece.to_vec()));
            }
        }
    }

    /// An instant up to 20 ms ahead.
    fn delay(&mut self) -> Instant {
        self.now + Duration::from_micros(100 + self.random.next_u64() % 20_000)
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.events.push(Reverse((at, self.numbers)));
        self.pending.insert(self.numbers, event);
        self.numbers += 1;
    }
}

impl Session {
    fn new(broker: usize, now: Instant) -> Self {
        Self {
            broker,
            input: Vec::new(),
            has_magic: false,
            is_cumulative: false,
            accepted: 0,
            held: Vec::new(),
            is_frozen: false,
            last_to_broker: now,
            last_to_client: now,
        }
    }

    fn execute(&mut self, accepted: &mut Vec<u32>, is_cumulative: bool) -> Vec<u8> {
        let mut answers = Vec::new();
        if !self.has_magic && self.input.len() >= wire::MAGIC_V2.len() {
            assert_eq!(&self.input[..4], wire::MAGIC_V2);
            self.input.drain(..4);
            self.has_magic = true;
        }
        while self.has_magic {
            let decoded = wire::decode(&self.input, &Limits::default(), Phase::Init, true);
            let Ok(Decoded::Complete { command, consumed }) = decoded else {
                assert!(decoded.is_ok(), "{decoded:?}");
                break;
            };
            let number = |body: &[u8]| u32::from_be_bytes(body.try_into().expect("a number"));
            let before = self.accepted;
            match command {
                Command::Identify { body } => {
                    let identify = wire::identify::Identify::from_json(body).expect("valid");
                    let publisher = identify.publisher.expect("announced");
                    assert_eq!(
                        (publisher.id.as_str(), publisher.topic.as_str()),
                        ("s1", TOPIC)
                    );
                    assert_eq!(identify.srtm.is_some(), is_cumulative);
                    self.is_cumulative = is_cumulative;
                    let acks = if is_cumulative {
                        ",\"ack_every_messages\":64"
                    } else {
                        ""
                    };
                    let answer = format!("{{\"srtm\":{{\"version\":2,\"publisher\":true{acks}}}}}");
                    wire::put_response(&mut answers, answer.as_bytes());
                }
                Command::Pub { body, .. } => {
                    accepted.push(number(body));
                    self.accepted += 1;
                }
                Command::Mpub { messages, .. } => {
                    accepted.extend(messages.iter().map(number));
                    self.accepted += messages.len() as u64;
                }
                Command::Nop => {}
                other => panic!("a publisher sends no {other:?}"),
            }
            if self.accepted > before && !self.is_cumulative {
                answers.extend_from_slice(&wire::OK_FRAME);
            }
            self.input.drain(..consumed);
        }
        if self.is_cumulative && self.accepted > 0 {
            wire::put_ack(&mut answers, self.accepted);
        }
        answers
    }
}
