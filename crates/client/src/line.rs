//! A connection to a broker as a stream of bytes, within TLS or not, that need never wait.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use credentials::Trust;

use crate::connection::connect;
use crate::encryption::{Encrypted, OutputBuffer, Stream, Tls};
use crate::error::ClientError;

/// A connection to a broker: what is written are NSQ's bytes, magic first, whether TLS was agreed on before or not.
///
/// It waits until [`Line::unblock`]; from then on reads and writes that would have to wait fail with [`ErrorKind::WouldBlock`].
#[derive(Debug)]
pub struct Line {
    stream: Stream,
    /// Bytes at the beginning that the broker has heard already: NSQ's magic goes before TLS.
    known_bytes: usize,
}

impl Line {
    /// Connects to `host:port` and agrees on TLS where there is `trust`, without Nagle's delay; each step takes `timeout` at most.
    /// Within TLS the broker has heard of `buffer`; otherwise IDENTIFY is to say it.
    ///
    /// # Errors
    /// When the broker does not accept the connection, offers no TLS, or is not believed.
    pub fn open(
        address: &str,
        trust: Option<&Trust>,
        buffer: OutputBuffer,
        timeout: Duration,
    ) -> Result<Line, ClientError> {
        let socket = connect(address, timeout)?;
        let nodelay = socket.set_nodelay(true);
        nodelay.map_err(ClientError::io("prepare the socket"))?;
        let tls = trust.map(|trust| Tls::new(trust.clone(), address));
        let stream = Stream::new(socket, tls.as_ref(), buffer, timeout)?;
        let known_bytes = match stream.is_greeted() {
            true => wire::MAGIC_V2.len(),
            false => 0,
        };
        Ok(Line {
            stream,
            known_bytes,
        })
    }

    /// Never waits from here on.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn unblock(&self) -> io::Result<()> {
        self.socket().set_nonblocking(true)
    }

    /// The socket, whose bytes are TLS's where there is TLS.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        self.stream.socket()
    }

    /// Whether it is within TLS.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        matches!(self.stream, Stream::Encrypted(_))
    }

    /// Whether TLS may have opened more than was read; the socket need not have anything more then.
    pub fn has_more(&mut self) -> bool {
        match &mut self.stream {
            Stream::Plain(_) => false,
            Stream::Encrypted(stream) => {
                let state = stream.conn.process_new_packets();
                state.is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
            }
        }
    }

    /// Whether TLS has taken more than the socket: a write of nothing goes on with it.
    #[must_use]
    pub fn has_unwritten(&self) -> bool {
        match &self.stream {
            Stream::Plain(_) => false,
            Stream::Encrypted(stream) => stream.conn.wants_write(),
        }
    }

    /// Whether the broker has said something that was not read.
    pub(crate) fn has_something_to_read(&self) -> bool {
        self.socket().peek(&mut [0]).is_ok_and(|bytes| bytes > 0)
    }
}

impl Read for Line {
    /// Takes what has come.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Encrypted(stream) => read_encrypted(stream, buffer),
        }
    }
}

impl Write for Line {
    /// Takes as many bytes as there is room for. With no bytes it writes what TLS has taken before.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
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

    fn flush(&mut self) -> io::Result<()> {
        while self.has_unwritten() {
            self.write(&[])?;
        }
        Ok(())
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}

impl AsRawFd for Line {
    fn as_raw_fd(&self) -> RawFd {
        self.socket().as_raw_fd()
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
