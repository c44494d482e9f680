//! What is read, what is refused, and where.

mod laws;

use std::time::Duration;

use crate::{Class, Cluster, Failure, Pattern, Place, Ramp, Spec, Topic};

const LEAST: &str = "[[publishers]]\ncount = 10\nrate = 10\n";

fn error(text: &str) -> String {
    let error = Spec::parse(text).expect_err(text);
    assert!(error.place().is_some(), "{error}");
    error.to_string()
}

#[test]
fn the_least_spec_has_the_defaults() {
    let spec = Spec::parse(LEAST).expect("valid");
    assert_eq!((spec.seed, spec.warmup), (1, Duration::ZERO));
    assert_eq!(spec.duration, Duration::from_secs(10));
    assert_eq!(spec.topic, Topic::default());
    assert_eq!(spec.cluster, Cluster::default());
    assert!(spec.failures.is_empty());
    let named = Class {
        name: String::from("class 1"),
        ..Class::new(10, 10.0)
    };
    assert_eq!(spec.publishers, [named]);
    assert_eq!(spec.check(), Ok(()));
}

const EVERY_KEY: &str = r#"
        seed = 7
        warmup = "2s"
        duration = "1m"
        [[publishers]]
        name = "sensors"
        count = 100
        rate = 2.5
        arrivals = "periodic"
        batch = 5
        bytes = 40
        group = 10
        spread = "16ms"
        on = "2s"
        off = "8s"
        ramp = { from = 0, to = 2, over = "30s" }
        [topic]
        rate = 500
        burst = 20
        headroom = 1.5
        slo = "5ms"
        percentile = 99.9
        policy = "max-min"
        fit = "measure"
        window = "30s"
        adaptor = true
        [cluster]
        brokers = 3
        cores = 1
        per_message = "20us"
        per_batch = "30us"
        per_active_connection = "1us"
        base = "100us"
        mcap = 40000
        load = [1000, 2000.5]
        load_batch = 4
        [[failures]]
        broker = 3
        at = "20s"
        away = "5s"
    "#;

fn every_value() -> Spec {
    Spec {
        seed: 7,
        warmup: Duration::from_secs(2),
        duration: Duration::from_secs(60),
        publishers: vec![Class {
            name: String::from("sensors"),
            count: 100,
            rate: 2.5,
            arrivals: Pattern::Periodic,
            batch_messages: 5,
            body_bytes: 40,
            group_publishers: 10,
            spread: Duration::from_millis(16),
            on: Duration::from_secs(2),
            off: Duration::from_secs(8),
            ramp: Some(Ramp {
                from: 0.0,
                to: 2.0,
                over: Duration::from_secs(30),
            }),
        }],
        topic: Topic {
            limited: true,
            rate: Some(500.0),
            burst: Some(20.0),
            headroom: 1.5,
            slo: Duration::from_millis(5),
            percentile: 99.9,
            policy: String::from("max-min"),
            fit: String::from("measure"),
            window: Duration::from_secs(30),
            adaptor: true,
        },
        cluster: Cluster {
            brokers: 3,
            cores: 1,
            per_message: Duration::from_micros(20),
            per_batch: Duration::from_micros(30),
            per_active_connection: Duration::from_micros(1),
            base: Duration::from_micros(100),
            mcap: Some(40_000.0),
            load: vec![1000.0, 2000.5],
            load_batch: 4,
        },
        failures: vec![Failure {
            broker: 3,
            at: Duration::from_secs(20),
            away: Duration::from_secs(5),
        }],
    }
}

#[test]
fn every_key_is_read() {
    assert_eq!(Spec::parse(EVERY_KEY), Ok(every_value()));
}

#[test]
fn groups_may_be_given_by_their_number() {
    for (count, groups, size) in [(10, 10, 1), (10, 1, 10), (10, 4, 3), (1000, 40, 25)] {
        let text = format!("[[publishers]]\ncount = {count}\nrate = 1\ngroups = {groups}\n");
        let spec = Spec::parse(&text).expect("valid");
        let class = &spec.publishers[0];
        assert_eq!((class.group_publishers, class.groups()), (size, groups));
    }
}

