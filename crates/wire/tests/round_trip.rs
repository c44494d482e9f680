//! What is written is read back: commands, frames, and streams cut anywhere.

use proptest::prelude::*;
use wire::{
    ATTEMPTS_OFFSET, CLOSE_WAIT_FRAME, Command, Decoded, Frame, FrameDecoded, HEARTBEAT_FRAME,
    Limits, MESSAGE_HEADER_BYTES, MessageId, OK_FRAME, Phase, ProtocolError, WireError, command,
    decode, decode_frame, is_valid_address, put_ack, put_error, put_message_header, put_migrate,
    put_response, put_throttled,
};

/// A command that owns what it needs to be written.
#[derive(Debug, Clone)]
enum Wish {
    Identify(Vec<u8>),
    Auth(Vec<u8>),
    Sub(String, String),
    Pub(String, Vec<u8>),
    Mpub(String, Vec<Vec<u8>>),
    Dpub(String, u64, Vec<u8>),
    Rdy(u32),
    Fin(u64),
    Req(u64, u64),
    Touch(u64),
    Cls,
    Nop,
}

impl Wish {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Wish::Identify(json) => command::put_identify(out, json),
            Wish::Auth(secret) => command::put_auth(out, secret),
            Wish::Sub(topic, channel) => command::put_sub(out, topic, channel),
            Wish::Pub(topic, body) => command::put_pub(out, topic, body),
            Wish::Mpub(topic, messages) => command::put_mpub(out, topic, messages),
            Wish::Dpub(topic, delay_ms, body) => command::put_dpub(out, topic, *delay_ms, body),
            Wish::Rdy(count) => command::put_rdy(out, *count),
            Wish::Fin(id) => command::put_fin(out, MessageId::from_u64(*id)),
            Wish::Req(id, delay_ms) => command::put_req(out, MessageId::from_u64(*id), *delay_ms),
            Wish::Touch(id) => command::put_touch(out, MessageId::from_u64(*id)),
            Wish::Cls => command::put_cls(out),
            Wish::Nop => command::put_nop(out),
        }
    }

    fn phase(&self) -> Phase {
        match self {
            Wish::Rdy(_) | Wish::Fin(_) | Wish::Req(..) | Wish::Touch(_) | Wish::Cls => {
                Phase::Subscribed
            }
            _ => Phase::Init,
        }
    }

    fn assert_is(&self, found: &Command<'_>) {
        match (self, found) {
            (Wish::Identify(json), Command::Identify { body }) => assert_eq!(json, body),
            (Wish::Auth(secret), Command::Auth { body }) => assert_eq!(secret, body),
            (Wish::Sub(a, b), Command::Sub { topic, channel }) => {
                assert_eq!((a.as_str(), b.as_str()), (*topic, *channel))
            }
            (Wish::Pub(a, b), Command::Pub { topic, body }) => {
                assert_eq!((a.as_str(), b.as_slice()), (*topic, *body))
            }
            (Wish::Mpub(a, all), Command::Mpub { topic, messages }) => {
                assert_eq!(a, topic);
                assert_eq!(messages.len(), all.len());
                assert_eq!(
                    messages.total_body_bytes(),
                    all.iter().map(Vec::len).sum::<usize>()
                );
                assert!(messages.iter().eq(all.iter().map(Vec::as_slice)));
                assert_eq!(messages.iter().len(), all.len());
            }
            (
                Wish::Dpub(a, b, c),
                Command::Dpub {
                    topic,
                    delay_ms,
                    body,
                },
            ) => {
                assert_eq!((a.as_str(), *b, c.as_slice()), (*topic, *delay_ms, *body));
            }
            (Wish::Rdy(a), Command::Rdy { count }) => assert_eq!(a, count),
            (Wish::Fin(a), Command::Fin { id }) | (Wish::Touch(a), Command::Touch { id }) => {
                assert_eq!(id.to_u64(), Some(*a))
            }
            (Wish::Req(a, b), Command::Req { id, delay_ms }) => {
                assert_eq!(
                    (id.to_u64(), *delay_ms),
                    (Some(*a), (*b).min(Limits::default().max_req_timeout_ms))
                );
            }
            (Wish::Cls, Command::Cls) | (Wish::Nop, Command::Nop) => {}
            _ => panic!("{self:?} was read as {found:?}"),
        }
    }
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof!["[.a-zA-Z0-9_-]{1,64}", "[.a-zA-Z0-9_-]{1,54}#ephemeral"]
}

fn bodies() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..80)
}

