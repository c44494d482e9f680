//! A connection of a placed publisher that never waits, within TLS or not.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use credentials::Trust;

use crate::connection::connect;
use crate::encryption::{Encrypted, Stream, Tls};
use crate::error::ClientError;
use crate::placed::follower::MAKE_TIMEOUT;

/// A connection whose socket never waits.
#[derive(Debug)]
pub(super) struct Line {
    stream: Stream,
    /// Bytes of the follower that the broker has heard already: NSQ's magic goes before TLS.
    known_bytes: usize,
}

impl Line {
    /// Connects, with TLS where there is `trust`; blocks for as long as a link may take.
    pub(super) fn open(address: &str, trust: Option<Trust>) -> Result<Line, ClientError> {
        let timeout = MAKE_TIMEOUT - Duration::from_millis(500);
        let socket = connect(address, timeout)?;
        let prepare = || ClientError::io("prepare the socket");
        socket.set_nodelay(true).map_err(prepare())?;
        let tls = trust.map(|trust| Tls::new(trust, address));
        let stream = Stream::new(socket, tls.as_ref(), timeout)?;
        stream.socket().set_nonblocking(true).map_err(prepare())?;
        let known_bytes = match stream.is_greeted() {
            true => wire::MAGIC_V2.len(),
            false => 0,
        };
        Ok(Line {
            stream,
            known_bytes,
        })
    }

    /// Takes what has come; [`ErrorKind::WouldBlock`] where nothing has.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Encrypted(stream) => read_encrypted(stream, buffer),
        }
    }

    /// Takes as many bytes as there is room for; [`ErrorKind::WouldBlock`] where there is none. With no bytes it writes what TLS has
    /// taken before.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.known_bytes > 0 && !bytes.is_empty() {
            let known = self.known_bytes.min(bytes.len());
            self.known_bytes -= known;
            return Ok(known);
        }
        match &mut self.stream {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Encrypted(stream) => write_encrypted(stream, bytes),
        }
    }

    /// Whether TLS may have opened more than was read.
    pub(super) fn has_more(&mut self) -> bool {
        match &mut self.stream {
            Stream::Plain(_) => false,
            Stream::Encrypted(stream) => {
                let state = stream.conn.process_new_packets();
                state.is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
            }
        }
    }

    /// Whether TLS has taken more than the socket.
    pub(super) fn has_unwritten(&self) -> bool {
        match &self.stream {
            Stream::Plain(_) => false,
            Stream::Encrypted(stream) => stream.conn.wants_write(),
        }
    }

    /// Whether the broker has said something that was not read.
    pub(super) fn has_something_to_read(&self) -> bool {
        let socket: &TcpStream = self.stream.socket();
        socket.peek(&mut [0]).is_ok_and(|bytes| bytes > 0)
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.socket().as_fd()
    }
}

fn read_encrypted(stream: &mut Encrypted, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.conn.reader().read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            read => return read,
        }
        stream.conn.read_tls(&mut stream.sock)?;
        stream
            .conn
            .process_new_packets()
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
    }
}

fn write_encrypted(stream: &mut Encrypted, bytes: &[u8]) -> io::Result<usize> {
    // Sealed only where what was sealed before is with the socket, so that little waits twice.
    while stream.conn.wants_write() {
        stream.conn.write_tls(&mut stream.sock)?;
    }
    let taken = stream.conn.writer().write(bytes)?;
    while stream.conn.wants_write() {
        match stream.conn.write_tls(&mut stream.sock) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(taken)
}
