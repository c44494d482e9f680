//! Bytes from anywhere, through a buffer of bounded size.

use std::io::{self, ErrorKind, Read};

const BUFFER_BYTES: usize = 64 << 10;

/// A reader that looks ahead.
#[derive(Debug)]
pub(super) struct Input<R> {
    from: R,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
}

impl<R: Read> Input<R> {
    pub(super) fn new(from: R) -> Self {
        Input {
            from,
            buffer: vec![0; BUFFER_BYTES],
            at: 0,
            end: 0,
        }
    }

    /// The next byte; `None` at the end.
    #[inline]
    pub(super) fn byte(&mut self) -> io::Result<Option<u8>> {
        if self.at == self.end {
            (self.at, self.end) = (0, 0);
            if !self.fill()? {
                return Ok(None);
            }
        }
        self.at += 1;
        Ok(Some(self.buffer[self.at - 1]))
    }

    /// The next bytes without taking them: as many as asked for, fewer only at the end.
    pub(super) fn peek(&mut self, bytes: usize) -> io::Result<&[u8]> {
        while self.end - self.at < bytes && self.fill()? {}
        let end = self.end.min(self.at + bytes);
        Ok(&self.buffer[self.at..end])
    }

    /// Takes bytes up to and with a line feed into `line`, at most `limit` of them. `None` at the end, otherwise whether
    /// the line feed was there; it is not kept.
    pub(super) fn line(&mut self, line: &mut Vec<u8>, limit: usize) -> io::Result<Option<bool>> {
        line.clear();
        while let Some(byte) = self.byte()? {
            if byte == b'\n' {
                return Ok(Some(true));
            }
            if line.len() == limit {
                return Ok(Some(false));
            }
            line.push(byte);
        }
        Ok((!line.is_empty()).then_some(false))
    }

    /// Reads more behind what is there; false at the end, or when there is no room.
    fn fill(&mut self) -> io::Result<bool> {
        loop {
            match self.from.read(&mut self.buffer[self.end..]) {
                Ok(read) => {
                    self.end += read;
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
