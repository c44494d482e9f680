//! How a plain connection gets layers, and what the reactor needs to know of them beyond their
//! bytes.

use std::io;

use clock::WallTime;

use super::{Agreed, Handshake, Layered, Transport, Upgrade};
use crate::stats::ClientStats;

impl Transport {
    /// Gets layers. `behind` has come with what asked for them, stamped `stamp`, and is said within them. There may be something to
    /// [receive](Transport::receive) then of which epoll does not tell.
    ///
    /// # Errors
    /// The connection cannot go on.
    pub fn upgrade(&mut self, upgrade: Upgrade, behind: &[u8], stamp: WallTime) -> io::Result<()> {
        let mut layered = match std::mem::replace(self, Transport::Gone) {
            Transport::Plain(plain) => Box::new(Layered::new(plain.into_stream())),
            Transport::Layered(layered) => layered,
            former => {
                *self = former;
                return Err(io::ErrorKind::Unsupported.into());
            }
        };
        let added = layered.add(upgrade, behind, stamp);
        *self = Transport::Layered(layered);
        added
    }

    /// Whether a TLS handshake is not over: until then nothing is received.
    #[must_use]
    pub fn awaits_handshake(&self) -> bool {
        matches!(self, Transport::Layered(layered) if layered.awaits_handshake())
    }

    /// The handshake, where the peer has said something in it: it is to [go on](Handshake::go_on) elsewhere. Nothing is received or sent
    /// until it is [resumed](Transport::resume).
    pub fn depart(&mut self) -> Option<Box<Handshake>> {
        match self {
            Transport::Layered(layered) => layered.depart(),
            _ => None,
        }
    }

    /// Takes the handshake back. There may be something to receive and to send then.
    ///
    /// # Errors
    /// It failed; the peer was told, and the connection cannot go on.
    pub fn resume(&mut self, handshake: Handshake) -> io::Result<()> {
        match self {
            Transport::Layered(layered) => layered.resume(handshake),
            _ => Ok(()),
        }
    }

    /// Memory of what it has made of the output and not sent.
    #[inline]
    #[must_use]
    pub fn unsent_bytes(&self) -> usize {
        match self {
            Transport::Layered(layered) => layered.unsent_bytes(),
            _ => 0,
        }
    }

    /// Memory of what came and was not given.
    #[inline]
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match self {
            Transport::Layered(layered) => layered.held_bytes(),
            _ => 0,
        }
    }

    /// Adds what TLS was agreed on.
    pub fn describe(&self, client: &mut ClientStats) {
        if let Transport::Layered(layered) = self
            && let Some(Agreed {
                version,
                cipher_suite,
            }) = layered.agreed()
        {
            client.tls_version = version;
            client.tls_cipher_suite = cipher_suite;
        }
    }
}
