//! The layer between a connection and its socket.
//!
//! A connection reads and writes plain bytes. The bytes on the wire may differ from them, in number
//! too, so:
//!
//! - Plain bytes have the stamp of the bytes on the wire that completed them.
//! - Plain bytes are taken once the socket has taken everything on the wire that carries them.
//!   Until then they stay in the connection's output, where they are counted; a transport keeps
//!   only what it made of their beginning, and is given the same beginning again.
//! - The socket counts bytes on the wire, and so do [`Taken::wire`] and whatever names such a byte
//!   (stamps of acknowledgements). Where a followed message ends, a send ends.
//!
//! A connection begins plain and may get layers on the way ([`Transport::upgrade`]). A further
//! transport is a variant here, with a file of its own. Static dispatch: plain connections pay
//! nothing.

pub mod codec;
#[cfg(test)]
pub mod far;
mod layered;
mod pending;
mod plain;
#[cfg(test)]
mod records;
mod tls;
mod upgrade;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use clock::WallTime;

use crate::sys::{self, AckStamp, Interest, Path, Stream};

pub use layered::{Layered, Upgrade};
pub use tls::{Agreed, Handshake};

use plain::Plain;
#[cfg(test)]
pub use records::{GIVEN_MAX, HEAD_BYTES, RECORD_MAX, Records, open, seal};

/// The way of a connection's bytes.
#[derive(Debug)]
pub enum Transport {
    /// As they are.
    Plain(Plain),
    /// Compressed, encrypted, or both.
    Layered(Box<Layered>),
    /// None, for the moment in which one becomes another; nobody sees it.
    Gone,
    /// In records, each with a head: for tests.
    #[cfg(test)]
    Records(Box<Records>),
}

/// The result of one receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Plain bytes put into the buffer; 0 is the peer's end.
    pub bytes: usize,
    /// The kernel's stamp of what completed them, if it gave one.
    pub stamp: Option<WallTime>,
    /// There may be more, of which epoll does not tell.
    pub is_more: bool,
}

/// The result of one send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Plain bytes, from the beginning of what was given.
    pub plain: usize,
    /// Bytes on the wire.
    pub wire: usize,
}

impl Taken {
    /// Bytes that go over the wire as they are.
    #[inline]
    #[must_use]
    pub fn as_it_is(bytes: usize) -> Taken {
        Taken {
            plain: bytes,
            wire: bytes,
        }
    }
}

impl Transport {
    /// Bytes go over `stream` as they are.
    #[must_use]
    pub fn plain(stream: Stream) -> Transport {
        Transport::Plain(Plain::new(stream))
    }

    /// One receive into `buffer`, with the kernel's stamp where it is `stamped`.
    ///
    /// # Errors
    /// The system's, `WouldBlock` among them.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8], stamped: bool) -> io::Result<Received> {
        match self {
            Transport::Plain(plain) => plain.receive(buffer, stamped),
            Transport::Layered(layered) => layered.receive(buffer, stamped),
            Transport::Gone => Err(io::ErrorKind::NotConnected.into()),
            #[cfg(test)]
            Transport::Records(records) => records.receive(buffer, stamped),
        }
    }

    /// One send from `bytes`. Where a message is followed that ends after `followed` of them, nothing behind it is sent along,
    /// and the send that ends with it asks for a stamp of its acknowledgement.
    ///
    /// # Errors
    /// The system's, `WouldBlock` among them.
    #[inline]
    pub fn send(&mut self, bytes: &[u8], followed: Option<usize>) -> io::Result<Taken> {
        match self {
            Transport::Plain(plain) => plain.send(bytes, followed),
            Transport::Layered(layered) => layered.send(bytes, followed),
            Transport::Gone => Err(io::ErrorKind::NotConnected.into()),
            #[cfg(test)]
            Transport::Records(records) => records.send(bytes, followed),
        }
    }

    /// Whether it is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        matches!(self, Transport::Layered(layered) if layered.is_encrypted())
    }

    /// The certificate that the client has shown, in DER form, if it has.
    #[must_use]
    pub fn client_certificate(&self) -> Option<Vec<u8>> {
        match self {
            Transport::Layered(layered) => layered.client_certificate(),
            _ => None,
        }
    }

    /// Whether it keeps plain bytes that no event of the socket will tell of.
    #[inline]
    #[must_use]
    pub fn holds_input(&self) -> bool {
        match self {
            Transport::Plain(_) | Transport::Gone => false,
            Transport::Layered(layered) => layered.holds_input(),
            #[cfg(test)]
            Transport::Records(records) => records.holds_input(),
        }
    }

    /// Whether it has something of its own to send, also where the connection has nothing.
    #[inline]
    #[must_use]
    pub fn wants_to_send(&self) -> bool {
        match self {
            Transport::Plain(_) | Transport::Gone => false,
            Transport::Layered(layered) => layered.wants_to_send(),
            #[cfg(test)]
            Transport::Records(records) => records.wants_to_send(),
        }
    }

    /// What epoll is to watch for where the connection wants to read, or has something to send.
    #[inline]
    #[must_use]
    pub fn interest(&self, wanted: Interest) -> Interest {
        match self {
            Transport::Plain(_) | Transport::Gone => wanted,
            Transport::Layered(layered) => layered.interest(wanted),
            #[cfg(test)]
            Transport::Records(records) => Interest {
                write: wanted.write || records.wants_to_send(),
                ..wanted
            },
        }
    }

    /// Says to the peer that nothing more will come.
    pub fn end(&mut self) {
        match self {
            Transport::Layered(layered) => layered.end(),
            _ => sys::shutdown_write(self.stream()),
        }
    }

    /// The connection's way, as far as the kernel knows it.
    ///
    /// # Errors
    /// The system's.
    pub fn path(&self) -> io::Result<Path> {
        sys::path(self.stream())
    }

    /// Begins to count bytes on the wire, and lets sends ask for stamps of their acknowledgement. `with_arrivals` keeps the
    /// stamps of what arrives.
    ///
    /// # Errors
    /// The system's.
    pub fn enable_ack_stamps(&self, with_arrivals: bool) -> io::Result<()> {
        sys::enable_ack_stamps(self.stream(), with_arrivals)
    }

    /// The next stamp of an acknowledgement, by the number of a byte on the wire; `None` for something else that lay there.
    ///
    /// # Errors
    /// The system's, `WouldBlock` where there is none.
    pub fn next_ack_stamp(&self) -> io::Result<Option<AckStamp>> {
        sys::next_ack_stamp(self.stream())
    }

    fn stream(&self) -> &Stream {
        match self {
            Transport::Plain(plain) => plain.stream(),
            Transport::Layered(layered) => layered.stream(),
            Transport::Gone => unreachable!("nobody sees it"),
            #[cfg(test)]
            Transport::Records(records) => records.stream(),
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream().as_fd()
    }
}

#[cfg(test)]
mod tests;
