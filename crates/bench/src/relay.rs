//! The floor: the least that a broker on one core can do for NSQ publishers and one subscriber.
//!
//! One epoll loop reads PUB and MPUB, finds where messages end, and forwards them as message
//! frames, written once per turn of the loop. It keeps no message, stamps no time, limits nothing,
//! ignores RDY and throws FIN away; messages that come while nobody is subscribed are thrown away
//! too. What remains is the cost of the kernel's TCP, which every broker pays. Not a broker for any
//! other use.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use clap::Args;
use wire::{Command, Decoded, Limits, MESSAGE_HEADER_BYTES, MessageId, OK_FRAME, Phase};

use crate::error::BenchError;
use crate::publishers::{is_transient, write_some};
use crate::sys::{self, Epoll};

const LISTENER: u64 = u64::MAX;
/// Events taken in a turn: bounds how long a forwarded message waits for its turn to end.
const EVENTS_PER_TURN: usize = 128;
const READ_BYTES: usize = 64 << 10;
/// Bytes waiting for the subscriber above which nothing is read from publishers.
const MAX_WAITING_BYTES: usize = 4 << 20;
/// Messages of a publisher between two cumulative acknowledgements, and the time: the terms that the
/// generator asks of every broker with the extension. Without the time the floor would do less.
const MESSAGES_PER_ACK: u64 = 64;
const ACK_INTERVAL_NS: u64 = 1_000_000_000;
const MESSAGE_ID: MessageId = MessageId(*b"0000000000000000");
const LIMITS: Limits = Limits {
    max_msg_size: 1 << 20,
    max_body_size: 5 << 20,
    max_line_bytes: 16 << 10,
    max_rdy_count: 1 << 20,
    max_req_timeout_ms: 3_600_000,
};

/// Options of `bench relay`.
#[derive(Debug, Clone, Args)]
pub struct RelayOptions {
    /// Address to accept connections on.
    #[arg(long, default_value = "127.0.0.1:4150")]
    pub listen: SocketAddr,
    /// Answer every PUB with OK; without it, acknowledge now and then.
    #[arg(long)]
    pub ok: bool,
    /// Core to run on.
    #[arg(long)]
    pub core: Option<usize>,
}

/// Relays until the process is ended.
///
/// # Errors
/// When the address cannot be listened on or the system refuses something.
pub fn relay(options: &RelayOptions) -> Result<(), BenchError> {
    if let Some(core) = options.core {
        sys::pin_to_core(core).map_err(BenchError::io(format!("run on core {core}")))?;
    }
    sys::raise_open_files().map_err(BenchError::io("raise the limit of open files"))?;
    let listener = TcpListener::bind(options.listen)
        .map_err(BenchError::io(format!("listen on {}", options.listen)))?;
    serve(&listener, options.ok)
}

/// Relays for the connections that `listener` accepts; returns only on failure.
///
/// # Errors
/// When the system refuses something.
pub fn serve(listener: &TcpListener, ok: bool) -> Result<(), BenchError> {
    listener
        .set_nonblocking(true)
        .map_err(BenchError::io("make the listener non-blocking"))?;
    let mut epoll = Epoll::new(EVENTS_PER_TURN).map_err(BenchError::io("epoll"))?;
    epoll
        .add(listener, LISTENER, false)
        .map_err(BenchError::io("epoll"))?;
    let mut relay = Relay {
        ok,
        connections: Vec::new(),
        subscriber: None,
        waiting: Vec::new(),
        now_ns: sys::monotonic_ns(),
    };
    let mut scratch = vec![0; READ_BYTES];
    let mut tokens = Vec::with_capacity(EVENTS_PER_TURN);
    loop {
        // A part of the frames may be left when the subscriber's socket is full.
        let timeout = (!relay.waiting.is_empty()).then_some(Duration::from_millis(1));
        tokens.clear();
        tokens.extend(
            epoll
                .wait(timeout)
                .map_err(BenchError::io("wait for events"))?,
        );
        relay.now_ns = sys::monotonic_ns();
        for token in &tokens {
            if *token == LISTENER {
                relay.accept(listener, &epoll)?;
            } else {
                relay.read(*token as usize, &mut scratch);
            }
        }
        relay.flush()?;
    }
}

