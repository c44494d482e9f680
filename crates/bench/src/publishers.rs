//! The publishing side: thousands of connections that one thread writes to when the schedule says so.
//!
//! Nothing waits for an answer. Answers are read after every few sends on the same connection, in one go, since a
//! pipelining client needs them only to learn of errors; so a connection costs nothing between its sends. A
//! connection that takes no more bytes keeps what is left, up to a bound, and is tried again.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use client::{Line, OutputBuffer, Trust};

use crate::error::BenchError;
use crate::generator::Target;
use crate::load::Load;
use crate::protocol::{Batch, Protocol, Template};
use crate::stamp::Stamp;

/// Sends on a connection between two reads of its answers.
const SENDS_PER_READ: u32 = 16;
/// How long a broker may take to accept a connection, and to shake hands.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes that a blocked connection may keep; beyond them messages are refused.
const MAX_UNSENT_BYTES: usize = 256 << 10;

/// All publisher connections of a run.
#[derive(Debug)]
pub struct Publishers {
    protocol: Protocol,
    /// By class.
    templates: Vec<Template>,
    /// The class of each publisher.
    classes: Vec<u16>,
    connections: Vec<Connection>,
    /// Indices of connections with unsent bytes.
    blocked: Vec<u32>,
    scratch: Vec<u8>,
    answers: Vec<u8>,
    /// Times that the kernel took less than a whole batch.
    stalls: u64,
}

#[derive(Debug)]
struct Connection {
    stream: Line,
    unsent: Vec<u8>,
    /// Start of an answer whose end has not arrived.
    partial: Vec<u8>,
    sends_since_read: u32,
}

impl Publishers {
    /// Connects and greets all publishers of `load`, within TLS where the target is trusted.
    ///
    /// # Errors
    /// When a connection or its greeting fails.
    pub fn connect(target: &Target, load: &Load) -> Result<Self, BenchError> {
        let protocol = &target.protocol;
        let connections = (0..load.spec.publisher_count())
            .map(|publisher| Connection::open(target, publisher))
            .collect::<Result<_, _>>()?;
        let (mut templates, mut classes) = (Vec::new(), Vec::new());
        for (number, class) in (0..).zip(&load.spec.publishers) {
            templates.push(protocol.template(&Batch {
                messages: u32::from(class.batch_messages),
                body_bytes: class.body_bytes as usize,
                mpub: load.mpub,
            }));
            classes.extend((0..class.count).map(|_| number));
        }
        Ok(Self {
            protocol: protocol.clone(),
            templates,
            classes,
            connections,
            blocked: Vec::new(),
            scratch: vec![0; 64 << 10],
            answers: Vec::new(),
            stalls: 0,
        })
    }

    /// Times that the kernel took less than a whole batch.
    pub fn stalls(&self) -> u64 {
        self.stalls
    }

    /// Sends one batch; `first` is the stamp of its first message. Returns false when the batch was refused because
    /// the connection has been blocked for long.
    ///
    /// # Errors
    /// When the broker closed the connection or answered with an error.
    #[inline]
    pub fn send(&mut self, first: Stamp) -> Result<bool, BenchError> {
        let connection = &mut self.connections[first.publisher as usize];
        let class = self.classes[first.publisher as usize];
        let bytes = self.templates[usize::from(class)].stamp(first);
        if !connection.is_free() {
            if connection.unsent.len() + bytes.len() > MAX_UNSENT_BYTES {
                return Ok(false);
            }
            connection.unsent.extend_from_slice(bytes);
            return Ok(true);
        }
        let written = write_some(&mut connection.stream, bytes)?;
        if written < bytes.len() || connection.stream.has_unwritten() {
            connection.unsent.extend_from_slice(&bytes[written..]);
            self.blocked.push(first.publisher);
            self.stalls += 1;
        }
        connection.sends_since_read += 1;
        if connection.sends_since_read >= SENDS_PER_READ {
            self.read_replies(first.publisher)?;
        }
        Ok(true)
    }

