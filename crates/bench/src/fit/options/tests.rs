//! The command line, and what is refused before anything is run.

use clap::{CommandFactory, Parser};

use super::*;

const MAX_PUBLISHERS: u32 = 18_976;

#[derive(Debug, Parser)]
struct Only {
    #[command(flatten)]
    options: FitOptions,
}

fn parse(arguments: &[&str]) -> Result<FitOptions, String> {
    let all = ["test"].iter().chain(arguments);
    Only::try_parse_from(all)
        .map(|only| only.options)
        .map_err(|error| error.to_string())
}

fn searched(arguments: &[&str]) -> Result<SearchOptions, String> {
    let options = parse(arguments).expect("parsed");
    options
        .search(MAX_PUBLISHERS)
        .map_err(|error| error.to_string())
}

#[test]
fn the_command_line_is_sound() {
    Only::command().debug_assert();
}

#[test]
fn runs_are_shorter_than_those_of_a_comparison() {
    let short = parse(&[]).expect("defaults").workload;
    assert_eq!((short.warmup_ms, short.measure_ms), (700, 3000));
    let long = parse(&["--measure-ms", "9000"]).expect("known").workload;
    assert_eq!(long.measure_ms, 9000);
}

#[test]
fn goals_are_read() {
    for (arguments, name, slo_us, us) in [
        (&[][..], "p99", 1000.0, 3.0),
        (
            &["--percentile", "99.9", "--slo", "2.5ms"],
            "p99.9",
            2500.0,
            4.0,
        ),
        (&["--percentile", "50", "--slo", "800us"], "p50", 800.0, 1.0),
        (&["--percentile", "90"], "p90", 1000.0, 2.0),
    ] {
        let goal = parse(arguments).expect("known").goal();
        let seen = Percentiles {
            p50_us: 1.0,
            p90_us: 2.0,
            p99_us: 3.0,
            p999_us: 4.0,
            ..Percentiles::default()
        };
        assert_eq!(
            (goal.name().as_str(), goal.slo_us, goal.of(&seen)),
            (name, slo_us, us)
        );
    }
}

#[test]
fn wrong_arguments_are_named() {
    for (arguments, told) in [
        (&["--percentile", "95"][..], "99.9"),
        (&["--slo", "fast"], "fast"),
        (&["--tolerance", "0"], "from 0.5 to 50"),
        (&["--tolerance", "NaN"], "from 0.5 to 50"),
        (&["--confidence", "100%"], "from 50 to 99.9"),
        (&["--repeats", "0"], "--repeats"),
        (&["--peers", "kafka"], "kafka"),
        (&["--address", "127.0.0.1:4150"], "--protocol"),
        (&["--protocol", "nsq"], "--address"),
        (&["--pid", "1"], "--address"),
        (
            &[
                "--address",
                "127.0.0.1:1",
                "--protocol",
                "nsq",
                "--peers",
                "nats",
            ],
            "cannot be used with",
        ),
    ] {
        let error = parse(arguments).expect_err("refused");
        assert!(error.contains(told), "{arguments:?}: {error}");
    }
    let percents = parse(&["--tolerance", "2.5%", "--confidence", "90 %"]).expect("percentages");
    assert_eq!(
        (percents.tolerance, percents.confidence().level),
        (2.5, 0.9)
    );
}

#[test]
fn contradictions_are_told_before_anything_runs() {
    for (arguments, told) in [
        (&["--slo", "0ms"][..], "--slo must be above 0"),
        (&["--start", "-5"], "--start must be a rate"),
        (&["--least", "0"], "--least must be a rate"),
        (&["--most", "inf"], "--most must be a rate"),
        (
            &["--least", "500", "--most", "400"],
            "--least 500 is above --most 400",
        ),
        (&["--most", "900000"], "needs 90000 publishers"),
        (
            &["--grow", "rate", "--publishers", "20000"],
            "more than the 18976",
        ),
        (
            &["--least", "200", "--group-publishers", "100"],
            "the load of 200 msg/s",
        ),
        (&["--body-bytes", "1"], "--body-bytes"),
        (&["--batch-messages", "0"], "--batch-messages"),
        (&["--rate-per-publisher", "-1"], "--rate-per-publisher"),
    ] {
        let arguments: Vec<String> = arguments.chunks(2).map(|pair| pair.join("=")).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let error = searched(&arguments).expect_err("refused");
        assert!(error.contains(told), "{arguments:?}: {error}");
    }
}

#[test]
fn the_bounds_follow_from_what_grows() {
    let by_publishers = searched(&[]).expect("defaults");
    assert_eq!(
        (by_publishers.least, by_publishers.most),
        (200.0, 189_760.0)
    );
    let by_rate = searched(&["--grow", "rate", "--publishers", "100"]).expect("known");
    assert_eq!((by_rate.least, by_rate.most), (200.0, 1e6));
    let grouped = searched(&["--group-publishers", "100"]).expect("known");
    assert_eq!(grouped.least, 1000.0, "one whole group");
    let low = searched(&["--most", "5000"]).expect("known");
    assert_eq!((low.start, low.most), (5000.0, 5000.0));
}

#[test]
fn a_load_makes_its_rate_exactly() {
    for (arguments, publishers) in [
        (&[][..], 3464),
        (&["--grow", "rate", "--publishers", "100"], 100),
    ] {
        let load = parse(arguments).expect("known").load(34_641.0);
        assert_eq!(load.publishers, publishers);
        assert!((load.offered_per_second() / 34_641.0 - 1.0).abs() < 1e-12);
    }
}
