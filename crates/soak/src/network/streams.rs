//! Streams: two lanes each, in order, nothing twice.

use std::collections::VecDeque;

use clock::Instant;

use super::{DIAL_AGAIN, Network, PATIENCE};
use crate::event::{Actor, End, Event, Packet, Port, StreamId};

/// Repetitions of a dial before a kernel gives up.
const DIALS_MAX: u32 = 8;

/// A connection or the attempt at one.
#[derive(Debug)]
pub(super) struct Stream {
    ends: [Actor; 2],
    lives: [u64; 2],
    port: Port,
    /// Data on its way to each end.
    lanes: [Lane; 2],
    is_made: bool,
    /// This end has closed; it hears nothing more.
    closed: [bool; 2],
    dials: u32,
}

/// Data on its way to one end.
#[derive(Debug, Default)]
pub(super) struct Lane {
    packets: VecDeque<Packet>,
    last_at: Instant,
    /// Arrivals that found the route cut.
    stalled: usize,
    stalls: u64,
}

/// What an event of a stream means for a process.
#[derive(Debug)]
pub enum Delivery {
    /// Nothing.
    Nothing,
    /// Somebody dialled and is connected.
    Accepted(Actor, StreamId, Port),
    /// It arrives.
    Packet(Actor, StreamId, Packet),
    /// The stream is gone.
    Gone(Actor, StreamId),
}

impl Stream {
    pub(super) fn actor(&self, end: End) -> Actor {
        self.ends[end as usize]
    }

    pub(super) fn lane(&mut self, end: End) -> &mut Lane {
        &mut self.lanes[end as usize]
    }
}

impl Lane {
    /// The route is mended: this many arrivals are due again.
    pub(super) fn unstall(&mut self) -> usize {
        self.stalls += 1;
        std::mem::take(&mut self.stalled)
    }
}

impl Network {
    /// Dials; the answer comes as [`Packet::Established`] or [`Delivery::Gone`].
    pub fn dial(&mut self, from: Actor, to: Actor, port: Port) -> StreamId {
        self.dialled += 1;
        let id = StreamId(self.dialled);
        let life = self.life(from).unwrap_or_default();
        let stream = Stream {
            ends: [from, to],
            lives: [life, 0],
            port,
            lanes: [Lane::default(), Lane::default()],
            is_made: false,
            closed: [false; 2],
            dials: 0,
        };
        self.streams.insert(id, stream);
        let way = self.way();
        self.after(way, Event::Dialled(id));
        id
    }

    /// Sends from the end that `from` has. Nothing becomes of it where the stream is gone.
    pub fn send(&mut self, id: StreamId, from: Actor, packet: Packet) {
        let Some(stream) = self.streams.get(&id) else {
            return;
        };
        let end = match stream.ends[0] == from {
            true => End::Listener,
            false => End::Dialler,
        };
        if stream.closed[end.other() as usize] {
            return;
        }
        let is_answer = self.answers_lost > 0.0 && matches!(packet, Packet::Answer(_));
        if is_answer && self.chance.happens(self.answers_lost) {
            return self.reset(id);
        }
        self.put(id, end, packet);
    }

