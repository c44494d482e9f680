//! CPU shares: kept within the whole, told to brokers, and corrected where a broker has others.

use std::time::Duration;

use kernel::CpuShare;

use super::cluster::{Cluster, TOPIC, promise, settings};
use crate::ControlError;
use crate::core::Core;
use crate::view::{Contract, TopicSpec};

fn share(value: f64) -> Option<CpuShare> {
    Some(CpuShare::new(value).expect("valid"))
}

fn spec(value: f64) -> TopicSpec {
    TopicSpec {
        contract: Contract {
            cpu_share: share(value),
            ..Contract::default()
        },
        ..TopicSpec::default()
    }
}

impl Cluster {
    fn put(&mut self, name: &str, spec: TopicSpec) -> Result<(), ControlError> {
        let put = self.core.put_topic(name, spec, self.now).map(|_| ());
        self.carry_out();
        put
    }

    fn has(&self, index: usize, name: &str) -> Option<CpuShare> {
        self.brokers[index].cpu_shares.get(name).copied()
    }
}

#[test]
fn the_sum_stays_within_the_whole() {
    let mut cluster = Cluster::new(2);
    for (name, value) in [("a", 0.5), ("b", 0.3), ("c", 0.2)] {
        cluster.put(name, spec(value)).expect("1 in all");
    }
    let error = cluster.put("d", spec(0.1)).expect_err("1.1 in all");
    assert_eq!(
        error,
        ControlError::Conflict(String::from(
            "cpu_share 0.1 of d does not fit: 1 of 1 is held by others (a 0.5, b 0.3, c 0.2); lower one of them first"
        ))
    );
    assert!(cluster.core.topic_view("d").is_err(), "nothing was made");
    let error = cluster
        .put("a", spec(0.6))
        .expect_err("its own counts once");
    assert!(
        error
            .to_string()
            .contains("0.5 of 1 is held by others (b 0.3, c 0.2)"),
        "{error}"
    );
    let view = cluster.core.topic_view("a").expect("declared");
    assert_eq!(
        view.spec.contract.cpu_share,
        share(0.5),
        "the former holds on"
    );
    // What one gives up another may have; a declaration without a share gives it up.
    cluster.put("b", TopicSpec::default()).expect("less");
    cluster.put("d", spec(0.3)).expect("1 in all");
    cluster.core.delete_topic("a", cluster.now).expect("there");
    cluster.put("e", spec(0.5)).expect("1 in all");
    for index in 0..2 {
        let has = ["a", "b", "c", "d", "e"].map(|name| cluster.has(index, name));
        assert_eq!(has, [None, None, share(0.2), share(0.3), share(0.5)]);
    }
}

#[test]
fn brokers_that_join_and_restarts_know_the_shares() {
    let mut cluster = Cluster::new(1);
    cluster.put("a", spec(0.25)).expect("alone");
    let late = cluster.add_broker();
    assert_eq!(cluster.has(late, "a"), share(0.25));
    let restored = Core::restore(settings(), &cluster.kept, cluster.now).expect("kept");
    let view = restored.topic_view("a").expect("kept");
    assert_eq!(view.spec, spec(0.25));
    cluster.core = restored;
    cluster.start(late);
    assert_eq!(cluster.has(late, "a"), share(0.25));
}

#[test]
fn a_broker_that_remembers_other_shares_is_put_right() {
    let mut cluster = Cluster::new(1);
    cluster.put("a", spec(0.9)).expect("alone");
    cluster.kill(0);
    cluster.core.delete_topic("a", cluster.now).expect("there");
    cluster.put("b", spec(0.9)).expect("alone");
    cluster.start(0);
    // Its own file had told it of the share that is no more.
    cluster.brokers[0].cpu_shares =
        [(String::from("a"), CpuShare::new(0.9).expect("valid"))].into();
    cluster.brokers[0]
        .cpu_shares
        .insert(String::from("b"), CpuShare::new(0.1).expect("valid"));
    cluster.run(Duration::from_secs(3));
    assert_eq!(
        (cluster.has(0, "a"), cluster.has(0, "b")),
        (None, share(0.9))
    );
}

#[test]
fn a_share_lost_at_a_broker_is_told_again_but_not_with_every_report() {
    let mut cluster = Cluster::new(1);
    cluster.workload(10, 1, {
        let mut promised = promise(1000.0, 50.0, 1e6);
        promised.contract.cpu_share = share(0.5);
        promised
    });
    cluster.connect_sensors();
    cluster.run(Duration::from_secs(3));
    cluster.brokers[0].told.clear();
    cluster.run(Duration::from_secs(5));
    assert!(
        cluster.brokers[0].told.is_empty(),
        "it has what was declared"
    );
    cluster.brokers[0].cpu_shares.clear();
    cluster.run(Duration::from_secs(3));
    assert_eq!(cluster.has(0, TOPIC), share(0.5));
    // Somebody else holds the time there, and goes on to.
    cluster.brokers[0].told.clear();
    cluster.brokers[0].cpu_shares.clear();
    let foreign = CpuShare::new(0.9).expect("valid");
    for _ in 0..25 {
        cluster.brokers[0]
            .cpu_shares
            .insert(String::from("foreign"), foreign);
        cluster.brokers[0].cpu_shares.remove(TOPIC);
        cluster.run(Duration::from_secs(1));
    }
    let told = cluster.brokers[0].told.iter().filter(|name| *name == TOPIC);
    let told = told.count();
    assert!((2..=3).contains(&told), "told {told} times in 25 reports");
}
