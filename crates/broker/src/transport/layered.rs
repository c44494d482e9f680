//! Plain bytes within compression, within TLS, or within both.
//!
//! In both directions a connection begins plain and gets its layers on the way. Input has them from
//! one byte of the wire on. Output has each from one plain byte on: the answer that names the
//! layers goes without them.

use std::io;
use std::sync::Arc;

use clock::WallTime;
use rustls::ServerConfig;
use topics::Charge;
use wire::identify::Compression;

use super::codec::Codec;
use super::pending::Pending;
use super::tls::{self, Tls};
use super::{Agreed, Handshake, Received, Taken};
use crate::sys::{self, Interest, Stream};

/// Bytes on the wire that one receive takes.
const RECEIVE_BYTES: usize = 16 * 1024;

/// Receives in a row that may bring nothing whole.
const RECEIVES_MAX: usize = 8;

/// Plain bytes put into layers at once: a record of TLS. The progress of a peer that reads slowly
/// shows in steps of this size.
const SEAL_MAX: usize = 16 * 1024;

/// Plain bytes between TLS and compression.
const BETWEEN_BYTES: usize = 4 * 1024;

/// The layers that a connection gets.
#[derive(Debug)]
pub struct Upgrade {
    /// TLS, after this many bytes of the output.
    pub tls: Option<(Arc<ServerConfig>, usize)>,
    /// Compression, after this many.
    pub compression: Option<(Compression, usize)>,
    /// The memory that this takes.
    pub charge: Charge,
}

/// Layers over a socket.
#[derive(Debug)]
pub struct Layered {
    stream: Stream,
    tls: Option<Tls>,
    codec: Option<Codec>,
    /// Plain bytes that are still to go without TLS, and without compression.
    before_tls: usize,
    before_codec: usize,
    /// Bytes that the socket has not taken, and the part of the output that they carry.
    outgoing: Pending,
    carries: usize,
    is_followed: bool,
    /// Received bytes that are not opened yet, and the bytes that TLS made of them.
    incoming: Pending,
    between: Pending,
    stamp: Option<WallTime>,
    may_hold: bool,
    charges: Vec<Charge>,
}

impl Upgrade {
    /// Memory that such layers take, about.
    #[must_use]
    pub fn state_bytes(has_tls: bool, compression: Option<Compression>) -> u64 {
        let tls = if has_tls { tls::STATE_BYTES } else { 0 };
        tls + compression.map_or(0, Codec::state_bytes)
    }
}

impl Layered {
    /// No layers yet over `stream`.
    pub(super) fn new(stream: Stream) -> Layered {
        Layered {
            stream,
            tls: None,
            codec: None,
            before_tls: 0,
            before_codec: 0,
            outgoing: Pending::default(),
            carries: 0,
            is_followed: false,
            incoming: Pending::default(),
            between: Pending::default(),
            stamp: None,
            may_hold: false,
            charges: Vec::new(),
        }
    }

    /// Adds layers within those that are there. `behind` has come with what asked for them, and is said within them.
    pub(super) fn add(
        &mut self,
        upgrade: Upgrade,
        behind: &[u8],
        stamp: WallTime,
    ) -> io::Result<()> {
        // Nothing of the layers that come has been held so far.
        let held = match self.tls {
            Some(_) => &mut self.between,
            None => &mut self.incoming,
        };
        held.bytes().extend_from_slice(behind);
        if let Some((config, after)) = upgrade.tls {
            self.tls = Some(Tls::new(config)?);
            self.before_tls = after;
        }
        if let Some((compression, after)) = upgrade.compression {
            self.codec = Some(Codec::new(compression));
            self.before_codec = after;
        }
        self.stamp = Some(stamp);
        self.may_hold = true;
        self.charges.push(upgrade.charge);
        Ok(())
    }

