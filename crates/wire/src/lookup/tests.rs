//! Commands and refusals by table, and laws for any bytes.

use proptest::prelude::*;

use super::*;

const BODY: &str = r#"{"broadcast_address":"h1","hostname":"m1","tcp_port":4150,"http_port":4151,"version":"1.3.0"}"#;

fn identify(body: &str) -> Vec<u8> {
    [&b"IDENTIFY\n"[..], &encode_answer(body.as_bytes())].concat()
}

fn subject_of(topic: &str, channel: Option<&str>) -> Subject {
    Subject {
        topic: topic.parse().expect("valid"),
        channel: channel.map(|name| name.parse().expect("valid")),
    }
}

#[test]
fn commands_are_read_whole_and_only_whole() {
    let identity = Identity {
        broadcast_address: String::from("h1"),
        hostname: String::from("m1"),
        tcp_port: 4150,
        http_port: 4151,
        version: String::from("1.3.0"),
    };
    let cases: [(Vec<u8>, bool, Command); 8] = [
        (b"PING\n".to_vec(), false, Command::Ping),
        (b"  PING\r\n".to_vec(), true, Command::Ping),
        (identify(BODY), false, Command::Identify(identity)),
        (
            b"REGISTER t\n".to_vec(),
            true,
            Command::Register(subject_of("t", None)),
        ),
        (
            b"REGISTER t c\n".to_vec(),
            true,
            Command::Register(subject_of("t", Some("c"))),
        ),
        (
            b"REGISTER t  c\n".to_vec(),
            true,
            Command::Register(subject_of("t", None)),
        ),
        (
            b"UNREGISTER t#ephemeral\n".to_vec(),
            true,
            Command::Unregister(subject_of("t#ephemeral", None)),
        ),
        (
            b"UNREGISTER t c x\n".to_vec(),
            true,
            Command::Unregister(subject_of("t", Some("c"))),
        ),
    ];
    for (bytes, is_identified, command) in cases {
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let followed = [&bytes[..], b"PING\n"].concat();
        assert_eq!(
            decode(&followed, is_identified),
            Ok(Some((command, bytes.len()))),
            "{shown}"
        );
        for cut in 0..bytes.len() {
            assert_eq!(
                decode(&bytes[..cut], is_identified),
                Ok(None),
                "{shown} cut at {cut}"
            );
        }
    }
}

/// Input, whether IDENTIFY went before, and the answer.
const REFUSED_LINES: &[(&[u8], bool, &str)] = &[
    (b"\n", true, "E_INVALID invalid command "),
    (b"ping\n", true, "E_INVALID invalid command ping"),
    (
        b"GET / HTTP/1.1\r\n",
        false,
        "E_INVALID invalid command GET",
    ),
    (
        &[b'x'; LINE_MAX_BYTES],
        true,
        "E_INVALID the line is too long",
    ),
    (b"REGISTER t\n", false, "E_INVALID client must IDENTIFY"),
    (b"UNREGISTER\n", false, "E_INVALID client must IDENTIFY"),
    (b"IDENTIFY\n", true, "E_INVALID cannot IDENTIFY again"),
    (
        b"REGISTER\n",
        true,
        "E_INVALID REGISTER insufficient number of params",
    ),
    (
        b"UNREGISTER \n",
        true,
        "E_INVALID UNREGISTER insufficient number of params",
    ),
    (
        b"REGISTER a/b\n",
        true,
        "E_BAD_TOPIC REGISTER topic name 'a/b' is not valid",
    ),
    (
        b"REGISTER t a/b\n",
        true,
        "E_BAD_CHANNEL REGISTER channel name 'a/b' is not valid",
    ),
    (
        b"UNREGISTER  c\n",
        true,
        "E_BAD_TOPIC UNREGISTER topic name '' is not valid",
    ),
    (
        b"IDENTIFY\n\xff\xff\xff\xff",
        false,
        "E_BAD_BODY IDENTIFY body size -1 is not within 0 to 16384",
    ),
    (
        b"IDENTIFY\n\x00\x00\x40\x01",
        false,
        "E_BAD_BODY IDENTIFY body size 16385 is not within 0 to 16384",
    ),
];

#[test]
fn refusals_are_nsqlookupds() {
    for (bytes, is_identified, text) in REFUSED_LINES {
        let refused = decode(bytes, *is_identified).expect_err(text);
        assert_eq!(refused.to_string(), *text);
    }
}

