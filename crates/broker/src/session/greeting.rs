//! The first bytes of a connection, and the protocol that they choose.

use link::{MAGIC_PROBE, QUESTION_BYTES};
use wire::MAGIC_V2;
use wire::announce::Key;
use wire::tempo::{HelloDecoded, MAGIC_TEMPO, TempoError, decode_hello};

use super::nsq::Nsq;
use super::tempo::Tempo;
use super::{Failure, Session};

/// Bytes that tell protocols apart.
pub const MAGIC_BYTES: usize = MAGIC_V2.len();

/// What the broker has to know to greet connections.
#[derive(Debug)]
pub struct Doorkeeper<'a> {
    /// Whether Tempo is spoken here, and the key that endpoints must have.
    pub tempo: Option<Option<&'a Key>>,
    /// Whether NSQ's clients can only ask for TLS before there is TLS.
    pub needs_tls: bool,
}

/// What somebody begins with.
#[derive(Debug)]
pub enum Greeting<'a> {
    /// Not whole yet.
    Incomplete {
        /// Trying again is pointless before this many bytes are there.
        needed: usize,
    },
    /// A session begins, behind this many bytes.
    Begins(Session, usize),
    /// A controller asks who serves this address, and nothing else ([`link::probe_answer`]).
    Asks(&'a [u8]),
    /// Nothing that is spoken here.
    Strange(Failure),
}

impl Doorkeeper<'_> {
    /// Reads what `bytes` begin with.
    #[must_use]
    pub fn greet<'a>(&self, bytes: &'a [u8]) -> Greeting<'a> {
        let Some(magic) = bytes.first_chunk::<MAGIC_BYTES>() else {
            return Greeting::Incomplete {
                needed: MAGIC_BYTES,
            };
        };
        #[cfg(test)]
        if magic == super::lines::MAGIC {
            return Greeting::Begins(Session::Lines(super::lines::Lines), MAGIC_BYTES);
        }
        if magic == MAGIC_V2 {
            Greeting::Begins(Session::Nsq(Nsq::begin(self.needs_tls)), MAGIC_BYTES)
        } else if magic == MAGIC_TEMPO {
            self.greet_tempo(bytes)
        } else if magic == MAGIC_PROBE {
            match bytes.get(..QUESTION_BYTES) {
                Some(question) => Greeting::Asks(question),
                None => Greeting::Incomplete {
                    needed: QUESTION_BYTES,
                },
            }
        } else {
            Greeting::Strange(Failure::Nsq(wire::ProtocolError::bad_protocol()))
        }
    }

    fn greet_tempo<'a>(&self, bytes: &'a [u8]) -> Greeting<'a> {
        let hello = match self.tempo {
            Some(key) => decode_hello(bytes, key),
            None => Err(TempoError::Magic),
        };
        match hello {
            Ok(HelloDecoded::Complete { used, .. }) => {
                Greeting::Begins(Session::Tempo(Tempo::Publisher), used)
            }
            Ok(HelloDecoded::Incomplete { needed }) => Greeting::Incomplete { needed },
            Err(error) => Greeting::Strange(Failure::Tempo(error)),
        }
    }
}
