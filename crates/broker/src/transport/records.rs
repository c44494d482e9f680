//! A transport for tests in place of TLS: records with a head of three bytes and a disguised body.
//!
//! Receives are small, so records come in pieces. An empty record asks for an empty record in
//! answer, as a TLS peer may ask for something that no connection said.

use std::io;

use clock::WallTime;

use super::{Received, Taken};
use crate::sys::{self, Stream};

/// Plain bytes of a record at most.
pub const RECORD_MAX: usize = 1000;

/// A head: the length, and what the body is disguised with.
pub const HEAD_BYTES: usize = 3;

/// One receive.
const RECEIVE_BYTES: usize = 700;

/// Plain bytes that are given at once.
pub const GIVEN_MAX: usize = 300;

/// Records over a socket.
#[derive(Debug)]
pub struct Records {
    stream: Stream,
    /// The record that the socket has not taken whole.
    outgoing: Vec<u8>,
    taken: usize,
    carries: usize,
    is_followed: bool,
    /// Empty records that are owed.
    answers: usize,
    /// Received bytes that are not a whole record yet.
    incoming: Vec<u8>,
    /// Plain bytes from whole records that were not handed out yet.
    plain: Vec<u8>,
    stamp: Option<WallTime>,
}

/// Appends `bytes` as one record.
pub fn seal(out: &mut Vec<u8>, bytes: &[u8]) {
    let disguise = bytes.len() as u8 ^ 0x5a;
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.push(disguise);
    out.extend(bytes.iter().map(|byte| byte ^ disguise));
}

/// Takes whole records from the front of `wire`; gives how many were empty.
pub fn open(wire: &mut Vec<u8>, plain: &mut Vec<u8>) -> usize {
    let (mut used, mut empty) = (0, 0);
    while let Some(&[high, low, disguise]) = wire[used..].first_chunk::<HEAD_BYTES>() {
        let start = used + HEAD_BYTES;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let Some(body) = wire.get(start..start + length) else {
            break;
        };
        plain.extend(body.iter().map(|byte| byte ^ disguise));
        used = start + length;
        empty += usize::from(length == 0);
    }
    wire.drain(..used);
    empty
}

impl Records {
    /// Nothing has gone over `stream` yet.
    pub fn new(stream: Stream) -> Records {
        Records {
            stream,
            outgoing: Vec::new(),
            taken: 0,
            carries: 0,
            is_followed: false,
            answers: 0,
            incoming: Vec::new(),
            plain: Vec::new(),
            stamp: None,
        }
    }

    pub(super) fn receive(&mut self, buffer: &mut [u8], stamped: bool) -> io::Result<Received> {
        let mut bytes = [0; RECEIVE_BYTES];
        while self.plain.is_empty() {
            let received = match stamped {
                true => sys::recv_stamped(&self.stream, &mut bytes),
                false => sys::recv(&self.stream, &mut bytes),
            }?;
            if received.bytes == 0 {
                return Ok(Received {
                    bytes: 0,
                    stamp: None,
                    is_more: false,
                });
            }
            self.stamp = received.stamp;
            self.incoming.extend_from_slice(&bytes[..received.bytes]);
            self.answers += open(&mut self.incoming, &mut self.plain);
        }
        let count = buffer.len().min(self.plain.len()).min(GIVEN_MAX);
        buffer[..count].copy_from_slice(&self.plain[..count]);
        self.plain.drain(..count);
        Ok(Received {
            bytes: count,
            stamp: self.stamp,
            is_more: true,
        })
    }

    pub(super) fn send(&mut self, bytes: &[u8], followed: Option<usize>) -> io::Result<Taken> {
        if self.outgoing.is_empty() {
            let most = match self.answers {
                0 => bytes.len().min(RECORD_MAX),
                _ => 0,
            };
            self.answers = self.answers.saturating_sub(1);
            self.carries = followed.map_or(most, |end| end.min(most));
            self.is_followed = followed == Some(self.carries);
            seal(&mut self.outgoing, &bytes[..self.carries]);
        }
        let rest = &self.outgoing[self.taken..];
        let wire = match self.is_followed {
            true => sys::send_followed(&self.stream, rest, self.carries < bytes.len()),
            false => sys::send(&self.stream, rest),
        }?;
        self.taken += wire;
        if self.taken < self.outgoing.len() {
            return Ok(Taken { plain: 0, wire });
        }
        self.outgoing.clear();
        self.taken = 0;
        Ok(Taken {
            plain: self.carries,
            wire,
        })
    }

    pub(super) fn holds_input(&self) -> bool {
        !self.plain.is_empty()
    }

    pub(super) fn wants_to_send(&self) -> bool {
        self.answers > 0 || !self.outgoing.is_empty()
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }
}
