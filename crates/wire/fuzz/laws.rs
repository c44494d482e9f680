//! Laws for any bytes, shared by the fuzz targets and the smoke test on stable Rust.
//!
//! An input is one byte that selects the connection, then the stream it sends. Beyond not
//! panicking: consumed and needed bytes are in range, values are within the limits they were
//! checked against, a part of a command is never taken for another, and a command written again is
//! the same command. An IDENTIFY body is negotiated: what is granted is within its bounds and
//! survives being asked for again. An announcement has one form only, and is believed with the
//! right key or none. A datagram of limiters is valid on one path and as one number. A hand-over
//! has one form only.
#![allow(dead_code, reason = "each fuzz target uses one side")]

use wire::announce::{AnnounceError, Announcement, Key, MAX_DATAGRAM_BYTES, MAX_EXPIRY_MS};
use wire::gossip::{self, Datagram, DatagramError};
use wire::handover::{HANDOVER_MESSAGES_MAX, decode_handover, put_handover};
use wire::tempo::{self, HelloDecoded, MessageDecoded, SIGNED_HELLO_BYTES, TempoError};
use wire::{
    Command, Decoded, Frame, FrameDecoded, Limits, MESSAGE_HEADER_BYTES, Phase, ProtocolError,
    WireError, command, decode, decode_frame, identify, is_valid_address, is_valid_name, put_ack,
    put_message_header, put_migrate, put_response, put_throttled,
};

/// Small enough for a fuzzer to meet each bound.
const SMALL: Limits = Limits {
    max_msg_size: 24,
    max_body_size: 64,
    max_line_bytes: 96,
    max_rdy_count: 10,
    max_req_timeout_ms: 1000,
};

/// The longest error text: 1024 repeated bytes, at most four for each, and some words.
const MAX_ERROR_BYTES: usize = 4 * 1024 + 128;

/// A client's stream.
pub fn check_decode(input: &[u8]) {
    let Some((&selector, mut rest)) = input.split_first() else {
        return;
    };
    let connection = Connection {
        phase: [Phase::Init, Phase::Subscribed, Phase::Closing][usize::from(selector % 3)],
        heartbeats: selector & 0x40 == 0,
        limits: if selector & 0x80 == 0 {
            SMALL
        } else {
            Limits::default()
        },
    };
    loop {
        match connection.decode(rest) {
            Ok(Decoded::Complete { command, consumed }) => {
                assert!(0 < consumed && consumed <= rest.len());
                connection.check_command(&command);
                connection.check_parts(&rest[..consumed], &command);
                rest = &rest[consumed..];
            }
            Ok(Decoded::Incomplete { needed }) => {
                return connection.check_needed(rest.len(), needed);
            }
            Err(error) => return connection.check_error(rest, &error),
        }
    }
}

struct Connection {
    phase: Phase,
    heartbeats: bool,
    limits: Limits,
}

