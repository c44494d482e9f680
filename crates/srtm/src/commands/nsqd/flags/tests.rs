//! nsqd's command lines and files, and the list of its flags.

use super::*;
use crate::go_flags::Asked;

fn asked(line: &str) -> Result<Asked, String> {
    let arguments: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
    TABLE.read(&arguments).map_err(|error| error.to_string())
}

fn parsed(line: &str) -> Result<Settings, String> {
    match asked(line)? {
        Asked::Start { given, warnings } => Settings::of(given, warnings),
        other => panic!("{line}: {other:?}"),
    }
}

fn settings(line: &str) -> Settings {
    parsed(line).expect(line)
}

#[test]
fn flags_are_read_as_go_reads_them() {
    let expected = ["--tcp-address=127.0.0.1:1", "--max-rdy-count=7"];
    for line in [
        "-tcp-address=127.0.0.1:1 -max-rdy-count=7",
        "--tcp-address=127.0.0.1:1 --max-rdy-count=7",
        "-tcp-address 127.0.0.1:1 --max-rdy-count 7",
        "-tcp-address 127.0.0.1:1 -version=false -max-rdy-count=7",
    ] {
        assert_eq!(settings(line).broker, expected, "{line}");
    }
    assert_eq!(asked("-version"), Ok(Asked::Version));
    assert_eq!(asked("-tcp-address=x --version=1"), Ok(Asked::Version));
    assert_eq!(asked("-help"), Ok(Asked::Help));
    let own = settings("-log-level=debug -log-prefix=x");
    assert_eq!(
        (own.log_level.as_deref(), own.log_prefix.as_deref()),
        (Some("debug"), Some("x"))
    );
}

