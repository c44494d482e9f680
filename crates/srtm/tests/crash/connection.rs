//! One connection of an NSQ client, and HTTP requests; what fails is the end of them, for the broker is killed.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use wire::{Frame, FrameDecoded, MessageId};

/// Longest frame that is read.
const FRAME_BYTES_MAX: u32 = 8 << 20;
/// A broker that says nothing for so long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// What a broker says.
#[derive(Debug)]
pub(crate) enum Said {
    Response(Vec<u8>),
    Error(String),
    Message { id: MessageId, body: Vec<u8> },
    Ack(u64),
    Nothing,
}

/// A connection that speaks NSQ's protocol.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    /// Of the input, so much was read.
    read: usize,
    pub(crate) output: Vec<u8>,
}

impl Connection {
    /// Connects and says IDENTIFY; `fields` are further ones of its JSON object.
    pub(crate) fn open(address: &str, fields: &str) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut connection = Connection {
            stream,
            input: Vec::new(),
            read: 0,
            output: b"  V2".to_vec(),
        };
        let json = format!(r#"{{"feature_negotiation":true,"heartbeat_interval":60000{fields}}}"#);
        wire::command::put_identify(&mut connection.output, json.as_bytes());
        connection.flush()?;
        match connection.next(SILENCE_MAX)? {
            Said::Response(_) => Ok(connection),
            other => Err(io::Error::other(format!("IDENTIFY: {other:?}"))),
        }
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let output = std::mem::take(&mut self.output);
        self.stream.write_all(&output)
    }

    /// The next thing that the broker says, [`Said::Nothing`] if that takes longer.
    pub(crate) fn next(&mut self, within: Duration) -> io::Result<Said> {
        loop {
            match self.decoded()? {
                Some(Said::Response(text)) if text == b"_heartbeat_" => {
                    wire::command::put_nop(&mut self.output);
                    self.flush()?;
                    continue;
                }
                Some(said) => return Ok(said),
                None => {}
            }
            self.stream.set_read_timeout(Some(within))?;
            let mut room = [0; 64 * 1024];
            match self.stream.read(&mut room) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.input.extend_from_slice(&room[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Said::Nothing),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn decoded(&mut self) -> io::Result<Option<Said>> {
        let frame = wire::decode_frame(&self.input[self.read..], FRAME_BYTES_MAX);
        let (said, consumed) = match frame.map_err(io::Error::other)? {
            FrameDecoded::Incomplete { .. } => {
                self.input.drain(..std::mem::take(&mut self.read));
                return Ok(None);
            }
            FrameDecoded::Complete { frame, consumed } => (said(frame), consumed),
        };
        self.read += consumed;
        Ok(Some(said))
    }

    /// Says CLS and reads on until the broker has heard that, with all that was said before it; how much of that it refused.
    pub(crate) fn close(mut self) -> io::Result<usize> {
        let mut refused = 0;
        wire::command::put_cls(&mut self.output);
        self.flush()?;
        loop {
            match self.next(SILENCE_MAX)? {
                Said::Response(text) if text == b"CLOSE_WAIT" => return Ok(refused),
                Said::Error(_) => refused += 1,
                Said::Nothing => return Err(ErrorKind::TimedOut.into()),
                _ => {}
            }
        }
    }

    /// Is gone at once.
    pub(crate) fn cut(self) {
        // It may be cut already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn said(frame: Frame<'_>) -> Said {
    match frame {
        Frame::Response(text) => Said::Response(text.to_vec()),
        Frame::Error(text) => Said::Error(String::from_utf8_lossy(text).into_owned()),
        Frame::Message { id, body, .. } => Said::Message {
            id,
            body: body.to_vec(),
        },
        Frame::Ack { total_messages } => Said::Ack(total_messages),
        Frame::Migrate { .. } | Frame::Throttled { .. } => Said::Nothing,
    }
}

/// A request over HTTP: status and body of the answer.
pub(crate) fn request(address: &str, line: &str, body: &[u8]) -> io::Result<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    let head = format!(
        "{line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let head = b"HTTP/1.1 ";
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let (Some(end), true) = (end, answer.starts_with(head)) else {
        return Err(ErrorKind::UnexpectedEof.into());
    };
    let status = std::str::from_utf8(&answer[head.len()..head.len() + 3]);
    let status = status.ok().and_then(|status| status.parse().ok());
    let status = status.ok_or(ErrorKind::InvalidData)?;
    Ok((status, answer.split_off(end + 4)))
}
