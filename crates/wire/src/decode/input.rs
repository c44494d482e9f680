//! The parts of a command: a line, its words and numbers, then a size and a body.
//!
//! They know nothing of what the words mean; the only bound here is the line's.

use super::{Limits, Stop, invalid};

/// Length of the first line with its newline.
#[inline]
pub(super) fn line_bytes(buf: &[u8], limits: &Limits) -> Result<usize, Stop> {
    let max_bytes = limits.max_line_bytes as usize;
    let window = &buf[..buf.len().min(max_bytes)];
    match window.iter().position(|&byte| byte == b'\n') {
        Some(newline) => Ok(newline + 1),
        None if buf.len() < max_bytes => Err(Stop::Incomplete {
            needed: buf.len() + 1,
        }),
        None => Err(invalid(format!(
            "line too long, no newline within {max_bytes} bytes"
        ))
        .into()),
    }
}

/// The words of a line, parted at every single space: two spaces have an empty word between them.
pub(super) struct Params<'a>(pub(super) Option<&'a [u8]>);

impl<'a> Iterator for Params<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.0?;
        match rest.iter().position(|&byte| byte == b' ') {
            Some(space) => {
                self.0 = Some(&rest[space + 1..]);
                Some(&rest[..space])
            }
            None => self.0.take(),
        }
    }
}

/// What follows a line: a size, then a body.
pub(super) struct Tail<'a> {
    pub(super) buf: &'a [u8],
    /// Where the line ends.
    pub(super) at: usize,
}

impl<'a> Tail<'a> {
    /// The size field, signed as nsqd reads it.
    #[inline]
    pub(super) fn size(&self) -> Result<i32, Stop> {
        match self.buf[self.at..].first_chunk::<SIZE_BYTES>() {
            Some(size) => Ok(i32::from_be_bytes(*size)),
            None => Err(Stop::Incomplete {
                needed: self.at + SIZE_BYTES,
            }),
        }
    }

    /// As much of the body as is there, and the end of the whole command.
    #[inline]
    pub(super) fn arrived(&self, size: u32) -> (&'a [u8], usize) {
        let start = self.at + SIZE_BYTES;
        let end = start + size as usize;
        (&self.buf[start..end.min(self.buf.len())], end)
    }

    /// The whole body, and the end of the whole command.
    #[inline]
    pub(super) fn body(&self, size: u32) -> Result<(&'a [u8], usize), Stop> {
        let (body, end) = self.arrived(size);
        if end > self.buf.len() {
            return Err(Stop::Incomplete { needed: end });
        }
        Ok((body, end))
    }
}

const SIZE_BYTES: usize = 4;

/// A number as nsqd reads it: decimal digits only, none at all is 0. `None` also above `u64::MAX`.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for &byte in digits {
        if !byte.is_ascii_digit() {
            return None;
        }
        number = number
            .checked_mul(10)?
            .checked_add(u64::from(byte - b'0'))?;
    }
    Some(number)
}
