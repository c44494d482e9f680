//! The service model against loads of known cost.

use super::*;
use ::model::Purpose;

/// What a broker with these costs would show; latency as if alone in the queue.
fn runs(truth: &ServiceModel, per_turn_ns: f64) -> Vec<Run> {
    let base = Workload::default();
    let run = |load: &Load| {
        let workload = load.workload(&base);
        let mut run = Run {
            purpose: Purpose::Model,
            publishers: load.publishers,
            batch_messages: load.batch_messages,
            group_publishers: load.group_publishers,
            offered_per_second: workload.offered_per_second(),
            achieved_per_second: workload.offered_per_second(),
            broker_ns_per_message: 0.0,
            p50_us: (truth.base_ns + truth.per_message_ns + truth.per_batch_ns) / 1000.0,
            p99_us: 300.0,
            generator_late_p99_us: 5.0,
            core_used_by_others: 0.0,
            lost: 0,
        };
        let costs = [
            truth.per_message_ns,
            truth.per_batch_ns,
            truth.per_active_connection_ns,
            per_turn_ns,
        ];
        run.broker_ns_per_message = predict(&row(&run, &base), &costs);
        run
    };
    LOADS.iter().map(run).collect()
}

#[test]
fn the_loads_tell_all_four_costs_apart() {
    for (truth, per_turn_ns) in [
        ((4_000.0, 3_000.0, 0.0), 9_000.0),
        ((12_000.0, 0.0, 0.0), 0.0),
        ((5_000.0, 2_000.0, 100.0), 12_000.0),
    ] {
        let truth = ServiceModel {
            per_message_ns: truth.0,
            per_batch_ns: truth.1,
            per_active_connection_ns: truth.2,
            base_ns: 70_000.0,
            servers: 1,
        };
        let fitted =
            fit(&runs(&truth, per_turn_ns), &Workload::default(), 1).expect("there are runs");
        let near = |found: f64, expected: f64| (found - expected).abs() < 1.0;
        assert!(
            near(fitted.model.per_message_ns, truth.per_message_ns),
            "{fitted:?}"
        );
        assert!(
            near(fitted.model.per_batch_ns, truth.per_batch_ns),
            "{fitted:?}"
        );
        assert!(near(fitted.fit.per_turn_ns, per_turn_ns), "{fitted:?}");
        assert!(
            near(
                fitted.model.per_active_connection_ns,
                truth.per_active_connection_ns
            ),
            "{fitted:?}"
        );
        assert!(fitted.fit.residual_max < 1e-6, "{fitted:?}");
    }
}

#[test]
fn the_base_is_the_latency_without_the_service() {
    let truth = ServiceModel {
        per_message_ns: 6_000.0,
        per_batch_ns: 4_000.0,
        per_active_connection_ns: 0.0,
        base_ns: 70_000.0,
        servers: 2,
    };
    let mut runs = runs(&truth, 0.0);
    // A second round of the lightest load that something disturbed, and a slower one of another load.
    let mut disturbed = runs[0].clone();
    disturbed.p50_us = 5_000.0;
    runs.push(disturbed);
    runs[3].p50_us = 1.0;
    let fitted = fit(&runs, &Workload::default(), 2).expect("there are runs");
    assert!((fitted.model.base_ns - 70_000.0).abs() < 1.0, "{fitted:?}");
    assert_eq!(fitted.model.servers, 2);
    assert!(fitted.model.is_sane());
}

#[test]
fn noise_shows_in_the_residuals() {
    let truth = ServiceModel::default();
    let mut runs = runs(&truth, 8_000.0);
    for (place, run) in runs.iter_mut().enumerate() {
        run.broker_ns_per_message *= if place % 2 == 0 { 1.1 } else { 0.9 };
    }
    let fitted = fit(&runs, &Workload::default(), 1).expect("there are runs");
    assert!(
        fitted.fit.residual > 0.01 && fitted.fit.residual < 0.12,
        "{fitted:?}"
    );
    assert!(fitted.fit.residual_max >= fitted.fit.residual, "{fitted:?}");
    assert_eq!(fitted.residuals.len(), runs.len());
}

#[test]
fn a_broker_without_cpu_time_has_no_model() {
    let mut runs = runs(&ServiceModel::default(), 0.0);
    for run in &mut runs {
        run.broker_ns_per_message = f64::NAN;
    }
    assert!(fit(&runs, &Workload::default(), 1).is_err());
}

#[test]
fn publishers_that_send_at_once_are_active_together() {
    let load = |group_publishers| Workload {
        publishers: 4000,
        rate_per_publisher: 1.0,
        group_publishers,
        ..Workload::default()
    };
    let (alone, grouped) = (
        mean_active_together(&load(1)),
        mean_active_together(&load(100)),
    );
    // Four a millisecond: each finds two before itself, on average. Groups of 100: about fifty.
    assert!((2.5..3.5).contains(&alone), "{alone}");
    assert!((48.0..60.0).contains(&grouped), "{grouped}");
}

#[test]
fn turns_are_shared_under_load() {
    let turns = |rate| turns_per_second(&Workload::default().at_rate(rate));
    assert!((turns(100.0) / 100.0 - 1.0).abs() < 0.01);
    assert!(turns(1e6) <= 1.0 / TURN_SPACING_S && turns(1e6) > 0.99 / TURN_SPACING_S);
}

#[test]
fn saturation_goes_by_the_busiest_run_of_the_kind() {
    let mut runs = runs(&ServiceModel::default(), 0.0);
    for run in &mut runs {
        let is_busiest =
            [(1, 20_000.0), (10, 40_000.0)].contains(&(run.batch_messages, run.offered_per_second));
        run.broker_ns_per_message = match (is_busiest, run.group_publishers, run.batch_messages) {
            (true, 1, 1) => 10_000.0,
            (true, 1, _) => 2_000.0,
            _ => 50_000.0,
        };
    }
    let load = |batch_messages| Workload {
        batch_messages,
        ..Workload::default()
    };
    assert!((saturation(&runs, &load(1), 2) - 200_000.0).abs() < 1e-6);
    assert!((saturation(&runs, &load(10), 1) - 500_000.0).abs() < 1e-6);
    assert_eq!(saturation(&[], &load(1), 1), 0.0);
}

#[test]
fn the_replay_of_a_light_load_is_base_and_service() {
    let model = ServiceModel {
        per_message_ns: 10_000.0,
        per_batch_ns: 0.0,
        per_active_connection_ns: 0.0,
        base_ns: 90_000.0,
        servers: 1,
    };
    let at = |rate| replayed_p99_us(&model, &Workload::default().at_rate(rate)).expect("messages");
    assert!((at(100.0) - 100.0).abs() < 3.0, "{}", at(100.0));
    assert!(at(99_000.0) > 1_000.0, "{}", at(99_000.0));
}
