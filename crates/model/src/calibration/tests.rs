//! A calibration as text, there and back, and broken; figures of another machine.

use super::*;

fn calibration() -> Calibration {
    Calibration {
        version: VERSION,
        at_s: 1_700_000_000,
        machine: Machine {
            cpu: "Fast One".to_owned(),
            cores: 2,
            kernel: "6.1".to_owned(),
        },
        slo_p99_us: 1000.0,
        mcap: 54_321.5,
        missed: Some(56_000.0),
        model: ServiceModel::default(),
        fit: Fit {
            per_turn_ns: 9_000.0,
            residual: 0.03,
            residual_max: 0.07,
            replayed_p99_us: Some(700.0),
        },
        runs: vec![Run {
            purpose: Purpose::Mcap,
            publishers: 5432,
            batch_messages: 1,
            group_publishers: 1,
            offered_per_second: 54_321.5,
            achieved_per_second: 54_300.0,
            broker_ns_per_message: 9_876.5,
            p50_us: 150.0,
            p99_us: 912.0,
            generator_late_p99_us: 80.0,
            core_used_by_others: 0.01,
            lost: 0,
        }],
    }
}

/// The text's JSON with one member replaced.
fn with(member: &str, value: serde_json::Value) -> String {
    let mut json = serde_json::to_value(calibration()).expect("plain data");
    *json.pointer_mut(member).expect("there is such a member") = value;
    json.to_string()
}

#[test]
fn what_was_written_is_read() {
    let text = calibration().text();
    assert!(text.ends_with("}\n"), "{text}");
    assert_eq!(Calibration::parse(&text), Ok(calibration()));
}

#[test]
fn a_broken_text_is_an_error_that_says_what_to_do() {
    let whole = serde_json::to_string(&calibration()).expect("plain data");
    let cases = [
        ("empty", String::new(), "no calibration"),
        ("cut", whole[..whole.len() / 2].to_owned(), "no calibration"),
        ("other", "{\"topics\": []}".to_owned(), "no calibration"),
        ("text", "mcap = 5".to_owned(), "no calibration"),
        (
            "version",
            with("/version", 2.into()),
            "version 2 instead of 1",
        ),
        ("zero", with("/mcap", 0.into()), "mcap"),
        ("negative", with("/mcap", (-5.0).into()), "mcap"),
        (
            "null",
            with("/mcap", serde_json::Value::Null),
            "no calibration",
        ),
        ("slo", with("/slo_p99_us", 0.into()), "slo_p99_us"),
        (
            "cost",
            with("/model/per_message_ns", (-1.0).into()),
            "out of range",
        ),
        ("servers", with("/model/servers", 0.into()), "out of range"),
    ];
    for (name, text, expected) in cases {
        let error = Calibration::parse(&text).expect_err(name).to_string();
        assert!(error.contains(expected), "{name}: {error}");
        assert!(error.contains("srtm calibrate"), "{name}: {error}");
    }
}

#[test]
fn figures_of_another_machine_are_told_apart() {
    let here = |cpu: &str, cores, kernel: &str| Machine {
        cpu: cpu.to_owned(),
        cores,
        kernel: kernel.to_owned(),
    };
    let calibration = calibration();
    for same in [here("Fast One", 2, "6.1"), here("Fast One", 2, "6.2")] {
        assert_eq!(calibration.stranger_on(&same), None);
    }
    for other in [here("Slow One", 2, "6.1"), here("Fast One", 4, "6.1")] {
        let text = calibration.stranger_on(&other).expect("another machine");
        assert!(text.contains("Fast One with 2 cores"), "{text}");
    }
}
