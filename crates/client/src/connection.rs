//! One TCP connection to a broker: frames come out, bytes go in.
//!
//! Reads are buffered and take all available bytes, so a burst of frames costs one system call. The
//! buffer grows to the largest frame, which is bounded.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use api::Token;
use wire::identify::{Identify, ServerFeatures};
use wire::{Frame, FrameDecoded, command};

use crate::encryption::{OutputBuffer, Stream, Tls};
use crate::error::ClientError;

/// Largest frame accepted from a broker.
const MAX_FRAME_BYTES: u32 = 64 << 20;
const INITIAL_BUFFER_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    buffer: Vec<u8>,
    /// The unread part of the buffer.
    start: usize,
    end: usize,
    read_timeout: Option<Duration>,
}

impl Connection {
    /// Connects, says who it is, shows `token` where the broker asks for one, and returns its answer to IDENTIFY.
    pub(crate) fn open(
        address: impl ToSocketAddrs,
        identify: &Identify,
        token: Option<&Token>,
        tls: Option<&Tls>,
        timeout: Duration,
    ) -> Result<(Self, Vec<u8>), ClientError> {
        let stream = connect(address, timeout)?;
        stream
            .set_nodelay(true)
            .map_err(ClientError::io("set TCP_NODELAY"))?;
        stream
            .set_write_timeout(Some(timeout))
            .map_err(ClientError::io("set the write timeout"))?;
        let mut identify = identify.clone();
        let buffer = OutputBuffer {
            size: identify.output_buffer_size,
            timeout: identify.output_buffer_timeout,
        };
        let stream = Stream::new(stream, tls, buffer, timeout)?;
        let mut bytes = Vec::new();
        match stream.is_greeted() {
            true => identify.output_buffer_size = 0,
            false => bytes.extend_from_slice(wire::MAGIC_V2),
        }
        let mut connection = Self {
            stream,
            buffer: vec![0; INITIAL_BUFFER_BYTES],
            start: 0,
            end: 0,
            read_timeout: None,
        };
        command::put_identify(&mut bytes, &identify.to_json());
        connection.write(&bytes)?;
        let answer = connection.response(timeout)?;
        if let Some(token) = token
            && asks_for_token(&answer)
        {
            let mut bytes = Vec::new();
            command::put_auth(&mut bytes, token.secret().as_bytes());
            connection.write(&bytes)?;
            connection.response(timeout)?;
        }
        Ok((connection, answer))
    }

    /// Writes everything. When the broker has hung up, says why if it said so.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        match self
            .stream
            .write_all(bytes)
            .and_then(|()| self.stream.flush())
        {
            Ok(()) => Ok(()),
            Err(source) => Err(self.final_error().unwrap_or(ClientError::Io {
                what: "write to the broker",
                source,
            })),
        }
    }

    /// The answer to a command that has exactly one; heartbeats before it are answered.
    pub(crate) fn response(&mut self, timeout: Duration) -> Result<Vec<u8>, ClientError> {
        loop {
            if !self.fill(timeout)? {
                return Err(ClientError::Silent(timeout));
            }
            let heartbeat = match self.frame()? {
                Some(Frame::Response(b"_heartbeat_")) => true,
                Some(Frame::Response(body)) => return Ok(body.to_vec()),
                Some(Frame::Error(body)) => return Err(ClientError::refused(body)),
                Some(_) => {
                    return Err(ClientError::Protocol(
                        "a message instead of an answer".to_owned(),
                    ));
                }
                None => false,
            };
            if heartbeat {
                self.write(b"NOP\n")?;
            }
        }
    }

    /// Whether a whole frame is buffered, so that [`Connection::frame`] gives one without reading.
    pub(crate) fn has_frame(&self) -> Result<bool, ClientError> {
        Ok(self.peek()?.is_some())
    }

    /// The next buffered frame, which stays.
    pub(crate) fn peek(&self) -> Result<Option<Frame<'_>>, ClientError> {
        Ok(decode(&self.buffer[self.start..self.end])?.map(|(frame, _)| frame))
    }

    /// Takes the next buffered frame.
    pub(crate) fn frame(&mut self) -> Result<Option<Frame<'_>>, ClientError> {
        let Some((frame, consumed)) = decode(&self.buffer[self.start..self.end])? else {
            return Ok(None);
        };
        self.start += consumed;
        Ok(Some(frame))
    }

    /// Reads until a whole frame is buffered; false when `timeout` has passed between two reads. Zero takes only what
    /// has arrived.
    pub(crate) fn fill(&mut self, timeout: Duration) -> Result<bool, ClientError> {
        while !self.has_frame()? {
            self.make_room()?;
            match self.read_within(timeout) {
                Ok(0) => return Err(ClientError::Closed),
                Ok(read) => self.end += read,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    return Ok(false);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(ClientError::io("read from the broker")(error)),
            }
        }
        Ok(true)
    }

    fn read_within(&mut self, timeout: Duration) -> io::Result<usize> {
        if timeout.is_zero() {
            self.stream.socket().set_nonblocking(true)?;
            let result = self.stream.read(&mut self.buffer[self.end..]);
            self.stream.socket().set_nonblocking(false)?;
            return result;
        }
        if self.read_timeout != Some(timeout) {
            self.stream.socket().set_read_timeout(Some(timeout))?;
            self.read_timeout = Some(timeout);
        }
        self.stream.read(&mut self.buffer[self.end..])
    }

    /// Moves the unread part to the front and makes room for the frame that has begun.
    fn make_room(&mut self) -> Result<(), ClientError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let needed = match wire::decode_frame(&self.buffer[..self.end], MAX_FRAME_BYTES) {
            Ok(FrameDecoded::Incomplete { needed }) => needed,
            Ok(FrameDecoded::Complete { .. }) => 0,
            Err(error) => return Err(ClientError::Protocol(error.to_string())),
        };
        if needed > self.buffer.len() {
            self.buffer.resize(needed, 0);
        }
        Ok(())
    }

    /// The error frame that a broker may have sent before it closed the connection.
    fn final_error(&mut self) -> Option<ClientError> {
        while self.fill(Duration::from_millis(100)).ok()? {
            if let Some(Frame::Error(body)) = self.frame().ok()? {
                return Some(ClientError::refused(body));
            }
        }
        None
    }
}

/// Whether AUTH has to follow this answer to IDENTIFY.
pub(crate) fn asks_for_token(answer: &[u8]) -> bool {
    ServerFeatures::from_json(answer).is_ok_and(|features| features.auth_required)
}

fn decode(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, ClientError> {
    match wire::decode_frame(bytes, MAX_FRAME_BYTES) {
        Ok(FrameDecoded::Complete { frame, consumed }) => Ok(Some((frame, consumed))),
        Ok(FrameDecoded::Incomplete { .. }) => Ok(None),
        Err(error) => Err(ClientError::Protocol(error.to_string())),
    }
}

/// Tries the addresses in turn, as the standard library does, but with a timeout.
pub(crate) fn connect(
    address: impl ToSocketAddrs,
    timeout: Duration,
) -> Result<TcpStream, ClientError> {
    let addresses = address
        .to_socket_addrs()
        .map_err(ClientError::io("resolve the broker's address"))?;
    let mut last = io::Error::new(ErrorKind::InvalidInput, "the name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(ClientError::io("connect to the broker")(last))
}

/// Checks a name before it is sent.
pub(crate) fn check_name(kind: &'static str, name: &str) -> Result<(), ClientError> {
    if wire::is_valid_name(name.as_bytes()) {
        return Ok(());
    }
    Err(ClientError::Name {
        kind,
        name: name.to_owned(),
    })
}