struct Relay {
    ok: bool,
    connections: Vec<Option<Connection>>,
    subscriber: Option<usize>,
    /// Frames that the subscriber has not been sent.
    waiting: Vec<u8>,
    /// When the turn began.
    now_ns: u64,
}

struct Connection {
    stream: TcpStream,
    /// Start of a command whose end has not arrived.
    partial: Vec<u8>,
    greeted: bool,
    /// Messages taken, and how many of them the last cumulative acknowledgement counted.
    messages: u64,
    acknowledged: u64,
    acknowledged_at_ns: u64,
    /// Publish commands that have not been answered by OK.
    unanswered: usize,
}

impl Relay {
    fn accept(&mut self, listener: &TcpListener, epoll: &Epoll) -> Result<(), BenchError> {
        loop {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if is_transient(error.kind()) => return Ok(()),
                Err(error) => return Err(BenchError::io("accept")(error)),
            };
            stream
                .set_nonblocking(true)
                .map_err(BenchError::io("make a connection non-blocking"))?;
            stream
                .set_nodelay(true)
                .map_err(BenchError::io("TCP_NODELAY"))?;
            let free = self.connections.iter().rposition(Option::is_none);
            let index = free.unwrap_or(self.connections.len());
            epoll
                .add(&stream, index as u64, false)
                .map_err(BenchError::io("epoll"))?;
            let connection = Connection {
                stream,
                partial: Vec::new(),
                greeted: false,
                messages: 0,
                unanswered: 0,
                acknowledged: 0,
                acknowledged_at_ns: self.now_ns,
            };
            match free {
                Some(index) => self.connections[index] = Some(connection),
                None => self.connections.push(Some(connection)),
            }
        }
    }

    /// Reads once; a connection that has ended or breaks the protocol is closed.
    fn read(&mut self, index: usize, scratch: &mut [u8]) {
        let Some(Some(connection)) = self.connections.get_mut(index) else {
            return;
        };
        let read = match connection.stream.read(scratch) {
            Ok(0) => 0,
            Ok(read) => read,
            Err(error) if is_transient(error.kind()) => return,
            Err(_) => 0,
        };
        let is_subscriber = self.subscriber == Some(index);
        if is_subscriber && read > 0 {
            return;
        }
        let forward = self.subscriber.is_some();
        let taken = if read == 0 {
            None
        } else {
            connection.take(
                &scratch[..read],
                self.ok,
                self.now_ns,
                forward.then_some(&mut self.waiting),
            )
        };
        match taken {
            Some(subscribed) => {
                if subscribed {
                    self.subscriber = Some(index);
                }
            }
            None => {
                self.connections[index] = None;
                if is_subscriber {
                    self.subscriber = None;
                    self.waiting.clear();
                }
            }
        }
    }

    /// Writes what waits; while too much does, nothing else is done.
    fn flush(&mut self) -> Result<(), BenchError> {
        let Some(index) = self.subscriber else {
            return Ok(());
        };
        while !self.waiting.is_empty() {
            let Some(Some(connection)) = self.connections.get_mut(index) else {
                return Ok(());
            };
            let written =
                write_some(&mut connection.stream, &self.waiting).unwrap_or(self.waiting.len());
            self.waiting.drain(..written);
            if self.waiting.len() <= MAX_WAITING_BYTES {
                return Ok(());
            }
            sys::pause_for(Duration::from_micros(100));
        }
        Ok(())
    }
}

