//! Bytes as they are.

use std::io;

use super::{Received, Taken};
use crate::sys::{self, Stream};

/// A socket, and nothing between.
#[derive(Debug)]
pub struct Plain(Stream);

impl Plain {
    pub(super) fn new(stream: Stream) -> Plain {
        Plain(stream)
    }

    #[inline]
    pub(super) fn receive(&mut self, buffer: &mut [u8], stamped: bool) -> io::Result<Received> {
        let received = match stamped {
            true => sys::recv_stamped(&self.0, buffer),
            false => sys::recv(&self.0, buffer),
        }?;
        Ok(Received {
            bytes: received.bytes,
            stamp: received.stamp,
            is_more: received.bytes == buffer.len(),
        })
    }

    #[inline]
    pub(super) fn send(&mut self, bytes: &[u8], followed: Option<usize>) -> io::Result<Taken> {
        let taken = match followed.and_then(|end| bytes.get(..end)) {
            Some(followed) => sys::send_followed(&self.0, followed, followed.len() < bytes.len()),
            None => sys::send(&self.0, bytes),
        };
        taken.map(Taken::as_it_is)
    }

    pub(super) fn into_stream(self) -> Stream {
        self.0
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.0
    }
}