    pub(super) fn receive(&mut self, buffer: &mut [u8], stamped: bool) -> io::Result<Received> {
        let received = self.receive_some(buffer, stamped);
        if let Err(error) = &received
            && error.kind() == io::ErrorKind::InvalidData
        {
            self.tell_alert();
        }
        received
    }

    fn receive_some(&mut self, buffer: &mut [u8], stamped: bool) -> io::Result<Received> {
        if self.is_away() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        for _ in 0..RECEIVES_MAX {
            let bytes = self.open(buffer)?;
            if bytes > 0 || self.has_ended() {
                self.may_hold = bytes == buffer.len();
                return Ok(Received {
                    bytes,
                    stamp: self.stamp,
                    is_more: true,
                });
            }
            self.may_hold = false;
            if self.awaits_handshake() && !self.incoming.is_empty() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let mut wire = [0; RECEIVE_BYTES];
            let received = match stamped {
                true => sys::recv_stamped(&self.stream, &mut wire),
                false => sys::recv(&self.stream, &mut wire),
            }?;
            if received.bytes == 0 {
                return Ok(Received {
                    bytes: 0,
                    stamp: None,
                    is_more: false,
                });
            }
            self.stamp = received.stamp;
            let incoming = self.incoming.bytes();
            incoming.extend_from_slice(&wire[..received.bytes]);
        }
        Err(io::ErrorKind::Interrupted.into())
    }

    /// Fills `plain` as far as what is held allows.
    fn open(&mut self, plain: &mut [u8]) -> io::Result<usize> {
        let Some(codec) = &mut self.codec else {
            return self.open_tls(plain);
        };
        if self.tls.is_none() {
            let opened = codec.open(self.incoming.rest(), plain)?;
            self.incoming.consume(opened.used);
            return Ok(opened.made);
        }
        let mut made = 0;
        loop {
            let Some(codec) = &mut self.codec else {
                return Ok(made);
            };
            let opened = codec.open(self.between.rest(), &mut plain[made..])?;
            self.between.consume(opened.used);
            made += opened.made;
            if made == plain.len() || codec.has_ended() {
                return Ok(made);
            }
            let mut piece = [0; BETWEEN_BYTES];
            let count = self.open_tls(&mut piece)?;
            if count == 0 {
                return Ok(made);
            }
            self.between.bytes().extend_from_slice(&piece[..count]);
        }
    }