impl Connection {
    fn decode<'a>(&self, bytes: &'a [u8]) -> Result<Decoded<'a>, ProtocolError> {
        decode(bytes, &self.limits, self.phase, self.heartbeats)
    }

    fn check_needed(&self, length: usize, needed: usize) {
        let longest_body = self.limits.max_body_size.max(self.limits.max_msg_size);
        assert!(length < needed);
        assert!(needed <= self.limits.max_line_bytes as usize + 4 + longest_body as usize);
    }

    fn check_error(&self, bytes: &[u8], error: &ProtocolError) {
        let body = error.to_string();
        assert!(
            error.fatal && body.starts_with(error.code.as_str()) && body.len() <= MAX_ERROR_BYTES,
            "{body}"
        );
        for cut in cuts(bytes.len()) {
            match self.decode(&bytes[..cut]) {
                Ok(Decoded::Incomplete { needed }) => self.check_needed(cut, needed),
                Ok(taken) => panic!("a part was taken: {taken:?}"),
                Err(earlier) => assert_eq!(&earlier, error),
            }
        }
    }

    /// A whole command is whole only with its last byte, and does not depend on what follows.
    fn check_parts(&self, bytes: &[u8], command: &Command<'_>) {
        let whole = Decoded::Complete {
            command: *command,
            consumed: bytes.len(),
        };
        assert_eq!(self.decode(bytes), Ok(whole));
        for cut in cuts(bytes.len()) {
            match self.decode(&bytes[..cut]) {
                Ok(Decoded::Incomplete { needed }) => {
                    assert!(cut < needed && needed <= bytes.len())
                }
                other => panic!("{cut} of {} bytes: {other:?}", bytes.len()),
            }
        }
        // An id may end in a carriage return, but only before a spare word.
        if let Command::Fin { id } | Command::Touch { id } = command
            && id.0.ends_with(b"\r")
        {
            return;
        }
        let mut again = Vec::new();
        put(&mut again, command);
        match self.decode(&again) {
            Ok(Decoded::Complete {
                command: read,
                consumed,
            }) => {
                assert_eq!(consumed, again.len());
                assert_eq!(read, *command);
            }
            other => panic!("{command:?} written again: {other:?}"),
        }
    }

    fn check_command(&self, command: &Command<'_>) {
        let message =
            |body: &[u8]| !body.is_empty() && body.len() <= self.limits.max_msg_size as usize;
        let named = |name: &str| is_valid_name(name.as_bytes());
        let subscribed = self.phase != Phase::Init;
        let fine = match command {
            Command::Identify { body } => {
                check_identify(body);
                !subscribed && !body.is_empty() && body.len() <= self.limits.max_body_size as usize
            }
            Command::Auth { body } => {
                !subscribed && !body.is_empty() && body.len() <= self.limits.max_body_size as usize
            }
            Command::Sub { topic, channel } => {
                !subscribed && self.heartbeats && named(topic) && named(channel)
            }
            Command::Pub { topic, body } => named(topic) && message(body),
            Command::Mpub { topic, messages } => {
                assert_eq!(messages.iter().count(), messages.len());
                assert_eq!(
                    messages.iter().map(<[u8]>::len).sum::<usize>(),
                    messages.total_body_bytes()
                );
                named(topic) && messages.len() > 0 && messages.iter().all(message)
            }
            Command::Dpub {
                topic,
                delay_ms,
                body,
            } => named(topic) && message(body) && *delay_ms <= self.limits.max_req_timeout_ms,
            Command::Rdy { count } => {
                self.phase == Phase::Subscribed && *count <= self.limits.max_rdy_count
            }
            Command::Fin { .. } | Command::Touch { .. } => subscribed,
            Command::Req { delay_ms, .. } => {
                subscribed && *delay_ms <= self.limits.max_req_timeout_ms
            }
            Command::Cls => self.phase == Phase::Subscribed,
            Command::Nop => true,
        };
        assert!(fine, "{command:?} in {:?}", self.phase);
    }
}

fn check_identify(body: &[u8]) {
    let server = identify::ServerLimits::default();
    let (terms, answer) = match identify::negotiate(body, &server) {
        Ok(granted) => granted,
        Err(error) => {
            assert!(error.fatal && error.to_string().len() <= MAX_ERROR_BYTES);
            return;
        }
    };
    let extends = terms.acks.is_some() || terms.declaration.is_some();
    assert!(!extends || answer.is_some());
    let Some(declaration) = &terms.declaration else {
        return;
    };
    let text = |text: &String| (1..=identify::MAX_PUBLISHER_TEXT_BYTES).contains(&text.len());
    let is_rate = |rate: f64| rate > 0.0 && rate <= identify::MAX_PUBLISHER_RATE;
    assert!(text(&declaration.id) && declaration.id.bytes().all(|byte| byte.is_ascii_graphic()));
    assert!(declaration.group.as_ref().is_none_or(text));
    assert!(declaration.rate.is_none_or(is_rate));
    assert!((1..=identify::MAX_PUBLISHER_BATCH).contains(&declaration.batch));
    let again = identify::Identify {
        feature_negotiation: true,
        // Reading decimals may miss the last bit, so only the rest comes back exactly.
        publisher: Some(identify::Declaration {
            rate: None,
            ..declaration.clone()
        }),
        ..identify::Identify::default()
    };
    match identify::negotiate(&again.to_json(), &server) {
        Ok((granted, _)) => assert_eq!(granted.declaration, again.publisher),
        Err(error) => panic!("{declaration:?} asked for again: {error}"),
    }
}

