//! Configurations that are understood, and those that are refused with line and reason.

use super::*;

const WHOLE: &str = r#"
[[tun]]
inner = { name = "in0", netns = "a" }
outer = { name = "out0" }

[[site]]
name = "one"
gossip = "127.0.1.1:4700"
destinations = ["10.2.1.0/24"]

[[site]]
name = "two"
gossip = "127.0.1.2:4700"
destinations = ["10.2.2.0/24"]

[[class]]
name = "web"
match = { protocol = "tcp", ports = [80] }
limit = { rate = "10 Mbps", burst_bytes = 75000, policy = "fps" }

[gossip]
branches = 3

[emulate]
link = "100 Mbps"
delay_us = 20_000
"#;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, |_| {})
}

/// The whole file with some of its text replaced.
fn with(old: &str, new: &str) -> String {
    assert!(WHOLE.contains(old), "{old}");
    WHOLE.replace(old, new)
}

#[test]
fn a_whole_file_is_understood_and_shown() {
    let config = parse(WHOLE).expect("a whole file");
    assert_eq!((config.limiters(), config.site_numbers()), (2, vec![0, 1]));
    assert_eq!(config.gossip.branches, Branching::Random(3));
    let text = config.to_string();
    for part in [
        "in0 in namespace a",
        "io_uring, or one by one",
        "2 here, 2 in all",
        "web: 10 Mbps",
        "20000 µs",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// What is replaced by what, and parts of the error.
const WRONG: &[(&str, &str, &[&str])] = &[
    ("10 Mbps", "0 Mbps", &["is not a rate", "10 Mbps"]),
    ("\"10 Mbps\"", "nan", &["is not a rate"]),
    ("\"fps\"", "\"fair\"", &["fair", "fps"]),
    ("75000", "0", &["class \"web\"", "at least 1"]),
    ("75000", "nan", &["class \"web\""]),
    ("10.2.1.0/24", "10.2.1.7/24", &["10.2.1.0/24"]),
    ("[80]", "[\"90-80\"]", &["not a range of ports"]),
    ("delay_us", "delay_ms", &["delay_ms", "delay_us"]),
    ("\"two\"", "\"one\"", &["\"one\" is given twice"]),
    ("127.0.1.2:4700", "127.0.1.1:4700", &["given twice"]),
    (
        "gossip = \"127.0.1.2:4700\"",
        "",
        &["site \"two\"", "the address is missing"],
    ),
    ("branches = 3", "branches = 0", &["gossip.branches", "mesh"]),
    (
        "branches = 3",
        "interval_ms = 0",
        &["gossip.interval_ms", "1 to 60000"],
    ),
    ("branches = 3", "ewma_1s = 1.0", &["ewma_1s"]),
    (
        "branches = 3",
        "peers = ['127.0.1.1:4700']",
        &["127.0.1.2:4700", "gossip.peers"],
    ),
    (
        "\"in0\"",
        "\"a-name-of-16-byt\"",
        &["tun[0].inner", "1 to 15 bytes"],
    ),
    ("netns = \"a\"", "netns = \"../a\"", &["network namespace"]),
    (
        "delay_us = 20_000",
        "gossip_loss = 1.5",
        &["emulate.gossip_loss"],
    ),
    ("delay_us = 20_000", "delay_us = 60_000_001", &["a delay"]),
];

#[test]
fn what_cannot_be_is_refused_with_its_place_and_a_way_out() {
    for (old, new, parts) in WRONG {
        let error = parse(&with(old, new)).expect_err(new).to_string();
        for part in *parts {
            assert!(error.contains(part), "{new}: {part:?} in {error}");
        }
    }
    let nfqueue = |config: &mut Config| config.intake = Intake::Nfqueue;
    let error = Config::parse(WHOLE, nfqueue).expect_err("no queue");
    assert!(error.to_string().contains("[[nfqueue]]"), "{error}");
}

#[test]
fn what_a_single_field_gets_wrong_has_its_line() {
    for (old, new) in [
        ("10 Mbps", "0 Mbps"),
        ("fps", "fair"),
        ("10.2.1.0/24", "10.2.1.7/24"),
    ] {
        let before = WHOLE.split(old).next().expect("some text");
        let line = format!("line {}", 1 + before.matches('\n').count());
        let error = parse(&with(old, new)).expect_err(new).to_string();
        assert!(error.contains(&line), "{line} in {error}");
    }
}

#[test]
fn sites_by_number_follow_the_first() {
    let text = "[[tun]]\ninner = { name = 'i' }\nouter = { name = 'o' }\n[sites]\ncount = 3\nfirst_destination = '10.2.0.255'\nfirst_gossip = '127.1.0.255:4700'";
    let config = Config::parse(text, |config| {
        if let Some(sites) = &mut config.sites {
            sites.count = 490;
        }
    });
    let config = config.expect("490 sites");
    assert_eq!(config.limiters(), 490);
    let last = &config.site[489];
    assert_eq!(last.name, "site-489");
    assert_eq!(last.destinations[0].to_string(), "10.2.2.232/32");
    assert_eq!(
        last.gossip.map(|a| a.to_string()),
        Some("127.1.2.232:4700".into())
    );
}

#[test]
fn sites_without_end_are_refused_at_once() {
    let text = "[[tun]]\ninner = { name = 'i' }\nouter = { name = 'o' }\n[sites]\ncount = 1_000_000_000\nfirst_destination = '::/128'";
    let error = parse(text).expect_err("too many").to_string();
    assert!(error.contains("sites.count"), "{error}");
    assert!(
        error.contains("1000000000: there may be at most 4096"),
        "{error}"
    );
}

#[test]
fn sites_elsewhere_count_as_limiters() {
    let peers = "branches = 3\npeers = ['127.0.1.9:1', '127.0.1.2:4700', '127.0.1.1:4700']";
    let config = parse(&with("branches = 3", peers)).expect("a whole file");
    assert_eq!((config.limiters(), config.site_numbers()), (3, vec![2, 1]));
}