/// What is added to the least spec, and the error that it gives.
const WRONG: &[(&str, &str)] = &[
    (
        "batch = 0",
        "line 4, column 1: publishers[1].batch: 0 is out of range: write 1 to 65535",
    ),
    (
        "bytes = 0",
        "line 4, column 1: publishers[1].bytes: 0 is out of range",
    ),
    (
        "bytes = 1048577",
        "publishers[1].bytes: 1048577 is out of range",
    ),
    (
        "group = 0",
        "publishers[1].group: a group of 0 publishers is empty",
    ),
    (
        "group = 11",
        "line 4, column 1: publishers[1].group: a group of 11 has more members than there are publishers (10)",
    ),
    (
        "groups = 11",
        "line 4, column 1: publishers[1].groups: 11 groups are more than the 10 publishers",
    ),
    (
        "groups = 6",
        "publishers[1].groups: 10 publishers cannot form 6 groups",
    ),
    ("groups = 0", "publishers[1].groups: write how many groups"),
    ("groups = -1", "publishers[1].groups: write how many groups"),
    (
        "groups = \"two\"",
        "publishers[1].groups: write a whole number",
    ),
    (
        "group = 5\ngroups = 2",
        "line 5, column 1: publishers[1].groups: `group` (publishers of a group) is given too",
    ),
    (
        "spread = \"1ms\"",
        "publishers[1].spread: there are no groups to spread",
    ),
    (
        "group = 5\nspread = \"101ms\"",
        "line 5, column 1: publishers[1].spread: 101ms is longer than the mean time between two sends of a group, 0.100000 s",
    ),
    (
        "group = 5\nspread = \"60ms\"\nramp = {from = 0, to = 2, over = \"1s\"}",
        "publishers[1].spread: 60ms is longer",
    ),
    (
        "group = 5\nspread = \"60ms\"\nramp = {from = 2, to = 1, over = \"1s\"}",
        "publishers[1].spread: 60ms is longer",
    ),
    (
        "on = \"1s\"",
        "line 4, column 1: publishers[1].on: it needs `off`",
    ),
    (
        "off = \"1s\"",
        "line 4, column 1: publishers[1].off: it needs `on`",
    ),
    (
        "on = \"1us\"\noff = \"1s\"",
        "publishers[1].on: 1µs is too short",
    ),
    (
        "on = \"1ms\"\noff = \"2h\"",
        "line 5, column 1: publishers[1].off: more than 1000000 times",
    ),
    (
        "ramp = {from = -1, to = 2, over = \"1s\"}",
        "line 4, column 9: publishers[1].ramp.from: -1 is not a multiple",
    ),
    (
        "ramp = {from = 1, to = nan, over = \"1s\"}",
        "publishers[1].ramp.to: NaN is not a multiple",
    ),
    (
        "ramp = {from = 0, to = 0, over = \"1s\"}",
        "line 4, column 1: publishers[1].ramp: both are 0",
    ),
    (
        "ramp = {from = 0, to = 1, over = \"0s\"}",
        "publishers[1].ramp.over: must be longer than 0",
    ),
    (
        "ramp = {from = 0, to = 1000000, over = \"1s\"}",
        "publishers[1].ramp.to: 1000000 times the rate is more",
    ),
    (
        "name = \"a\\nb\"",
        "publishers[1].name: the name has control characters",
    ),
    (
        "arrivals = \"bursty\"",
        "line 4, column 12: unknown variant `bursty`, expected `poisson` or `periodic`",
    ),
    (
        "spread = 5",
        "line 4, column 10: invalid type: integer `5`, expected a string",
    ),
    (
        "spread = \"5\"",
        "line 4, column 10: \"5\" is not a duration: write a number and ns, us, ms, s, m or h",
    ),
    (
        "colour = 3",
        "line 4, column 1: unknown field `colour`, expected one of",
    ),
    ("rate = 3", "line 4, column 1: duplicate key"),
    (
        "[[publishers]]\nrate = 1",
        "line 4, column 1: missing field `count`",
    ),
    (
        "[[publishers]]\ncount = -1\nrate = 1",
        "line 5, column 9: invalid value: integer `-1`, expected u32",
    ),
    (
        "[[publishers]]\ncount = 0\nrate = 1",
        "line 5, column 1: publishers[2].count: 0 is out of range: write 1 to 1000000",
    ),
    (
        "[[publishers]]\ncount = 999991\nrate = 1",
        "line 5, column 1: publishers[2].count: 1000001 publishers, counted up to this class",
    ),
    (
        "[[publishers]]\nname = \"class 1\"\ncount = 1\nrate = 1",
        "line 5, column 1: publishers[2].name: publishers[1] has the same name, \"class 1\"",
    ),
    (
        "[[publishers]]\ncount = 1\nrate = -3",
        "line 6, column 1: publishers[2].rate: -3 is not a rate: write messages per second, 0.000001 to 1000000",
    ),
    (
        "[[publishers]]\ncount = 1\nrate = 0",
        "publishers[2].rate: 0 is not a rate",
    ),
    (
        "[[publishers]]\ncount = 1\nrate = nan",
        "publishers[2].rate: NaN is not a rate",
    ),
    (
        "[[publishers]]\ncount = 1\nrate = inf",
        "publishers[2].rate: inf is not a rate",
    ),
    (
        "[[publishers]]\ncount = 1\nrate = 1000001",
        "publishers[2].rate: 1000001 is not a rate",
    ),
    (
        "[topic]\nrate = 0",
        "line 5, column 1: topic.rate: 0 is not a rate",
    ),
    (
        "[topic]\nburst = 0.5",
        "line 5, column 1: topic.burst: 0.5 is not a burst",
    ),
    (
        "[topic]\nlimited = false\nburst = 5",
        "line 6, column 1: topic.burst: the topic is not limited",
    ),
    (
        "[topic]\nheadroom = 0.9",
        "line 5, column 1: topic.headroom: a limit of 0.9 times the mean rate is below the load",
    ),
    (
        "[topic]\nheadroom = nan",
        "topic.headroom: NaN is not a multiple",
    ),
    (
        "[topic]\nslo = \"0s\"",
        "line 5, column 1: topic.slo: must be longer than 0",
    ),
    (
        "[topic]\npercentile = 100",
        "topic.percentile: 100 is not a percentile",
    ),
    (
        "[topic]\npercentile = 0",
        "topic.percentile: 0 is not a percentile",
    ),
    (
        "[topic]\npolicy = \"rtm\"",
        "line 5, column 1: topic.policy: \"rtm\" is unknown: write one of srtm",
    ),
    (
        "[topic]\nfit = \"guess\"",
        "topic.fit: \"guess\" is unknown: write one of replay, measure",
    ),
    (
        "[topic]\nwindow = \"0s\"",
        "topic.window: must be longer than 0",
    ),
    (
        "[cluster]\nbrokers = 0",
        "line 5, column 1: cluster.brokers: 0 is out of range: write 1 to 1024",
    ),
    (
        "[cluster]\nbrokers = 1025",
        "cluster.brokers: 1025 is out of range",
    ),
    ("[cluster]\ncores = 0", "cluster.cores: 0 is out of range"),
    (
        "[cluster]\nbrokers = 2\nload = [1, 2, 3]",
        "line 6, column 1: cluster.load: 3 loads for 2 brokers",
    ),
    (
        "[cluster]\nload = [1, -2]",
        "cluster.load: broker 2: -2 is not a load",
    ),
    (
        "[cluster]\nload_batch = 0",
        "cluster.load_batch: 0 is out of range",
    ),
    ("[cluster]\nmcap = -1", "cluster.mcap: -1 is not a rate"),
    (
        "[cluster]\nbase = \"25h\"",
        "cluster.base: 25h is more than a day",
    ),
    (
        "[[failures]]\nbroker = 0\nat = \"1s\"",
        "line 5, column 1: failures[1].broker: 0 is out of range: write 1 to 6",
    ),
    (
        "[[failures]]\nbroker = 7\nat = \"1s\"",
        "failures[1].broker: 7 is out of range: write 1 to 6",
    ),
    (
        "[[failures]]\nbroker = 1\nat = \"1s\"\n[[failures]]\nbroker = 1\nat = \"9s\"",
        "line 9, column 1: failures[2].at: broker 1 would fail while it is away already: see failures[1]",
    ),
    ("= 3", "line 4, column 1: "),
    ("group = ", "line 4, column "),
];

