//! Limits that brokers share by gossip: who is told of whom, and what a restart remembers.

use std::time::Duration;

use limit::{Limit, OnExceed, SharePolicy};

use super::cluster::{Cluster, TOPIC, settings};
use crate::ControlError;
use crate::core::Core;
use crate::view::TopicSpec;

fn shared(policy: SharePolicy) -> TopicSpec {
    TopicSpec::of_limit(Limit {
        sharing: policy,
        on_exceed: OnExceed::Drop,
        ..Limit::messages(1000.0, 50.0).expect("in range")
    })
}

/// What a broker was told: number of the list and the brokers on it, by the last part of their addresses.
fn list(cluster: &Cluster, index: usize) -> Option<(u64, Vec<String>)> {
    let sharers = cluster.brokers[index].sharers.as_ref()?;
    let hosts = sharers.addresses.iter();
    let hosts = hosts.filter_map(|address| address.strip_prefix("10.0.0."));
    let hosts = hosts.filter_map(|address| address.strip_suffix(":4150"));
    Some((sharers.generation, hosts.map(str::to_owned).collect()))
}

fn put(cluster: &mut Cluster, name: &str, spec: TopicSpec) -> Result<u64, ControlError> {
    let put = cluster.core.put_topic(name, spec, cluster.now);
    cluster.carry_out();
    put
}

#[test]
fn all_brokers_are_told_one_list_and_no_shares() {
    let mut cluster = Cluster::new(3);
    cluster.core.set_gossip_key("ab".repeat(32));
    cluster.run(Duration::from_secs(1));
    assert_eq!(list(&cluster, 0), None, "nothing is shared yet");
    put(&mut cluster, TOPIC, shared(SharePolicy::Fps)).expect("a good topic");
    cluster.run(Duration::from_secs(2));
    let told = list(&cluster, 0).expect("told");
    assert_eq!(told.1, ["1", "2", "3"]);
    for index in 0..3 {
        assert_eq!(list(&cluster, index).as_ref(), Some(&told));
        let broker = &cluster.brokers[index];
        let sharers = broker.sharers.as_ref().expect("told");
        assert_eq!((sharers.branches, sharers.interval_ms), (3, 50));
        assert_eq!(sharers.key.as_deref(), Some(&*"ab".repeat(32)));
        assert!(broker.limit_number.is_some() && broker.holder.in_force(cluster.now).is_none());
        assert_eq!(broker.limit_number, cluster.brokers[0].limit_number);
    }
    assert!(
        !format!("{:?}", cluster.brokers[0].sharers).contains("abab"),
        "no keys in logs"
    );
}

#[test]
fn the_list_follows_births_and_deaths_but_not_silence() {
    let mut cluster = Cluster::new(3);
    put(&mut cluster, TOPIC, shared(SharePolicy::Gtb)).expect("a good topic");
    cluster.run(Duration::from_secs(2));
    let (first, _) = list(&cluster, 0).expect("told");
    cluster.brokers[2].is_stopped = true;
    cluster.run(Duration::from_secs(30));
    assert_eq!(
        list(&cluster, 0).expect("told").0,
        first,
        "it may come back"
    );
    cluster.kill(2);
    cluster.run(Duration::from_secs(1));
    let (second, brokers) = list(&cluster, 0).expect("told");
    assert!(second > first && brokers == ["1", "2"], "{brokers:?}");
    cluster.brokers[2].is_stopped = false;
    cluster.start(2);
    let (third, brokers) = list(&cluster, 2).expect("told with its hello");
    assert!(third > second && brokers == ["1", "2", "3"], "{brokers:?}");
    cluster.run(Duration::from_secs(1));
    assert_eq!(list(&cluster, 0).expect("told").0, third);
    cluster.add_broker();
    assert_eq!(list(&cluster, 0).expect("told").1, ["1", "2", "3", "4"]);
    // A broker that nobody can gossip with is not on it, and its operator hears of it.
    cluster.brokers[3].gossip_address = None;
    cluster.kill(3);
    cluster.start(3);
    assert_eq!(list(&cluster, 0).expect("told").1, ["1", "2", "3"]);
    let problem = cluster
        .events
        .iter()
        .rev()
        .find(|(kind, _)| *kind == "problem");
    assert!(
        problem.is_some_and(|(_, text)| text.contains("--gossip-address")),
        "{problem:?}"
    );
}

#[test]
fn numbers_differ_last_and_come_to_an_end() {
    let mut cluster = Cluster::new(1);
    put(&mut cluster, TOPIC, shared(SharePolicy::Fps)).expect("a good topic");
    let number = cluster.brokers[0].limit_number.expect("told");
    let faster = TopicSpec::of_limit(Limit {
        sharing: SharePolicy::Fps,
        ..Limit::messages(2000.0, 50.0).expect("in range")
    });
    put(&mut cluster, TOPIC, faster).expect("a good topic");
    assert_eq!(
        cluster.brokers[0].limit_number,
        Some(number),
        "another rate is no other limit"
    );
    for other in 1..1024 {
        put(&mut cluster, &format!("t{other}"), shared(SharePolicy::Grd)).expect("there is room");
    }
    let full = put(&mut cluster, "more", shared(SharePolicy::Fps)).expect_err("one too many");
    assert!(
        full.to_string().contains("1024 topics share their limits"),
        "{full}"
    );
    cluster
        .core
        .delete_topic("t7", cluster.now)
        .expect("it is there");
    put(&mut cluster, "more", shared(SharePolicy::Fps)).expect("room again");

    let key = "cd".repeat(32);
    cluster.core.set_gossip_key(key.clone());
    cluster.carry_out();
    cluster.core = Core::restore(settings(), &cluster.kept, cluster.now).expect("readable");
    assert!(cluster.core.has_gossip_key());
    let before = list(&cluster, 0).expect("told").0;
    cluster.dial(0);
    let told = cluster.brokers[0].sharers.as_ref().expect("told");
    assert!(told.generation > before && told.key == Some(key));
    assert_eq!(
        cluster.brokers[0].limit_number,
        Some(number),
        "numbers outlive a restart"
    );
}

#[test]
fn a_limit_goes_from_leases_to_gossip_and_back() {
    let mut cluster = Cluster::carrying(2);
    let carrier = cluster.carrier();
    let limit = cluster.limit.expect("declared");
    put(&mut cluster, TOPIC, shared(SharePolicy::Fps)).expect("a good topic");
    cluster.limit = None;
    cluster.run(Duration::from_secs(10));
    assert!(cluster.brokers[carrier].limit_number.is_some());
    assert!(
        cluster.brokers[carrier]
            .holder
            .in_force(cluster.now)
            .is_none(),
        "leases end"
    );
    cluster.limit = Some(limit);
    let leased = TopicSpec::of_limit(limit);
    put(&mut cluster, TOPIC, leased).expect("a good topic");
    cluster.run(Duration::from_secs(10));
    assert_eq!(cluster.brokers[carrier].limit_number, None);
    assert!(
        cluster.brokers[carrier]
            .holder
            .in_force(cluster.now)
            .is_some()
    );
}
