//! Step 3: the fit to a promise, both ways, and the watch that follows.

use std::time::Duration;

use placement::Mode;

use super::cluster::{Cluster, TOPIC, promise};

fn fit(size: usize, mode: Mode) -> (Cluster, Duration) {
    let mut cluster = Cluster::new(6);
    let mut spec = promise(11_000.0, 1_000.0, 1000.0);
    spec.fit = mode;
    cluster.workload(1000, size, spec);
    let took = cluster.run_until(Duration::from_secs(900), |cluster| {
        ["fitted", "out-of-brokers"].contains(&cluster.state().as_str())
    });
    (cluster, took)
}

#[test]
fn a_promise_is_reached_by_replay_within_three_windows() {
    for size in [5, 10, 15, 20, 25, 30] {
        let (cluster, _) = fit(size, Mode::Replay);
        let view = cluster.core.topic_view(TOPIC).expect("declared");
        let status = view.fit_status.expect("fitted");
        println!(
            "replay  size {size}: {} windows, {} brokers, {}",
            status.windows,
            cluster.carriers(),
            view.state
        );
        assert_eq!(view.state, "fitted", "size {size}: {}", view.text);
        assert!(
            status.windows <= 3,
            "size {size}: {} windows",
            status.windows
        );
        assert_eq!(
            cluster
                .brokers
                .iter()
                .map(|broker| broker.attached.len())
                .sum::<usize>(),
            1000
        );
    }
}

#[test]
fn a_promise_is_reached_by_measuring() {
    for size in [5, 15, 25] {
        let (cluster, took) = fit(size, Mode::Measure);
        let view = cluster.core.topic_view(TOPIC).expect("declared");
        println!(
            "measure size {size}: {took:?}, {} brokers, {} ({})",
            cluster.carriers(),
            view.state,
            view.text
        );
        assert_eq!(view.state, "fitted", "size {size}: {}", view.text);
    }
}

#[test]
fn bursts_that_grow_are_noticed_and_fitted_anew() {
    let (mut cluster, _) = fit(5, Mode::Replay);
    let before = cluster.carriers();
    // All groups of four join into one: bursts of 20 publishers instead of 5.
    let phases: Vec<u64> = cluster
        .sensors
        .values()
        .map(|sensor| sensor.phase_ns)
        .collect();
    for (number, sensor) in cluster.sensors.values_mut().enumerate() {
        sensor.phase_ns = phases[number / 20 * 20];
    }
    cluster.run_until(Duration::from_secs(120), |cluster| {
        cluster.carriers() > before
    });
    assert!(cluster.events.iter().any(|(kind, _)| *kind == "violated"));
    cluster.run_until(Duration::from_secs(120), |cluster| {
        cluster.state() == "fitted"
    });
    assert_eq!(cluster.state(), "fitted");
    assert!(cluster.carriers() > before);
}

#[test]
fn out_of_brokers_is_said_and_a_new_broker_helps() {
    let mut cluster = Cluster::new(1);
    cluster.workload(1000, 20, promise(11_000.0, 1_000.0, 1000.0));
    cluster.run_until(Duration::from_secs(300), |cluster| {
        cluster.state() == "out-of-brokers"
    });
    let view = cluster.core.topic_view(TOPIC).expect("declared");
    assert_eq!(view.state, "out-of-brokers");
    assert!(!view.text.is_empty() && cluster.spawns > 0, "{}", view.text);
    assert_eq!(cluster.carriers(), 1, "the best configuration is kept");
    for _ in 0..5 {
        cluster.add_broker();
    }
    cluster.run_until(Duration::from_secs(300), |cluster| {
        cluster.state() == "fitted"
    });
    assert_eq!(cluster.state(), "fitted");
}

#[test]
fn publishers_beyond_the_limit_call_for_no_brokers() {
    let mut cluster = Cluster::new(2);
    cluster.workload(200, 10, promise(1500.0, 100.0, 5000.0));
    cluster.run_until(Duration::from_secs(120), |cluster| {
        cluster.state() == "violated"
    });
    cluster.run(Duration::from_secs(30));
    let view = cluster.core.topic_view(TOPIC).expect("declared");
    assert_eq!(view.state, "violated", "{}", view.text);
    assert!(view.text.contains("the limit is 1500"), "{}", view.text);
    assert_eq!(cluster.spawns, 0);
    // More is allowed: what was in the way is not said any more.
    let spec = promise(3000.0, 1000.0, 20_000.0);
    cluster.limit = spec.contract.limit;
    cluster
        .core
        .put_topic(TOPIC, spec, cluster.now)
        .expect("a good topic");
    cluster.run_until(Duration::from_secs(120), |cluster| {
        cluster.state() == "fitted"
    });
    let view = cluster.core.topic_view(TOPIC).expect("declared");
    assert_eq!(view.state, "fitted", "{}", view.text);
    assert!(!view.text.contains("limit"), "{}", view.text);
}