    fn open_tls(&mut self, plain: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return Ok(0);
        };
        let opened = tls.open(self.incoming.rest(), plain)?;
        self.incoming.consume(opened.used);
        Ok(opened.made)
    }

    pub(super) fn send(&mut self, bytes: &[u8], followed: Option<usize>) -> io::Result<Taken> {
        if self.outgoing.is_empty() {
            self.fill(bytes, followed)?;
        }
        let rest = self.outgoing.rest();
        if rest.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let wire = match self.is_followed {
            true => sys::send_followed(&self.stream, rest, self.carries < bytes.len()),
            false => sys::send(&self.stream, rest),
        }?;
        self.outgoing.consume(wire);
        if !self.outgoing.is_empty() {
            return Ok(Taken { plain: 0, wire });
        }
        let plain = std::mem::take(&mut self.carries);
        self.before_tls = self.before_tls.saturating_sub(plain);
        self.before_codec = self.before_codec.saturating_sub(plain);
        Ok(Taken { plain, wire })
    }

    /// Puts the beginning of `bytes` into the layers that it is to go in.
    fn fill(&mut self, bytes: &[u8], followed: Option<usize>) -> io::Result<()> {
        let (is_without_tls, is_packed) = (self.before_tls > 0, self.before_codec == 0);
        let most = match (is_without_tls, is_packed) {
            (true, _) => self.before_tls,
            (false, false) => self.before_codec,
            (false, true) => SEAL_MAX,
        };
        let most = match self.awaits_handshake() && !is_without_tls {
            true => 0,
            false => most.min(bytes.len()),
        };
        let carries = followed.map_or(most, |end| end.min(most));
        let mut packed = Vec::new();
        let mut sealed = &bytes[..carries];
        if let Some(codec) = self.codec.as_mut().filter(|_| is_packed && carries > 0) {
            codec.seal(sealed, &mut packed)?;
            sealed = &packed;
        }
        match self.tls.as_mut().filter(|_| !is_without_tls) {
            Some(tls) if carries > 0 => tls.seal(sealed, self.outgoing.bytes())?,
            Some(tls) => tls.put_own(self.outgoing.bytes()),
            None if packed.is_empty() => self.outgoing.bytes().extend_from_slice(sealed),
            None => *self.outgoing.bytes() = packed,
        }
        self.carries = carries;
        self.is_followed = followed == Some(carries);
        Ok(())
    }

    pub(super) fn holds_input(&self) -> bool {
        self.may_hold
    }

    pub(super) fn wants_to_send(&self) -> bool {
        let has_own = self.tls.as_ref().is_some_and(Tls::wants_to_send);
        !self.outgoing.is_empty() || (has_own && self.before_tls == 0)
    }

    pub(super) fn interest(&self, wanted: Interest) -> Interest {
        // What waits for the handshake waits for the peer, not for room.
        let may_send = self.before_tls > 0 || !self.awaits_handshake();
        Interest {
            write: (wanted.write && may_send) || self.wants_to_send(),
            ..wanted
        }
    }

    pub(super) fn end(&mut self) {
        if let Some(tls) = &mut self.tls
            && self.before_tls == 0
            && tls.is_shaken()
        {
            tls.put_end(self.outgoing.bytes());
            self.send_what_can_be();
        }
        sys::shutdown_write(&self.stream);
    }

    /// Whether TLS is to come and its handshake is not over.
    pub(super) fn awaits_handshake(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| !tls.is_shaken())
    }

    /// The handshake, where the peer has said something in it.
    pub(super) fn depart(&mut self) -> Option<Box<Handshake>> {
        if self.incoming.is_empty() || !self.awaits_handshake() {
            return None;
        }
        let wire = self.incoming.take();
        self.tls.as_mut()?.depart(wire)
    }

    pub(super) fn resume(&mut self, handshake: Handshake) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            return Ok(());
        };
        match tls.resume(handshake) {
            Ok(rest) => {
                // Nothing was received meanwhile.
                *self.incoming.bytes() = rest;
                self.may_hold = true;
                Ok(())
            }
            Err(error) => {
                self.tell_alert();
                Err(error)
            }
        }
    }

    pub(super) fn agreed(&self) -> Option<Agreed> {
        self.tls.as_ref()?.agreed()
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    pub(super) fn client_certificate(&self) -> Option<Vec<u8>> {
        self.tls.as_ref()?.client_certificate()
    }

    /// Memory of what was put into layers and not sent.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.outgoing.held_bytes()
    }

    /// Memory of what came and was not given.
    pub(super) fn held_bytes(&self) -> usize {
        let codec = self.codec.as_ref().map_or(0, Codec::held_bytes);
        codec + self.incoming.held_bytes() + self.between.held_bytes()
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    fn is_away(&self) -> bool {
        self.tls.as_ref().is_some_and(Tls::is_away)
    }

    fn has_ended(&self) -> bool {
        let codec = self.codec.as_ref().is_some_and(Codec::has_ended);
        codec || self.tls.as_ref().is_some_and(Tls::has_ended)
    }

    /// Tells the peer why TLS fails, if the socket has room for that.
    fn tell_alert(&mut self) {
        if let Some(tls) = self.tls.as_mut().filter(|_| self.before_tls == 0) {
            tls.put_own(self.outgoing.bytes());
            self.send_what_can_be();
        }
    }

    fn send_what_can_be(&mut self) {
        // The connection ends whatever becomes of it.
        let sent = sys::send(&self.stream, self.outgoing.rest()).unwrap_or(0);
        self.outgoing.consume(sent);
    }
}