    /// Closes the end that `by` has: it hears nothing more, the other what was sent to it.
    pub fn close(&mut self, id: StreamId, by: Actor) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let end = match stream.ends[0] == by {
            true => End::Dialler,
            false => End::Listener,
        };
        stream.closed[end as usize] = true;
        match stream.is_made {
            true => self.put(id, end.other(), Packet::Fin),
            false => drop(self.streams.remove(&id)),
        }
    }

    /// Loses what is under way on a stream; both ends hear that it is gone.
    pub fn reset(&mut self, id: StreamId) {
        for end in [End::Dialler, End::Listener] {
            let way = self.way();
            self.after(way, Event::Broken(id, end));
        }
    }

    /// What an event of a stream is about, for people.
    #[must_use]
    pub fn tell(&self, event: &Event) -> String {
        let (Event::Dialled(id)
        | Event::Arrives(id, _)
        | Event::Broken(id, _)
        | Event::StallOver(id, ..)) = event
        else {
            return String::new();
        };
        let Some(stream) = self.streams.get(id) else {
            return String::from("(gone)");
        };
        let packet = match event {
            Event::Arrives(_, end) => stream.lanes[*end as usize].packets.front(),
            _ => None,
        };
        let [from, to] = stream.ends;
        format!("{from:?} -> {to:?} {:?} {packet:?}", stream.port)
    }

    /// The actor at an end.
    #[must_use]
    pub fn actor(&self, id: StreamId, end: End) -> Option<Actor> {
        self.streams.get(&id).map(|stream| stream.actor(end))
    }

    /// Streams that are made, in order.
    #[must_use]
    pub fn made(&self) -> Vec<StreamId> {
        let made = self.streams.iter().filter(|(_, stream)| stream.is_made);
        made.map(|(&id, _)| id).collect()
    }

    /// A process has ended. Its host says so to others unless it went dark.
    pub fn ends(&mut self, actor: Actor) {
        self.running.remove(&actor);
        let is_dark = self.is_dark(actor.host());
        let ids: Vec<StreamId> = self.streams.keys().copied().collect();
        for id in ids {
            let Some(stream) = self.streams.get_mut(&id) else {
                continue;
            };
            for end in [End::Dialler, End::Listener] {
                if stream.actor(end) != actor {
                    continue;
                }
                if end == End::Listener && !stream.is_made {
                    // A dial that is still on its way is refused when it comes.
                    continue;
                }
                stream.closed[end as usize] = true;
                match (is_dark, stream.is_made) {
                    (_, false) => drop(self.streams.remove(&id)),
                    (true, true) => self.after(PATIENCE, Event::Broken(id, end.other())),
                    (false, true) => self.put(id, end.other(), Packet::Fin),
                }
                break;
            }
        }
    }

    /// A dial reaches its host.
    pub fn dialled(&mut self, id: StreamId) -> Delivery {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Delivery::Nothing;
        };
        let ([from, to], port) = (stream.ends, stream.port);
        stream.dials += 1;
        let dials = stream.dials;
        if !self.is_open(from.host(), to.host()) {
            match dials < DIALS_MAX {
                true => self.after(DIAL_AGAIN, Event::Dialled(id)),
                false => self.after(DIAL_AGAIN, Event::Broken(id, End::Dialler)),
            }
            return Delivery::Nothing;
        }
        let Some(life) = self.life(to) else {
            let way = self.way();
            self.after(way, Event::Broken(id, End::Dialler));
            return Delivery::Nothing;
        };
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.lives[1] = life;
            stream.is_made = true;
        }
        self.put(id, End::Dialler, Packet::Established);
        Delivery::Accepted(to, id, port)
    }

    /// The next packet reaches an end.
    pub fn arrives(&mut self, id: StreamId, end: End) -> Delivery {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Delivery::Nothing;
        };
        let (to, from) = (stream.actor(end), stream.actor(end.other()));
        if self.cut.contains(&(from.host(), to.host())) || self.dark.contains(&to.host()) {
            let lane = stream.lane(end);
            lane.stalled += 1;
            let stalls = lane.stalls;
            if lane.stalled == 1 {
                self.after(PATIENCE, Event::StallOver(id, end, stalls));
            }
            return Delivery::Nothing;
        }
        let Some(packet) = stream.lane(end).packets.pop_front() else {
            return Delivery::Nothing;
        };
        let is_deaf = stream.closed[end as usize] || self.is_outlived(id, end);
        match packet {
            Packet::Fin => {
                self.streams.remove(&id);
                match is_deaf {
                    true => Delivery::Nothing,
                    false => Delivery::Gone(to, id),
                }
            }
            _ if is_deaf => Delivery::Nothing,
            packet => Delivery::Packet(to, id, packet),
        }
    }

    /// An end's kernel has given the stream up.
    pub fn broken(&mut self, id: StreamId, end: End) -> Delivery {
        let is_outlived = self.is_outlived(id, end);
        let Some(stream) = self.streams.get_mut(&id) else {
            return Delivery::Nothing;
        };
        let (actor, was_closed) = (stream.actor(end), stream.closed[end as usize]);
        stream.closed[end as usize] = true;
        // What is under way is lost.
        stream.lanes[0].packets.clear();
        stream.lanes[1].packets.clear();
        if !stream.is_made || stream.closed[end.other() as usize] {
            self.streams.remove(&id);
        }
        match was_closed || is_outlived {
            true => Delivery::Nothing,
            false => Delivery::Gone(actor, id),
        }
    }

    /// Data that has waited too long for a route breaks its stream.
    pub fn stall_over(&mut self, id: StreamId, end: End, stalls: u64) {
        let stream = self.streams.get_mut(&id);
        let lane = stream.map(|stream| stream.lane(end));
        if lane.is_some_and(|lane| lane.stalls == stalls && lane.stalled > 0) {
            self.reset(id);
        }
    }

    fn is_outlived(&self, id: StreamId, end: End) -> bool {
        let Some(stream) = self.streams.get(&id) else {
            return true;
        };
        self.life(stream.actor(end)) != Some(stream.lives[end as usize])
    }

    fn put(&mut self, id: StreamId, end: End, packet: Packet) {
        let at = self.now + self.way();
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let lane = stream.lane(end);
        lane.packets.push_back(packet);
        lane.last_at = lane.last_at.max(at);
        let at = lane.last_at;
        self.agenda.note(at, Event::Arrives(id, end));
    }
}
