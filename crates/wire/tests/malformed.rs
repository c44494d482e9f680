//! Every way to get a command wrong, and nsqd's words for it.
//!
//! A row is a connection's phase, the bytes it sends and the error frame it gets. Rows whose answer
//! differs from nsqd 1.3.0 on purpose stand in tables of their own.

use wire::{Decoded, ErrorCode, Limits, Phase, ProtocolError, decode};

use Phase::{Closing, Init, Subscribed, Unencrypted};

/// Small, so that rows can be written out.
const LIMITS: Limits = Limits {
    max_msg_size: 100,
    max_body_size: 200,
    max_line_bytes: 128,
    max_rdy_count: 2500,
    max_req_timeout_ms: 3_600_000,
};

const ID: &str = "0123456789abcdef";

/// A command line and the four bytes of a size.
fn sized(line: &str, size: i32) -> Vec<u8> {
    [line.as_bytes(), &size.to_be_bytes()].concat()
}

/// MPUB of topic `t`: declared size, count, and messages as (declared length, bytes).
fn mpub(size: i32, count: i32, messages: &[(i32, &[u8])]) -> Vec<u8> {
    let mut bytes = sized("MPUB t\n", size);
    bytes.extend(count.to_be_bytes());
    for (length, body) in messages {
        bytes.extend(length.to_be_bytes());
        bytes.extend(*body);
    }
    bytes
}

fn refuse(phase: Phase, bytes: &[u8], heartbeats: bool) -> ProtocolError {
    match decode(bytes, &LIMITS, phase, heartbeats) {
        Err(error) => error,
        Ok(decoded) => panic!(
            "{:?} was taken: {decoded:?}",
            String::from_utf8_lossy(bytes)
        ),
    }
}

#[track_caller]
fn assert_refused(phase: Phase, bytes: &[u8], expected: &str) {
    let error = refuse(phase, bytes, true);
    assert_eq!(
        error.to_string(),
        expected,
        "for {:?}",
        String::from_utf8_lossy(bytes)
    );
    assert!(error.fatal, "{expected}");
    assert_eq!(ErrorCode::of_body(expected.as_bytes()), Some(error.code));
    // What follows changes nothing.
    let followed = [bytes, b"NOP\n\0\0\0\x01FIN"].concat();
    assert_eq!(refuse(phase, &followed, true), error);
}

