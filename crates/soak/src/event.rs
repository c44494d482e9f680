//! Participants, the messages between them, and events.

use std::fmt;

use api::view::{PublisherSpec, PublisherView, TopicSpec};
use bytes::Bytes;
use control::core::{FitAnswer, Probe, ProbeAnswer};
use control::handle::Holdings;
use link::{Order, ToController, TopicChange};
use topics::{NotTaken, QueueName};

use crate::faults::Fault;

/// A process, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// The controller.
    Controller,
    /// The broker in this place.
    Broker(usize),
    /// A publisher.
    Publisher(usize),
    /// A consumer.
    Consumer(usize),
    /// The operator, who declares topics and drains brokers.
    Operator,
}

/// A TCP connection, or the attempt to make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// An end of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// Who dialled.
    Dialler,
    /// Who listened.
    Listener,
}

impl End {
    /// The end opposite.
    #[must_use]
    pub fn other(self) -> End {
        match self {
            End::Dialler => End::Listener,
            End::Listener => End::Dialler,
        }
    }
}

/// Where one dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// The controller's link.
    Link,
    /// A broker's NSQ port.
    Nsq,
    /// HTTP, of controller or broker.
    Http,
}

/// What travels on a stream.
#[derive(Debug)]
pub enum Packet {
    /// The listener's kernel has accepted.
    Established,
    /// The other end has closed, or its process has ended.
    Fin,
    /// NSQ, either way.
    Bytes(Vec<u8>),
    /// A message on a link, as bytes of a sealed frame's content.
    Frame(Vec<u8>),
    /// A message of a broker.
    ToController(Box<ToController>),
    /// An order of the controller.
    Order(Box<Order>),
    /// A question or an order over HTTP.
    Ask(Box<Ask>),
    /// The answer to it.
    Answer(Box<Answer>),
}

/// A question over HTTP.
#[derive(Clone, Debug)]
pub enum Ask {
    /// `PUT /v1/topics/{t}`.
    PutTopic(String, TopicSpec),
    /// `POST /v1/topics/{t}/publishers`.
    Register(String, PublisherSpec),
    /// `GET /v1/topics/{t}/publishers/{id}?avoid=…`.
    Place(String, String, Option<String>),
    /// What consumers look up.
    Holdings,
    /// Channels and topics, by the operator.
    Change(String, TopicChange),
    /// Drain a broker, or (`false`) end that.
    Drain(String, bool),
    /// `DELETE /v1/brokers/{b}`: it is dead for certain.
    Remove(String),
    /// `POST /v1/handover` at a broker: pass, queue, batch.
    HandOver(Option<String>, QueueName, Bytes),
}

/// An answer over HTTP.
#[derive(Clone, Debug)]
pub enum Answer {
    /// One publisher, or all.
    Publishers(Vec<PublisherView>),
    /// Who has what.
    Holdings(Box<Holdings>),
    /// It is done.
    Done,
    /// The control plane refuses.
    Refused(control::ControlError),
    /// A batch was taken, or why not.
    TakenOver(Result<(), NotTaken>),
    /// A broker does not believe that it is asked by one of its own.
    Stranger,
}

/// What happens.
pub enum Event {
    /// A dial reaches the listener.
    Dialled(StreamId),
    /// The next packet reaches an end.
    Arrives(StreamId, End),
    /// An end's kernel gives up, or is refused.
    Broken(StreamId, End),
    /// Data that has stalled on its way to an end since that number of stalls is given up.
    StallOver(StreamId, End, u64),
    /// A process's time has come: the process's life.
    Wake(Actor, u64),
    /// The controller's loop goes on with what takes long.
    Part(u64),
    /// The disk has done what the controller's process told it.
    Written(u64),
    /// A probe reaches the address that is asked.
    Probe(u64, Probe),
    /// Its answer reaches the controller.
    Probed(u64, Probe, ProbeAnswer),
    /// A fit was computed.
    Fitted(u64, Box<FitAnswer>),
    /// A datagram of one broker reaches another.
    Datagram(usize, usize, Vec<u8>),
    /// A fault begins or ends.
    Fault(Fault),
    /// What has this number on the world's own list is due.
    Due(usize),
    /// Something is looked at from outside.
    Look,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Dialled(stream) => write!(f, "dialled {}", stream.0),
            Event::Arrives(stream, end) => write!(f, "arrives {} {end:?}", stream.0),
            Event::Broken(stream, end) => write!(f, "broken {} {end:?}", stream.0),
            Event::StallOver(stream, end, _) => write!(f, "stall over {} {end:?}", stream.0),
            Event::Wake(actor, _) => write!(f, "wake {actor:?}"),
            Event::Part(_) => f.write_str("part"),
            Event::Written(_) => f.write_str("written"),
            Event::Probe(_, probe) => write!(f, "probe {}", probe.address),
            Event::Probed(_, probe, answer) => write!(f, "probed {} {answer:?}", probe.address),
            Event::Fitted(..) => f.write_str("fitted"),
            Event::Datagram(from, to, bytes) => {
                write!(f, "datagram {from} {to} of {} bytes", bytes.len())
            }
            Event::Fault(fault) => write!(f, "fault {fault:?}"),
            Event::Due(number) => write!(f, "due {number}"),
            Event::Look => f.write_str("look"),
        }
    }
}
