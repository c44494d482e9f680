//! One connection of a follower, as bytes: input, output, and commands that wait for their
//! acknowledgement.
//!
//! Commands are written in the order in which they were sent and acknowledged in the same order, by
//! `OK` one by one or by a running count. Each knows its place in the stream of bytes, which shows
//! what the socket has already taken.

use std::collections::VecDeque;

use api::Token;
use clock::Instant;
use wire::{Frame, FrameDecoded};

use crate::connection::asks_for_token;

/// Largest frame accepted from a broker; a publisher gets short answers only.
const MAX_FRAME_BYTES: u32 = 1 << 20;

/// Names one connection of one follower; never used again by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// A publish command that is not acknowledged yet.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) messages: u64,
    pub(super) bytes: Vec<u8>,
    /// Its place in the connection's stream of bytes.
    begin: u64,
    end: u64,
    /// A broker may have accepted it already.
    pub(super) may_repeat: bool,
}

impl Command {
    pub(super) fn new(messages: u64, bytes: Vec<u8>) -> Self {
        Self {
            messages,
            bytes,
            begin: 0,
            end: 0,
            may_repeat: false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The driver has been told to connect.
    Connecting,
    /// IDENTIFY is under way.
    Greeting,
    /// AUTH is under way.
    Authenticating,
    /// Commands may be sent.
    Ready,
}

/// A broker's frame, without a borrow of the input.
#[derive(Debug)]
pub(super) enum Heard {
    /// The answer to IDENTIFY, or to AUTH.
    Greeted(Vec<u8>),
    /// The oldest command is accepted.
    Ok,
    /// So many messages are accepted since IDENTIFY.
    Accepted(u64),
    /// Dealt with; nothing to do for the follower.
    Nothing,
    Error(String),
    Migrate {
        topic: String,
        address: String,
    },
    Throttled {
        topic: String,
        retry_after_us: u32,
    },
}

#[derive(Debug)]
pub(super) struct BrokerConnection {
    pub(super) id: ConnectionId,
    pub(super) address: String,
    pub(super) phase: Phase,
    /// When the driver was told to connect, then when commands could first be sent.
    pub(super) since: Instant,
    /// When the broker last sent something.
    pub(super) heard: Instant,
    input: Vec<u8>,
    /// Bytes of `input` that were heard already.
    heard_bytes: usize,
    output: Vec<u8>,
    /// Bytes that the socket took since the connection began.
    written: u64,
    /// The answer to IDENTIFY, until AUTH is answered.
    greeting: Vec<u8>,
    outstanding: VecDeque<Command>,
    is_cumulative: bool,
    /// Messages accepted on this connection.
    accepted: u64,
}

impl BrokerConnection {
    pub(super) fn new(id: ConnectionId, address: String, now: Instant) -> Self {
        Self {
            id,
            address,
            phase: Phase::Connecting,
            since: now,
            heard: now,
            input: Vec::new(),
            heard_bytes: 0,
            output: Vec::new(),
            written: 0,
            greeting: Vec::new(),
            outstanding: VecDeque::new(),
            is_cumulative: false,
            accepted: 0,
        }
    }

    pub(super) fn output(&self) -> &[u8] {
        &self.output
    }

    pub(super) fn written(&mut self, bytes: usize) {
        let bytes = bytes.min(self.output.len());
        self.output.drain(..bytes);
        self.written += bytes as u64;
    }

    /// Appends bytes that are no publish command.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    pub(super) fn send(&mut self, mut command: Command) {
        command.begin = self.written + self.output.len() as u64;
        command.end = command.begin + command.bytes.len() as u64;
        self.output.extend_from_slice(&command.bytes);
        self.outstanding.push_back(command);
    }

    pub(super) fn is_drained(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// Takes back the newest commands, those of which the socket has no byte yet; oldest first.
    pub(super) fn take_unbegun(&mut self) -> VecDeque<Command> {
        let written = self.written;
        let kept = self
            .outstanding
            .partition_point(|command| command.begin < written);
        let taken = self.outstanding.split_off(kept);
        if let Some(first) = taken.front() {
            self.output.truncate((first.begin - written) as usize);
        }
        taken
    }

    /// Takes back everything that is not acknowledged; the connection is of no further use.
    pub(super) fn take_outstanding(&mut self) -> VecDeque<Command> {
        let written = self.written;
        let mut taken = std::mem::take(&mut self.outstanding);
        for command in &mut taken {
            // A command that was cut short cannot have been accepted.
            command.may_repeat |= command.end <= written;
        }
        taken
    }

    /// Takes the oldest command that is not acknowledged: the one that an error is about.
    pub(super) fn take_oldest(&mut self) -> Option<Command> {
        self.outstanding.pop_front()
    }

    /// Shows `token`, where the answer to IDENTIFY asks for it; gives that answer once nothing more is to be said before commands.
    pub(super) fn introduced(&mut self, answer: Vec<u8>, token: Option<&Token>) -> Option<Vec<u8>> {
        if self.phase == Phase::Authenticating {
            return Some(std::mem::take(&mut self.greeting));
        }
        let token = token.filter(|_| asks_for_token(&answer));
        let Some(token) = token else {
            return Some(answer);
        };
        wire::command::put_auth(&mut self.output, token.secret().as_bytes());
        self.phase = Phase::Authenticating;
        self.greeting = answer;
        None
    }

    /// The broker's answer to IDENTIFY: commands may be sent.
    pub(super) fn greeted(&mut self, answer: &[u8], now: Instant) {
        let answer: serde_json::Value = serde_json::from_slice(answer).unwrap_or_default();
        let granted = answer["srtm"]["ack_every_messages"].as_u64().unwrap_or(0);
        // The answer alone counts: a broker of version 1 grants acks to whoever uses the extension.
        self.is_cumulative = granted > 0;
        self.phase = Phase::Ready;
        self.since = now;
    }

    /// Takes the commands that `heard` acknowledges.
    ///
    /// # Errors
    /// What the broker did against the protocol.
    pub(super) fn acknowledge(&mut self, heard: &Heard) -> Result<Vec<Command>, &'static str> {
        match heard {
            Heard::Ok if self.is_cumulative => Err("an OK instead of a count"),
            Heard::Ok => {
                let command = self.outstanding.pop_front();
                let command = command.ok_or("more acknowledged than was sent")?;
                self.accepted += command.messages;
                Ok(vec![command])
            }
            Heard::Accepted(total) => self.accept_up_to(*total),
            _ => Ok(Vec::new()),
        }
    }

    fn accept_up_to(&mut self, total: u64) -> Result<Vec<Command>, &'static str> {
        if !self.is_cumulative {
            return Err("a count that was not agreed upon");
        }
        if total < self.accepted {
            return Err("a count that fell");
        }
        let mut accepted = Vec::new();
        while self.accepted < total {
            let command = self.outstanding.pop_front();
            let command = command.ok_or("more acknowledged than was sent")?;
            self.accepted += command.messages;
            accepted.push(command);
        }
        if self.accepted > total {
            return Err("a count that cuts a batch in two");
        }
        Ok(accepted)
    }

