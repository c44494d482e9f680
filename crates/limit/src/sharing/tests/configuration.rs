//! Which configurations are refused, and with which words; what limiters begin with.

use std::time::Duration;

use clock::Instant;

use super::super::{Policy, SharingConfig, SharingError, Update};
use crate::Burst;

fn config() -> SharingConfig {
    SharingConfig::messages(Policy::Fps, 1000.0, 50.0, 4).expect("in range")
}

#[test]
fn words_and_back() {
    for policy in Policy::ALL {
        assert_eq!(policy.to_string().parse(), Ok(policy));
        let json = serde_json::to_string(&policy).expect("a word");
        assert_eq!(json, format!("\"{policy}\""));
        assert_eq!(
            serde_json::from_str::<Policy>(&json).expect("its own"),
            policy
        );
    }
    let text = "FPS".parse::<Policy>().expect_err("capitals").to_string();
    assert_eq!(
        text,
        "sharing policy \"FPS\" is unknown: use one of static, gtb, grd, fps, ctb"
    );
}

#[test]
fn what_cannot_be_is_refused_with_its_field() {
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let text = SharingConfig::messages(Policy::Grd, rate, 50.0, 4).expect_err("no rate");
        assert!(text.to_string().starts_with("rate "), "{text}");
    }
    for burst in [0.0, f64::NAN] {
        let text = SharingConfig::bytes(Policy::Grd, 1.0, burst, 4).expect_err("no burst");
        assert!(text.to_string().starts_with("burst "), "{text}");
    }
    type Change = fn(&mut SharingConfig);
    let cases: [(&str, Change); 12] = [
        ("0 limiters", |c| c.limiters = 0),
        ("65537 limiters", |c| c.limiters = 65_537),
        ("the least depth 51", |c| {
            c.least_depth = Burst::new(51.0).expect("in range")
        }),
        ("an estimate interval of 0ns", |c| {
            c.estimate_interval = Duration::ZERO
        }),
        ("an estimate interval of 61s", |c| {
            c.estimate_interval = Duration::from_secs(61)
        }),
        ("ewma_1s 1 ", |c| c.ewma_1s = 1.0),
        ("ewma_1s NaN", |c| c.ewma_1s = f64::NAN),
        ("0 sampled flows", |c| c.sampled_flows = 0),
        ("resample_probability 0 ", |c| c.resample_probability = 0.0),
        ("resample_probability NaN", |c| {
            c.resample_probability = f64::NAN
        }),
        ("overbooking 0.9 ", |c| c.overbooking = 0.9),
        ("overbooking NaN", |c| c.overbooking = f64::NAN),
    ];
    for (begins, change) in cases {
        let mut config = config();
        change(&mut config);
        let text = config.checked().expect_err(begins).to_string();
        assert!(text.starts_with(begins), "{text}");
    }
    let sharing = config().checked().expect("sane");
    let text = sharing
        .limiter(4, Instant::ZERO)
        .expect_err("one too many")
        .to_string();
    assert_eq!(
        text,
        "limiter 4 is out of range: there are 4, counted from 0"
    );
}

#[test]
fn limiters_begin_with_an_nth() {
    for (policy, rate, burst) in [
        (Policy::Static, 250.0, 12.5),
        (Policy::Gtb, 250.0, 50.0),
        (Policy::Grd, 250.0, 50.0),
        (Policy::Fps, 250.0, 12.5),
        (Policy::Ctb, 1000.0, 50.0),
    ] {
        let sharing = SharingConfig { policy, ..config() }
            .checked()
            .expect("sane");
        let share = sharing
            .limiter(0, Instant::ZERO)
            .expect("one of four")
            .part();
        assert_eq!(
            (share.rate.get(), share.burst.get()),
            (rate, burst),
            "{policy}"
        );
    }
}

#[test]
fn an_update_that_cannot_be_is_refused() {
    for (demand, passed) in [
        (f64::NAN, 0.0),
        (-1.0, 0.0),
        (0.0, f64::INFINITY),
        (1e16, 0.0),
    ] {
        assert!(matches!(
            Update::new(demand, passed),
            Err(SharingError::Update { .. })
        ));
    }
}