    /// Tries the blocked connections again; their answers are read too, since a broker may wait for that.
    ///
    /// # Errors
    /// As [`Publishers::send`].
    pub fn retry_blocked(&mut self) -> Result<(), BenchError> {
        let mut index = 0;
        while let Some(&publisher) = self.blocked.get(index) {
            self.read_replies(publisher)?;
            let connection = &mut self.connections[publisher as usize];
            let written = write_some(&mut connection.stream, &connection.unsent)?;
            connection.unsent.drain(..written);
            if connection.is_free() {
                self.blocked.swap_remove(index);
            } else {
                index += 1;
            }
        }
        Ok(())
    }

    /// Whether any connection has unsent bytes.
    pub fn has_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Reads what every connection was answered: at the end of a run, to learn of late errors.
    ///
    /// # Errors
    /// When the broker closed a connection or answered with an error.
    pub fn read_all_replies(&mut self) -> Result<(), BenchError> {
        (0..self.connections.len()).try_for_each(|publisher| self.read_replies(publisher as u32))
    }

    fn read_replies(&mut self, publisher: u32) -> Result<(), BenchError> {
        let connection = &mut self.connections[publisher as usize];
        connection.sends_since_read = 0;
        let read = match connection.stream.read(&mut self.scratch) {
            Ok(0) => return Err(closed(publisher)),
            Ok(read) => read,
            Err(error) if is_transient(error.kind()) => return Ok(()),
            Err(error) => {
                return Err(BenchError::io(format!("read from publisher {publisher}"))(
                    error,
                ));
            }
        };
        let mut bytes = &self.scratch[..read];
        if !connection.partial.is_empty() {
            connection.partial.extend_from_slice(bytes);
            bytes = &connection.partial;
        }
        let replies = self.protocol.read_replies(bytes, &mut self.answers)?;
        let partial = bytes[replies.consumed..].to_vec();
        connection.partial = partial;
        if !self.answers.is_empty() {
            connection
                .stream
                .write_all(&self.answers)
                .map_err(BenchError::io("answer a heartbeat"))?;
            self.answers.clear();
        }
        Ok(())
    }
}

impl Connection {
    fn open(target: &Target, publisher: u32) -> Result<Self, BenchError> {
        let mut stream = connect(
            target.address,
            target.trust.as_ref(),
            OutputBuffer::default(),
        )?;
        target.protocol.greet_as_publisher(&mut stream, publisher)?;
        unblock(&stream)?;
        Ok(Self {
            stream,
            unsent: Vec::new(),
            partial: Vec::new(),
            sends_since_read: 0,
        })
    }

    /// Whether the kernel has all that was to be sent.
    fn is_free(&self) -> bool {
        self.unsent.is_empty() && !self.stream.has_unwritten()
    }
}

/// A blocking connection without Nagle's delay, within TLS where there is trust. Brokers that speak TLS are told of `buffer`.
///
/// # Errors
/// When the broker does not accept it.
pub fn connect(
    address: SocketAddr,
    trust: Option<&Trust>,
    buffer: OutputBuffer,
) -> Result<Line, BenchError> {
    let line = Line::open(&address.to_string(), trust, buffer, CONNECT_TIMEOUT);
    line.map_err(|error| BenchError::protocol("connection", format!("{address}: {error}")))
}

/// Lets reads and writes of a connection wait no more.
///
/// # Errors
/// When the system refuses.
pub fn unblock(line: &Line) -> Result<(), BenchError> {
    let unblocked = line.unblock();
    unblocked.map_err(BenchError::io("make a connection non-blocking"))
}

/// Writes what the kernel takes now.
pub fn write_some(stream: &mut impl Write, bytes: &[u8]) -> Result<usize, BenchError> {
    match stream.write(bytes) {
        Ok(written) => Ok(written),
        Err(error) if is_transient(error.kind()) => Ok(0),
        Err(error) => Err(BenchError::io("write to the broker")(error)),
    }
}

/// Whether a failed read or write is worth another try.
pub fn is_transient(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn closed(publisher: u32) -> BenchError {
    BenchError::protocol(
        "connection",
        format!("the broker closed the connection of publisher {publisher}"),
    )
}
