//! Compression as a stream: bytes in pieces of any size to bytes, both ways, without input or
//! output.

mod deflate;
mod snappy;

use std::io;

use wire::identify::Compression;

use deflate::Deflate;
use snappy::Snappy;

/// Both directions of a connection that is compressed.
#[derive(Debug)]
pub enum Codec {
    /// In snappy's framing format.
    Snappy(Box<Snappy>),
    /// Deflated, without a header.
    Deflate(Box<Deflate>),
}

/// The result of reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Bytes that were read.
    pub used: usize,
    /// Bytes that were made of them, and of what was read before.
    pub made: usize,
}

impl Codec {
    /// Nothing has been read or written.
    #[must_use]
    pub fn new(compression: Compression) -> Codec {
        match compression {
            Compression::Snappy => Codec::Snappy(Box::new(Snappy::new())),
            Compression::Deflate { level } => Codec::Deflate(Box::new(Deflate::new(level))),
        }
    }

    /// Memory that it takes from its beginning to its end, about.
    #[must_use]
    pub fn state_bytes(compression: Compression) -> u64 {
        match compression {
            Compression::Snappy => snappy::STATE_BYTES,
            Compression::Deflate { .. } => deflate::STATE_BYTES,
        }
    }

    /// Makes of `wire`, and of what it keeps, as much as `plain` has room for. Where it leaves room, it has read all of `wire` and
    /// keeps nothing but what is not whole.
    ///
    /// # Errors
    /// `InvalidData`, where `wire` was made by no peer of this codec.
    pub fn open(&mut self, wire: &[u8], plain: &mut [u8]) -> io::Result<Opened> {
        match self {
            Codec::Snappy(snappy) => snappy.open(wire, plain),
            Codec::Deflate(deflate) => deflate.open(wire, plain),
        }
    }

    /// Whether the peer has said that nothing follows.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        match self {
            Codec::Snappy(_) => false,
            Codec::Deflate(deflate) => deflate.has_ended(),
        }
    }

    /// Appends what `plain` becomes, so that the peer can read all of it at once.
    ///
    /// # Errors
    /// `InvalidData` where the compressor is broken.
    pub fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Codec::Snappy(snappy) => {
                snappy.seal(plain, wire);
                Ok(())
            }
            Codec::Deflate(deflate) => deflate.seal(plain, wire),
        }
    }

    /// Memory of what has come and is not whole, or was not taken.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match self {
            Codec::Snappy(snappy) => snappy.held_bytes(),
            Codec::Deflate(_) => 0,
        }
    }
}

fn invalid(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}

#[cfg(test)]
mod tests;
