//! The receiving side: one connection, read in big pieces, acknowledged in batches.

use std::io::Read as _;
use std::net::SocketAddr;
use std::time::Duration;

use client::{Line, Trust};

use crate::error::BenchError;
use crate::protocol::{Delivery, Protocol};
use crate::publishers::{connect, is_transient, unblock, write_some};
use crate::sys;

const BUFFER_BYTES: usize = 256 << 10;
/// Messages after which acknowledgements are written.
const MESSAGES_PER_ANSWER: u64 = 64;
/// Time after which fewer are written as well.
const ANSWER_DELAY_NS: u64 = 1_000_000;
/// Unwritten acknowledgements above which reading pauses, so that the broker's own limits take effect.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// The subscriber's connection.
#[derive(Debug)]
pub struct Subscriber {
    protocol: Protocol,
    stream: Line,
    buffer: Vec<u8>,
    filled: usize,
    answers: Vec<u8>,
    unanswered: u64,
    unanswered_since_ns: u64,
    is_stamped: bool,
    arrived_ns: Option<u64>,
}

impl Subscriber {
    /// Connects, within TLS where there is `trust`, and subscribes.
    ///
    /// # Errors
    /// When the connection or the greeting fails.
    pub fn connect(
        address: SocketAddr,
        protocol: &Protocol,
        trust: Option<&Trust>,
    ) -> Result<Self, BenchError> {
        let mut stream = connect(address, trust, protocol.subscriber_buffer())?;
        protocol.greet_as_subscriber(&mut stream)?;
        unblock(&stream)?;
        Ok(Self {
            protocol: protocol.clone(),
            stream,
            buffer: vec![0; BUFFER_BYTES],
            filled: 0,
            answers: Vec::new(),
            unanswered: 0,
            unanswered_since_ns: 0,
            is_stamped: false,
            arrived_ns: None,
        })
    }

    /// The same subscriber, which from now on learns when the kernel had what it reads.
    ///
    /// # Errors
    /// When the system refuses, or within TLS, where nobody reads from the socket as it is.
    pub fn stamped(mut self) -> Result<Self, BenchError> {
        if self.stream.is_encrypted() {
            let text = "stamps of arrival are taken without TLS only".to_owned();
            return Err(BenchError::Options(text));
        }
        sys::stamp_arrivals(self.stream.socket())
            .map_err(BenchError::io("ask for stamps of arrival"))?;
        self.is_stamped = true;
        Ok(self)
    }

    /// When the kernel had the newest segment of the last read, by the monotonic clock; `None` where it was not stamped.
    pub fn arrived_ns(&self) -> Option<u64> {
        self.arrived_ns
    }

    /// Waits until there is something to read, or the timeout has passed.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, BenchError> {
        if self.stream.has_more() {
            return Ok(true);
        }
        sys::wait_readable(self.stream.socket(), timeout)
            .map_err(BenchError::io("wait for messages"))
    }

    /// Reads one piece, if there is one. `on_message` gets each message and the time at which the read returned.
    /// Returns whether there was anything.
    ///
    /// # Errors
    /// When the broker closed the connection or broke its protocol.
    pub fn read(
        &mut self,
        on_message: &mut impl FnMut(Delivery<'_>, u64),
    ) -> Result<bool, BenchError> {
        if self.answers.len() > MAX_ANSWER_BYTES || !self.wait(Duration::ZERO)? {
            return Ok(false);
        }
        if self.filled == self.buffer.len() {
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        let read = match self.receive() {
            Ok(0) => {
                return Err(BenchError::protocol(
                    "connection",
                    "the broker closed the subscriber's connection",
                ));
            }
            Ok(read) => read,
            Err(error) if is_transient(error.kind()) => return Ok(false),
            Err(error) => return Err(BenchError::io("read messages")(error)),
        };
        let now_ns = sys::monotonic_ns();
        self.filled += read;
        let mut messages = 0;
        let used = self.protocol.read_messages(
            &self.buffer[..self.filled],
            &mut self.answers,
            &mut |delivery| {
                messages += 1;
                on_message(delivery, now_ns);
            },
        )?;
        self.buffer.copy_within(used..self.filled, 0);
        self.filled -= used;
        if self.unanswered == 0 {
            self.unanswered_since_ns = now_ns;
        }
        self.unanswered += messages;
        Ok(true)
    }

    fn receive(&mut self) -> std::io::Result<usize> {
        let room = &mut self.buffer[self.filled..];
        if !self.is_stamped {
            return self.stream.read(room);
        }
        let (read, stamp_ns) = sys::read_stamped(self.stream.socket(), room)?;
        let ago_ns = stamp_ns.map(|stamp_ns| sys::realtime_ns().saturating_sub(stamp_ns));
        self.arrived_ns = ago_ns.map(|ago_ns| sys::monotonic_ns().saturating_sub(ago_ns));
        Ok(read)
    }

    /// Writes acknowledgements when enough have gathered or the oldest has waited for a millisecond.
    ///
    /// # Errors
    /// When the broker closed the connection.
    pub fn answer(&mut self, now_ns: u64) -> Result<(), BenchError> {
        if self.answers.is_empty() && !self.stream.has_unwritten() {
            self.unanswered = 0;
            return Ok(());
        }
        let waited_ns = now_ns.saturating_sub(self.unanswered_since_ns);
        if self.unanswered < MESSAGES_PER_ANSWER && waited_ns < ANSWER_DELAY_NS {
            return Ok(());
        }
        let written = write_some(&mut self.stream, &self.answers)?;
        self.answers.drain(..written);
        if self.answers.is_empty() {
            self.unanswered = 0;
        }
        Ok(())
    }
}
