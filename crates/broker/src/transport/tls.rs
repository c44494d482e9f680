//! TLS as a layer: records to plain bytes and back, without input or output.
//!
//! A handshake costs as much time as hundreds of messages (docs/security.md), so it is not done
//! here: the peer's bytes go with the connection's state to a thread of its own ([`Handshake`]) and
//! come back when it has answered.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};

use super::codec::Opened;

/// State, keys and the record that is not whole, about.
pub(super) const STATE_BYTES: u64 = 32 * 1024;

/// One end of TLS.
#[derive(Debug)]
pub(super) struct Tls {
    /// `None` while a handshake goes on elsewhere.
    connection: Option<Box<ServerConnection>>,
    is_shaken: bool,
    has_ended: bool,
}

/// A handshake that goes on apart from its connection.
#[derive(Debug)]
pub struct Handshake {
    connection: Box<ServerConnection>,
    /// The peer's bytes.
    wire: Vec<u8>,
    outcome: Result<(), rustls::Error>,
}

/// What TLS was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// As Go calls it: `TLS1.3`.
    pub version: &'static str,
    /// As rustls calls it.
    pub cipher_suite: &'static str,
}

impl Handshake {
    /// Does what follows from what the peer said. This takes its time.
    pub fn go_on(&mut self) {
        self.outcome = self.process();
    }

    fn process(&mut self) -> Result<(), rustls::Error> {
        let mut used = 0;
        while used < self.wire.len() && self.connection.is_handshaking() {
            let read = self.connection.read_tls(&mut &self.wire[used..]);
            // It takes whatever fits a handshake.
            used += read.map_err(|error| rustls::Error::General(error.to_string()))?;
            self.connection.process_new_packets()?;
        }
        self.wire.drain(..used);
        Ok(())
    }
}

impl Tls {
    /// Waits for the peer's first word.
    ///
    /// # Errors
    /// `config` is of no use.
    pub(super) fn new(config: Arc<ServerConfig>) -> io::Result<Tls> {
        let mut connection = ServerConnection::new(config).map_err(invalid)?;
        // What is put in is taken out at once.
        connection.set_buffer_limit(None);
        Ok(Tls {
            connection: Some(Box::new(connection)),
            is_shaken: false,
            has_ended: false,
        })
    }

    /// Whether the handshake is over.
    pub(super) fn is_shaken(&self) -> bool {
        self.is_shaken
    }

    /// Whether the handshake goes on elsewhere.
    pub(super) fn is_away(&self) -> bool {
        self.connection.is_none()
    }

    /// Whether the peer has said that nothing follows.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The result of the handshake, once it is complete.
    pub(super) fn agreed(&self) -> Option<Agreed> {
        let connection = self.connection.as_ref().filter(|_| self.is_shaken)?;
        let version = match connection.protocol_version()? {
            rustls::ProtocolVersion::TLSv1_3 => "TLS1.3",
            _ => "TLS1.2",
        };
        let suite = connection.negotiated_cipher_suite()?.suite();
        Some(Agreed {
            version,
            cipher_suite: suite.as_str().unwrap_or_default(),
        })
    }

    /// The certificate that the client has shown, in DER form.
    pub(super) fn client_certificate(&self) -> Option<Vec<u8>> {
        let connection = self.connection.as_ref().filter(|_| self.is_shaken)?;
        let certificate = connection.peer_certificates()?.first()?;
        Some(certificate.to_vec())
    }

    /// Gives the handshake away, with what the peer said in it. It comes back by [`Tls::resume`].
    pub(super) fn depart(&mut self, wire: Vec<u8>) -> Option<Box<Handshake>> {
        Some(Box::new(Handshake {
            connection: self.connection.take()?,
            wire,
            outcome: Ok(()),
        }))
    }

    /// Takes the handshake back; gives what it left of what the peer said.
    ///
    /// # Errors
    /// It failed. What is to be told of that waits to be [sent](Tls::put_own).
    pub(super) fn resume(&mut self, handshake: Handshake) -> io::Result<Vec<u8>> {
        self.is_shaken = !handshake.connection.is_handshaking();
        self.connection = Some(handshake.connection);
        handshake.outcome.map_err(invalid)?;
        Ok(handshake.wire)
    }

    /// Makes of records, and of what it keeps, as much as `plain` has room for. Where it leaves room, it has read all of `wire` and
    /// keeps nothing but what is not whole.
    ///
    /// # Errors
    /// `InvalidData`, where these are no records of the peer's. What is to be told of that waits to be [sent](Tls::put_own).
    pub(super) fn open(&mut self, wire: &[u8], plain: &mut [u8]) -> io::Result<Opened> {
        let mut opened = Opened::default();
        let Some(connection) = self.connection.as_mut().filter(|_| self.is_shaken) else {
            return Ok(opened);
        };
        while opened.made < plain.len() && !self.has_ended {
            match connection.reader().read(&mut plain[opened.made..]) {
                Ok(0) => self.has_ended = true,
                Ok(made) => opened.made += made,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut rest = &wire[opened.used..];
                    if rest.is_empty() {
                        break;
                    }
                    opened.used += connection.read_tls(&mut rest)?;
                    connection.process_new_packets().map_err(invalid)?;
                }
                Err(error) => return Err(error),
            }
        }
        if self.has_ended {
            // Nothing that may follow means anything.
            opened.used = wire.len();
        }
        Ok(opened)
    }

    /// Appends the records of `plain`, behind what TLS has to say itself.
    ///
    /// # Errors
    /// The handshake goes on.
    pub(super) fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> io::Result<()> {
        let Some(connection) = self.connection.as_mut().filter(|_| self.is_shaken) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        connection.writer().write_all(plain)?;
        self.put_own(wire);
        Ok(())
    }

    /// Whether TLS has something to say itself.
    pub(super) fn wants_to_send(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|connection| connection.wants_write())
    }

    /// Appends what it has to say itself.
    pub(super) fn put_own(&mut self, wire: &mut Vec<u8>) {
        while let Some(connection) = self.connection.as_mut()
            && connection.wants_write()
            && connection.write_tls(wire).is_ok()
        {}
    }

    /// Says to the peer that nothing follows.
    pub(super) fn put_end(&mut self, wire: &mut Vec<u8>) {
        if let Some(connection) = &mut self.connection {
            connection.send_close_notify();
        }
        self.put_own(wire);
    }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {error}"))
}