fn wishes() -> impl Strategy<Value = Wish> {
    prop_oneof![
        bodies().prop_map(Wish::Identify),
        bodies().prop_map(Wish::Auth),
        (names(), names()).prop_map(|(topic, channel)| Wish::Sub(topic, channel)),
        (names(), bodies()).prop_map(|(topic, body)| Wish::Pub(topic, body)),
        (names(), prop::collection::vec(bodies(), 1..6))
            .prop_map(|(topic, messages)| Wish::Mpub(topic, messages)),
        (names(), 0..=3_600_000u64, bodies())
            .prop_map(|(topic, delay_ms, body)| Wish::Dpub(topic, delay_ms, body)),
        (0..=2500u32).prop_map(Wish::Rdy),
        any::<u64>().prop_map(Wish::Fin),
        any::<(u64, u64)>().prop_map(|(id, delay_ms)| Wish::Req(id, delay_ms)),
        any::<u64>().prop_map(Wish::Touch),
        Just(Wish::Cls),
        Just(Wish::Nop),
    ]
}

fn complete<'a>(bytes: &'a [u8], wish: &Wish) -> (Command<'a>, usize) {
    match decode(bytes, &Limits::default(), wish.phase(), true) {
        Ok(Decoded::Complete { command, consumed }) => (command, consumed),
        other => panic!("{wish:?}: {other:?}"),
    }
}

