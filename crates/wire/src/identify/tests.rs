//! Negotiation against nsqd's ranges, texts and bytes.

use super::{
    AckPolicy, AckRequest, Compression, Declaration, Identify, Layers, MAX_CLIENT_TEXT_BYTES,
    Negotiated, ServerFeatures, ServerLimits, SrtmFeatures, negotiate, renegotiate,
};
use crate::WireError;
use proptest::prelude::*;

fn settle(json: &str) -> (Negotiated, Option<String>) {
    match negotiate(json.as_bytes(), &ServerLimits::default()) {
        Ok((terms, answer)) => (
            terms,
            answer.map(|bytes| String::from_utf8(bytes).expect("JSON is UTF-8")),
        ),
        Err(error) => panic!("{json}: {error}"),
    }
}

fn terms(json: &str) -> Negotiated {
    settle(json).0
}

#[test]
fn answer_to_a_stock_client_is_nsqds() {
    let (_, answer) =
        settle(r#"{"feature_negotiation":true,"client_id":"c","topology_region":"r"}"#);
    assert_eq!(
        answer.expect("negotiates"),
        concat!(
            r#"{"max_rdy_count":2500,"version":"1.3.0","max_msg_timeout":900000,"msg_timeout":60000,"tls_v1":false,"#,
            r#""deflate":false,"deflate_level":6,"max_deflate_level":6,"snappy":false,"sample_rate":0,"#,
            r#""auth_required":false,"output_buffer_size":16384,"output_buffer_timeout":250}"#
        )
    );
}

#[test]
fn what_is_not_offered_is_refused_honestly() {
    let json = r#"{"feature_negotiation":true,"tls_v1":true,"deflate":true,"deflate_level":9,"snappy":true}"#;
    let server = ServerLimits {
        snappy: false,
        deflate: false,
        ..ServerLimits::default()
    };
    let (terms, answer) = negotiate(json.as_bytes(), &server).expect("granted without");
    let answer = ServerFeatures::from_json(&answer.expect("negotiates")).expect("answer");
    assert!(!answer.tls_v1 && !answer.deflate && !answer.snappy && !answer.auth_required);
    assert!(terms.layers.is_none());
}

/// What a broker that offers everything answers: TLS, deflate with its level, snappy; or its error.
fn layered(json: &str, before: &[&str]) -> Result<(bool, Option<i64>, bool), String> {
    let server = ServerLimits {
        tls: true,
        ..ServerLimits::default()
    };
    let mut terms = Negotiated::unidentified(&server);
    for json in before {
        (terms, _) = renegotiate(json.as_bytes(), &server, &terms).expect("granted");
    }
    match renegotiate(json.as_bytes(), &server, &terms) {
        Ok((after, None)) => {
            assert!(after.layers.beyond(terms.layers).is_none());
            Ok((false, None, false))
        }
        Ok((after, Some(answer))) => {
            let answer = ServerFeatures::from_json(&answer).expect("answer");
            let follow = after.layers.beyond(terms.layers);
            let level = answer.deflate.then_some(answer.deflate_level);
            let compression = match (level, answer.snappy) {
                (Some(level), _) => Some(Compression::Deflate {
                    level: level as u32,
                }),
                (None, true) => Some(Compression::Snappy),
                (None, false) => None,
            };
            let tls = answer.tls_v1;
            assert_eq!(follow, Layers { tls, compression });
            Ok((tls, level, answer.snappy))
        }
        Err(error) => {
            assert!(error.fatal);
            Err(error.to_string())
        }
    }
}

#[test]
fn layers_are_granted_as_nsqd_grants_them() {
    const TLS: &str = r#"{"feature_negotiation":true,"tls_v1":true}"#;
    const SNAPPY: &str = r#"{"feature_negotiation":true,"snappy":true}"#;
    const NONE: &str = r#"{"feature_negotiation":true}"#;
    let deflate =
        |level| format!(r#"{{"feature_negotiation":true,"deflate":true,"deflate_level":{level}}}"#);
    assert_eq!(layered(TLS, &[]), Ok((true, None, false)));
    assert_eq!(layered(SNAPPY, &[]), Ok((false, None, true)));
    assert_eq!(
        layered(r#"{"tls_v1":true,"snappy":true}"#, &[]),
        Ok((false, None, false))
    );
    for (wish, level) in [(-3, 6), (0, 6), (1, 1), (6, 6), (7, 6), (i64::MAX, 6)] {
        assert_eq!(
            layered(&deflate(wish), &[]),
            Ok((false, Some(level), false)),
            "{wish}"
        );
    }
    let both = r#"{"feature_negotiation":true,"deflate":true,"snappy":true}"#;
    let error = "E_IDENTIFY_FAILED cannot enable both deflate and snappy compression";
    assert_eq!(layered(both, &[]), Err(error.into()));

    // A second IDENTIFY may add a layer within, and none twice.
    assert_eq!(layered(SNAPPY, &[TLS, NONE]), Ok((false, None, true)));
    assert_eq!(layered(NONE, &[TLS, SNAPPY]), Ok((false, None, false)));
    let compressed = "E_IDENTIFY_FAILED IDENTIFY failed this connection is compressed already";
    for (again, before) in [
        (SNAPPY, SNAPPY),
        (TLS, SNAPPY),
        (&deflate(3), SNAPPY),
        (SNAPPY, &deflate(3)),
    ] {
        assert_eq!(
            layered(again, &[before, NONE]),
            Err(compressed.into()),
            "{again}"
        );
    }
    let encrypted = "E_IDENTIFY_FAILED IDENTIFY failed this connection has TLS already";
    assert_eq!(layered(TLS, &[TLS]), Err(encrypted.into()));
}

#[test]
fn nothing_asked_is_the_brokers_defaults() {
    let server = ServerLimits::default();
    for json in [
        "{}",
        "null",
        " {}\n",
        r#"{"msg_timeout":null,"client_id":null,"srtm":null}"#,
        r#"{"unknown":[{"a":"\ud800"}]}"#,
    ] {
        assert_eq!(
            settle(json),
            (Negotiated::unidentified(&server), None),
            "{json}"
        );
    }
    assert!(Negotiated::unidentified(&server).heartbeats_enabled());
}

#[test]
fn wishes_in_range_are_granted_even_without_a_json_answer() {
    let (terms, answer) = settle(
        r#"{"client_id":"c","hostname":"h","user_agent":"u/1","heartbeat_interval":1000,"output_buffer_size":64,
            "output_buffer_timeout":25,"sample_rate":99,"msg_timeout":900000}"#,
    );
    assert_eq!(answer, None);
    assert_eq!(
        terms,
        Negotiated {
            client_id: "c".into(),
            hostname: "h".into(),
            user_agent: "u/1".into(),
            heartbeat_interval_ms: Some(1000),
            output_buffer_bytes: 64,
            output_buffer_timeout_ms: 25,
            sample_rate: 99,
            msg_timeout_ms: 900_000,
            layers: Layers::default(),
            acks: None,
            declaration: None,
        }
    );
}

#[test]
fn minus_one_turns_off() {
    assert_eq!(
        terms(r#"{"heartbeat_interval":-1}"#).heartbeat_interval_ms,
        None
    );
    assert!(!terms(r#"{"heartbeat_interval":-1}"#).heartbeats_enabled());
    assert_eq!(
        terms(r#"{"output_buffer_timeout":-1}"#).output_buffer_timeout_ms,
        0
    );
    let unbuffered = terms(r#"{"output_buffer_size":-1,"output_buffer_timeout":100}"#);
    assert_eq!(
        (
            unbuffered.output_buffer_bytes,
            unbuffered.output_buffer_timeout_ms
        ),
        (1, 0)
    );
}

#[test]
fn wishes_out_of_range_are_refused_in_nsqds_words_and_order() {
    #[rustfmt::skip]
    let rows = [
        (r#"{"heartbeat_interval":-2}"#, "heartbeat interval (-2) is invalid"),
        (r#"{"heartbeat_interval":999}"#, "heartbeat interval (999) is invalid"),
        (r#"{"heartbeat_interval":60001,"sample_rate":100}"#, "heartbeat interval (60001) is invalid"),
        (r#"{"output_buffer_timeout":24,"output_buffer_size":1}"#, "output buffer timeout (24) is invalid"),
        (r#"{"output_buffer_timeout":30001}"#, "output buffer timeout (30001) is invalid"),
        (r#"{"output_buffer_timeout":-2}"#, "output buffer timeout (-2) is invalid"),
        (r#"{"output_buffer_size":63,"sample_rate":-1}"#, "output buffer size (63) is invalid"),
        (r#"{"output_buffer_size":65537}"#, "output buffer size (65537) is invalid"),
        (r#"{"sample_rate":100,"msg_timeout":1}"#, "sample rate (100) is invalid"),
        (r#"{"sample_rate":-1}"#, "sample rate (-1) is invalid"),
        (r#"{"msg_timeout":999}"#, "msg timeout (999) is invalid"),
        (r#"{"msg_timeout":900001}"#, "msg timeout (900001) is invalid"),
        (r#"{"msg_timeout":-1,"feature_negotiation":true}"#, "msg timeout (-1) is invalid"),
    ];
    for (json, text) in rows {
        let error = negotiate(json.as_bytes(), &ServerLimits::default()).expect_err(json);
        assert_eq!(error.to_string(), format!("E_BAD_BODY IDENTIFY {text}"));
        assert!(error.fatal);
    }
}

#[test]
fn json_that_go_refuses_is_refused() {
    let rows = [
        "",
        " ",
        "{",
        "{}x",
        "[]",
        "1",
        "\"a\"",
        "true",
        "{'a':1}",
        r#"{"a":1,}"#,
        r#"{"heartbeat_interval":"1000"}"#,
        r#"{"heartbeat_interval":1000.0}"#,
        r#"{"heartbeat_interval":1e3}"#,
        r#"{"heartbeat_interval":9223372036854775808}"#,
        r#"{"sample_rate":2147483648}"#,
        r#"{"client_id":1}"#,
        r#"{"client_id":["a"]}"#,
        r#"{"tls_v1":1}"#,
        r#"{"feature_negotiation":"true"}"#,
        r#"{"srtm":1}"#,
        r#"{"srtm":[]}"#,
        "{\"a\":\"\t\"}",
        "{\"client_id\":\"\0\"}",
        "{\"a\n\":1}",
        "\u{feff}{}",
        r#"{"srtm":{"ack_interval_ms":"5"}}"#,
    ];
    for json in rows {
        let error = negotiate(json.as_bytes(), &ServerLimits::default()).expect_err(json);
        assert_eq!(
            error.to_string(),
            "E_BAD_BODY IDENTIFY failed to decode JSON body",
            "{json}"
        );
    }
}

#[test]
fn json_that_go_takes_is_taken() {
    assert_eq!(
        terms(r#"{"Msg_Timeout":2000,"MSG_TIMEOUT":3000}"#).msg_timeout_ms,
        3000
    );
    assert_eq!(
        terms(r#"{"msg_timeout":2000,"msg_timeout":null}"#).msg_timeout_ms,
        2000
    );
    let (latin1, _) = negotiate(
        b"{\"hostname\":\"caf\xe9\",\"\xff\":1}",
        &ServerLimits::default(),
    )
    .expect("taken");
    assert_eq!(latin1.hostname, "caf\u{fffd}");
    assert!(
        terms(r#"{"user_agent":"\ud800"}"#)
            .user_agent
            .contains('\u{fffd}')
    );
}

#[test]
fn texts_about_a_client_are_cut() {
    let json = format!(r#"{{"hostname":"x{}"}}"#, "é".repeat(5000));
    let hostname = terms(&json).hostname;
    assert_eq!(
        hostname.len(),
        MAX_CLIENT_TEXT_BYTES - 1,
        "the cut falls between characters"
    );
}

#[test]
fn acks_are_granted_only_with_feature_negotiation_and_within_bounds() {
    #[rustfmt::skip]
    let rows = [
        (r#"{}"#, 64, 5),
        (r#"{"ack_every_messages":0,"ack_interval_ms":null}"#, 64, 5),
        (r#"{"ack_every_messages":1,"ack_interval_ms":1}"#, 1, 1),
        (r#"{"ack_every_messages":65537,"ack_interval_ms":1001,"more":1}"#, 65_536, 1000),
        (r#"{"ack_every_messages":-3,"ack_interval_ms":-9223372036854775808}"#, 1, 1),
        (r#"{"publisher":null}"#, 64, 5),
    ];
    for (wish, every_messages, interval_ms) in rows {
        let (terms, answer) = settle(&format!(r#"{{"feature_negotiation":true,"srtm":{wish}}}"#));
        assert_eq!(
            terms.acks,
            Some(AckPolicy {
                every_messages,
                interval_ms
            }),
            "{wish}"
        );
        let tail = format!(
            r#","srtm":{{"version":2,"publisher":false,"ack_every_messages":{every_messages},"ack_interval_ms":{interval_ms}}}}}"#
        );
        let answer = answer.expect("negotiates");
        assert!(answer.ends_with(&tail), "{answer}");
        let features = ServerFeatures::from_json(answer.as_bytes()).expect("answer");
        let granted = SrtmFeatures {
            version: 2,
            publisher: false,
            ack_every_messages: Some(every_messages),
            ack_interval_ms: Some(interval_ms),
        };
        assert_eq!(features.srtm, Some(granted));
    }
    assert_eq!(settle(r#"{"srtm":{}}"#).0.acks, None);
}

fn declared(publisher: &str) -> (Negotiated, SrtmFeatures) {
    let (terms, answer) = settle(&format!(
        r#"{{"feature_negotiation":true,"srtm":{publisher}}}"#
    ));
    let answer = ServerFeatures::from_json(answer.expect("negotiates").as_bytes());
    (terms, answer.expect("answer").srtm.expect("granted"))
}

#[test]
fn a_publisher_declares_itself() {
    let full = r#"{"publisher":{"id":"s1","topic":"telemetry","group":"g 7","rate":10,"batch":10,"more":1}}"#;
    let (terms, granted) = declared(full);
    let declaration = Declaration {
        id: "s1".into(),
        topic: "telemetry".parse().expect("valid"),
        group: Some("g 7".into()),
        rate: Some(10.0),
        batch: 10,
    };
    assert_eq!(terms.declaration, Some(declaration.clone()));
    assert_eq!(terms.acks, None, "OKs stay where no acks are asked for");
    let expected = SrtmFeatures {
        version: 2,
        publisher: true,
        ..SrtmFeatures::default()
    };
    assert_eq!(granted, expected);

    let least = r#"{"PUBLISHER":{"ID":"s1","Topic":"telemetry","group":null},"ack_interval_ms":0}"#;
    let (terms, granted) = declared(least);
    let least = Declaration {
        group: None,
        rate: None,
        batch: 1,
        ..declaration
    };
    assert_eq!(terms.declaration, Some(least));
    assert!(granted.publisher && granted.ack_every_messages == Some(64));
}

#[test]
fn a_declaration_needs_feature_negotiation_and_ends_with_the_next_identify() {
    let server = ServerLimits::default();
    let json = r#"{"srtm":{"publisher":{"id":""}}}"#;
    assert_eq!(settle(json), (Negotiated::unidentified(&server), None));
    let (terms, _) = declared(r#"{"publisher":{"id":"s","topic":"t"}}"#);
    let (again, _) = renegotiate(b"{}", &server, &terms).expect("fine");
    assert_eq!(again.declaration, None);
}

#[test]
fn a_declaration_that_cannot_be_taken_is_refused_by_field() {
    let long = "x".repeat(129);
    #[rustfmt::skip]
    let rows = [
        (r#"7"#, "publisher (7)"),
        (r#"[]"#, "publisher ([])"),
        (r#"{}"#, "publisher id (null)"),
        (r#"{"id":"","topic":"t"}"#, r#"publisher id ("")"#),
        (r#"{"id":"a b","topic":"t"}"#, r#"publisher id ("a b")"#),
        (r#"{"id":"ä","topic":"t"}"#, r#"publisher id ("ä")"#),
        (r#"{"id":5,"topic":"t"}"#, "publisher id (5)"),
        (r#"{"id":"LONG","topic":"t"}"#, r#"publisher id ("LONG")"#),
        (r#"{"id":"s"}"#, "publisher topic (null)"),
        (r#"{"id":"s","topic":"a/b"}"#, r#"publisher topic ("a/b")"#),
        (r#"{"id":"s","topic":"t","group":""}"#, r#"publisher group ("")"#),
        (r#"{"id":"s","topic":"t","group":"LONG"}"#, r#"publisher group ("LONG")"#),
        (r#"{"id":"s","topic":"t","group":1}"#, "publisher group (1)"),
        (r#"{"id":"s","topic":"t","rate":0}"#, "publisher rate (0)"),
        (r#"{"id":"s","topic":"t","rate":-1.5}"#, "publisher rate (-1.5)"),
        (r#"{"id":"s","topic":"t","rate":1000000001}"#, "publisher rate (1000000001)"),
        (r#"{"id":"s","topic":"t","rate":"10"}"#, r#"publisher rate ("10")"#),
        (r#"{"id":"s","topic":"t","batch":0}"#, "publisher batch (0)"),
        (r#"{"id":"s","topic":"t","batch":65537}"#, "publisher batch (65537)"),
        (r#"{"id":"s","topic":"t","batch":1.5}"#, "publisher batch (1.5)"),
    ];
    for (publisher, named) in rows {
        let publisher = publisher.replace("LONG", &long);
        let json = format!(r#"{{"feature_negotiation":true,"srtm":{{"publisher":{publisher}}}}}"#);
        let error = negotiate(json.as_bytes(), &ServerLimits::default()).expect_err(&json);
        let named = named.replace("LONG", &long);
        let head = format!("E_BAD_BODY IDENTIFY {named} is invalid, allowed: ");
        assert!(
            error.fatal && error.to_string().starts_with(&head),
            "{error}"
        );
    }
}

#[test]
fn an_answer_of_a_stock_nsqd_names_no_extension() {
    let features: ServerFeatures =
        serde_json::from_str(r#"{"version":"1.3.0","topology_zone":""}"#).expect("answer");
    assert_eq!((features.version.as_str(), features.srtm), ("1.3.0", None));
    let error = ServerFeatures::from_json(b"OK");
    assert_eq!(error, Err(WireError::IdentifyAnswer));
}

#[test]
fn a_second_identify_keeps_what_it_does_not_ask_for() {
    let server = ServerLimits::default();
    let first = terms(
        r#"{"client_id":"c","heartbeat_interval":-1,"output_buffer_size":-1,"sample_rate":9,"msg_timeout":2000}"#,
    );
    let (second, _) =
        renegotiate(br#"{"output_buffer_timeout":25}"#, &server, &first).expect("fine");
    let expected = Negotiated {
        client_id: String::new(),
        sample_rate: 0,
        output_buffer_timeout_ms: 25,
        ..first
    };
    assert_eq!(second, expected);
}

fn declarations() -> impl Strategy<Value = Declaration> {
    let group = prop::option::of("[^\\x00-\\x1f]{1,32}");
    // The decoder may miss the last bit of longer decimals.
    let rate = prop::option::of((1..=1_000_000_000u32).prop_map(|rate| f64::from(rate) / 4.0));
    (
        "[!-~]{1,128}",
        "[.a-zA-Z0-9_-]{1,64}",
        group,
        rate,
        1..=65_536u32,
    )
        .prop_map(|(id, topic, group, rate, batch)| Declaration {
            id,
            topic: topic.parse().expect("the pattern is the rule"),
            group,
            rate,
            batch,
        })
}

proptest! {
    #[test]
    fn a_request_is_read_back(
        client_id: String, heartbeat_interval: i64, sample_rate: i32, feature_negotiation: bool,
        srtm in prop::option::of(any::<(i64, i64)>()), publisher in prop::option::of(declarations()),
    ) {
        let srtm = srtm.map(|(ack_every_messages, ack_interval_ms)| AckRequest { ack_every_messages, ack_interval_ms });
        let request = Identify {
            client_id, heartbeat_interval, sample_rate, feature_negotiation, srtm, publisher,
            ..Identify::default()
        };
        let read = Identify::from_json(&request.to_json());
        let heard = Identify { publisher: request.publisher.clone().filter(|_| feature_negotiation), ..request };
        prop_assert_eq!(read, Ok(heard));
    }

    #[test]
    fn any_body_is_answered(body in prop::collection::vec(any::<u8>(), 0..100)) {
        if let Err(error) = negotiate(&body, &ServerLimits::default()) {
            prop_assert!(error.fatal);
        }
    }
}