#[rustfmt::skip]
const LINES: &[(Phase, &[u8], &str)] = &[
    // Unknown commands. The empty line is a command without a name.
    (Init, b"\n", "E_INVALID invalid command "),
    (Init, b"\r\n", "E_INVALID invalid command "),
    (Init, b" \n", "E_INVALID invalid command "),
    (Init, b" PUB t\n", "E_INVALID invalid command "),
    (Init, b"pub t\n", "E_INVALID invalid command pub"),
    (Init, b"PUBS t\n", "E_INVALID invalid command PUBS"),
    (Init, b"PUB\tt\n", "E_INVALID invalid command PUB\tt"),
    (Init, b"\r\r\n", "E_INVALID invalid command \r"),
    (Init, b"GET / HTTP/1.1\r\n", "E_INVALID invalid command GET"),
    (Init, b"  V2PUB t\n", "E_INVALID invalid command "),
    (Subscribed, b"\xff\xfe\n", "E_INVALID invalid command \u{fffd}\u{fffd}"),
    // State before anything else.
    (Init, b"FIN\n", "E_INVALID cannot FIN in current state"),
    (Init, b"REQ x\n", "E_INVALID cannot REQ in current state"),
    (Init, b"TOUCH x\n", "E_INVALID cannot TOUCH in current state"),
    (Init, b"RDY x\n", "E_INVALID cannot RDY in current state"),
    (Init, b"CLS\n", "E_INVALID cannot CLS in current state"),
    (Closing, b"CLS\n", "E_INVALID cannot CLS in current state"),
    (Subscribed, b"SUB\n", "E_INVALID cannot SUB in current state"),
    (Closing, b"SUB a b\n", "E_INVALID cannot SUB in current state"),
    (Subscribed, b"IDENTIFY\n", "E_INVALID cannot IDENTIFY in current state"),
    (Closing, b"IDENTIFY\n", "E_INVALID cannot IDENTIFY in current state"),
    (Subscribed, b"AUTH x\n", "E_INVALID cannot AUTH in current state"),
    (Unencrypted, b"PUB t\n", "E_INVALID cannot PUB in current state (TLS required)"),
    (Unencrypted, b"SUB\n", "E_INVALID cannot SUB in current state (TLS required)"),
    (Unencrypted, b"NOP\n", "E_INVALID cannot NOP in current state (TLS required)"),
    (Unencrypted, b"HELLO x\n", "E_INVALID cannot HELLO in current state (TLS required)"),
    // Number of parameters.
    (Init, b"PUB\n", "E_INVALID PUB insufficient number of parameters"),
    (Init, b"MPUB\r\n", "E_INVALID MPUB insufficient number of parameters"),
    (Init, b"DPUB\n", "E_INVALID DPUB insufficient number of parameters"),
    (Init, b"DPUB t\n", "E_INVALID DPUB insufficient number of parameters"),
    (Init, b"DPUB a/b\n", "E_INVALID DPUB insufficient number of parameters"),
    (Init, b"SUB\n", "E_INVALID SUB insufficient number of parameters"),
    (Init, b"SUB t\n", "E_INVALID SUB insufficient number of parameters"),
    (Subscribed, b"FIN\n", "E_INVALID FIN insufficient number of params"),
    (Subscribed, b"REQ\n", "E_INVALID REQ insufficient number of params"),
    (Closing, b"REQ 0123456789abcdef\n", "E_INVALID REQ insufficient number of params"),
    (Subscribed, b"TOUCH\n", "E_INVALID TOUCH insufficient number of params"),
    (Init, b"AUTH x\n", "E_INVALID AUTH invalid number of parameters"),
    (Init, b"AUTH \n", "E_INVALID AUTH invalid number of parameters"),
    // Message ids.
    (Subscribed, b"FIN \n", "E_INVALID invalid message ID"),
    (Subscribed, b"FIN 0123456789abcde\n", "E_INVALID invalid message ID"),
    (Closing, b"TOUCH 0123456789abcdef0\n", "E_INVALID invalid message ID"),
    (Subscribed, b"REQ 01234567 89abcdef\n", "E_INVALID invalid message ID"),
    (Subscribed, b"REQ x y\n", "E_INVALID invalid message ID"),
    // Numbers.
    (Subscribed, b"REQ 0123456789abcdef -1\n", "E_INVALID REQ could not parse timeout -1"),
    (Subscribed, b"REQ 0123456789abcdef 1s\n", "E_INVALID REQ could not parse timeout 1s"),
    (Subscribed, b"RDY -1\n", "E_INVALID RDY could not parse count -1"),
    (Subscribed, b"RDY +1\n", "E_INVALID RDY could not parse count +1"),
    (Subscribed, b"RDY 1.5\n", "E_INVALID RDY could not parse count 1.5"),
    (Subscribed, b"RDY 2501\n", "E_INVALID RDY count 2501 out of range 0-2500"),
    (Subscribed, b"RDY 4294967296\n", "E_INVALID RDY count 4294967296 out of range 0-2500"),
    (Subscribed, b"RDY 18446744073709551615\n", "E_INVALID RDY count -1 out of range 0-2500"),
    (Init, b"DPUB t x\n", "E_INVALID DPUB could not parse timeout x"),
    (Init, b"DPUB t 3600001\n", "E_INVALID DPUB timeout 3600001 out of range 0-3600000"),
];

#[test]
fn lines() {
    for (phase, bytes, expected) in LINES {
        assert_refused(*phase, bytes, expected);
    }
}