proptest! {
    #[test]
    fn commands_are_read_back_in_order(wishes in prop::collection::vec(wishes(), 1..8)) {
        let mut stream = Vec::new();
        for wish in &wishes {
            wish.put(&mut stream);
        }
        let mut rest = stream.as_slice();
        for wish in &wishes {
            let (command, consumed) = complete(rest, wish);
            wish.assert_is(&command);
            rest = &rest[consumed..];
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn a_part_is_incomplete_and_asks_for_no_more_than_the_whole(wish in wishes()) {
        let mut stream = Vec::new();
        wish.put(&mut stream);
        for cut in 0..stream.len() {
            match decode(&stream[..cut], &Limits::default(), wish.phase(), true) {
                Ok(Decoded::Incomplete { needed }) => prop_assert!(cut < needed && needed <= stream.len()),
                other => prop_assert!(false, "{} bytes of {:?}: {:?}", cut, wish, other),
            }
        }
        let (_, consumed) = complete(&stream, &wish);
        prop_assert_eq!(consumed, stream.len());
    }

    /// Reading again only when `needed` bytes are there ends, and soon once the line is complete.
    #[test]
    fn needed_leads_to_the_command(wish in wishes()) {
        let mut stream = Vec::new();
        wish.put(&mut stream);
        let line_bytes = stream.iter().position(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        let mut arrived = line_bytes;
        for _ in 0..3 {
            match decode(&stream[..arrived], &Limits::default(), wish.phase(), true) {
                Ok(Decoded::Incomplete { needed }) => arrived = needed,
                Ok(Decoded::Complete { .. }) => break,
                Err(error) => prop_assert!(false, "{}", error),
            }
        }
        prop_assert_eq!(arrived, stream.len());
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), heartbeats: bool) {
        for phase in [Phase::Init, Phase::Subscribed, Phase::Closing] {
            match decode(&bytes, &Limits::default(), phase, heartbeats) {
                Ok(Decoded::Incomplete { needed }) => prop_assert!(needed > bytes.len()),
                Ok(Decoded::Complete { consumed, .. }) => prop_assert!(0 < consumed && consumed <= bytes.len()),
                Err(error) => prop_assert!(error.fatal),
            }
        }
        if let Ok(FrameDecoded::Incomplete { needed }) = decode_frame(&bytes, 1 << 20) {
            prop_assert!(needed > bytes.len());
        }
    }

    #[test]
    fn damaged_commands_never_panic(wish in wishes(), at: prop::sample::Index, byte: u8, phase in 0..3usize) {
        let mut stream = Vec::new();
        wish.put(&mut stream);
        let at = at.index(stream.len());
        stream[at] = byte;
        let phase = [Phase::Init, Phase::Subscribed, Phase::Closing][phase];
        if let Ok(Decoded::Incomplete { needed }) = decode(&stream, &Limits::default(), phase, true) {
            prop_assert!(needed > stream.len());
        }
    }

    #[test]
    fn messages_are_read_back(timestamp_ns: i64, attempts: u16, id: u64, body in prop::collection::vec(any::<u8>(), 0..80)) {
        let id = MessageId::from_u64(id);
        let mut header = [0xaa; MESSAGE_HEADER_BYTES];
        put_message_header(&mut header, body.len(), timestamp_ns, 0, id);
        header[ATTEMPTS_OFFSET..ATTEMPTS_OFFSET + 2].copy_from_slice(&attempts.to_be_bytes());
        let stream = [header.as_slice(), &body, &OK_FRAME].concat();
        let consumed = header.len() + body.len();
        prop_assert_eq!(
            decode_frame(&stream, 200),
            Ok(FrameDecoded::Complete { frame: Frame::Message { timestamp_ns, attempts, id, body: &body }, consumed })
        );
        for cut in 0..consumed {
            match decode_frame(&stream[..cut], 200) {
                Ok(FrameDecoded::Incomplete { needed }) => prop_assert!(cut < needed && needed <= consumed),
                other => prop_assert!(false, "{} bytes: {:?}", cut, other),
            }
        }
    }
}

proptest! {
    #[test]
    fn migrate_and_throttled_are_read_back(
        topic in names(), host in "[!-~]{1,253}", port in 1..=u16::MAX, retry_after_us: u32,
    ) {
        let address = format!("{host}:{port}");
        let (mut migrate, mut throttled) = (Vec::new(), Vec::new());
        put_migrate(&mut migrate, &topic, &address);
        put_throttled(&mut throttled, &topic, retry_after_us);
        for (bytes, frame) in [
            (migrate, Frame::Migrate { topic: &topic, address: &address }),
            (throttled, Frame::Throttled { retry_after_us, topic: &topic }),
        ] {
            let whole = FrameDecoded::Complete { frame, consumed: bytes.len() };
            prop_assert_eq!(decode_frame(&bytes, 1 << 20), Ok(whole));
            for cut in 0..bytes.len() {
                match decode_frame(&bytes[..cut], 1 << 20) {
                    Ok(FrameDecoded::Incomplete { needed }) => prop_assert!(cut < needed && needed <= bytes.len()),
                    other => prop_assert!(false, "{} bytes: {:?}", cut, other),
                }
            }
        }
    }
}

#[test]
fn addresses_are_a_host_and_a_port() {
    let longest = format!("{}:65535", "h".repeat(253));
    for address in [
        "a:1",
        "127.0.0.1:4150",
        "[::1]:4150",
        "broker-3.local:65535",
        &longest,
    ] {
        assert!(is_valid_address(address), "{address}");
    }
    let too_long = format!("h{longest}");
    for address in [
        "", ":", "a", "a:", ":1", "a:0", "a:65536", "a:-1", "a:+1", "a:1 ", "a b:1", "ä:1",
        "a\n:1", &too_long,
    ] {
        assert!(!is_valid_address(address), "{address:?}");
    }
}

#[test]
fn lines_may_end_in_carriage_return_and_carry_spare_words() {
    let id = MessageId(*b"0123456789abcdef");
    #[rustfmt::skip]
    let rows: &[(Phase, &[u8], Command<'_>)] = &[
        (Phase::Init, b"NOP x y\r\n", Command::Nop),
        (Phase::Init, b"PUB t x\r\n\0\0\0\x01\n", Command::Pub { topic: "t", body: b"\n", }),
        (Phase::Subscribed, b"PUB t#ephemeral\n\0\0\0\x01x", Command::Pub { topic: "t#ephemeral", body: b"x", }),
        (Phase::Init, b"DPUB t \n\0\0\0\x01x", Command::Dpub { topic: "t", delay_ms: 0, body: b"x", }),
        (Phase::Init, b"SUB t c d\n", Command::Sub { topic: "t", channel: "c", }),
        (Phase::Init, b"IDENTIFY x\n\0\0\0\x02{}", Command::Identify { body: b"{}" }),
        (Phase::Subscribed, b"RDY\n", Command::Rdy { count: 1 }),
        (Phase::Subscribed, b"RDY \n", Command::Rdy { count: 0 }),
        (Phase::Subscribed, b"RDY 007 8\n", Command::Rdy { count: 7 }),
        (Phase::Closing, b"RDY nonsense\n", Command::Nop),
        (Phase::Closing, b"FIN 0123456789abcdef x\r\n", Command::Fin { id }),
        (Phase::Closing, b"REQ 0123456789abcdef \n", Command::Req { id, delay_ms: 0 }),
        (Phase::Subscribed, b"REQ 0123456789abcdef 3600001\n", Command::Req { id, delay_ms: 3_600_000, }),
        (Phase::Subscribed, b"CLS now\n", Command::Cls),
    ];
    for (phase, bytes, expected) in rows {
        assert_eq!(
            decode(bytes, &Limits::default(), *phase, true),
            Ok(Decoded::Complete {
                command: *expected,
                consumed: bytes.len()
            })
        );
    }
}

#[test]
fn frames_have_nsqds_bytes() {
    assert_eq!(&OK_FRAME, b"\0\0\0\x06\0\0\0\0OK");
    assert_eq!(&HEARTBEAT_FRAME, b"\0\0\0\x0f\0\0\0\0_heartbeat_");
    assert_eq!(&CLOSE_WAIT_FRAME, b"\0\0\0\x0e\0\0\0\0CLOSE_WAIT");
    let mut out = Vec::new();
    put_response(&mut out, b"OK");
    put_error(&mut out, &ProtocolError::bad_protocol());
    put_error(&mut out, &ProtocolError::auth_disabled());
    put_ack(&mut out, 0x0102_0304_0506_0708);
    put_migrate(&mut out, "tele", "b:4150");
    put_throttled(&mut out, "tele", 0x0102_0304);
    assert_eq!(
        out,
        b"\0\0\0\x06\0\0\0\0OK\0\0\0\x12\0\0\0\x01E_BAD_PROTOCOL\0\0\0\x21\0\0\0\x01E_AUTH_DISABLED AUTH disabled\
          \0\0\0\x0c\0\0\0\x10\x01\x02\x03\x04\x05\x06\x07\x08\
          \0\0\0\x12\0\0\0\x11\0\x04tele\0\x06b:4150\0\0\0\x0c\0\0\0\x12\x01\x02\x03\x04tele"
    );
    let mut header = [0; MESSAGE_HEADER_BYTES];
    put_message_header(&mut header, 3, 1, 2, MessageId(*b"0123456789abcdef"));
    assert_eq!(
        &header,
        b"\0\0\0\x21\0\0\0\x02\0\0\0\0\0\0\0\x01\0\x020123456789abcdef"
    );
}

#[test]
fn acks_and_errors_are_read_back() {
    let mut out = Vec::new();
    put_ack(&mut out, u64::MAX);
    assert_eq!(
        decode_frame(&out, 12),
        Ok(FrameDecoded::Complete {
            frame: Frame::Ack {
                total_messages: u64::MAX
            },
            consumed: 16
        })
    );
    out.clear();
    put_error(&mut out, &ProtocolError::pub_failed("exiting"));
    let body = b"E_PUB_FAILED PUB failed exiting";
    assert_eq!(
        decode_frame(&out, 1 << 20),
        Ok(FrameDecoded::Complete {
            frame: Frame::Error(body),
            consumed: 8 + body.len()
        })
    );
}

#[test]
fn broken_frames_are_refused_at_once() {
    #[rustfmt::skip]
    let rows: &[(&[u8], WireError)] = &[
        (b"\0\0\0\0", WireError::FrameTooSmall { size: 0 }),
        (b"\0\0\0\x03", WireError::FrameTooSmall { size: 3 }),
        (b"\xff\xff\xff\xff", WireError::FrameTooSmall { size: -1 }),
        (b"\0\0\0\x65", WireError::FrameTooBig { size: 101, max_bytes: 100, }),
        (b"HTTP", WireError::FrameTooBig { size: 0x4854_5450, max_bytes: 100, }),
        (b"\0\0\0\x1d\0\0\0\x02", WireError::FrameTooSmall { size: 29 }),
        (b"\0\0\0\x0b\0\0\0\x10", WireError::AckSize { size: 11 }),
        (b"\0\0\0\x0d\0\0\0\x10", WireError::AckSize { size: 13 }),
        (b"\0\0\0\x06\0\0\0\x11\0\0", WireError::MigrateForm { size: 6 }),
        (b"\0\0\0\x0c\0\0\0\x11\0\x01t\0\x04b:4", WireError::MigrateForm { size: 12 }),
        (b"\0\0\0\x0d\0\0\0\x11\0\x01t\0\x03b:4x", WireError::MigrateForm { size: 13 }),
        (b"\0\0\0\x0c\0\0\0\x11\0\x01/\0\x03b:4", WireError::MigrateForm { size: 12 }),
        (b"\0\0\0\x0c\0\0\0\x11\0\x01t\0\x03b:0", WireError::MigrateForm { size: 12 }),
        (b"\0\0\0\x08\0\0\0\x12\0\0\0\x01", WireError::ThrottledForm { size: 8 }),
        (b"\0\0\0\x07\0\0\0\x12\0\0\0", WireError::ThrottledForm { size: 7 }),
        (b"\0\0\0\x09\0\0\0\x12\0\0\0\x01/", WireError::ThrottledForm { size: 9 }),
        (b"\0\0\0\x06\0\0\0\x03", WireError::UnknownFrameType(3)),
        (b"\0\0\0\x06\xff\xff\xff\xff", WireError::UnknownFrameType(-1)),
    ];
    for (bytes, expected) in rows {
        assert_eq!(decode_frame(bytes, 100), Err(*expected), "{bytes:?}");
        assert!(!expected.to_string().is_empty());
    }
}