/// A broker's stream.
pub fn check_decode_frame(input: &[u8]) {
    let Some((&selector, mut rest)) = input.split_first() else {
        return;
    };
    let max_bytes = if selector & 0x80 == 0 { 64 } else { 1 << 20 };
    loop {
        match decode_frame(rest, max_bytes) {
            Ok(FrameDecoded::Complete { frame, consumed }) => {
                assert!(
                    8 <= consumed && consumed <= rest.len() && consumed <= 4 + max_bytes as usize
                );
                let mut again = Vec::new();
                put_frame(&mut again, &frame);
                assert_eq!(again, rest[..consumed]);
                check_frame_parts(&rest[..consumed], max_bytes, None);
                rest = &rest[consumed..];
            }
            Ok(FrameDecoded::Incomplete { needed }) => {
                assert!(rest.len() < needed && needed <= 4 + max_bytes as usize);
                return;
            }
            Err(error) => return check_frame_parts(rest, max_bytes, Some(error)),
        }
    }
}

fn check_frame_parts(bytes: &[u8], max_bytes: u32, error: Option<WireError>) {
    for cut in cuts(bytes.len()) {
        match decode_frame(&bytes[..cut], max_bytes) {
            Ok(FrameDecoded::Incomplete { needed }) => assert!(cut < needed),
            Ok(taken) => panic!("a part was taken: {taken:?}"),
            Err(earlier) => assert_eq!(Some(earlier), error),
        }
    }
}

/// Where to cut `length` bytes: everywhere if they are few, else in some places.
fn cuts(length: usize) -> impl Iterator<Item = usize> {
    (0..length).filter(move |cut| length <= 64 || cut % (length / 32) == 0 || *cut + 8 >= length)
}

fn put(out: &mut Vec<u8>, command: &Command<'_>) {
    match *command {
        Command::Identify { body } => command::put_identify(out, body),
        Command::Sub { topic, channel } => command::put_sub(out, topic, channel),
        Command::Pub { topic, body } => command::put_pub(out, topic, body),
        Command::Mpub { topic, messages } => {
            command::put_mpub(out, topic, &messages.iter().collect::<Vec<_>>())
        }
        Command::Dpub {
            topic,
            delay_ms,
            body,
        } => command::put_dpub(out, topic, delay_ms, body),
        Command::Rdy { count } => command::put_rdy(out, count),
        Command::Fin { id } => command::put_fin(out, id),
        Command::Req { id, delay_ms } => command::put_req(out, id, delay_ms),
        Command::Touch { id } => command::put_touch(out, id),
        Command::Cls => command::put_cls(out),
        Command::Nop => command::put_nop(out),
        Command::Auth { body } => command::put_auth(out, body),
    }
}

fn put_frame(out: &mut Vec<u8>, frame: &Frame<'_>) {
    match *frame {
        Frame::Response(body) => put_response(out, body),
        Frame::Error(body) => {
            put_response(out, body);
            out[7] = 1;
        }
        Frame::Message {
            timestamp_ns,
            attempts,
            id,
            body,
        } => {
            let mut header = [0; MESSAGE_HEADER_BYTES];
            put_message_header(&mut header, body.len(), timestamp_ns, attempts, id);
            out.extend_from_slice(&header);
            out.extend_from_slice(body);
        }
        Frame::Ack { total_messages } => put_ack(out, total_messages),
        Frame::Migrate { topic, address } => {
            assert!(is_valid_name(topic.as_bytes()) && is_valid_address(address));
            put_migrate(out, topic, address);
        }
        Frame::Throttled {
            retry_after_us,
            topic,
        } => {
            assert!(is_valid_name(topic.as_bytes()));
            put_throttled(out, topic, retry_after_us);
        }
    }
}