#[test]
fn what_we_lack_is_warned_of_or_refused() {
    let tuned =
        settings("-topology-zone=a -statsd-address=b:1 -statsd-mem-stats -tls-min-version=tls1.0");
    assert_eq!(tuned.warnings.len(), 2);
    let passed = [
        "--statsd-address=b:1",
        "--statsd-mem-stats=true",
        "--tls-min-version=tls1.2",
    ];
    assert_eq!(tuned.broker, passed);
    assert!(
        tuned.warnings[0].contains("not preferred by zone"),
        "{:?}",
        tuned.warnings
    );
    for line in [
        "-tls-cert=",
        "-tls-min-version=",
        "-auth-http-address=",
        "-access=",
    ] {
        assert_eq!(settings(line), Settings::default(), "{line}");
    }
    let cases = [
        ("-tls-required=maybe", "invalid boolean value"),
        ("-tls-min-version=tls2", "use tls1.2 or tls1.3"),
        (
            "-config=/nowhere/nsqd.cfg",
            "reading the settings in /nowhere/nsqd.cfg",
        ),
        ("-colour=red", "not defined: -colour"),
        ("-tcp-address", "needs an argument: -tcp-address"),
        ("-version=maybe", "invalid boolean value"),
        ("start", "unexpected argument"),
    ];
    for (line, expected) in cases {
        let error = parsed(line).expect_err(line);
        assert!(error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn switches_have_gos_words() {
    for (line, expected) in [
        ("-snappy", "--snappy=true"),
        ("-deflate=F", "--deflate=false"),
        ("-tls-required=0", "--tls-required=false"),
        ("--tls-required", "--tls-required=true"),
        ("-tls-required=tcp-https", "--tls-required=tcp-https"),
    ] {
        assert_eq!(settings(line).broker, [expected], "{line}");
    }
}

#[test]
fn a_queue_without_memory_has_one_message_there() {
    let own = settings("-mem-queue-size=0");
    assert_eq!(own.broker, ["--mem-queue-size=1"]);
    assert!(
        own.warnings[0].contains("one message"),
        "{:?}",
        own.warnings
    );
    assert_eq!(
        settings("-mem-queue-size=10").broker,
        ["--mem-queue-size=10"]
    );
}

#[test]
fn flags_that_only_the_broker_has_are_taken_as_well() {
    for (line, expected) in [
        ("-abandoned-after 1m", "--abandoned-after=1m"),
        ("--memory-budget=1GiB", "--memory-budget=1GiB"),
        ("-http-host=a,b", "--http-host=a,b"),
    ] {
        assert_eq!(settings(line).broker, [expected], "{line}");
    }
}

/// nsqd's flags as `nsqd -h` lists them: the name, and `switch` or `value`.
const NSQD_1_3_0: &str = include_str!("nsqd-1.3.0.txt");

/// Flags of nsqd's later versions.
const LATER: [&str; 4] = [
    "auth-http-request-method",
    "enable-experiment",
    "topology-region",
    "topology-zone",
];

#[test]
fn every_flag_of_nsqd_has_its_row() {
    let rows = FLAGS.iter().map(|(name, is_switch, _)| {
        let kind = if *is_switch { "switch" } else { "value" };
        format!("{name} {kind}")
    });
    let is_later = |row: &String| LATER.iter().any(|name| row.starts_with(name));
    let mut rows: Vec<_> = rows.filter(|row| !is_later(row)).collect();
    rows.sort();
    assert_eq!(rows, NSQD_1_3_0.lines().collect::<Vec<_>>());
}

#[test]
fn passed_flags_are_flags_of_the_broker() {
    let own = Translated::command();
    for (name, _, fate) in FLAGS {
        if matches!(fate, Passed | PassedBut(_)) {
            let is_there = own.get_arguments().any(|arg| arg.get_long() == Some(*name));
            assert!(is_there, "the broker has no --{name}");
        }
    }
}

/// A file of its own for one test.
fn file(name: &str, text: &str) -> String {
    let file = format!("srtm-nsqd-{}-{name}.cfg", std::process::id());
    let path = std::env::temp_dir().join(file);
    std::fs::write(&path, text).expect("written");
    path.display().to_string()
}

#[test]
fn a_file_has_nsqds_keys_and_flags_go_before_it() {
    let path = file(
        "good",
        r#"
id = 7
log_level = "debug"
log_prefix = ""
tcp_address = "127.0.0.1:1"
nsqlookupd_tcp_addresses = ["a:1", "b:2"]
broadcast_address = ""
msg_timeout = "90s"
sync_timeout = 1500
max_rdy_count = 5
tls_cert = ""
tls_min_version = ""
tls_required = false
snappy = false
statsd_prefix = "nsq.%s"
statsd_mem_stats = true
e2e_processing_latency_percentiles = [1.0, 0.99]
abandoned_after = "2m"
auth_http_addresses = []
nsqlookupd_http_addresses = ["x:1"]
"#,
    );
    let all = settings(&format!("-config={path} -max-rdy-count=9 -snappy"));
    let mut told = all.broker.clone();
    told.sort();
    assert_eq!(
        told,
        [
            "--abandoned-after=2m",
            "--e2e-processing-latency-percentile=0.99",
            "--e2e-processing-latency-percentile=1.0",
            "--lookupd-tcp-address=a:1",
            "--lookupd-tcp-address=b:2",
            "--max-rdy-count=9",
            "--msg-timeout=90s",
            "--node-id=7",
            "--snappy=true",
            "--statsd-mem-stats=true",
            "--statsd-prefix=nsq.%s",
            "--sync-timeout=1500ms",
            "--tcp-address=127.0.0.1:1",
            "--tls-required=false",
        ]
    );
    assert_eq!(all.log_level.as_deref(), Some("debug"));
    assert_eq!(all.log_prefix.as_deref(), Some(""));
    assert_eq!(all.warnings.len(), 1);
    assert!(
        all.warnings[0].contains(":20: `nsqlookupd_http_addresses` is no setting"),
        "{:?}",
        all.warnings
    );
    assert_eq!(settings("-config="), Settings::default());
    std::fs::remove_file(path).expect("there");
}

#[test]
fn what_is_wrong_in_a_file_is_said_with_its_line() {
    for (number, (text, expected)) in [
        (
            "\nmsg_timeout = [1]",
            ":2: `msg_timeout` takes one value, not a list",
        ),
        (
            "snappy = 'maybe'",
            ":1: `snappy` cannot be that: invalid boolean value",
        ),
        ("a = = b", ":1: "),
    ]
    .into_iter()
    .enumerate()
    {
        let path = file(&format!("bad-{number}"), text);
        let error = parsed(&format!("-config={path}")).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
        std::fs::remove_file(path).expect("there");
    }
}
