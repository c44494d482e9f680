//! Recordings, findings, flags and trace files of `srtm topic profile`, without a broker.

use std::fs;
use std::time::Duration;

use clap::Parser;

use super::recording::{Recorded, trace};
use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    flags: ProfileFlags,
}

fn flags(arguments: &[&str]) -> Result<ProfileFlags, clap::Error> {
    let program = std::iter::once(&"profile");
    Line::try_parse_from(program.chain(arguments)).map(|line| line.flags)
}

/// Ten seconds: each second ten messages of s1 at once, and half a second later one of s2.
fn recorded() -> Recorded {
    let begin_ns = 1_763_000_000_000_000_000;
    let at = |half_seconds: u64| begin_ns + half_seconds * 500_000_000;
    Recorded {
        begin_ns,
        end_ns: at(20),
        publishers: vec![String::from("s1"), String::from("s2")],
        arrivals: (0..20u32)
            .map(|n| (at(u64::from(n)), n % 2, if n % 2 == 0 { 10 } else { 1 }))
            .collect(),
        is_cut: false,
    }
}

fn findings(arguments: &[&str], limit: Option<Limit>) -> Result<Findings, Failure> {
    let flags = flags(arguments).expect("valid flags");
    Findings::of(&flags, &trace(recorded(), String::from("test")), limit)
}

#[test]
fn a_recording_becomes_a_trace_that_counts_from_its_beginning() {
    let mut recorded = recorded();
    recorded.arrivals[1].2 = 70_000;
    let trace = trace(recorded, String::from("test"));
    assert_eq!(trace.header.length, Some(Duration::from_secs(10)));
    assert_eq!(trace.header.publishers[1].name.as_deref(), Some("s2"));
    let first: Vec<_> = trace.arrivals[..4]
        .iter()
        .map(|arrival| (arrival.at_ns, arrival.publisher, arrival.messages))
        .collect();
    let half_ns = 500_000_000;
    let expected = [
        (0, 0, 10),
        (half_ns, 1, u16::MAX),
        (half_ns, 1, 4_465),
        (2 * half_ns, 0, 10),
    ];
    assert_eq!(first, expected);
}

#[test]
fn findings_are_told_as_text_and_as_json() {
    let limit = Limit::messages(20.0, 5.0).expect("valid");
    let findings = findings(&["temperature"], Some(limit)).expect("a fit");
    let page = findings.page();
    for line in [
        "recorded  10.000 s: 110 messages in 20 sends of 2 publishers, 11.000 msg/s",
        "limit     12.1/s, burst 10: 1.1 times the mean rate, and 99 % of the messages wait for no token",
        "          srtm topic set temperature --rate 12.1 --burst 10",
        // Five of ten wait, up to five tokens at 20 per second.
        "the limit in force, 20.0/s 5        0.000 ms  200.000 ms  250.000 ms  250.000 ms  250.000 ms   68.182 ms  45.45 %",
        "the fitted one, 12.1/s 10           0.000 ms    0.000 ms    0.000 ms    0.000 ms    0.000 ms    0.000 ms   0.00 %",
    ] {
        assert!(page.lines().any(|each| each == line), "{line}\n{page}");
    }
    let json = findings.json();
    for (pointer, expected) in [
        ("/messages", 110.0),
        ("/mean_rate", 11.0),
        ("/rate", 12.1),
        ("/burst", 10.0),
        ("/in_force/access_delay/p99_us", 250_000.0),
        ("/in_force/access_delay/waiting", 50.0),
        ("/fitted/access_delay/max_us", 0.0),
    ] {
        let value = json.pointer(pointer).and_then(serde_json::Value::as_f64);
        assert_eq!(value, Some(expected), "{pointer}: {json}");
    }
}

#[test]
fn the_question_is_the_flags() {
    let burst = |arguments: &[&str]| {
        let findings = findings(arguments, None).expect("a fit");
        let advice = findings.advice;
        (advice.profile.burst.get(), advice.in_force.is_none())
    };
    assert_eq!(burst(&["t", "--percentile", "50"]), (5.0, true));
    assert_eq!(
        burst(&["t", "--target", "200ms", "--headroom", "2"]),
        (6.0, true)
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    for arguments in [
        &["t", "--trace", "f", "--window", "10s"][..],
        &["t", "--trace", "f", "--broker", "b"],
        &["t", "--trace", "f", "--write", "g"],
        &["t", "--window", "5"],
        &[],
    ] {
        assert!(flags(arguments).is_err(), "{arguments:?}");
    }
    for (arguments, text) in [
        (&["t", "--headroom", "0.5"], "headroom 0.5 is out of range"),
        (
            &["t", "--percentile", "101"],
            "percentile 101 is out of range",
        ),
    ] {
        let failure = findings(arguments, None).expect_err(text).to_string();
        assert!(failure.contains(text), "{failure}");
    }
}

#[test]
fn a_trace_file_is_whole_or_not_there() {
    let folder = std::env::temp_dir().join(format!("srtm-profile-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let mut trace = trace(recorded(), String::from("test"));
    for name in ["a.csv", "a.trace"] {
        let path = folder.join(name);
        write(&path, &trace).expect("written");
        let read = trace_file::read(&path).expect("whole");
        assert_eq!(read.arrivals, trace.arrivals, "{name}");
        assert_eq!(read.header.length, trace.header.length, "{name}");
        let bytes = fs::read(&path).expect("a file");
        fs::write(&path, &bytes[..bytes.len() / 2]).expect("cut");
        let failure = trace_file::read(&path).expect_err("cut").to_string();
        assert!(
            failure.contains(name) && failure.contains("cut"),
            "{failure}"
        );
    }
    // What a reader would refuse leaves nothing behind.
    trace.arrivals.reverse();
    let path = folder.join("b.trace");
    assert!(write(&path, &trace).is_err());
    let names = fs::read_dir(&folder).expect("a folder");
    assert_eq!(names.count(), 2);
    fs::remove_dir_all(&folder).expect("removed");
}