/// A datagram on the announcement channel.
pub fn check_announcement(input: &[u8]) {
    let Some((&selector, datagram)) = input.split_first() else {
        return;
    };
    let key = Key::from_text("fuzz");
    let is_signed = selector & 1 != 0;
    let Ok(read) = Announcement::decode(datagram, is_signed.then_some(&key)) else {
        return;
    };
    let mut plain = Vec::new();
    read.encode(None, &mut plain);
    let mut signed = Vec::new();
    read.encode(Some(&key), &mut signed);
    assert_eq!(datagram, if is_signed { &signed } else { &plain });
    assert!((1..=MAX_EXPIRY_MS).contains(&read.expiry_ms));
    for cut in cuts(plain.len()) {
        assert!(Announcement::decode(&plain[..cut], None).is_err());
    }
    assert_eq!(
        Announcement::decode(&plain, Some(&key)),
        Err(AnnounceError::Unsigned)
    );
    if signed.len() <= MAX_DATAGRAM_BYTES {
        assert_eq!(
            Announcement::decode(&signed, None),
            Err(AnnounceError::Signed)
        );
        let at = 6 + usize::from(selector) % (signed.len() - 6);
        signed[at] ^= 1;
        assert_eq!(
            Announcement::decode(&signed, Some(&key)),
            Err(AnnounceError::Forged)
        );
    }
    let parts = read.clone().split();
    assert!(
        parts
            .iter()
            .all(|part| part.encoded_bytes(true) <= MAX_DATAGRAM_BYTES)
    );
    let entries: Vec<_> = parts.into_iter().flat_map(|part| part.entries).collect();
    // Amounts may be negative zeroes, which are equal to zeroes.
    assert_eq!(entries, read.entries);
}

/// A data connection, or a datagram of data.
pub fn check_tempo(input: &[u8]) {
    let Some((&selector, bytes)) = input.split_first() else {
        return;
    };
    let max_body_bytes = if selector & 0x80 == 0 { 24 } else { 1 << 20 };
    if selector & 2 != 0 {
        if let Ok((id, body)) = tempo::decode_datagram(bytes, max_body_bytes) {
            let mut again = Vec::new();
            tempo::put_datagram_header(&mut again, id);
            again.extend_from_slice(body);
            assert_eq!(again, bytes);
            assert!(body.len() <= max_body_bytes as usize);
        }
        return;
    }
    let key = Key::from_text("fuzz");
    let key = (selector & 1 != 0).then_some(&key);
    match tempo::decode_hello(bytes, key) {
        Ok(HelloDecoded::Complete { instance, used }) => {
            let mut again = Vec::new();
            tempo::put_hello(&mut again, instance, key);
            assert_eq!(again, bytes[..used]);
            check_messages(&bytes[used..], max_body_bytes);
        }
        Ok(HelloDecoded::Incomplete { needed }) => {
            assert!(bytes.len() < needed && needed <= SIGNED_HELLO_BYTES);
        }
        Err(_) => {}
    }
}

fn check_messages(mut rest: &[u8], max_body_bytes: u32) {
    let longest = tempo::MESSAGE_HEADER_BYTES + max_body_bytes as usize;
    loop {
        match tempo::decode_message(rest, max_body_bytes) {
            Ok(MessageDecoded::Complete { id, body, used }) => {
                let mut again = Vec::new();
                tempo::put_message_header(&mut again, id, body.len() as u32);
                again.extend_from_slice(body);
                assert_eq!(again, rest[..used]);
                for cut in cuts(used) {
                    match tempo::decode_message(&rest[..cut], max_body_bytes) {
                        Ok(MessageDecoded::Incomplete { needed }) => {
                            assert!(cut < needed && needed <= used);
                        }
                        other => panic!("{cut} of {used} bytes: {other:?}"),
                    }
                }
                rest = &rest[used..];
            }
            Ok(MessageDecoded::Incomplete { needed }) => {
                assert!(rest.len() < needed && needed <= longest);
                return;
            }
            Err(error) => {
                assert!(
                    matches!(error, TempoError::TooLong { bytes, .. } if bytes > max_body_bytes)
                );
                return;
            }
        }
    }
}