#[test]
fn bodies_are_whole_or_refused() {
    let undecodable = "E_BAD_BODY IDENTIFY failed to decode JSON body";
    let incomplete = "E_BAD_BODY IDENTIFY missing fields";
    let cases = [
        ("", undecodable),
        (r#"["h1","m1",4150,4151,"1.3.0"]"#, undecodable),
        (&BODY.replace("4150", "70000"), undecodable),
        (&BODY.replace("4150", "\"4150\""), undecodable),
        ("{}", incomplete),
        (&BODY.replace("4150", "0"), incomplete),
        (&BODY.replace("4151", "null"), incomplete),
        (&BODY.replace("h1", ""), incomplete),
        (&BODY.replace("version", "versions"), incomplete),
    ];
    for (body, text) in cases {
        let refused = decode(&identify(body), false).expect_err(body);
        assert_eq!(refused.to_string(), text, "{body}");
    }
    let more = BODY.replace("\"hostname\":\"m1\",", "\"topology_zone\":\"z\",");
    assert!(
        matches!(decode(&identify(&more), false), Ok(Some(_))),
        "fields of later versions"
    );
}

#[test]
fn an_answer_has_its_size_before_it() {
    assert_eq!(encode_answer(b"OK"), b"\0\0\0\x02OK");
    assert_eq!(encode_answer(b""), b"\0\0\0\0");
}

#[test]
fn a_peers_words_are_read_as_they_were_meant() {
    let identity = Identity {
        broadcast_address: String::from("h1"),
        hostname: String::from("m1"),
        tcp_port: 4150,
        http_port: 4151,
        version: String::from("1.3.0"),
    };
    let commands = [
        (Command::Identify(identity), false),
        (Command::Ping, true),
        (Command::Register(subject_of("t", None)), true),
        (
            Command::Register(subject_of("t", Some("c#ephemeral"))),
            true,
        ),
        (Command::Unregister(subject_of("t", Some("c"))), true),
        (Command::Unregister(subject_of("t.1", None)), true),
    ];
    for (command, is_identified) in commands {
        let mut bytes = Vec::new();
        put_command(&command, &mut bytes);
        let read = decode(&bytes, is_identified);
        assert_eq!(read, Ok(Some((command, bytes.len()))));
    }
}

#[test]
fn answers_are_read_whole_and_within_bounds() {
    let two = [encode_answer(b"OK"), encode_answer(b"E_INVALID no")].concat();
    assert_eq!(decode_answer(&two), Ok(Some((&b"OK"[..], 6))));
    for cut in 0..6 {
        assert_eq!(decode_answer(&two[..cut]), Ok(None), "cut at {cut}");
    }
    // The four bytes of an HTTP answer.
    assert_eq!(decode_answer(b"HTTP"), Err(AnswerTooLong(0x4854_5450)));
}

#[test]
fn an_introduction_says_where_to_ask() {
    let told = |json: &str| {
        let introduction = Introduction::from_json(json.as_bytes());
        introduction.and_then(|introduction| introduction.http_address())
    };
    let whole = r#"{"broadcast_address":"h9","hostname":"m9","http_port":4161,"tcp_port":4160,"version":"1.3.0"}"#;
    assert_eq!(told(whole).as_deref(), Some("h9:4161"));
    assert_eq!(
        told(&whole.replace("h9", "::1")).as_deref(),
        Some("[::1]:4161")
    );
    assert_eq!(told(&whole.replace("h9", "")), None);
    assert_eq!(told(r#"{"broadcast_address":"h9"}"#), None);
    assert_eq!(told("E_INVALID"), None);
}

/// Bytes that look like the protocol often enough to reach every branch.
fn input() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"IDENTIFY\n".to_vec()),
        Just(identify(BODY)),
        Just(b"REGISTER ".to_vec()),
        Just(b"UNREGISTER t c".to_vec()),
        Just(b"PING".to_vec()),
        Just(b"\n".to_vec()),
        Just(b" t".to_vec()),
        Just(vec![b'y'; LINE_MAX_BYTES]),
        proptest::collection::vec(any::<u8>(), 0..40),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_an_answer_a_beginning_or_too_long(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(Some((answer, used))) = decode_answer(&bytes) {
            prop_assert_eq!(used, answer.len() + 4);
            prop_assert!(used <= bytes.len());
        }
    }

    #[test]
    fn any_bytes_are_a_command_a_beginning_or_a_refusal(bytes in input(), is_identified: bool) {
        match decode(&bytes, is_identified) {
            Ok(Some((command, used))) => {
                prop_assert!(used > 0 && used <= bytes.len());
                // What follows a command does not change it.
                prop_assert_eq!(decode(&bytes[..used], is_identified), Ok(Some((command, used))));
            }
            Ok(None) => prop_assert!(bytes.len() < LINE_MAX_BYTES + 4 + BODY_MAX_BYTES),
            Err(refusal) => {
                prop_assert!(refusal.to_string().starts_with("E_"));
                // More bytes do not heal it.
                let more = [&bytes[..], b"\nPING\n"].concat();
                prop_assert!(decode(&more, is_identified).is_err());
            }
        }
    }
}
