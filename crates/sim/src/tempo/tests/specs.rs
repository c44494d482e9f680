//! Reading a spec: what is accepted, and the errors for the rest.

use super::*;

const WHOLE: &str = r#"
seed = 7
warmup = "500ms"
duration = "10s"

[kernel]
period = "5ms"
buckets = 50
threads = 2
availability = 0.9
slice = "20ms"
loses_processor = "within-turn"
on_overrun = "report"
served_by = "arrival"

[[task]]
name = "a"
share = 0.25
arrivals = { bursts = { every = "1s", events = 50 } }
service = { uniform = ["50us", "150us"] }
queue = 30
on_full = "drop"
want_wait = "2ms"

[[task]]
name = "b"
arrivals = { trace = ["1ms", "1ms", "1s"] }
service = { measured = ["10us", "20us"] }
"#;

#[test]
fn everything_can_be_written_down() {
    let spec = Spec::parse(WHOLE).expect("valid");
    let expected = Spec {
        seed: 7,
        warmup: ms(500),
        duration: ms(10_000),
        kernel: KernelSpec {
            period: ms(5),
            buckets: 50,
            threads: 2,
            availability: 0.9,
            slice: ms(20),
            loses_processor: LosesProcessor::WithinTurn,
            on_overrun: kernel::OnOverrun::Report,
            served_by: ServedBy::Arrival,
        },
        tasks: vec![
            TaskSpec {
                share: share(0.25),
                queue: 30,
                on_full: OnFull::Drop,
                want_wait: Some(ms(2)),
                ..TaskSpec::new(
                    "a",
                    Arrivals::Bursts {
                        every: ms(1_000),
                        events: 50,
                    },
                    Service::Uniform(us(50), us(150)),
                )
            },
            TaskSpec::new(
                "b",
                Arrivals::Trace(vec![ms(1), ms(1), ms(1_000)]),
                Service::Measured(vec![us(10), us(20)]),
            ),
        ],
    };
    assert_eq!(spec, expected);
    let measured = run(&spec);
    assert_eq!(
        (measured.tasks[1].served, measured.tasks[1].arrived),
        (3, 3)
    );
    let bursts = &measured.tasks[0];
    assert!(bursts.arrived > 0 && bursts.arrived.is_multiple_of(50));
    assert_eq!(bursts.dropped, bursts.arrived / 50 * 20);
}

const TASK: &str = "[[task]]
name = \"a\"
arrivals = { poisson = 10 }
service = { constant = \"1ms\" }
";

fn assert_refused(text: &str, line: usize, words: &str) {
    let error = Spec::parse(text).expect_err(text).to_string();
    let place = format!("line {line},");
    assert!(
        error.starts_with(&place) && error.contains(words),
        "{error:?} instead of {place:?} and {words:?}, of\n{text}"
    );
}

#[test]
fn errors_of_time_and_kernel_name_the_line() {
    for (text, line, words) in [
        ("duration = \"0s\"\n", 1, "longer than 0"),
        (
            "warmup = \"24h\"\n\nduration = \"1s\"\n",
            3,
            "more than a day",
        ),
        ("duration = \"1day\"\n", 1, "is not a duration"),
        ("\n[kernel]\nperiod = \"2m\"\n", 3, "at most a minute"),
        ("\n[kernel]\nthreads = 65\n", 3, "write 1 to 64"),
        ("\n[kernel]\nbuckets = 0\n", 3, "write 1 to 10000"),
        (
            "\n[kernel]\navailability = 0.0\n",
            3,
            "the part of the time",
        ),
        ("\n[kernel]\nslice = \"0s\"\n", 3, "a microsecond to a day"),
        ("[kernel]\non_overrun = \"x\"\n", 2, "penalise"),
        ("[kernel]\nspeed = 2\n", 2, "unknown field"),
    ] {
        assert_refused(&format!("{text}{TASK}"), line, words);
    }
    assert_refused("duration = \"1s\"\n", 1, "0 tasks");
}

#[test]
fn errors_of_tasks_name_the_line() {
    for (old, new, line, words) in [
        ("poisson = 10", "poisson = -1", 3, "not a rate"),
        ("poisson = 10", "poisson = nan", 3, "not a rate"),
        ("poisson = 10", "poisson = 1e9", 3, "at most 10000000000"),
        ("poisson = 10", "trace = [\"2s\", \"1s\"]", 3, "go back"),
        (
            "poisson = 10",
            "bursts = { every = \"0s\", events = 1 }",
            3,
            "both above 0",
        ),
        ("poisson = 10", "often = 10", 3, "unknown variant"),
        (
            "constant = \"1ms\"",
            "uniform = [\"1ms\"]",
            4,
            "two durations",
        ),
        (
            "constant = \"1ms\"",
            "uniform = [\"2ms\", \"1ms\"]",
            4,
            "the smaller first",
        ),
        ("constant = \"1ms\"", "measured = []", 4, "above 0"),
        ("1ms", "0s", 4, "above 0"),
        ("1ms", "2m", 4, "at most a minute"),
        ("arrivals", "arrive", 3, "unknown field"),
    ] {
        assert_refused(&TASK.replace(old, new), line, words);
    }
    for (more, words) in [
        ("share = 1.5\n", "more than 0 and at most 1"),
        ("queue = 0\n", "at least 1"),
        ("queue = 100000000\n", "at most 16777216"),
        ("on_full = \"wait\"\n", "unknown variant"),
        ("want_wait = \"soon\"\n", "is not a duration"),
    ] {
        assert_refused(&format!("{TASK}{more}"), 5, words);
    }
    assert_refused(&format!("{TASK}{TASK}"), 6, "name of another task");
    let other = TASK.replace("\"a\"", "\"b\"");
    let both = format!("{TASK}share = 0.6\n{other}share = 0.5\n");
    assert_refused(&both, 10, "others have declared 0.6 of 1");
}

#[test]
fn a_spec_that_was_built_is_checked_too() {
    let mut built = spec(ms(10), vec![saturated(0.5, Service::Constant(us(1)))]);
    built.tasks[0].queue = 0;
    let error = simulate(&built).expect_err("no room").to_string();
    assert!(error.starts_with("task[1].queue: "), "{error}");
}
