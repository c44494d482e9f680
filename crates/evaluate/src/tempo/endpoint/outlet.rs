//! Where a publisher's messages go: into Tempo's endpoint, or as bytes of another protocol into
//! connections.
//!
//! Tempo's endpoint gathers batches by itself. For the others all messages between two flushes are
//! written at once: in NSQ one MPUB or several PUBs, as configured, and in NATS several PUBs.

use std::io::Read;
use std::net::Ipv4Addr;
use std::time::Duration;

use client::tempo::{Node, NodeOptions, PublicationOptions, TopicPublisher};
use client::{Line, OutputBuffer};

use super::client_failed;
use crate::tempo::way::Way;
use bench::BenchError;
use bench::protocol::Protocol;
use bench::publishers::{connect, is_transient, unblock, write_some};
use bench::sys;

/// How long a publisher looks for its subscriber.
const FIND_TIMEOUT: Duration = Duration::from_secs(10);
/// Rest of a publisher whose connection takes nothing.
const FULL_REST: Duration = Duration::from_micros(50);
/// Time between announcements: short, so that a run is not spent waiting for them.
const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(200);

/// Takes messages of one topic.
pub enum Outlet {
    /// Tempo's endpoint, which lives as long as its publication.
    Tempo {
        /// The publication.
        publisher: TopicPublisher,
        /// Ends with it.
        _node: Box<Node>,
    },
    /// Connections that take turns.
    Stream(Box<StreamOutlet>),
}

/// Connections to a broker that speaks NSQ or NATS.
pub struct StreamOutlet {
    protocol: Protocol,
    topic: String,
    connections: Vec<Connection>,
    next: usize,
    /// In NSQ: one MPUB instead of several PUBs.
    is_mpub: bool,
    /// Bodies that wait for the flush, back to back.
    bodies: Vec<u8>,
    body_bytes: usize,
    command: Vec<u8>,
    scratch: Vec<u8>,
}

struct Connection {
    stream: Line,
    /// Start of an answer whose end has not arrived.
    partial: Vec<u8>,
}

/// The options of an endpoint of a measurement.
///
/// # Errors
/// When `way` is none of Tempo's.
pub fn node_options(way: Way, threads: usize) -> Result<NodeOptions, BenchError> {
    let channel = way
        .channel()
        .ok_or_else(|| BenchError::Options("the way is not one of Tempo's".to_owned()))?;
    Ok(NodeOptions {
        channel,
        interface: Ipv4Addr::LOCALHOST,
        threads,
        announce_interval: ANNOUNCE_INTERVAL,
        ..NodeOptions::default()
    })
}

impl Outlet {
    /// Connects. In Tempo it waits until a subscriber is found.
    ///
    /// # Errors
    /// When nobody is there or the broker refuses.
    pub fn open(
        way: Way,
        topic: &str,
        body_bytes: usize,
        connections: usize,
        is_mpub: bool,
    ) -> Result<Self, BenchError> {
        let Some((address, protocol)) = way.protocol(topic) else {
            let node = Node::start(node_options(way, 1)?).map_err(client_failed)?;
            let publisher = node
                .publisher(topic, PublicationOptions::default())
                .map_err(client_failed)?;
            if !publisher.wait_for_subscriber(FIND_TIMEOUT) {
                let text = format!("no subscriber found within {} s", FIND_TIMEOUT.as_secs());
                return Err(BenchError::protocol("tempo", text));
            }
            let _node = Box::new(node);
            return Ok(Self::Tempo { publisher, _node });
        };
        let open = |_| {
            let mut stream = connect(address, None, OutputBuffer::default())?;
            protocol.greet_as_publisher(&mut stream, 0)?;
            unblock(&stream)?;
            let partial = Vec::new();
            Ok(Connection { stream, partial })
        };
        let connections = (0..connections.max(1)).map(open);
        Ok(Self::Stream(Box::new(StreamOutlet {
            connections: connections.collect::<Result<_, BenchError>>()?,
            topic: topic.to_owned(),
            next: 0,
            is_mpub,
            bodies: Vec::new(),
            body_bytes: body_bytes.max(1),
            command: Vec::new(),
            scratch: vec![0; 64 << 10],
            protocol,
        })))
    }

