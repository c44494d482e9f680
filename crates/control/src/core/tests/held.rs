//! A store that takes nothing for a while: leases go on within what it has, and nothing is given
//! twice afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::{stream, uniform};
use limit::Share;

use super::cluster::{Cluster, TOPIC, promise, settings};
use crate::core::Core;
use crate::store::{Store, Table};
use crate::view::TopicSpec;

/// The most that each broker may be using, as a restart would find it.
fn kept(cluster: &Cluster) -> BTreeMap<String, Option<Share>> {
    let records = cluster.kept.load(Table::Shares).expect("memory");
    let of_topic = records.into_iter().find(|(topic, _)| topic == TOPIC);
    let (_, value) = of_topic.expect("kept");
    serde_json::from_value(value).expect("a record")
}

/// Runs with a full store; no broker ever has more than is kept.
fn run_full(cluster: &mut Cluster, seconds: u32) {
    assert!(cluster.is_full);
    let kept = kept(cluster);
    for _ in 0..seconds * 10 {
        cluster.run(Duration::from_millis(100));
        for broker in cluster.brokers.iter().filter(|broker| broker.is_running) {
            let Some(has) = broker.holder.in_force(cluster.now) else {
                continue;
            };
            let most = kept.get(&broker.name).copied().flatten();
            assert!(
                most.is_some_and(|most| most.covers(&has)),
                "{} has {has}, and {most:?} is kept",
                broker.name
            );
        }
    }
}

fn rate(cluster: &Cluster, index: usize) -> f64 {
    let share = cluster.brokers[index].holder.in_force(cluster.now);
    share.map_or(0.0, |share| share.rate.get())
}

/// Something that cannot be kept, of another topic.
fn decide(cluster: &mut Cluster) {
    let declared = cluster
        .core
        .put_topic("other", TopicSpec::default(), cluster.now);
    declared.expect("good");
    cluster.carry_out();
}

#[test]
fn leases_are_renewed_and_a_broker_that_starts_again_gets_its_share_back() {
    let mut cluster = Cluster::carrying(2);
    let carrier = cluster.carrier();
    cluster.is_full = true;
    decide(&mut cluster);
    run_full(&mut cluster, 60);
    assert!(rate(&cluster, carrier) > 2900.0, "not its floor");
    cluster.start(carrier);
    cluster.connect_sensors();
    run_full(&mut cluster, 20);
    assert!(rate(&cluster, carrier) > 2900.0);
}

#[test]
fn a_share_that_is_not_kept_is_given_to_nobody_and_grows_once_it_can_be() {
    let mut cluster = Cluster::carrying(2);
    let (victim, survivor) = (cluster.carrier(), 1 - cluster.carrier());
    cluster.is_full = true;
    // What is free now would be the survivor's, and a restart would believe that it is the victim's.
    cluster.kill(victim);
    cluster.connect_sensors();
    run_full(&mut cluster, 30);
    assert!(
        rate(&cluster, survivor) < 1500.0,
        "{}",
        rate(&cluster, survivor)
    );
    // A controller that starts again meanwhile knows what is kept, and nothing else.
    let known = cluster.kept.clone();
    cluster.make_room();
    cluster.run(Duration::from_secs(5));
    assert!(rate(&cluster, survivor) > 2900.0);

    let mut restarted = Cluster::carrying(2);
    restarted.kept = known;
    restarted.restart();
    restarted.run(Duration::from_secs(20));
}

#[test]
fn a_process_that_a_controller_took_and_could_not_keep_has_its_share_reserved() {
    let mut cluster = Cluster::carrying(2);
    let (taken, other) = (cluster.carrier(), 1 - cluster.carrier());
    cluster.is_full = true;
    decide(&mut cluster);
    cluster.start(taken);
    cluster.connect_sensors();
    run_full(&mut cluster, 20);
    assert!(rate(&cluster, taken) > 2900.0, "what is kept of its name");
    // The next controller knows the process before it, and hears of this one late.
    cluster.is_full = false;
    cluster.restart_controller();
    let broker = &mut cluster.brokers[taken];
    (broker.link, broker.is_cut) = (0, true);
    broker.attached.clear();
    cluster.dial(other);
    cluster.run_until(Duration::from_secs(20), |_| false);
    cluster.brokers[taken].is_cut = false;
    cluster.dial(taken);
    cluster.run(Duration::from_secs(20));
    let used: f64 = (0..2).map(|index| rate(&cluster, index)).sum();
    assert!(used > 2900.0, "{used} of 3000");
}

