//! Deflate without a header, flushed after every write (RFC 1951).

use std::io;

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};

use super::{Opened, invalid};

/// Windows, tables and hash chains of both directions.
pub(super) const STATE_BYTES: u64 = 384 * 1024;

/// The output grows by so much at least.
const GROWTH_BYTES: usize = 512;

/// Both directions.
#[derive(Debug)]
pub struct Deflate {
    inflate: Decompress,
    compress: Compress,
    has_ended: bool,
}

impl Deflate {
    pub(super) fn new(level: u32) -> Deflate {
        Deflate {
            inflate: Decompress::new(false),
            compress: Compress::new(flate2::Compression::new(level), false),
            has_ended: false,
        }
    }

    pub(super) fn open(&mut self, wire: &[u8], plain: &mut [u8]) -> io::Result<Opened> {
        let mut opened = Opened::default();
        while opened.made < plain.len() && !self.has_ended {
            let (read, made) = (self.inflate.total_in(), self.inflate.total_out());
            let (rest, room) = (&wire[opened.used..], &mut plain[opened.made..]);
            let status = self.inflate.decompress(rest, room, FlushDecompress::None);
            let status = status.map_err(|error| invalid(format!("deflate: {error}")))?;
            self.has_ended = status == Status::StreamEnd;
            let read = (self.inflate.total_in() - read) as usize;
            let made = (self.inflate.total_out() - made) as usize;
            opened.used += read;
            opened.made += made;
            if read == 0 && made == 0 {
                break;
            }
        }
        if self.has_ended {
            // Nothing that may follow means anything.
            opened.used = wire.len();
        }
        Ok(opened)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(super) fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> io::Result<()> {
        let mut rest = plain;
        loop {
            wire.reserve(rest.len() / 4 + GROWTH_BYTES);
            let read = self.compress.total_in();
            let flushed = self.compress.compress_vec(rest, wire, FlushCompress::Sync);
            flushed.map_err(|error| invalid(format!("deflate: {error}")))?;
            rest = &rest[(self.compress.total_in() - read) as usize..];
            // A flush that leaves room is over.
            if rest.is_empty() && wire.len() < wire.capacity() {
                return Ok(());
            }
        }
    }
}
