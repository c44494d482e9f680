//! A consumer's process: looks up who has its topic, subscribes there, and treats messages well and
//! badly. All of it is simulated.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clock::Instant;
use wire::identify::Identify;
use wire::{Frame, FrameDecoded, MessageId, command};

use crate::broker::place_of;
use crate::event::{Actor, Answer, Ask, Event, Packet, Port, StreamId};
use crate::outside::Outside;

/// Between two questions who has the topic.
const LOOKUP_INTERVAL: Duration = Duration::from_millis(1500);
/// A broker that says nothing for so long is left.
const SILENCE_MAX: Duration = Duration::from_secs(4);
/// Time that its messages may be in flight.
pub const MSG_TIMEOUT: Duration = Duration::from_secs(2);

/// One consumer.
pub struct Consumer {
    me: Actor,
    topic: String,
    channel: String,
    /// Part of messages that are not simply finished.
    badness: f64,
    connections: BTreeMap<StreamId, Connection>,
    lookup: Option<StreamId>,
    lookup_at: Instant,
    deeds: BTreeMap<(Instant, u64), (StreamId, Deed)>,
    deeds_noted: u64,
    wake_at: Instant,
}

struct Connection {
    place: usize,
    is_connected: bool,
    heard: Vec<u8>,
    heard_at: Instant,
}

/// Its treatment of a message.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Finish(MessageId),
    Requeue(MessageId, u64),
    Touch(MessageId),
    Leave,
}

impl Consumer {
    /// One that begins at once.
    #[must_use]
    pub fn new(
        number: usize,
        topic: &str,
        channel: &str,
        badness: f64,
        out: &mut Outside,
    ) -> Consumer {
        let me = Actor::Consumer(number);
        out.net.begins(me, 1);
        let lookup_at = out.net.now + out.chance.span_ms(0, 300);
        out.net.agenda.note(lookup_at, Event::Wake(me, 1));
        Consumer {
            me,
            topic: topic.to_owned(),
            channel: channel.to_owned(),
            badness,
            connections: BTreeMap::new(),
            lookup: None,
            lookup_at,
            deeds: BTreeMap::new(),
            deeds_noted: 0,
            wake_at: lookup_at,
        }
    }

    /// It behaves from now on.
    pub fn behave(&mut self) {
        self.badness = 0.0;
    }