    /// Appends what was read.
    pub(super) fn received(&mut self, bytes: &[u8], now: Instant) {
        self.heard = now;
        self.input.extend_from_slice(bytes);
    }

    /// The next whole frame; heartbeats are answered here.
    ///
    /// # Errors
    /// What the broker did against the protocol.
    pub(super) fn hear(&mut self) -> Result<Option<Heard>, String> {
        let unheard = &self.input[self.heard_bytes..];
        let (heard, consumed) = match wire::decode_frame(unheard, MAX_FRAME_BYTES) {
            Ok(FrameDecoded::Complete { frame, consumed }) => (heard(frame, self.phase)?, consumed),
            Ok(FrameDecoded::Incomplete { .. }) => {
                self.input.drain(..self.heard_bytes);
                self.heard_bytes = 0;
                return Ok(None);
            }
            Err(error) => return Err(error.to_string()),
        };
        self.heard_bytes += consumed;
        Ok(Some(match heard {
            Some(heard) => heard,
            None => {
                self.output.extend_from_slice(b"NOP\n");
                Heard::Nothing
            }
        }))
    }
}

/// `None` for a heartbeat.
fn heard(frame: Frame<'_>, phase: Phase) -> Result<Option<Heard>, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Some(match frame {
        Frame::Response(b"_heartbeat_") => return Ok(None),
        Frame::Response(answer) if matches!(phase, Phase::Greeting | Phase::Authenticating) => {
            Heard::Greeted(answer.to_vec())
        }
        Frame::Response(b"OK") => Heard::Ok,
        Frame::Response(other) => return Err(format!("an unexpected answer {:?}", text(other))),
        Frame::Error(body) => Heard::Error(text(body)),
        Frame::Ack { total_messages } => Heard::Accepted(total_messages),
        Frame::Migrate { topic, address } => Heard::Migrate {
            topic: topic.to_owned(),
            address: address.to_owned(),
        },
        Frame::Throttled {
            retry_after_us,
            topic,
        } => Heard::Throttled {
            topic: topic.to_owned(),
            retry_after_us,
        },
        Frame::Message { .. } => return Err("a message without a subscription".to_owned()),
    }))
}