    /// Takes one message; in Tempo it waits while the publication's queue is full.
    ///
    /// # Errors
    /// When the publication has ended.
    #[inline]
    pub fn put(&mut self, body: &[u8]) -> Result<(), BenchError> {
        match self {
            Self::Tempo { publisher, .. } => publisher.publish(body).map_err(client_failed),
            Self::Stream(stream) => {
                stream.bodies.extend_from_slice(body);
                Ok(())
            }
        }
    }

    /// Writes what was put, until the system has taken it or `deadline_ns` has passed; says whether it was taken.
    ///
    /// # Errors
    /// When the broker closed the connection or answered with an error.
    pub fn flush(&mut self, deadline_ns: u64) -> Result<bool, BenchError> {
        match self {
            Self::Tempo { .. } => Ok(true),
            Self::Stream(stream) => stream.flush(deadline_ns),
        }
    }
}

impl StreamOutlet {
    fn flush(&mut self, deadline_ns: u64) -> Result<bool, BenchError> {
        self.command.clear();
        let bodies: Vec<&[u8]> = self.bodies.chunks(self.body_bytes).collect();
        if bodies.is_empty() {
            return Ok(true);
        }
        put_publish(
            &mut self.command,
            &self.protocol,
            &self.topic,
            &bodies,
            self.is_mpub,
        );
        self.bodies.clear();
        self.next = (self.next + 1) % self.connections.len();
        let mut written = 0;
        loop {
            let connection = &mut self.connections[self.next];
            written += write_some(&mut connection.stream, &self.command[written..])?;
            connection.read_replies(&self.protocol, &mut self.scratch)?;
            if written == self.command.len() {
                return Ok(true);
            }
            if sys::monotonic_ns() > deadline_ns {
                return Ok(false);
            }
            sys::pause_for(FULL_REST);
        }
    }
}

impl Connection {
    /// Reads answers, so that the broker is not held up by them and errors are seen.
    fn read_replies(&mut self, protocol: &Protocol, scratch: &mut [u8]) -> Result<(), BenchError> {
        let read = match self.stream.read(scratch) {
            Ok(0) => {
                let text = "the broker closed the publisher's connection";
                return Err(BenchError::protocol("connection", text));
            }
            Ok(read) => read,
            Err(error) if is_transient(error.kind()) => return Ok(()),
            Err(error) => return Err(BenchError::io("read answers")(error)),
        };
        self.partial.extend_from_slice(&scratch[..read]);
        let mut answers = Vec::new();
        let replies = protocol.read_replies(&self.partial, &mut answers)?;
        self.partial.drain(..replies.consumed);
        if !answers.is_empty() {
            // Heartbeats are few and short; one that finds no room is answered next time.
            let _taken = write_some(&mut self.stream, &answers)?;
        }
        Ok(())
    }
}

/// The bytes that publish `bodies` at once.
fn put_publish(
    out: &mut Vec<u8>,
    protocol: &Protocol,
    topic: &str,
    bodies: &[&[u8]],
    is_mpub: bool,
) {
    let is_nsq = matches!(protocol, Protocol::Nsq(_));
    if is_nsq && is_mpub {
        return wire::command::put_mpub(out, topic, bodies);
    }
    for body in bodies {
        if is_nsq {
            wire::command::put_pub(out, topic, body);
            continue;
        }
        out.extend_from_slice(format!("PUB {topic} {}\r\n", body.len()).as_bytes());
        out.extend_from_slice(body);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_together_is_written_together() {
        let address = "127.0.0.1:9".parse().expect("an address");
        let mpub = b"MPUB t\n\0\0\0\x0e\0\0\0\x02\0\0\0\x01a\0\0\0\x01b";
        for (way, is_mpub, expected) in [
            (Way::Nsq(address), true, &mpub[..]),
            (
                Way::Nsq(address),
                false,
                b"PUB t\n\0\0\0\x01aPUB t\n\0\0\0\x01b",
            ),
            (
                Way::Nats(address),
                true,
                b"PUB t 1\r\na\r\nPUB t 1\r\nb\r\n",
            ),
        ] {
            let (_, protocol) = way.protocol("t").expect("not Tempo");
            let mut out = Vec::new();
            put_publish(&mut out, &protocol, "t", &[b"a", b"b"], is_mpub);
            assert_eq!(out, expected, "{way:?}");
        }
    }
}
