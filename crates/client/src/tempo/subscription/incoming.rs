//! One connection from a publisher: its socket, and received bytes that wait for their turn.
//!
//! Between turns a connection keeps only what is left over, usually the beginning of a message that
//! was cut in two; the room to read into belongs to the task, so a thousand quiet publishers cost
//! little.

use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::Arc;

use wire::announce::{InstanceId, TopicId};
use wire::tempo::{MessageDecoded, decode_message};

use crate::tempo::poller::{Poller, Target, Watching};

/// Bytes that one read asks for: the messages of one turn, unless the turn is over sooner.
pub(in crate::tempo) const READ_BYTES: usize = 64 * 1024;

/// A connection whose sender has said who it is.
pub(in crate::tempo) struct Incoming {
    /// The sender.
    pub(in crate::tempo) sender: InstanceId,
    watching: Option<Watching>,
    stream: TcpStream,
    /// Read and not served yet.
    left: Vec<u8>,
}

/// What a read needs besides the connection.
pub(super) struct Reading<'t> {
    /// Room, with whatever content.
    pub(super) work: &'t mut Vec<u8>,
    /// Longer messages break the protocol.
    pub(super) body_bytes_max: u32,
}

/// The fate of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It goes on.
    Open,
    /// The sender has closed it, or the network has.
    Ended,
    /// The bytes break the protocol.
    Broken,
}

impl Incoming {
    /// A connection from `sender`, of which the bytes `left` have been read behind its hello.
    pub(in crate::tempo) fn new(sender: InstanceId, stream: TcpStream, left: Vec<u8>) -> Self {
        Incoming {
            sender,
            watching: None,
            stream,
            left,
        }
    }

    /// Lets `target` be told under `key` of what comes, and of what is here already.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn watch(
        &mut self,
        poller: &Arc<Poller>,
        target: Arc<dyn Target>,
        key: u32,
    ) -> io::Result<()> {
        let watching = poller.watch(&self.stream, target, key)?;
        watching.tell_again();
        self.watching = Some(watching);
        Ok(())
    }

    /// Serves what is left, then what one read brings, until `take` says that the turn is over. Asks to be told again
    /// where there may be more.
    pub(super) fn read(
        &mut self,
        reading: Reading<'_>,
        mut take: impl FnMut(TopicId, &[u8]) -> bool,
    ) -> Fate {
        let Reading {
            work,
            body_bytes_max,
        } = reading;
        let is_closing = self.watching.as_ref().is_some_and(Watching::look);
        let mut filled = self.left.len();
        if work.len() < filled + READ_BYTES {
            work.resize(filled + READ_BYTES, 0);
        }
        work[..filled].copy_from_slice(&self.left);
        self.left.clear();
        let Ok(mut served) = serve(&work[..filled], body_bytes_max, &mut take) else {
            return Fate::Broken;
        };
        let mut may_have_more = true;
        if !served.is_over {
            work.copy_within(served.bytes..filled, 0);
            filled -= served.bytes;
            match self.stream.read(&mut work[filled..filled + READ_BYTES]) {
                Ok(0) => return Fate::Ended,
                Ok(bytes) => {
                    filled += bytes;
                    // A short read took all there was; the sender's end may lie behind it untold.
                    may_have_more = bytes == READ_BYTES || is_closing;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => may_have_more = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Fate::Ended,
            }
            served = match serve(&work[..filled], body_bytes_max, &mut take) {
                Ok(served) => served,
                Err(Broken) => return Fate::Broken,
            };
        }
        self.left.extend_from_slice(&work[served.bytes..filled]);
        if (may_have_more || served.is_over)
            && let Some(watching) = &self.watching
        {
            watching.tell_again();
        }
        Fate::Open
    }
}

/// How far the messages of a buffer were served.
struct Served {
    bytes: usize,
    /// The turn is over; there may be whole messages left.
    is_over: bool,
}

struct Broken;

fn serve(
    bytes: &[u8],
    body_bytes_max: u32,
    take: &mut impl FnMut(TopicId, &[u8]) -> bool,
) -> Result<Served, Broken> {
    let mut served = Served {
        bytes: 0,
        is_over: false,
    };
    while !served.is_over {
        let rest = &bytes[served.bytes..];
        match decode_message(rest, body_bytes_max).map_err(|_| Broken)? {
            MessageDecoded::Complete { id, body, used } => {
                served.bytes += used;
                served.is_over = take(id, body);
            }
            MessageDecoded::Incomplete { .. } => break,
        }
    }
    Ok(served)
}

#[cfg(test)]
mod tests;