impl Connection {
    /// Takes bytes that were read; answers them. `Some(true)` when the connection subscribed, `None` when it is to be
    /// closed.
    fn take(
        &mut self,
        read: &[u8],
        ok: bool,
        now_ns: u64,
        mut out: Option<&mut Vec<u8>>,
    ) -> Option<bool> {
        let joined;
        let mut bytes = read;
        if !self.partial.is_empty() {
            self.partial.extend_from_slice(read);
            joined = std::mem::take(&mut self.partial);
            bytes = &joined;
        }
        let mut subscribed = false;
        loop {
            let consumed = match take_pub(bytes, out.as_deref_mut()) {
                Some(consumed) => {
                    self.messages += 1;
                    self.unanswered += 1;
                    consumed
                }
                None => match self.take_other(bytes, ok, out.as_deref_mut(), &mut subscribed)? {
                    0 => break,
                    consumed => consumed,
                },
            };
            bytes = &bytes[consumed..];
        }
        self.partial.extend_from_slice(bytes);
        self.acknowledge(ok, now_ns)?;
        Some(subscribed)
    }

    /// Everything but PUB; 0 while the command is incomplete, `None` for one that the relay does not know.
    fn take_other(
        &mut self,
        bytes: &[u8],
        ok: bool,
        out: Option<&mut Vec<u8>>,
        subscribed: &mut bool,
    ) -> Option<usize> {
        if !self.greeted {
            self.greeted = bytes.starts_with(wire::MAGIC_V2);
            return if self.greeted || bytes.len() >= 4 {
                self.greeted.then_some(4)
            } else {
                Some(0)
            };
        }
        let Decoded::Complete { command, consumed } =
            wire::decode(bytes, &LIMITS, Phase::Init, true).ok()?
        else {
            return Some(0);
        };
        match command {
            Command::Mpub { messages, .. } => {
                self.messages += messages.len() as u64;
                self.unanswered += 1;
                let Some(out) = out else {
                    return Some(consumed);
                };
                messages.iter().for_each(|body| put_message(out, body));
            }
            Command::Identify { .. } => {
                let answer: &[u8] = if ok {
                    b"{}"
                } else {
                    br#"{"srtm":{"version":1,"ack_every_messages":64}}"#
                };
                let mut frame = Vec::new();
                wire::put_response(&mut frame, answer);
                self.stream.write_all(&frame).ok()?;
            }
            Command::Sub { .. } => {
                self.stream.write_all(&OK_FRAME).ok()?;
                *subscribed = true;
            }
            Command::Nop => {}
            _ => return None,
        }
        Some(consumed)
    }

    /// `None` when the connection takes no answer.
    fn acknowledge(&mut self, ok: bool, now_ns: u64) -> Option<()> {
        if ok {
            let unanswered = std::mem::take(&mut self.unanswered);
            return match unanswered {
                0 => Some(()),
                1 => self.stream.write_all(&OK_FRAME).ok(),
                _ => self.stream.write_all(&OK_FRAME.repeat(unanswered)).ok(),
            };
        }
        let unacknowledged = self.messages - self.acknowledged;
        let is_due = now_ns - self.acknowledged_at_ns >= ACK_INTERVAL_NS;
        if unacknowledged >= MESSAGES_PER_ACK || (is_due && unacknowledged > 0) {
            self.acknowledged = self.messages;
            self.acknowledged_at_ns = now_ns;
            let mut frame = Vec::with_capacity(16);
            wire::put_ack(&mut frame, self.messages);
            self.stream.write_all(&frame).ok()?;
        }
        Some(())
    }
}

/// Forwards the PUB at the start of `bytes` and returns its length; `None` if it is not complete.
#[inline]
fn take_pub(bytes: &[u8], out: Option<&mut Vec<u8>>) -> Option<usize> {
    let line = bytes.strip_prefix(b"PUB ")?;
    let topic_bytes = line.iter().position(|byte| *byte == b'\n')?;
    let (size, rest) = line[topic_bytes + 1..].split_first_chunk()?;
    let body_bytes = u32::from_be_bytes(*size) as usize;
    let body = rest.get(..body_bytes)?;
    if let Some(out) = out {
        put_message(out, body);
    }
    Some(4 + topic_bytes + 1 + 4 + body_bytes)
}

