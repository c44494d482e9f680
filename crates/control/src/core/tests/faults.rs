//! Deaths, silences, partitions: publishers find a place, shares never exceed the limit.

use std::time::Duration;

use super::cluster::{Cluster, TOPIC, promise, settings};
use crate::core::Core;

fn placed_on(cluster: &Cluster, index: usize) -> usize {
    let placement = cluster
        .core
        .placement_view(TOPIC, None, usize::MAX)
        .expect("a good name");
    placement
        .publishers
        .values()
        .filter(|name| **name == cluster.brokers[index].name)
        .count()
}

#[test]
fn a_killed_broker_frees_its_share_at_once() {
    let mut cluster = Cluster::carrying(3);
    let victim = cluster.carrier();
    cluster.kill(victim);
    assert_eq!(
        placed_on(&cluster, victim),
        0,
        "all have another place as soon as the link is lost"
    );
    cluster.connect_sensors();
    cluster.run(Duration::from_secs(2));
    let survivor = cluster
        .brokers
        .iter()
        .find(|broker| !broker.attached.is_empty())
        .expect("one");
    let share = survivor.holder.in_force(cluster.now).expect("granted");
    assert!(share.rate.get() > 2900.0, "{share:?}");
}

#[test]
fn a_broker_that_comes_back_holds_nothing() {
    let mut cluster = Cluster::carrying(2);
    let victim = cluster.carrier();
    cluster.kill(victim);
    cluster.connect_sensors();
    cluster.run(Duration::from_millis(200));
    cluster.start(victim);
    assert!(
        cluster.brokers[victim]
            .holder
            .in_force(cluster.now)
            .is_none()
    );
    cluster.run(Duration::from_secs(20));
    assert_eq!(placed_on(&cluster, victim), 0, "nobody moves back");
}

#[test]
fn a_stopped_broker_keeps_its_floor_and_loses_its_publishers_in_the_end() {
    let mut cluster = Cluster::carrying(2);
    let victim = cluster.carrier();
    cluster.brokers[victim].is_stopped = true;
    cluster.run(Duration::from_secs(10));
    let floor = cluster.brokers[victim]
        .holder
        .in_force(cluster.now)
        .expect("a floor");
    assert!(floor.rate.get() < 2000.0, "{floor:?}");
    cluster.run(Duration::from_secs(10));
    assert_eq!(placed_on(&cluster, victim), 0);
    cluster.brokers[victim].is_stopped = false;
    cluster.run(Duration::from_secs(5));
}

#[test]
fn a_pause_of_the_controller_is_not_the_brokers_silence() {
    let mut cluster = Cluster::carrying(2);
    let carrier = cluster.carrier();
    let placed = placed_on(&cluster, carrier);
    // What is reported meanwhile is not read before it has looked twice.
    cluster.now += Duration::from_secs(60);
    for _ in 0..2 {
        cluster.now += Duration::from_millis(50);
        cluster.core.tick(cluster.now);
        cluster.carry_out();
    }
    let states = |cluster: &Cluster| {
        let brokers = cluster.core.broker_views(cluster.now);
        brokers.into_iter().map(|broker| broker.state)
    };
    assert!(states(&cluster).eq(["up", "up"]));
    assert_eq!(placed_on(&cluster, carrier), placed);
    // From then on silence counts as ever.
    cluster.brokers[carrier].is_stopped = true;
    cluster.run(Duration::from_secs(4));
    assert_eq!(
        states(&cluster).filter(|state| state == "silent").count(),
        1
    );
    cluster.run(Duration::from_secs(16));
    assert_eq!(placed_on(&cluster, carrier), 0);
}

#[test]
fn without_a_controller_leases_fall_to_floors_and_a_restart_resumes() {
    let mut cluster = Cluster::carrying(2);
    let carrier = cluster.carrier();
    let before = cluster.brokers[carrier]
        .holder
        .in_force(cluster.now)
        .expect("a share");
    cluster.now += Duration::from_secs(60);
    cluster.check_shares();
    assert!(
        cluster.brokers[carrier]
            .holder
            .in_force(cluster.now)
            .is_some(),
        "data flows on"
    );
    cluster.core = Core::restore(settings(), &cluster.kept.clone(), cluster.now).expect("kept");
    for index in 0..2 {
        cluster.dial(index);
    }
    cluster.run(Duration::from_secs(12));
    let after = cluster.brokers[carrier]
        .holder
        .in_force(cluster.now)
        .expect("a share");
    assert!(
        after.rate.get() >= before.rate.get() * 0.99,
        "{before:?} {after:?}"
    );
}

#[test]
fn a_contract_removed_while_a_broker_was_away_is_removed_there_too() {
    let mut cluster = Cluster::new(2);
    cluster.workload(20, 10, promise(3000.0, 300.0, 1e6));
    cluster.run(Duration::from_secs(2));
    cluster.brokers[1].link = 0;
    cluster
        .core
        .delete_topic(TOPIC, cluster.now)
        .expect("declared");
    cluster.limit = None;
    cluster.carry_out();
    assert!(cluster.brokers[0].limit.is_none() && cluster.brokers[1].limit.is_some());
    cluster.dial(1);
    cluster.run(Duration::from_secs(2));
    assert!(cluster.brokers[1].limit.is_none());
}

#[test]
fn a_share_is_there_before_the_publishers_are() {
    let mut cluster = Cluster::carrying(2);
    let victim = cluster.carrier();
    cluster.kill(victim);
    let share = cluster.brokers[1 - victim].holder.in_force(cluster.now);
    assert!(
        share.is_some_and(|share| share.rate.get() > 2900.0),
        "{share:?}"
    );
}
