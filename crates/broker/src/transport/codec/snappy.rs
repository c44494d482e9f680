//! Snappy in its framing format: chunks of at most 64 KiB before compression, each with a checksum.
//!
//! The library compresses blocks; chunks are cut here, because input is cut anywhere and nobody
//! waits for the rest.

use std::io;

use super::{Opened, invalid};

/// Hash tables of the encoder.
pub(super) const STATE_BYTES: u64 = 36 * 1024;

/// Plain bytes of a chunk at most.
pub(super) const BLOCK_MAX: usize = 64 * 1024;

/// The largest size of a chunk of [`BLOCK_MAX`] bytes, by the format.
const COMPRESSED_MAX: usize = 32 + BLOCK_MAX + BLOCK_MAX / 6;

const HEAD_BYTES: usize = 4;
const CHECKSUM_BYTES: usize = 4;
const STREAM: &[u8] = b"\xff\x06\x00\x00sNaPpY";

const KIND_COMPRESSED: u8 = 0x00;
const KIND_PLAIN: u8 = 0x01;
const KIND_STREAM: u8 = 0xff;

/// Both directions.
#[derive(Debug)]
pub struct Snappy {
    decoder: snap::raw::Decoder,
    /// The beginning of a chunk whose rest has not come.
    chunk: Vec<u8>,
    /// Bytes to come of a chunk that means nothing.
    skip: usize,
    /// A block that did not fit where it should go, and how much of it has gone.
    block: Vec<u8>,
    given: usize,
    has_begun_reading: bool,
    encoder: snap::raw::Encoder,
    has_begun_writing: bool,
}

/// A chunk's head.
#[derive(Clone, Copy)]
struct Head {
    kind: u8,
    body_bytes: usize,
}

impl Snappy {
    pub(super) fn new() -> Snappy {
        Snappy {
            decoder: snap::raw::Decoder::new(),
            chunk: Vec::new(),
            skip: 0,
            block: Vec::new(),
            given: 0,
            has_begun_reading: false,
            encoder: snap::raw::Encoder::new(),
            has_begun_writing: false,
        }
    }

