//! A publisher's process: the real follower of placements, and a driver of its sockets and questions.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use api::view::{PublisherSpec, PublisherView};
use client::placed::{Action, Answer as Told, ConnectionId, Enquiry, Follower};
use client::{Acknowledgement, PlacedOptions};
use clock::Instant;
use control::ControlError;
use wire::{Command, Decoded, Frame, FrameDecoded, Limits, Phase};

use crate::broker::place_of;
use crate::event::{Actor, Answer, Ask, Event, Packet, Port, StreamId};
use crate::laws::delivery::Key;
use crate::outside::Outside;

/// The longest wait for the controller's answer (`client/placed/controller.rs`).
const ASK_TIMEOUT: Duration = Duration::from_secs(10);

/// One publisher.
pub struct Publisher {
    me: Actor,
    number: u16,
    /// The topic that it publishes to.
    pub topic: String,
    /// Its id.
    pub id: String,
    spec: PublisherSpec,
    /// The machine under test.
    pub follower: Follower,
    streams: BTreeMap<StreamId, BrokerConnection>,
    ask: Option<(StreamId, Instant, Enquiry)>,
    next_at: Instant,
    wake_at: Instant,
    published: u32,
    /// It publishes nothing from now on.
    pub is_silent: bool,
}

/// One of its connections, as the laws see it.
struct BrokerConnection {
    id: ConnectionId,
    is_connected: bool,
    written: Vec<u8>,
    heard: Vec<u8>,
    /// Messages of commands that are not acknowledged yet.
    sent: VecDeque<Vec<Key>>,
    acked: u64,
}

impl Publisher {
    /// One that begins at once.
    ///
    /// # Panics
    /// Where the options are out of range.
    #[must_use]
    pub fn new(
        number: usize,
        topic: &str,
        spec: PublisherSpec,
        is_cumulative: bool,
        out: &mut Outside,
    ) -> Publisher {
        let now = out.net.now;
        let mut options = PlacedOptions::new("controller", topic, spec.id.clone());
        options.rate = spec.rate;
        options.batch = spec.batch;
        options.group.clone_from(&spec.group);
        options.window_messages = 60;
        options.heartbeat_interval = Duration::from_secs(1);
        if is_cumulative {
            options.acknowledgement = Acknowledgement::Cumulative {
                every_messages: 4,
                interval_ms: 20,
            };
        }
        let follower = Follower::new(options, out.chance.number(), now);
        let me = Actor::Publisher(number);
        out.net.begins(me, 1);
        let first = now + out.chance.span_ms(0, 1000);
        let mut publisher = Publisher {
            me,
            number: number as u16,
            topic: topic.to_owned(),
            id: spec.id.clone(),
            spec,
            follower: follower.expect("the options are in range"),
            streams: BTreeMap::new(),
            ask: None,
            next_at: first,
            wake_at: Instant::MAX,
            published: 0,
            is_silent: false,
        };
        publisher.act(out);
        publisher
    }

    /// Its time has come.
    pub fn wake(&mut self, out: &mut Outside) {
        let now = out.net.now;
        if now < self.wake_at {
            return;
        }
        self.wake_at = Instant::MAX;
        if let Some((stream, until, _)) = &self.ask
            && *until <= now
        {
            out.net.close(*stream, self.me);
            self.ask = None;
            self.follower
                .told(now, Told::Failed(String::from("no answer in time")));
        }
        if self.follower.next_deadline() <= now {
            self.follower.tick(now);
        }
        if self.next_at <= now {
            self.publish(out);
        }
        self.act(out);
    }

    /// Something arrives.
    pub fn arrives(&mut self, stream: StreamId, packet: Packet, out: &mut Outside) {
        let now = out.net.now;
        match packet {
            Packet::Established => {
                if let Some(connection) = self.streams.get_mut(&stream) {
                    connection.is_connected = true;
                    self.follower.connected(now, connection.id);
                } else if let Some((_, _, enquiry)) =
                    self.ask.as_ref().filter(|ask| ask.0 == stream)
                {
                    let ask = match enquiry.register {
                        true => Ask::Register(self.topic.clone(), self.spec.clone()),
                        false => {
                            let avoid = enquiry.avoid.clone();
                            Ask::Place(self.topic.clone(), self.id.clone(), avoid)
                        }
                    };
                    out.net.send(stream, self.me, Packet::Ask(Box::new(ask)));
                }
            }
            Packet::Bytes(bytes) => {
                if let Some(connection) = self.streams.get_mut(&stream) {
                    connection.heard.extend_from_slice(&bytes);
                    let heard = connection.hear(out);
                    out.books.check("acknowledgements", heard);
                    let id = connection.id;
                    self.follower.received(now, id, &bytes);
                }
            }
            Packet::Answer(answer) if self.ask.as_ref().is_some_and(|ask| ask.0 == stream) => {
                self.ask = None;
                out.net.close(stream, self.me);
                self.follower.told(now, meaning(*answer));
            }
            _ => {}
        }
        self.act(out);
    }

    /// A stream is gone.
    pub fn gone(&mut self, stream: StreamId, out: &mut Outside) {
        let now = out.net.now;
        if let Some(connection) = self.streams.remove(&stream) {
            connection.lost(out);
            self.follower.closed(now, connection.id, "reset");
        } else if self.ask.as_ref().is_some_and(|ask| ask.0 == stream) {
            self.ask = None;
            self.follower
                .told(now, Told::Failed(String::from("out of reach")));
        }
        self.act(out);
    }

