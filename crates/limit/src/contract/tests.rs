//! The JSON of a limit: what goes in, what comes out, and what the refusals say.

use super::*;

fn parse(json: &str) -> Result<Limit, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

#[test]
fn only_rate_and_burst_are_required() {
    let limit = parse(r#"{"rate":1000,"burst":50}"#).expect("a limit");
    assert_eq!(limit, Limit::messages(1000.0, 50.0).expect("in range"));
    assert_eq!(
        serde_json::to_string(&limit).expect("json"),
        r#"{"rate":1000,"burst":50,"unit":"messages","on_exceed":"delay","sharing":"lease"}"#
    );
    assert_eq!(
        limit.to_string(),
        "1000 messages/s, burst 50 messages, delay"
    );
}

#[test]
fn every_field_makes_the_round_trip() {
    for unit in ["messages", "bytes"] {
        for (on_exceed, sharing) in [
            ("delay", "lease"),
            ("drop", "grd"),
            ("reject", "gtb"),
            ("delay", "fps"),
        ] {
            let json = format!(
                r#"{{"rate":0.5,"burst":2.25,"unit":"{unit}","on_exceed":"{on_exceed}","sharing":"{sharing}"}}"#
            );
            let limit = parse(&json).expect("a limit");
            assert_eq!(limit.unit.as_str(), unit);
            assert_eq!(limit.on_exceed.as_str(), on_exceed);
            assert_eq!(limit.sharing.as_str(), sharing);
            assert_eq!(limit.is_gossiped(), sharing != "lease");
            assert_eq!(serde_json::to_string(&limit).expect("json"), json);
        }
    }
    let largest = parse(r#"{"rate":1e12,"burst":1000000000000}"#).expect("a limit");
    let json = serde_json::to_string(&largest).expect("json");
    assert!(
        json.starts_with(r#"{"rate":1000000000000,"burst":1000000000000,"#),
        "{json}"
    );
}

#[test]
fn leases_are_read_by_their_former_word() {
    let former = parse(r#"{"rate":5,"burst":50,"sharing":"static"}"#).expect("a limit");
    assert_eq!(former, Limit::messages(5.0, 50.0).expect("in range"));
    let again = serde_json::to_string(&former).expect("json");
    assert!(again.contains(r#""sharing":"lease""#), "{again}");
}

#[test]
fn refusals_name_the_field_and_the_remedy() {
    let table = [
        (r#"{"burst":50}"#, "missing field `rate`"),
        (r#"{"rate":5}"#, "missing field `burst`"),
        (
            r#"{"rate":0,"burst":50}"#,
            "rate 0 is out of range: it must be at least 1e-6 and at most 1e12 tokens per second",
        ),
        (r#"{"rate":1e-320,"burst":50}"#, "rate 1e-320 is out of"),
        (r#"{"rate":9e-7,"burst":50}"#, "it must be at least 1e-6"),
        (r#"{"rate":-3,"burst":50}"#, "rate -3 is out of range"),
        (
            r#"{"rate":18446744073709551615,"burst":50}"#,
            "out of range",
        ),
        (
            r#"{"rate":5,"burst":0.5}"#,
            "burst 0.5 is out of range: it must be at least 1 and at most 1e12 tokens",
        ),
        (r#"{"rate":"fast","burst":50}"#, "a number for rate"),
        (r#"{"rate":5,"burst":null}"#, "a number for burst"),
        (
            r#"{"rate":5,"burst":50,"brust":1}"#,
            "unknown field `brust`",
        ),
        (
            r#"{"rate":5,"rate":6,"burst":50}"#,
            "duplicate field `rate`",
        ),
        (
            r#"{"rate":5,"burst":50,"unit":"kilobytes"}"#,
            "unit \"kilobytes\" is unknown: unit is one of messages, bytes",
        ),
        (
            r#"{"rate":5,"burst":50,"unit":"Messages"}"#,
            "unit \"Messages\" is unknown",
        ),
        (
            r#"{"rate":5,"burst":50,"on_exceed":"stall"}"#,
            "on_exceed \"stall\" is unknown: on_exceed is one of delay, drop, reject",
        ),
        (
            r#"{"rate":5,"burst":50,"sharing":"ftb"}"#,
            "sharing \"ftb\" is unknown: sharing is one of lease, gtb, grd, fps",
        ),
        (
            r#"{"rate":5,"burst":50,"sharing":"ctb"}"#,
            "sharing \"ctb\" is unknown",
        ),
        (
            r#"{"rate":5,"burst":50,"sharing":"grd"}"#,
            "sharing \"grd\" drops at random and lets nothing wait: give on_exceed drop or reject",
        ),
    ];
    for (json, expected) in table {
        let text = parse(json).expect_err(json);
        assert!(text.contains(expected), "{json}: {text}");
    }
}

#[test]
fn gossip_that_cannot_be_is_refused() {
    let table = [
        (
            r#"{"rate":5,"burst":50,"gossip":{"branches":3}}"#,
            "gossip needs a limit that brokers share by gossip: set sharing to fps",
        ),
        (
            r#"{"rate":5,"burst":50,"sharing":"fps","gossip":{"branches":0}}"#,
            "gossip.branches 0 is out of range: it must be at least 1",
        ),
        (
            r#"{"rate":5,"burst":50,"sharing":"fps","gossip":{"interval_ms":9}}"#,
            "gossip.interval_ms 9 is out of range: it must be from 10 to 10000 milliseconds",
        ),
        (
            r#"{"rate":5,"burst":50,"sharing":"fps","gossip":{"ewma":1}}"#,
            "gossip.ewma 1 is out of range: it must be at least 0 and less than 1",
        ),
    ];
    for (json, expected) in table {
        let text = parse(json).expect_err(json);
        assert!(text.contains(expected), "{json}: {text}");
    }
}

#[test]
fn what_a_limit_says_of_its_gossip_is_kept_and_the_rest_left_out() {
    let json = r#"{"rate":5,"burst":50,"sharing":"fps","gossip":{"interval_ms":20,"ewma":0.2}}"#;
    let limit: Limit = serde_json::from_str(json).expect("valid");
    let said = Gossip {
        interval_ms: Some(20),
        branches: None,
        ewma: Some(0.2),
    };
    assert_eq!(limit.gossip, said);
    let again = serde_json::to_string(&limit).expect("finite");
    assert!(
        again.contains(r#""gossip":{"interval_ms":20,"ewma":0.2}"#),
        "{again}"
    );
    let plain = Limit::messages(5.0, 50.0).expect("in range");
    let plain = serde_json::to_string(&plain).expect("finite");
    assert!(!plain.contains("gossip"), "{plain}");
}

#[test]
fn a_message_costs_one_token_or_its_bytes() {
    assert_eq!(Unit::Messages.cost(0), 1.0);
    assert_eq!(Unit::Messages.cost(1 << 20), 1.0);
    assert_eq!(Unit::Bytes.cost(0), 0.0);
    assert_eq!(Unit::Bytes.cost(1 << 20), 1_048_576.0);
}

#[test]
fn the_bucket_of_a_limit_starts_empty() {
    let limit = Limit::messages(10.0, 5.0).expect("in range");
    let bucket = limit.bucket(Instant::from_nanos(77));
    assert_eq!(bucket.tokens_at(Instant::from_nanos(77)), 0.0);
    assert_eq!((bucket.rate(), bucket.burst()), (limit.rate, limit.burst));
}
