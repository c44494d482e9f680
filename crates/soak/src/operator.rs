//! The operator, who declares topics, creates channels and drains brokers: one wish after the
//! other, each until it is granted or refused for good.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use clock::Instant;
use control::ControlError;
use link::TopicChange;

use crate::event::{Actor, Answer, Ask, Event, Packet, Port, StreamId};
use crate::laws::gossip::Gossiped;
use crate::laws::limits::Bound;
use crate::outside::Outside;

/// Before a wish is said again.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
const ME: Actor = Actor::Operator;

/// The operator.
#[derive(Default)]
pub struct Operator {
    wishes: VecDeque<Ask>,
    on: Option<StreamId>,
    again_at: Option<Instant>,
    /// Channels that it has made and not deleted since, by topic and name; a wish that is not granted yet counts.
    made: BTreeSet<(String, String)>,
}

impl Operator {
    /// Wishes something.
    pub fn wish(&mut self, ask: Ask, out: &mut Outside) {
        if let Ask::Change(topic, change) = &ask {
            match change {
                TopicChange::ChannelCreated { channel } => {
                    self.made.insert((topic.clone(), channel.clone()));
                }
                TopicChange::ChannelDeleted { channel } => {
                    self.made.remove(&(topic.clone(), channel.clone()));
                }
                _ => {}
            }
        }
        self.wishes.push_back(ask);
        self.go_on(out);
    }

    /// Whether a channel is to be there, by its last wish.
    #[must_use]
    pub fn wants(&self, topic: &str, channel: &str) -> bool {
        self.made.contains(&(topic.to_owned(), channel.to_owned()))
    }

    /// Whether nothing is wished any more.
    #[must_use]
    pub fn is_content(&self) -> bool {
        self.wishes.is_empty()
    }

    /// Its time has come.
    pub fn wake(&mut self, out: &mut Outside) {
        if self.again_at.is_some_and(|at| at <= out.net.now) {
            self.again_at = None;
            self.go_on(out);
        }
    }

    /// Something arrives.
    pub fn arrives(&mut self, stream: StreamId, packet: Packet, out: &mut Outside) {
        if self.on != Some(stream) {
            return;
        }
        match packet {
            Packet::Established => {
                let Some(wish) = self.wishes.front().cloned() else {
                    return;
                };
                if let Ask::PutTopic(topic, spec) = &wish
                    && let Some(limit) = &spec.contract.limit
                {
                    let bound = Bound {
                        rate: limit.rate.get(),
                        burst: limit.burst.get(),
                    };
                    if out.books.limits.declared(topic) != Some(bound) {
                        out.books.limits.declare(topic, bound, out.net.now);
                        let (now, policy) = (out.net.now, limit.sharing);
                        let heard_after = out.books.heard_after;
                        if limit.is_gossiped() {
                            let books = out.books.gossiped.entry(topic.clone());
                            let law = books
                                .or_insert_with(|| Gossiped::new(policy, bound, heard_after, now));
                            law.declare(bound, now);
                        }
                    }
                }
                out.net.send(stream, ME, Packet::Ask(Box::new(wish)));
            }
            Packet::Answer(answer) => {
                self.on = None;
                out.net.close(stream, ME);
                match (*answer, self.wishes.front()) {
                    (Answer::Refused(ControlError::Unavailable(_) | ControlError::NotKept(_)), _)
                    // Its link is there until its controller's host gives that up.
                    | (Answer::Refused(ControlError::Conflict(_)), Some(Ask::Remove(_))) => {
                        self.try_again(out);
                    }
                    (_, granted) => {
                        if let Some(Ask::PutTopic(topic, _)) = granted {
                            out.books.limits.granted(topic);
                        }
                        self.wishes.pop_front();
                        self.go_on(out);
                    }
                }
            }
            _ => {}
        }
    }

    /// A stream is gone: whether the wish was heard is not known.
    pub fn gone(&mut self, stream: StreamId, out: &mut Outside) {
        if self.on == Some(stream) {
            self.on = None;
            self.try_again(out);
        }
    }

    fn try_again(&mut self, out: &mut Outside) {
        self.again_at = Some(out.net.now + AGAIN_AFTER);
        out.net.after(AGAIN_AFTER, Event::Wake(ME, 1));
    }

    fn go_on(&mut self, out: &mut Outside) {
        if self.on.is_none() && self.again_at.is_none() && !self.wishes.is_empty() {
            self.on = Some(out.net.dial(ME, Actor::Controller, Port::Http));
        }
    }
}
