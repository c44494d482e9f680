//! Steps 1 and 2, moves, restarts.

use std::time::Duration;

use super::cluster::{Cluster, TOPIC, promise, settings};
use crate::core::Core;
use crate::view::TopicSpec;

#[test]
fn a_topic_begins_on_the_fewest_brokers() {
    let mut cluster = Cluster::new(3);
    cluster.workload(100, 5, promise(2000.0, 200.0, 1e6));
    cluster.connect_sensors();
    assert_eq!(cluster.carriers(), 1);
    let placement = cluster
        .core
        .placement_view(TOPIC, None, usize::MAX)
        .expect("a good name");
    assert!(placement.exists && placement.publishers.len() == 100);
}

#[test]
fn where_answers_before_the_topic_exists() {
    let cluster = Cluster::new(2);
    let placement = cluster
        .core
        .placement_view("never-heard-of", None, usize::MAX)
        .expect("a good name");
    assert!(!placement.exists);
    assert_eq!(placement.brokers.len(), 1);
    assert!(
        Cluster::new(0)
            .core
            .placement_view("t", None, usize::MAX)
            .expect("a good name")
            .brokers
            .is_empty()
    );
}

#[test]
fn draining_moves_everybody_and_keeps_within_the_budget() {
    let mut cluster = Cluster::new(2);
    cluster.workload(1000, 1, TopicSpec::default());
    cluster.connect_sensors();
    cluster.run(Duration::from_secs(2));
    let full = cluster
        .brokers
        .iter()
        .position(|broker| !broker.attached.is_empty())
        .expect("one");
    let name = cluster.brokers[full].name.clone();
    cluster
        .core
        .drain_broker(&name, cluster.now)
        .expect("known");
    cluster.run(Duration::from_secs(1));
    let after_a_second = cluster.moves;
    assert!(
        after_a_second <= 1100,
        "{after_a_second} moves in the first second: burst of 500 and 500/s"
    );
    cluster.run(Duration::from_secs(3));
    assert_eq!(
        (cluster.moves, cluster.brokers[full].attached.len()),
        (1000, 0)
    );
    cluster.run(Duration::from_secs(20));
    assert_eq!(cluster.moves, 1000, "nobody moves twice");
}

#[test]
fn a_restart_of_the_controller_moves_nobody() {
    let mut cluster = Cluster::new(3);
    cluster.workload(300, 10, promise(4000.0, 400.0, 1e6));
    cluster.connect_sensors();
    cluster.run(Duration::from_secs(30));
    let before = cluster
        .core
        .placement_view(TOPIC, None, usize::MAX)
        .expect("a good name");
    let moves = cluster.moves;
    cluster.core = Core::restore(settings(), &cluster.kept.clone(), cluster.now).expect("kept");
    assert_eq!(cluster.core.epoch(), 2);
    for index in 0..3 {
        cluster.dial(index);
    }
    cluster.run(Duration::from_secs(30));
    assert_eq!(
        cluster
            .core
            .placement_view(TOPIC, None, usize::MAX)
            .expect("a good name"),
        before
    );
    assert_eq!(cluster.moves, moves);
    let carrier = cluster
        .brokers
        .iter()
        .find(|broker| !broker.attached.is_empty())
        .expect("one");
    assert!(
        carrier.holder.in_force(cluster.now).is_some(),
        "shares are renewed"
    );
}

#[test]
fn publishers_that_declare_themselves_are_taken_as_declared() {
    let mut cluster = Cluster::new(2);
    cluster.workload(10, 1, TopicSpec::default());
    cluster.connect_sensors();
    cluster.run(Duration::from_secs(2));
    cluster
        .core
        .delete_publisher(TOPIC, "s0003", cluster.now)
        .expect("known");
    let index = cluster
        .brokers
        .iter()
        .position(|broker| broker.attached.contains("s0003"))
        .expect("one");
    cluster.dial(index);
    cluster.run(Duration::from_secs(2));
    assert_eq!(
        cluster
            .core
            .publisher_views(TOPIC, None, usize::MAX)
            .expect("declared")
            .len(),
        10
    );
}