/// Whatever fails when: Σ shares in force ≤ limit (checked each 100 ms), and in the end the limit is used.
#[test]
fn no_order_of_failures_gives_a_share_twice() {
    for seed in 0..8 {
        let mut cluster = Cluster::carrying(3);
        let mut random = stream(seed, "held");
        for _ in 0..40 {
            let index = (uniform(&mut random) * 3.0) as usize;
            match (uniform(&mut random) * 6.0) as u32 {
                0 if !cluster.is_full => cluster.is_full = true,
                0 | 1 if cluster.is_full => cluster.make_room(),
                1 => decide(&mut cluster),
                2 if cluster.brokers[index].is_running => cluster.kill(index),
                2 => cluster.start(index),
                3 => cluster.restart(),
                4 if cluster.brokers[index].is_running => cluster.dial(index),
                _ => {}
            }
            cluster.connect_sensors();
            cluster.run(Duration::from_secs_f64(6.0 * uniform(&mut random)));
        }
        if cluster.is_full {
            cluster.make_room();
        }
        for index in 0..3 {
            if !cluster.brokers[index].is_running {
                cluster.start(index);
            }
        }
        cluster.connect_sensors();
        cluster.run(Duration::from_secs(30));
        let used: f64 = (0..3).map(|index| rate(&cluster, index)).sum();
        assert!(used > 2900.0, "seed {seed}: {used} of 3000");
    }
}

/// A contract is kept before it comes into force; what follows from it may fail.
#[test]
fn of_a_contract_that_is_kept_no_more_is_granted_than_is_kept() {
    for (rate_after, burst, most, last) in [
        (6000.0, 600.0, 3000.0, 5800.0),
        (1000.0, 100.0, 1000.0, 900.0),
    ] {
        let mut cluster = Cluster::carrying(2);
        let carrier = cluster.carrier();
        let spec = promise(rate_after, burst, 1e6);
        let asked = cluster.core.asks_put_topic(TOPIC, &spec).expect("good");
        cluster.kept.commit(&asked).expect("memory");
        cluster.is_full = true;
        let former = cluster.limit;
        let declared = cluster.core.put_topic(TOPIC, spec.clone(), cluster.now);
        declared.expect("good");
        cluster.carry_out();
        // What is taken away is gone once the brokers have heard of it.
        cluster.limit = if rate_after > 3000.0 {
            spec.contract.limit
        } else {
            former
        };
        run_full(&mut cluster, 20);
        assert!(
            rate(&cluster, carrier) <= most,
            "{}",
            rate(&cluster, carrier)
        );
        cluster.limit = spec.contract.limit;
        run_full(&mut cluster, 20);
        cluster.make_room();
        cluster.run(Duration::from_secs(5));
        assert!(
            rate(&cluster, carrier) > last,
            "{}",
            rate(&cluster, carrier)
        );
    }
}

#[test]
fn a_store_of_an_older_release_is_read_and_kept_anew() {
    let cluster = Cluster::carrying(2);
    let mut older = crate::store::MemoryStore::default();
    let shares = serde_json::to_value(kept(&cluster)).expect("a record");
    let tables = [
        Table::Meta,
        Table::Topics,
        Table::Publishers,
        Table::Brokers,
    ];
    for table in tables {
        for (key, mut value) in cluster.kept.load(table).expect("memory") {
            if table == Table::Topics {
                value["shares"] = shares.clone();
            }
            let value = Some(value);
            older
                .commit(&[crate::store::Change { table, key, value }])
                .expect("memory");
        }
    }
    let mut core = Core::restore(settings(), &older, cluster.now).expect("understood");
    let changes = core.take_changes();
    let moved = changes.iter().find(|change| change.table == Table::Shares);
    assert_eq!(
        moved.and_then(|change| change.value.as_ref()),
        Some(&shares)
    );
}