    pub(super) fn open(&mut self, wire: &[u8], plain: &mut [u8]) -> io::Result<Opened> {
        let mut opened = Opened::default();
        loop {
            opened.made += self.give(&mut plain[opened.made..]);
            if opened.made == plain.len() || opened.used == wire.len() {
                return Ok(opened);
            }
            let rest = &wire[opened.used..];
            if self.skip > 0 {
                let skipped = self.skip.min(rest.len());
                self.skip -= skipped;
                opened.used += skipped;
            } else if self.chunk.is_empty()
                && let Some(head) = self.head(rest)?
                && let Some(body) = rest[HEAD_BYTES..].get(..head.body_bytes)
            {
                opened.used += HEAD_BYTES + body.len();
                opened.made += self.read(head, body, &mut plain[opened.made..])?;
            } else {
                let (used, made) = self.gather(rest, &mut plain[opened.made..])?;
                opened.used += used;
                opened.made += made;
            }
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.chunk.capacity() + self.block.capacity()
    }

    pub(super) fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_begun_writing, true) {
            wire.extend_from_slice(STREAM);
        }
        for block in plain.chunks(BLOCK_MAX) {
            let head = wire.len();
            let start = head + HEAD_BYTES + CHECKSUM_BYTES;
            wire.resize(start + snap::raw::max_compress_len(block.len()), 0);
            let packed = self.encoder.compress(block, &mut wire[start..]);
            // What hardly became smaller is not worth the peer's time.
            let is_small = |&bytes: &usize| bytes < block.len() - block.len() / 8;
            let kind = match packed.ok().filter(is_small) {
                Some(bytes) => {
                    wire.truncate(start + bytes);
                    KIND_COMPRESSED
                }
                None => {
                    wire.truncate(start);
                    wire.extend_from_slice(block);
                    KIND_PLAIN
                }
            };
            let body_bytes = (wire.len() - head - HEAD_BYTES) as u32;
            wire[head] = kind;
            wire[head + 1..start - CHECKSUM_BYTES].copy_from_slice(&body_bytes.to_le_bytes()[..3]);
            wire[start - CHECKSUM_BYTES..start].copy_from_slice(&checksum(block).to_le_bytes());
        }
    }

    /// Gives of a block that waits.
    fn give(&mut self, plain: &mut [u8]) -> usize {
        let waiting = &self.block[self.given..];
        let count = waiting.len().min(plain.len());
        plain[..count].copy_from_slice(&waiting[..count]);
        self.given += count;
        if self.given == self.block.len() && self.given > 0 {
            // An idle connection holds no buffers.
            (self.block, self.given) = (Vec::new(), 0);
        }
        count
    }

    /// Adds to a chunk that is cut, and reads it once it is whole. Gives what it took and what it made.
    fn gather(&mut self, rest: &[u8], plain: &mut [u8]) -> io::Result<(usize, usize)> {
        let wanted = match self.head(&self.chunk)? {
            Some(head) => HEAD_BYTES + head.body_bytes,
            None => HEAD_BYTES,
        };
        let used = rest.len().min(wanted - self.chunk.len());
        self.chunk.extend_from_slice(&rest[..used]);
        let Some(head) = self.head(&self.chunk)? else {
            return Ok((used, 0));
        };
        if head.is_skipped() {
            self.skip = head.body_bytes;
            self.chunk = Vec::new();
            return Ok((used, 0));
        }
        if self.chunk.len() < HEAD_BYTES + head.body_bytes {
            return Ok((used, 0));
        }
        let chunk = std::mem::take(&mut self.chunk);
        let made = self.read(head, &chunk[HEAD_BYTES..], plain)?;
        Ok((used, made))
    }

    /// The head that `bytes` begin with, if they are as many, judged.
    fn head(&self, bytes: &[u8]) -> io::Result<Option<Head>> {
        let Some(&[kind, low, middle, high]) = bytes.first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let head = Head {
            kind,
            body_bytes: u32::from_le_bytes([low, middle, high, 0]) as usize,
        };
        if kind != KIND_STREAM && !self.has_begun_reading {
            return Err(invalid(
                "snappy: it does not begin with the stream identifier",
            ));
        }
        let most = match kind {
            KIND_COMPRESSED => CHECKSUM_BYTES + COMPRESSED_MAX,
            KIND_PLAIN => CHECKSUM_BYTES + BLOCK_MAX,
            KIND_STREAM => STREAM.len() - HEAD_BYTES,
            _ if head.is_skipped() => usize::MAX,
            _ => return Err(invalid(format!("snappy: no chunk has type {kind:#04x}"))),
        };
        match head.body_bytes {
            bytes if bytes > most => Err(invalid(format!("snappy: a chunk of {bytes} bytes"))),
            _ => Ok(Some(head)),
        }
    }

    /// Reads a whole chunk; returns the number of bytes written to `plain`. The rest waits.
    fn read(&mut self, head: Head, body: &[u8], plain: &mut [u8]) -> io::Result<usize> {
        match head.kind {
            KIND_STREAM if body == &STREAM[HEAD_BYTES..] => {
                self.has_begun_reading = true;
                Ok(0)
            }
            KIND_COMPRESSED | KIND_PLAIN => {
                let Some((expected, data)) = body.split_first_chunk::<CHECKSUM_BYTES>() else {
                    return Err(invalid("snappy: a chunk without its checksum"));
                };
                let expected = u32::from_le_bytes(*expected);
                self.read_block(head.kind == KIND_COMPRESSED, expected, data, plain)
            }
            KIND_STREAM => Err(invalid("snappy: another stream identifier")),
            _ => Ok(0),
        }
    }

    fn read_block(
        &mut self,
        is_packed: bool,
        expected: u32,
        data: &[u8],
        plain: &mut [u8],
    ) -> io::Result<usize> {
        let broken = |error: snap::Error| invalid(format!("snappy: {error}"));
        let bytes = match is_packed {
            true => snap::raw::decompress_len(data).map_err(broken)?,
            false => data.len(),
        };
        if bytes > BLOCK_MAX {
            return Err(invalid(format!("snappy: a block of {bytes} bytes")));
        }
        let fits = bytes <= plain.len();
        let block = match fits {
            true => &mut plain[..bytes],
            false => {
                self.block.resize(bytes, 0);
                &mut self.block[..]
            }
        };
        match is_packed {
            true => drop(self.decoder.decompress(data, block).map_err(broken)?),
            false => block.copy_from_slice(data),
        }
        if checksum(block) != expected {
            return Err(invalid("snappy: a checksum does not fit its block"));
        }
        match fits {
            true => Ok(bytes),
            false => Ok(self.give(plain)),
        }
    }
}

impl Head {
    /// Chunks for others than us, padding among them.
    fn is_skipped(self) -> bool {
        (0x80..KIND_STREAM).contains(&self.kind)
    }
}

/// CRC-32C, masked as the format has it.
fn checksum(bytes: &[u8]) -> u32 {
    let sum = crc32c::crc32c(bytes);
    sum.rotate_right(15).wrapping_add(0xa282_ead8)
}
