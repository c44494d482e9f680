//! The table, and the notes below it.

use clap::Parser;

use super::*;
use crate::fit::search::{Search, Verdict};

#[derive(Debug, Parser)]
struct Only {
    #[command(flatten)]
    options: FitOptions,
}

fn options() -> FitOptions {
    Only::parse_from(["test"]).options
}

/// A broker that carries `knee` messages per second, and a generator that carries `generator`.
fn standing(peer: &str, knee: f64, generator: f64) -> Standing {
    let options = options();
    let mut search = Search::new(options.search(18_976).expect("defaults"));
    while let Some(step) = search.next_step() {
        let rate = search.rate(step);
        search.record(
            step,
            match rate {
                rate if rate <= knee.min(generator) => Verdict::Met,
                rate if rate > generator => Verdict::Vain,
                _ => Verdict::Missed,
            },
        );
    }
    Standing {
        peer: peer.to_owned(),
        goal: options.goal(),
        grow: Grow::Publishers,
        quoted_rate: Some(knee),
        latency_us: Some(900.0),
        broker_us_per_message: Some(12.5),
        is_settled: search.is_settled(),
        core_used_by_others: None,
        steps: search
            .votes()
            .map(|(step, votes)| (search.rate(step), votes))
            .collect(),
        broken: Vec::new(),
        failure: None,
        finding: Some(search.finding(options.confidence())),
    }
}

fn rendered(standings: &[Standing]) -> String {
    render(&options().goal(), 0.95, standings)
}

#[test]
fn knees_have_intervals_and_ratios() {
    let text = rendered(&[
        standing("srtm", 60_000.0, 1e9),
        standing("nsqd", 20_500.0, 1e9),
    ]);
    assert!(text.contains("highest load with p99 <= 1000 us"), "{text}");
    assert!(text.contains("95 % interval"), "{text}");
    let row = |name: &str| {
        text.lines()
            .find(|line| line.starts_with(name))
            .map(str::to_owned)
    };
    let (srtm, nsqd) = (row("srtm").expect("a row"), row("nsqd").expect("a row"));
    let cells: Vec<&str> = srtm.split_whitespace().collect();
    assert_eq!(cells[5..8], ["900", "12.50", "1"], "{srtm}");
    assert!(nsqd.contains("0.34 (0.3"), "{nsqd}");
    assert_eq!(text.lines().count(), 5, "nothing to add: {text}");
}

#[test]
fn what_is_not_a_knee_is_said_in_words() {
    let mut missing = standing("nats", 1000.0, 1e9);
    missing.failure = Some("broker nats: not found: x".to_owned());
    let mut disturbed = standing("mosquitto-qos0", 50_000.0, 1e9);
    disturbed.core_used_by_others = Some(0.21);
    disturbed.broken = vec!["nsq: E_BAD".to_owned()];
    disturbed.is_settled = false;
    let text = rendered(&[
        standing("srtm", 1e6, 1e9),
        standing("srtm-acks", 1e6, 61_000.0),
        standing("nsqd", 10.0, 1e9),
        standing("relay", 1e6, 0.0),
        missing,
        disturbed,
    ]);
    for told in [
        "srtm: at least 1",
        "the highest rate allowed (--most) met the goal",
        "srtm-acks: at least 5850",
        "above it the generator was late itself",
        "nsqd: infeasible: p99 <= 1000 us is missed even at 20",
        "there p99 was 900 us",
        "relay: unknown: the generator was late at every rate",
        "nats: left out: broker nats: not found: x",
        "mosquitto-qos0: doubtful: other work took 21 % of the broker's core",
        "mosquitto-qos0: runs that broke and count as missed: 1, the last: nsq: E_BAD",
        "mosquitto-qos0: the runs ended before every rate had its repetitions",
        "<= 0.",
    ] {
        assert!(text.contains(told), "{told:?} is not in\n{text}");
    }
    assert!(
        !text.lines().any(|line| line.starts_with("nats ")),
        "no row: {text}"
    );
}

#[test]
fn the_plan_tells_how_long_it_takes() {
    let options = options();
    let search = options.search(18_976).expect("defaults");
    let text = plan(&options, &search);
    assert!(
        text.contains("200 to 189760 msg/s, of 5 brokers: 28 runs each"),
        "{text}"
    );
    assert!(text.contains("about 11 min"), "{text}");
}

#[test]
fn a_result_is_plain_json() {
    let standing = standing("srtm", 60_000.0, 1e9);
    let value = serde_json::to_value(&standing).expect("plain data");
    assert_eq!(value["finding"]["kind"], "knee");
    let knee = value["finding"]["knee"].as_f64().expect("a rate");
    assert!((knee / 60_000.0 - 1.0).abs() < 0.05, "{knee}");
    assert_eq!(value["goal"]["percentile"], 99.0);
    assert!(
        value["steps"]
            .as_array()
            .is_some_and(|steps| steps.len() >= 4)
    );
}