    fn publish(&mut self, out: &mut Outside) {
        let period_ns = 1e9 * f64::from(self.spec.batch) / self.spec.rate;
        self.next_at += Duration::from_nanos(period_ns as u64);
        if self.is_silent {
            self.next_at = Instant::MAX;
            return;
        }
        let number = self.published;
        let keys = (0..self.spec.batch).map(|index| Key {
            publisher: self.number,
            number: number + index,
        });
        let keys: Vec<Key> = keys.collect();
        let bodies: Vec<Vec<u8>> = keys.iter().map(|key| key.body(16)).collect();
        let published = match &bodies[..] {
            [body] => self.follower.publish(body),
            bodies => self.follower.publish_batch(bodies),
        };
        // A full window is the program's to wait for; this one gives the message up.
        if published.is_ok() {
            self.published += self.spec.batch;
            for key in keys {
                out.books.deliveries.published(key, &self.topic);
            }
        }
    }

    /// Does what the follower says.
    fn act(&mut self, out: &mut Outside) {
        let now = out.net.now;
        while let Some(action) = self.follower.next_action() {
            match action {
                Action::Connect {
                    connection,
                    address,
                } => match place_of(&address) {
                    Some(place) => {
                        let stream = out.net.dial(self.me, Actor::Broker(place), Port::Nsq);
                        self.streams
                            .insert(stream, BrokerConnection::new(connection));
                    }
                    None => self.follower.closed(now, connection, "no such host"),
                },
                Action::Close(connection) => {
                    let found = self.streams.iter().find(|(_, each)| each.id == connection);
                    if let Some(stream) = found.map(|(&stream, _)| stream)
                        && let Some(connection) = self.streams.remove(&stream)
                    {
                        connection.lost(out);
                        out.net.close(stream, self.me);
                    }
                }
                Action::Ask(enquiry) => {
                    let stream = out.net.dial(self.me, Actor::Controller, Port::Http);
                    self.ask = Some((stream, now + ASK_TIMEOUT, enquiry));
                }
            }
        }
        for (&stream, connection) in &mut self.streams {
            let bytes = self.follower.output(connection.id).to_vec();
            if connection.is_connected && !bytes.is_empty() {
                self.follower.written(connection.id, bytes.len());
                connection.written.extend_from_slice(&bytes);
                connection.note_commands();
                out.net.send(stream, self.me, Packet::Bytes(bytes));
            }
        }
        self.wake_in_time(out);
    }

    fn wake_in_time(&mut self, out: &mut Outside) {
        let ask = self.ask.as_ref().map_or(Instant::MAX, |ask| ask.1);
        let next = self.follower.next_deadline().min(self.next_at).min(ask);
        let next = next.max(out.net.now);
        if next < self.wake_at && next < Instant::MAX {
            self.wake_at = next;
            out.net.agenda.note(next, Event::Wake(self.me, 1));
        }
    }
}

impl BrokerConnection {
    fn new(id: ConnectionId) -> BrokerConnection {
        BrokerConnection {
            id,
            is_connected: false,
            written: Vec::new(),
            heard: Vec::new(),
            sent: VecDeque::new(),
            acked: 0,
        }
    }

    /// Which messages the bytes that were written are about.
    fn note_commands(&mut self) {
        if self.written.starts_with(wire::MAGIC_V2) {
            self.written.drain(..wire::MAGIC_V2.len());
        }
        while let Ok(Decoded::Complete { command, consumed }) =
            wire::decode(&self.written, &Limits::default(), Phase::Init, true)
        {
            match command {
                Command::Pub { body, .. } => {
                    self.sent.push_back(Key::of(body).into_iter().collect())
                }
                Command::Mpub { messages, .. } => {
                    self.sent
                        .push_back(messages.iter().filter_map(Key::of).collect());
                }
                _ => {}
            }
            self.written.drain(..consumed);
        }
    }

    /// Acknowledgements among what was heard.
    fn hear(&mut self, out: &mut Outside) -> Result<(), String> {
        let mut consumed_all = 0;
        while let Ok(FrameDecoded::Complete { frame, consumed }) =
            wire::decode_frame(&self.heard[consumed_all..], 1 << 20)
        {
            consumed_all += consumed;
            let until = match frame {
                Frame::Response(b"OK") => {
                    self.acked + self.sent.front().map_or(0, |keys| keys.len() as u64)
                }
                Frame::Ack { total_messages } => total_messages,
                _ => continue,
            };
            while self.acked < until {
                let keys = self.sent.pop_front();
                let keys = keys.ok_or("more was acknowledged than was sent")?;
                self.acked += keys.len() as u64;
                for key in keys {
                    out.books.deliveries.acknowledged(key)?;
                }
            }
        }
        self.heard.drain(..consumed_all);
        Ok(())
    }

    /// It is gone: what was not acknowledged may come again.
    fn lost(&self, out: &mut Outside) {
        for key in self.sent.iter().flatten() {
            out.books.deliveries.lost(*key);
        }
    }
}

/// What an answer means for a publisher (`client/placed/controller.rs`).
fn meaning(answer: Answer) -> Told {
    match answer {
        Answer::Publishers(views) => match views.first() {
            Some(PublisherView {
                broker: Some(broker),
                ..
            }) => Told::At(broker.tcp_address.clone()),
            Some(_) => Told::Unplaced,
            None => Told::Failed(String::from("the answer names no publisher")),
        },
        Answer::Refused(ControlError::NotFound(_)) => Told::Unknown,
        Answer::Refused(error @ (ControlError::Invalid(_) | ControlError::Conflict(_))) => {
            Told::Refused(error.to_string())
        }
        Answer::Refused(error) => Told::Failed(error.to_string()),
        other => Told::Failed(format!("{other:?} is not an answer")),
    }
}