#[test]
fn names() {
    let longest = "n".repeat(65);
    let too_long = format!("PUB {longest}\n");
    let too_long_text = format!("E_BAD_TOPIC PUB topic name \"{longest}\" is not valid");
    #[rustfmt::skip]
    let rows: &[(&[u8], &str)] = &[
        (b"PUB \n", r#"E_BAD_TOPIC PUB topic name "" is not valid"#),
        (b"PUB  t\n", r#"E_BAD_TOPIC PUB topic name "" is not valid"#),
        (b"PUB t/u\n", r#"E_BAD_TOPIC PUB topic name "t/u" is not valid"#),
        (b"PUB t\tu\n", r#"E_BAD_TOPIC PUB topic name "t\tu" is not valid"#),
        (b"PUB \"t\"\n", r#"E_BAD_TOPIC PUB topic name "\"t\"" is not valid"#),
        (b"PUB t\0\n", r#"E_BAD_TOPIC PUB topic name "t\x00" is not valid"#),
        (b"PUB t\xff\n", r#"E_BAD_TOPIC PUB topic name "t\xff" is not valid"#),
        (b"PUB t\r\r\n", r#"E_BAD_TOPIC PUB topic name "t\r" is not valid"#),
        (b"PUB #ephemeral\n", r##"E_BAD_TOPIC PUB topic name "#ephemeral" is not valid"##),
        (b"PUB t#EPHEMERAL\n", r##"E_BAD_TOPIC PUB topic name "t#EPHEMERAL" is not valid"##),
        (too_long.as_bytes(), &too_long_text),
        ("PUB température\n".as_bytes(), r#"E_BAD_TOPIC PUB topic name "température" is not valid"#),
        // nsqd repeats the code in this one.
        (b"MPUB t/u\n", r#"E_BAD_TOPIC E_BAD_TOPIC MPUB topic name "t/u" is not valid"#),
        (b"DPUB t/u x\n", r#"E_BAD_TOPIC DPUB topic name "t/u" is not valid"#),
        (b"SUB t/u c/d\n", r#"E_BAD_TOPIC SUB topic name "t/u" is not valid"#),
        (b"SUB t c/d\n", r#"E_BAD_CHANNEL SUB channel name "c/d" is not valid"#),
        (b"SUB t \n", r#"E_BAD_CHANNEL SUB channel name "" is not valid"#),
        (b"SUB t  c\n", r#"E_BAD_CHANNEL SUB channel name "" is not valid"#),
    ];
    for (bytes, expected) in rows {
        assert_refused(Init, bytes, expected);
    }
}

/// Each is refused with the last byte of the row, long before a body could follow.
#[test]
fn sizes() {
    #[rustfmt::skip]
    let rows: &[(&str, i32, &str)] = &[
        ("PUB t\n", 0, "E_BAD_MESSAGE PUB invalid message body size 0"),
        ("PUB t\n", -1, "E_BAD_MESSAGE PUB invalid message body size -1"),
        ("PUB t\n", i32::MIN, "E_BAD_MESSAGE PUB invalid message body size -2147483648"),
        ("PUB t\n", 101, "E_BAD_MESSAGE PUB message too big 101 > 100"),
        ("PUB t\n", i32::MAX, "E_BAD_MESSAGE PUB message too big 2147483647 > 100"),
        ("DPUB t 1\n", 0, "E_BAD_MESSAGE DPUB invalid message body size 0"),
        ("DPUB t 1\n", -5, "E_BAD_MESSAGE DPUB invalid message body size -5"),
        ("DPUB t 3600000\n", 101, "E_BAD_MESSAGE DPUB message too big 101 > 100"),
        ("MPUB t\n", 0, "E_BAD_BODY MPUB invalid body size 0"),
        ("MPUB t\n", -1, "E_BAD_BODY MPUB invalid body size -1"),
        ("MPUB t\n", 201, "E_BAD_BODY MPUB body too big 201 > 200"),
        ("IDENTIFY\n", 0, "E_BAD_BODY IDENTIFY invalid body size 0"),
        ("IDENTIFY\n", -1, "E_BAD_BODY IDENTIFY invalid body size -1"),
        ("IDENTIFY\n", 201, "E_BAD_BODY IDENTIFY body too big 201 > 200"),
        ("AUTH\n", 0, "E_BAD_BODY AUTH invalid body size 0"),
        ("AUTH\n", -1, "E_BAD_BODY AUTH invalid body size -1"),
        ("AUTH\n", i32::MAX, "E_BAD_BODY AUTH body too big 2147483647 > 200"),
    ];
    for (line, size, expected) in rows {
        let bytes = sized(line, *size);
        assert_refused(Init, &bytes, expected);
        let before = &bytes[..bytes.len() - 1];
        assert_eq!(
            decode(before, &LIMITS, Init, true),
            Ok(Decoded::Incomplete {
                needed: bytes.len()
            }),
            "{line:?} {size}: nothing to refuse one byte earlier"
        );
    }
}

/// The bounds themselves are allowed: the decoder waits for the body.
#[test]
fn sizes_at_the_bounds() {
    let rows = [
        ("PUB t\n", 1),
        ("PUB t\n", 100),
        ("DPUB t 3600000\n", 100),
        ("MPUB t\n", 200),
        ("IDENTIFY\n", 200),
        ("AUTH\n", 200),
    ];
    for (line, size) in rows {
        let bytes = sized(line, size);
        let needed = bytes.len() + size as usize;
        assert_eq!(
            decode(&bytes, &LIMITS, Init, true),
            Ok(Decoded::Incomplete { needed }),
            "{line:?} {size}"
        );
    }
    let bytes = mpub(200, 2, &[(100, &[b'x'; 100]), (88, &[b'y'; 88])]);
    assert!(matches!(
        decode(&bytes, &LIMITS, Init, true),
        Ok(Decoded::Complete { .. })
    ));
    assert!(matches!(
        decode(b"RDY 2500\n", &LIMITS, Subscribed, true),
        Ok(Decoded::Complete { .. })
    ));
}

#[test]
fn mpub_messages() {
    #[rustfmt::skip]
    let rows: &[(Vec<u8>, &str)] = &[
        (mpub(12, 0, &[(4, b"abcd")]), "E_BAD_BODY MPUB invalid message count 0"),
        (mpub(12, -1, &[(4, b"abcd")]), "E_BAD_BODY MPUB invalid message count -1"),
        (mpub(12, 40, &[]), "E_BAD_BODY MPUB invalid message count 40"),
        (mpub(9, 1, &[(0, b"x")]), "E_BAD_MESSAGE MPUB invalid message(0) body size 0"),
        (mpub(14, 2, &[(1, b"x"), (-1, b"y")]), "E_BAD_MESSAGE MPUB invalid message(1) body size -1"),
        (mpub(109, 1, &[(101, &[b'x'; 101])]), "E_BAD_MESSAGE MPUB message too big 101 > 100"),
    ];
    for (bytes, expected) in rows {
        assert_refused(Init, bytes, expected);
    }
}

/// nsqd takes the messages that the count promises, whatever size the body declares.
#[test]
fn mpub_that_does_not_fill_its_body() {
    #[rustfmt::skip]
    let rows: &[(Vec<u8>, &str)] = &[
        (sized("MPUB t\n", 3), "E_BAD_BODY MPUB body size 3 has no room for a message count"),
        (mpub(4, 1, &[]), "E_BAD_BODY MPUB invalid message count 1"),
        (mpub(13, 2, &[(1, b"x"), (1, b"y")]), "E_BAD_BODY MPUB invalid message count 2"),
        (mpub(10, 1, &[(1, b"x"), (1, b"y")]), "E_BAD_BODY MPUB body size 10 but 1 messages end 1 bytes before"),
        (mpub(9, 1, &[(2, b"xy")]), "E_BAD_BODY MPUB message(0) runs over the body size 9"),
        (mpub(14, 2, &[(2, b"xy"), (1, b"z")]), "E_BAD_BODY MPUB message(1) runs over the body size 14"),
        (mpub(14, 2, &[(4, b"xyzu"), (1, b"z")]), "E_BAD_BODY MPUB message(1) runs over the body size 14"),
    ];
    for (bytes, expected) in rows {
        assert_refused(Init, bytes, expected);
    }
}

/// nsqd would wait for the messages of a hopeless count.
#[test]
fn mpub_count_is_judged_before_the_messages_arrive() {
    let bytes = mpub(100, 21, &[]);
    assert_refused(Init, &bytes, "E_BAD_BODY MPUB invalid message count 21");
    assert_eq!(
        decode(&bytes[..bytes.len() - 1], &LIMITS, Init, true),
        Ok(Decoded::Incomplete { needed: 111 })
    );
}

/// nsqd wraps around at 64 bits, and again when it turns milliseconds into nanoseconds.
#[test]
fn numbers_beyond_64_bits() {
    let digits = "18446744073709551616";
    assert_refused(
        Subscribed,
        format!("RDY {digits}\n").as_bytes(),
        &format!("E_INVALID RDY could not parse count {digits}"),
    );
    assert_refused(
        Subscribed,
        format!("REQ {ID} {digits}\n").as_bytes(),
        &format!("E_INVALID REQ could not parse timeout {digits}"),
    );
    assert_refused(
        Init,
        b"DPUB t 18446744073709551615\n",
        "E_INVALID DPUB timeout 18446744073709551615 out of range 0-3600000",
    );
}

/// nsqd hangs up without a word.
#[test]
fn line_without_an_end() {
    let line = [b'P'; 128];
    assert_refused(
        Init,
        &line,
        "E_INVALID line too long, no newline within 128 bytes",
    );
    assert_eq!(
        decode(&line[..127], &LIMITS, Init, true),
        Ok(Decoded::Incomplete { needed: 128 })
    );
    let mut at_the_limit = line;
    at_the_limit[127] = b'\n';
    let text = format!("E_INVALID invalid command {}", "P".repeat(127));
    assert_refused(Init, &at_the_limit, &text);
}

#[test]
fn no_subscription_without_heartbeats() {
    for bytes in [&b"SUB t c\n"[..], b"SUB\n", b"SUB a/b c\n"] {
        assert_eq!(
            refuse(Init, bytes, false).to_string(),
            "E_INVALID cannot SUB with heartbeats disabled"
        );
    }
    assert_eq!(
        refuse(Subscribed, b"SUB t c\n", false).to_string(),
        "E_INVALID cannot SUB in current state"
    );
}

/// A stranger's line is repeated in the answer, but not all 16 KiB of it.
#[test]
fn answers_are_bounded() {
    let limits = Limits::default();
    for (head, byte) in [
        (&b""[..], b'x'),
        (b"", b'\xff'),
        (b"PUB ", b'\0'),
        (b"DPUB t ", b'x'),
    ] {
        let mut line = head.to_vec();
        line.resize(16_000, byte);
        line.push(b'\n');
        let error = decode(&line, &limits, Init, true).expect_err("nonsense");
        let length = error.to_string().len();
        assert!(
            (1024..8192).contains(&length),
            "{length} bytes for {head:?}"
        );
    }
}