#[inline]
fn put_message(out: &mut Vec<u8>, body: &[u8]) {
    let mut header = [0; MESSAGE_HEADER_BYTES];
    wire::put_message_header(&mut header, body.len(), 0, 1, MESSAGE_ID);
    out.extend_from_slice(&header);
    out.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::{RunOptions, Target, run, run_load};
    use crate::load::Load;
    use crate::protocol::Protocol;
    use crate::protocol::nsq::{Acknowledgement, Nsq};
    use crate::workload::Workload;
    use ::workload::Spec;

    #[test]
    fn finds_the_end_of_a_publication() {
        let whole = b"PUB t\n\x00\x00\x00\x03abcPUB";
        let mut out = Vec::new();
        assert_eq!(take_pub(whole, Some(&mut out)), Some(13));
        assert_eq!(out.len(), MESSAGE_HEADER_BYTES + 3);
        for length in 0..13 {
            assert_eq!(take_pub(&whole[..length], None), None, "{length} bytes");
        }
        assert_eq!(take_pub(b"MPUB t\n\x00\x00\x00\x03abc", None), None);
    }

    fn target(address: SocketAddr, ok: bool) -> Target {
        Target {
            address,
            protocol: Protocol::Nsq(Nsq {
                topic: "t".to_owned(),
                channel: "c".to_owned(),
                acknowledgement: if ok {
                    Acknowledgement::Each
                } else {
                    Acknowledgement::Cumulative
                },
                unbuffered: false,
            }),
            trust: None,
            pid: None,
            core: 0,
        }
    }

    /// The generator against the relay, in one process: every message arrives once and in order.
    #[test]
    fn every_message_of_a_run_arrives_once() {
        for (ok, mpub, batch_messages) in [(true, false, 1), (false, false, 3), (true, true, 4)] {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let address = listener.local_addr().expect("bound");
            std::thread::spawn(move || serve(&listener, ok));
            let workload = Workload {
                publishers: 20,
                rate_per_publisher: 200.0,
                warmup_ms: 50,
                measure_ms: 200,
                mpub,
                batch_messages,
                ..Workload::default()
            };
            let target = target(address, ok);
            let options = RunOptions {
                drain: Duration::from_secs(20),
                keep_samples: true,
            };
            let outcome = run(&workload, &target, options).expect("the run succeeds");
            let counts = outcome.counts;
            assert!(counts.sent > 500, "{counts:?}");
            assert_eq!(counts.received, counts.sent);
            assert_eq!(
                (
                    counts.missing,
                    counts.duplicates,
                    counts.foreign,
                    counts.out_of_order
                ),
                (0, 0, 0, 0)
            );
            assert_eq!(outcome.samples.len() as u64, counts.sent);
        }
    }

    #[test]
    fn classes_keep_their_rates_and_batches() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        std::thread::spawn(move || serve(&listener, true));
        // The last class stops by itself before the end.
        let text = "warmup = \"50ms\"\nduration = \"300ms\"\n\
                    [[publishers]]\ncount = 10\nrate = 100\nbytes = 24\n\
                    [[publishers]]\ncount = 3\nrate = 400\nbatch = 8\nbytes = 5000\narrivals = \"periodic\"\n\
                    [[publishers]]\ncount = 2\nrate = 200\nramp = { from = 1, to = 0, over = \"200ms\" }\n";
        let load = Load {
            spec: Spec::parse(text).expect("valid"),
            mpub: false,
        };
        let options = RunOptions {
            drain: Duration::from_secs(20),
            keep_samples: true,
        };
        let outcome = run_load(&load, &target(address, true), options).expect("the run succeeds");
        let due = |publishers: std::ops::Range<u32>| -> u64 {
            let due = load.schedule().take_while(|send| send.at_ns < 350_000_000);
            let mine = due.filter(|send| publishers.contains(&send.publisher));
            mine.map(|send| u64::from(send.messages)).sum()
        };
        for publishers in [0..10, 10..13, 13..15] {
            let mine = outcome
                .samples
                .iter()
                .filter(|s| publishers.contains(&s.publisher));
            assert_eq!(
                mine.count() as u64,
                due(publishers.clone()),
                "{publishers:?}"
            );
        }
        let counts = outcome.counts;
        assert_eq!((counts.received, counts.missing), (counts.sent, 0));
        assert_eq!((counts.duplicates, counts.out_of_order), (0, 0));
    }
}
