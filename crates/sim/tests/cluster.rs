//! Whole clusters in virtual time: equal for equal seeds, nothing lost but what died, and as theory
//! predicts.

use limit::theory::{AccessDelay, Batches, Poisson, Which};
use limit::{Burst, Rate};
use placement::BrokerIndex;
use sim::plan::{PlanOptions, WhatIf, plan};
use sim::{Measured, Scene, SimError, fit, measure, parallel, simulate, spread};
use workload::trace::{Trace, TraceHeader};
use workload::{Failure, Spec};

fn spec(text: &str) -> Spec {
    Spec::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// 1,000 publishers of 10 messages/s in batches of 10 and groups, windows of 10 s.
fn grouped(group: u32) -> Spec {
    spec(&format!(
        "duration = '10s'\n[[publishers]]\ncount = 1000\nrate = 10\nbatch = 10\narrivals = 'periodic'\n\
         group = {group}\n[topic]\nwindow = '10s'\n[cluster]\nper_message = '12us'\nper_batch = '16us'\n"
    ))
}

#[test]
fn the_seed_decides_everything_whoever_runs_first() {
    let spec = grouped(10);
    let scene = Scene::new(&spec).expect("a sane spec");
    let broker_of = spread(&scene, 3);
    let repeats: Vec<u32> = (0..4).collect();
    let run = |&repeat: &u32| -> Result<Measured, SimError> {
        simulate(&scene.repeat(repeat)?, &broker_of)
    };
    let with_jobs = |jobs: usize| -> Vec<Measured> {
        let runs = parallel::map(jobs, &repeats, run, || ());
        runs.into_iter()
            .map(|run| run.expect("a sane scene"))
            .collect()
    };
    let (one, four) = (with_jobs(1), with_jobs(4));
    assert_eq!(one, four);
    let mut hashes: Vec<u64> = one.iter().map(|run| run.hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 4, "each seed has a run of its own");
}

#[test]
fn waits_for_tokens_are_those_of_theory() {
    // Service takes next to nothing, so that all latency is the limit's.
    for (k, burst) in [(1, 8.0), (2, 16.0), (6, 24.0)] {
        let spec = spec(&format!(
            "duration = '60s'\n[[publishers]]\ncount = 600\nrate = 10\n[topic]\nrate = 6600\nburst = {burst}\n\
             window = '1s'\n[cluster]\nbrokers = 6\nper_message = '1ns'\nper_batch = '0s'\nbase = '0s'\n"
        ));
        let scene = Scene::new(&spec).expect("a sane spec");
        let broker_of = spread(&scene, k);
        let runs: Vec<f64> = (0..6)
            .map(|repeat| {
                let scene = scene.repeat(repeat).expect("a burst that is given");
                let measured = measure(&scene, &broker_of).expect("its own placement");
                measured.all.access_delay_us
            })
            .collect();
        let mean = runs.iter().sum::<f64>() / 6.0;
        let variance = runs.iter().map(|run| (run - mean).powi(2)).sum::<f64>() / 5.0;
        let poisson = Poisson {
            rate: Rate::new(6000.0).expect("a rate"),
            batch_messages: 1,
        };
        let one = AccessDelay::new(
            poisson,
            Rate::new(6600.0).expect("a rate"),
            Burst::new(burst).expect("a burst"),
        );
        let split = one.and_then(|one| one.split(k as u32, Batches::Whole));
        let expected = split.expect("a stable queue").mean_s(Which::Any) * 1e6;
        // Four standard errors, and a hundredth for the 1 ns of service.
        let allowed = 4.0 * (variance / 6.0).sqrt() + 0.01 * expected;
        assert!(
            (mean - expected).abs() <= allowed,
            "k = {k}: {mean} us, theory {expected} us, {allowed} allowed"
        );
    }
}

#[test]
fn larger_groups_take_more_brokers_and_the_promise_is_kept() {
    let mut used = Vec::new();
    for group in [5, 20, 40] {
        let scene = Scene::new(&grouped(group)).expect("a sane spec");
        let fitted = fit(&scene).expect("it can be fitted");
        assert!(fitted.met, "groups of {group}: {:?}", fitted.status);
        let measured = measure(&scene, &fitted.broker_of).expect("its own placement");
        assert!(
            measured.worst_us() <= 1_050.0,
            "groups of {group}: {} us",
            measured.worst_us()
        );
        used.push(measured.k());
    }
    assert!(used.is_sorted() && used[0] < used[2], "{used:?}");
}

#[test]
fn a_broker_that_dies_loses_what_waits_and_nothing_else() {
    let mut spec = grouped(5);
    spec.duration = std::time::Duration::from_secs(30);
    spec.failures = vec![Failure {
        broker: 1,
        at: std::time::Duration::from_secs(10),
        away: std::time::Duration::ZERO,
    }];
    let scene = Scene::new(&spec).expect("a sane spec");
    let broker_of = spread(&scene, 3);
    let measured = simulate(&scene, &broker_of).expect("its own placement");
    assert_eq!(
        measured.brokers[0].publishers, 0,
        "its publishers are elsewhere"
    );
    let publishers: usize = measured
        .brokers
        .iter()
        .map(|broker| broker.publishers)
        .sum();
    assert_eq!(publishers, 1000);
    assert!(measured.lost <= 1000, "{} lost", measured.lost);
    let p99 = |second: usize| measured.seconds[second].p99_us.unwrap_or(f64::MAX);
    assert!(p99(9) < 5_000.0, "before: {} us", p99(9));
    assert!(p99(10) > 100_000.0, "held back for 0.6 s: {} us", p99(10));
    assert!(p99(25) < 20_000.0, "and over: {} us", p99(25));
}

/// One class's traffic fades while another's grows; each is on a broker of its own.
fn shifting(adaptor: bool) -> Measured {
    let spec = spec(&format!(
        "duration = '60s'\n\
         [[publishers]]\nname = 'fading'\ncount = 500\nrate = 10\nramp = {{ from = 1, to = 0.2, over = '20s' }}\n\
         [[publishers]]\nname = 'growing'\ncount = 500\nrate = 10\nramp = {{ from = 0.2, to = 1, over = '20s' }}\n\
         [topic]\nrate = 9000\nburst = 300\nwindow = '1s'\nadaptor = {adaptor}\n[cluster]\nbrokers = 2\n"
    ));
    let scene = Scene::new(&spec).expect("a sane spec");
    let broker_of: Vec<_> = (0..1000)
        .map(|publisher| Some(BrokerIndex(u32::from(publisher >= 500))))
        .collect();
    simulate(&scene, &broker_of).expect("a placement of this scene")
}

#[test]
fn the_adaptor_follows_traffic_that_shifts() {
    let worst_of_last = |measured: &Measured| {
        let last = measured.seconds[50..].iter();
        last.filter_map(|second| second.p99_us).fold(0.0, f64::max)
    };
    let (with, without) = (shifting(true), shifting(false));
    // The weights are the rates at the ends of the ramps: without the adaptor shares are right at the end, with it
    // they are right all the time.
    let worst = |measured: &Measured| {
        let seconds = measured.seconds.iter();
        seconds
            .filter_map(|second| second.p99_us)
            .fold(0.0, f64::max)
    };
    assert!(worst_of_last(&with) < 2_000.0, "{}", worst_of_last(&with));
    assert!(
        worst(&with) < worst(&without),
        "{} and {}",
        worst(&with),
        worst(&without)
    );
}

#[test]
fn a_recording_gives_what_its_spec_gives() {
    let spec = grouped(10);
    let limited = |mut spec: Spec| {
        spec.topic.rate = Some(11_000.0);
        spec.topic.burst = Some(600.0);
        spec
    };
    let spec = limited(spec);
    let length_ns = 60_000_000_000;
    let recording = Trace {
        header: TraceHeader {
            length: Some(std::time::Duration::from_nanos(length_ns)),
            ..TraceHeader::of_spec(&spec, String::from("test"))
        },
        arrivals: spec
            .arrivals()
            .take_while(|arrival| arrival.at_ns < length_ns)
            .collect(),
    };
    let told = Scene::new(&spec).expect("a sane spec");
    let recorded = Scene::of_recording(&spec, recording).expect("a sane recording");
    let broker_of = spread(&told, 2);
    assert_eq!(spread(&recorded, 2), broker_of);
    let told = measure(&told, &broker_of).expect("its own placement");
    let recorded = measure(&recorded, &broker_of).expect("its own placement");
    assert_eq!(told.hash, recorded.hash);
    let empty = Scene::of_recording(&spec, Trace::default());
    assert!(matches!(empty, Err(SimError::EmptyRecording)));
}

#[test]
fn a_plan_answers_its_questions() {
    let scene = Scene::new(&grouped(30)).expect("a sane spec");
    let options = PlanOptions {
        repeats: 3,
        jobs: 2,
        what_ifs: vec![WhatIf::MoreBrokers(1), WhatIf::Kill(1), WhatIf::Rate(2.0)],
    };
    let planned = plan(&scene, &options, || ()).expect("a sane scene");
    assert!(planned.met && planned.k > 1, "{planned}");
    assert_eq!(planned.by_k.len(), 6);
    assert_eq!(planned.placement.len(), planned.k);
    assert!(!planned.by_k[0].met, "one broker is not enough: {planned}");
    assert_eq!(planned.what_ifs.len(), 3);
    assert!(planned.what_ifs[1].k < planned.k || planned.k == 6);
    let nobody = PlanOptions {
        what_ifs: vec![WhatIf::Kill(7)],
        ..options
    };
    let error = plan(&scene, &nobody, || ()).expect_err("there is no b7");
    assert_eq!(
        error.to_string(),
        "there is no broker b7: the cluster has b1 to b6"
    );
}