/// A datagram of limiters: a selector, the counter that is expected, and the bytes. An odd selector has them tagged first, as
/// one that knows the key could.
pub fn check_gossip(input: &[u8]) {
    let Some((&[selector, counter], bytes)) = input.split_first_chunk() else {
        return;
    };
    let counter = u64::from(counter) << 12 | 1;
    let end = |port: u16, incarnation: u64| gossip::Endpoint {
        address: ([10, 0, 0, 1], port).into(),
        incarnation,
    };
    let Ok(key) = gossip::Key::from_passphrase("fuzz") else {
        panic!("a phrase is a key");
    };
    let (path, back) = (
        key.path(end(1, 5), end(2, 6)),
        key.path(end(2, 6), end(1, 5)),
    );
    match gossip::decode(bytes) {
        Ok(Datagram::Update(sealed)) if selector & 1 == 0 => {
            // A tag of 48 bits is not guessed by mutation.
            assert_eq!(sealed.open(&path, counter), Err(DatagramError::Forged));
            assert_eq!(&bytes[..2], sealed.limit().0.to_be_bytes());
            assert_eq!(&bytes[2..4], sealed.sequence().to_be_bytes());
        }
        Ok(Datagram::Update(_)) => check_update(bytes, counter, &path, &back),
        Ok(Datagram::Notice(sealed) | Datagram::Vouch(sealed)) => {
            assert!(sealed.open(&path).is_err())
        }
        Ok(Datagram::Membership(sealed)) => {
            assert!(bytes.len() <= gossip::MAX_MEMBERSHIP_BYTES);
            assert!(sealed.open(&path).is_err());
            let around = gossip::MEMBERSHIP_HEADER_BYTES + gossip::MEMBERSHIP_TAG_BYTES;
            let payload = &bytes[gossip::MEMBERSHIP_HEADER_BYTES..][..bytes.len() - around];
            let (incarnation, number) = (sealed.incarnation(), sealed.counter());
            let mut again = Vec::new();
            let put = gossip::put_membership(&mut again, &path, incarnation, number, payload);
            assert_eq!(put, Ok(()));
            assert_eq!(again[..again.len() - 16], bytes[..bytes.len() - 16]);
            let Ok(Datagram::Membership(sealed)) = gossip::decode(&again) else {
                panic!("what was written is not read");
            };
            assert_eq!(sealed.open(&path), Ok(payload));
            assert_eq!(sealed.open(&back), Err(DatagramError::Forged));
        }
        Err(DatagramError::Length(length)) => assert_eq!(length, bytes.len()),
        Err(error) => assert_eq!(error, DatagramError::Kind(bytes[0])),
    }
}

/// The fields of an update, written as they are and tagged.
fn check_update(bytes: &[u8], counter: u64, path: &gossip::Path, back: &gossip::Path) {
    let number = |at: usize| {
        let bits = u32::from_be_bytes([0, bytes[at], bytes[at + 1], bytes[at + 2]]);
        f32::from_bits(bits << 7)
    };
    let update = gossip::Update {
        limit: gossip::LimitId(u16::from_be_bytes([bytes[0], bytes[1]])),
        sequence: counter as u16,
        epoch: bytes[4],
        demand: number(5),
        passed: number(8),
        weight: number(11),
    };
    let again = update.encode(path, counter);
    let Ok(Datagram::Update(sealed)) = gossip::decode(&again) else {
        panic!("what was written is not read");
    };
    assert_eq!(sealed.open(back, counter), Err(DatagramError::Forged));
    assert_eq!(sealed.open(path, counter + 1), Err(DatagramError::Forged));
    let Ok(read) = sealed.open(path, counter) else {
        panic!("{update:?} cannot be read");
    };
    assert!(
        [read.demand, read.passed, read.weight]
            .iter()
            .all(|number| *number >= 0.0)
    );
    if [update.demand, update.passed, update.weight]
        .iter()
        .all(|number| number.is_finite())
    {
        assert_eq!(read, update);
        assert_eq!(again[4..14], bytes[4..14]);
    }
}

/// A hand-over of messages.
pub fn check_handover(input: &[u8]) {
    let Ok(handover) = decode_handover(input, SMALL.max_msg_size) else {
        return;
    };
    assert!((1..=HANDOVER_MESSAGES_MAX).contains(&handover.messages.len()));
    for message in &handover.messages {
        assert!((1..=SMALL.max_msg_size as usize).contains(&message.body.len()));
    }
    let mut again = Vec::new();
    put_handover(&handover, &mut again);
    assert_eq!(again, input);
}