    /// Its time has come.
    pub fn wake(&mut self, out: &mut Outside) {
        let now = out.net.now;
        if now < self.wake_at {
            return;
        }
        self.wake_at = Instant::MAX;
        if self.lookup_at <= now {
            if let Some(former) = self.lookup.take() {
                out.net.close(former, self.me);
            }
            self.lookup = Some(out.net.dial(self.me, Actor::Controller, Port::Http));
            self.lookup_at = now + LOOKUP_INTERVAL;
        }
        let silent: Vec<StreamId> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.heard_at + SILENCE_MAX <= now)
            .map(|(&stream, _)| stream)
            .collect();
        for stream in silent {
            self.leave(stream, out);
        }
        while let Some(entry) = self.deeds.first_entry().filter(|deed| deed.key().0 <= now) {
            let (stream, deed) = entry.remove();
            self.perform(stream, deed, out);
        }
        self.wake_in_time(out);
    }

    /// Something arrives.
    pub fn arrives(&mut self, stream: StreamId, packet: Packet, out: &mut Outside) {
        let now = out.net.now;
        match packet {
            Packet::Established if self.lookup == Some(stream) => {
                let ask = Packet::Ask(Box::new(Ask::Holdings));
                out.net.send(stream, self.me, ask);
            }
            Packet::Established => self.greet(stream, out),
            Packet::Answer(answer) if self.lookup == Some(stream) => {
                self.lookup = None;
                out.net.close(stream, self.me);
                if let Answer::Holdings(holdings) = *answer {
                    self.follow(&holdings, out);
                }
            }
            Packet::Bytes(bytes) => {
                if let Some(connection) = self.connections.get_mut(&stream) {
                    connection.heard.extend(bytes);
                    connection.heard_at = now;
                    self.hear(stream, out);
                }
            }
            _ => {}
        }
        self.wake_in_time(out);
    }

    /// A stream is gone.
    pub fn gone(&mut self, stream: StreamId, out: &mut Outside) {
        self.connections.remove(&stream);
        if self.lookup == Some(stream) {
            self.lookup = None;
        }
        self.wake_in_time(out);
    }

    fn follow(&mut self, holdings: &control::handle::Holdings, out: &mut Outside) {
        let here: BTreeSet<usize> = self.connections.values().map(|each| each.place).collect();
        for broker in &holdings.brokers {
            let has = |topic: &wire::TopicName| topic.as_str() == self.topic;
            let is_meant = broker.topics.keys().any(has) || broker.placed.iter().any(has);
            let place = place_of(&broker.tcp_address);
            let Some(place) = place.filter(|place| is_meant && !here.contains(place)) else {
                continue;
            };
            let stream = out.net.dial(self.me, Actor::Broker(place), Port::Nsq);
            let connection = Connection {
                place,
                is_connected: false,
                heard: Vec::new(),
                heard_at: out.net.now,
            };
            self.connections.insert(stream, connection);
        }
    }

    fn greet(&mut self, stream: StreamId, out: &mut Outside) {
        let Some(connection) = self.connections.get_mut(&stream) else {
            return;
        };
        connection.is_connected = true;
        connection.heard_at = out.net.now;
        let identify = Identify {
            heartbeat_interval: 1000,
            msg_timeout: MSG_TIMEOUT.as_millis() as i64,
            ..Identify::default()
        };
        let mut bytes = wire::MAGIC_V2.to_vec();
        command::put_identify(&mut bytes, &identify.to_json());
        command::put_sub(&mut bytes, &self.topic, &self.channel);
        command::put_rdy(&mut bytes, 5 + out.chance.below(20) as u32);
        out.net.send(stream, self.me, Packet::Bytes(bytes));
    }

    fn hear(&mut self, stream: StreamId, out: &mut Outside) {
        let Some(connection) = self.connections.get_mut(&stream) else {
            return;
        };
        let heard = std::mem::take(&mut connection.heard);
        let mut begin = 0;
        while let Ok(FrameDecoded::Complete { frame, consumed }) =
            wire::decode_frame(&heard[begin..], 1 << 20)
        {
            begin += consumed;
            if let Frame::Message { id, .. } = frame {
                self.decide(stream, id, out);
            }
        }
        if let Some(connection) = self.connections.get_mut(&stream) {
            connection.heard = heard[begin..].to_vec();
        }
    }

    /// Decides the treatment of a message.
    fn decide(&mut self, stream: StreamId, id: MessageId, out: &mut Outside) {
        let chance = &mut out.chance;
        let soon = chance.span_ms(0, 20);
        if !chance.happens(self.badness) {
            return self.later(soon, stream, Deed::Finish(id), out);
        }
        let late = MSG_TIMEOUT + out.chance.span_ms(0, 500);
        match out.chance.below(6) {
            0 => self.later(soon, stream, Deed::Requeue(id, 0), out),
            1 => self.later(soon, stream, Deed::Requeue(id, 700), out),
            // Too late: it has timed out.
            2 => self.later(late, stream, Deed::Finish(id), out),
            3 => {
                self.later(MSG_TIMEOUT / 2, stream, Deed::Touch(id), out);
                self.later(late, stream, Deed::Finish(id), out);
            }
            4 if out.chance.happens(0.1) => self.later(soon, stream, Deed::Leave, out),
            // Forgotten.
            _ => {}
        }
    }

    fn later(&mut self, span: Duration, stream: StreamId, deed: Deed, out: &mut Outside) {
        self.deeds_noted += 1;
        let at = out.net.now + span;
        self.deeds.insert((at, self.deeds_noted), (stream, deed));
    }

    fn perform(&mut self, stream: StreamId, deed: Deed, out: &mut Outside) {
        if !self.connections.contains_key(&stream) {
            return;
        }
        let mut bytes = Vec::new();
        match deed {
            Deed::Finish(id) => command::put_fin(&mut bytes, id),
            Deed::Requeue(id, delay_ms) => command::put_req(&mut bytes, id, delay_ms),
            Deed::Touch(id) => command::put_touch(&mut bytes, id),
            Deed::Leave => return self.leave(stream, out),
        }
        out.net.send(stream, self.me, Packet::Bytes(bytes));
    }

    fn leave(&mut self, stream: StreamId, out: &mut Outside) {
        if self.connections.remove(&stream).is_some() {
            out.net.close(stream, self.me);
        }
    }

    fn wake_in_time(&mut self, out: &mut Outside) {
        let deed = self.deeds.keys().next().map(|key| key.0);
        let silence = self.connections.values();
        let silence = silence
            .map(|connection| connection.heard_at + SILENCE_MAX)
            .min();
        let next = deed
            .into_iter()
            .chain(silence)
            .chain([self.lookup_at])
            .min();
        if let Some(next) = next
            .map(|at| at.max(out.net.now))
            .filter(|&at| at < self.wake_at)
        {
            self.wake_at = next;
            out.net.agenda.note(next, Event::Wake(self.me, 1));
        }
    }
}