#[test]
fn errors_say_where_and_what() {
    for (added, expected) in WRONG {
        let error = error(&format!("{LEAST}{added}\n"));
        assert!(error.contains(expected), "{added:?}\n  gave {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    for (text, expected) in [
        (
            "",
            "line 1, column 1: publishers: nobody publishes: write [[publishers]]",
        ),
        (
            "publishers = []",
            "line 1, column 1: publishers: nobody publishes",
        ),
        (
            "publishers = 3",
            "line 1, column 14: invalid type: integer `3`",
        ),
        (
            "publishers = [3]",
            "line 1, column 15: invalid type: integer `3`",
        ),
        (
            "duration = \"0s\"\n",
            "line 1, column 1: duration: must be longer",
        ),
        (
            "seed = 1\nduration = \"25h\"",
            "line 2, column 1: duration: 25h is more than a day",
        ),
        (
            "warmup = \"1s\"\nduration = \"24h\"",
            "line 1, column 1: warmup: warmup and duration are 24h1s together",
        ),
        ("seed = -1", "line 1, column 8: "),
        ("\u{1F600} = 1", "line 1, column 1: "),
        ("# \u{1F600}\nseed =", "line 2, column 7"),
    ] {
        let error = error(text);
        assert!(error.contains(expected), "{text:?}\n  gave {error}");
    }
}

#[test]
fn names_are_told_apart_from_given_ones() {
    let error = error(&format!(
        "[[publishers]]\nname = \"class 2\"\ncount = 1\nrate = 1\n{LEAST}"
    ));
    assert!(
        error.contains("line 5, column 1: publishers[2].name: publishers[1] has"),
        "{error}"
    );
}

#[test]
fn specs_that_are_built_are_checked_without_a_place() {
    let mut spec = Spec::parse(LEAST).expect("valid");
    spec.publishers.push(Class::new(3, f64::NAN));
    let expected =
        "publishers[2].rate: NaN is not a rate: write messages per second, 0.000001 to 1000000";
    let error = spec.check().expect_err("no rate");
    assert_eq!(
        (error.to_string().as_str(), error.place()),
        (expected, None)
    );
    assert_eq!(spec.to_toml(), Err(error));
    spec.publishers = vec![Class::new(1, 1.0); 1025];
    let error = spec.check().expect_err("too many").to_string();
    assert_eq!(error, "publishers: 1025 classes: at most 1024");
    spec.publishers.truncate(2);
    spec.duration = Duration::MAX;
    spec.warmup = Duration::MAX;
    let error = spec.check().expect_err("too long").to_string();
    assert!(error.starts_with("duration: "), "{error}");
}

#[test]
fn places_count_characters() {
    let place = |line, column| Place { line, column };
    let text = "a\nµb\n";
    for (byte, expected) in [
        (0, place(1, 1)),
        (1, place(1, 2)),
        (2, place(2, 1)),
        (4, place(2, 2)),
        (6, place(3, 1)),
        (99, place(3, 1)),
    ] {
        assert_eq!(Place::of_byte(text, byte), expected, "{byte}");
    }
}
