//! TLS of connections to brokers: agreed on in IDENTIFY, as NSQ has it.
//!
//! A first IDENTIFY asks for TLS and says how output is to be buffered: nsqd, told so within TLS, would go on in plaintext. The broker
//! says yes, both shake hands, and the broker's OK comes within TLS. What a client has to say of itself, it says in a second one, which
//! no listener on the way reads.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use credentials::Trust;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use wire::identify::Identify;
use wire::{Frame, FrameDecoded, command};

use crate::error::ClientError;

/// Longest answer to IDENTIFY.
const ANSWER_MAX_BYTES: u32 = 64 << 10;

/// How a broker is spoken to by TLS.
#[derive(Debug, Clone, PartialEq)]
pub struct Tls {
    trust: Trust,
    host: String,
}

/// How a broker is to buffer what it sends, as IDENTIFY has it; 0 and 0: as it does by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputBuffer {
    /// `output_buffer_size`, bytes; -1: none.
    pub size: i64,
    /// `output_buffer_timeout`, milliseconds; -1: no limit.
    pub timeout: i64,
}

impl OutputBuffer {
    /// Everything is sent at once.
    pub const NONE: OutputBuffer = OutputBuffer {
        size: -1,
        timeout: -1,
    };
}

/// A connection within TLS.
pub(crate) type Encrypted = StreamOwned<ClientConnection, TcpStream>;

impl Tls {
    /// Believes whom `trust` says that it is the broker at `address`, `host:port`: its certificate is to be for that host.
    #[must_use]
    pub fn new(trust: Trust, address: &str) -> Tls {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Tls {
            trust,
            host: host.to_owned(),
        }
    }

    /// Agrees on TLS over a connection on which nothing was said; waits for `timeout` at most with each read and write.
    pub(crate) fn agree(
        &self,
        mut stream: TcpStream,
        buffer: OutputBuffer,
        timeout: Duration,
    ) -> Result<Encrypted, ClientError> {
        let failed = |what| ClientError::io(what);
        stream
            .set_read_timeout(Some(timeout))
            .and_then(|()| stream.set_write_timeout(Some(timeout)))
            .map_err(failed("prepare the socket"))?;
        let wish = Identify {
            user_agent: concat!("srtm-client/", env!("CARGO_PKG_VERSION")).to_owned(),
            feature_negotiation: true,
            tls_v1: true,
            output_buffer_size: buffer.size,
            output_buffer_timeout: buffer.timeout,
            ..Identify::default()
        };
        let mut bytes = wire::MAGIC_V2.to_vec();
        command::put_identify(&mut bytes, &wish.to_json());
        stream
            .write_all(&bytes)
            .map_err(failed("write to the broker"))?;
        let agreed = answer(&mut stream)?;
        let agreed: serde_json::Value = serde_json::from_slice(&agreed).unwrap_or_default();
        if agreed["tls_v1"] != true {
            return Err(ClientError::NoTls);
        }
        let name = ServerName::try_from(self.host.clone());
        let name = name.map_err(|error| failed("shake hands")(io::Error::other(error)))?;
        let connection = ClientConnection::new(self.trust.config(), name);
        let connection =
            connection.map_err(|error| failed("shake hands")(io::Error::other(error)))?;
        let mut stream = StreamOwned::new(connection, stream);
        stream
            .conn
            .complete_io(&mut stream.sock)
            .map_err(failed("shake hands with the broker"))?;
        match answer(&mut stream)?.as_slice() {
            b"OK" => Ok(stream),
            _ => Err(ClientError::Protocol("no OK within TLS".to_owned())),
        }
    }
}

/// One answer, and not a byte behind it.
fn answer(stream: &mut impl Read) -> Result<Vec<u8>, ClientError> {
    let mut bytes = Vec::new();
    loop {
        let needed = match wire::decode_frame(&bytes, ANSWER_MAX_BYTES) {
            Ok(FrameDecoded::Incomplete { needed }) => needed,
            Ok(FrameDecoded::Complete { frame, .. }) => {
                return match frame {
                    Frame::Response(body) => Ok(body.to_vec()),
                    Frame::Error(body) => Err(ClientError::refused(body)),
                    other => Err(ClientError::Protocol(format!("unexpected frame {other:?}"))),
                };
            }
            Err(error) => return Err(ClientError::Protocol(error.to_string())),
        };
        let had = bytes.len();
        bytes.resize(needed, 0);
        let read = stream.read_exact(&mut bytes[had..]);
        read.map_err(ClientError::io("read from the broker"))?;
    }
}

/// A socket, within TLS or not.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Encrypted(Box<Encrypted>),
}

impl Stream {
    /// Agrees on TLS where there is `tls`; nothing was said on the socket. Without TLS, `buffer` is still to be said.
    pub(crate) fn new(
        socket: TcpStream,
        tls: Option<&Tls>,
        buffer: OutputBuffer,
        timeout: Duration,
    ) -> Result<Stream, ClientError> {
        Ok(match tls {
            None => Stream::Plain(socket),
            Some(tls) => Stream::Encrypted(Box::new(tls.agree(socket, buffer, timeout)?)),
        })
    }

    /// Whether the broker has heard NSQ's magic already.
    pub(crate) fn is_greeted(&self) -> bool {
        matches!(self, Stream::Encrypted(_))
    }

    /// The socket itself.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Encrypted(stream) => &stream.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Encrypted(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            Stream::Encrypted(stream) => stream.flush(),
        }
    }
}
