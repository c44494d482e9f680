//! Topics at rest: no report names them, and yet every broker keeps its share, within the limit.

use std::time::Duration;

use proptest::prelude::*;

use super::cluster::{Cluster, settings};
use crate::core::Core;

#[test]
fn a_share_that_nobody_uses_is_kept_without_a_word_about_it() {
    let mut cluster = Cluster::carrying(3);
    let carrier = cluster.carrier();
    cluster.is_idle = true;
    cluster.run(Duration::from_secs(20));
    let (share, named) = (
        cluster.brokers[carrier].holder.in_force(cluster.now),
        cluster.core.work().reported,
    );
    assert!(
        share.is_some_and(|share| share.rate.get() > 2900.0),
        "{share:?}"
    );
    let confirmed = cluster.brokers[carrier].holder.confirmation();
    cluster.run(Duration::from_secs(120));
    assert_eq!(cluster.core.work().reported, named);
    assert_eq!(cluster.brokers[carrier].holder.in_force(cluster.now), share);
    assert_eq!(cluster.brokers[carrier].holder.confirmation(), confirmed);
}

#[test]
fn what_a_silent_broker_had_at_rest_is_taken_back_when_its_lease_has_ended() {
    let mut cluster = Cluster::carrying(2);
    let carrier = cluster.carrier();
    cluster.is_idle = true;
    cluster.run(Duration::from_secs(60));
    cluster.brokers[carrier].is_stopped = true;
    cluster.run(Duration::from_secs(20));
    cluster.is_idle = false;
    cluster.brokers[carrier].attached.clear();
    cluster.connect_sensors();
    cluster.run(Duration::from_secs(20));
    let other = cluster.brokers[1 - carrier].holder.in_force(cluster.now);
    let share = other.expect("it carries the topic now");
    assert!(share.rate.get() > 1400.0, "{share:?}: all but the floor");
}

#[derive(Clone, Debug)]
enum Fault {
    Run(u32),
    Idle(bool),
    Cut(usize),
    Mend(usize),
    Kill(usize),
    Start(usize),
    Stop(usize, bool),
    Restart,
    Drain(usize),
}

fn fault() -> impl Strategy<Value = Fault> {
    let which = 0usize..3;
    prop_oneof![
        4 => (1u32..80).prop_map(Fault::Run),
        1 => any::<bool>().prop_map(Fault::Idle),
        1 => which.clone().prop_map(Fault::Cut),
        1 => which.clone().prop_map(Fault::Mend),
        1 => which.clone().prop_map(Fault::Kill),
        1 => which.clone().prop_map(Fault::Start),
        1 => (which.clone(), any::<bool>()).prop_map(|(which, is)| Fault::Stop(which, is)),
        1 => Just(Fault::Restart),
        1 => which.prop_map(Fault::Drain),
    ]
}

fn happen(cluster: &mut Cluster, fault: &Fault) {
    match *fault {
        Fault::Run(tenths) => cluster.run(Duration::from_millis(u64::from(tenths) * 100)),
        Fault::Idle(is_idle) => cluster.is_idle = is_idle,
        Fault::Cut(which) => cluster.brokers[which].is_cut = true,
        Fault::Mend(which) => {
            cluster.brokers[which].is_cut = false;
            if cluster.brokers[which].is_running {
                cluster.dial(which);
            }
        }
        Fault::Kill(which) if cluster.brokers[which].is_running => cluster.kill(which),
        Fault::Start(which) if !cluster.brokers[which].is_running => cluster.start(which),
        Fault::Kill(_) | Fault::Start(_) => {}
        Fault::Stop(which, is_stopped) => cluster.brokers[which].is_stopped = is_stopped,
        Fault::Restart => {
            let kept = cluster.kept.clone();
            cluster.core = Core::restore(settings(), &kept, cluster.now).expect("kept");
            for index in 0..cluster.brokers.len() {
                let broker = &cluster.brokers[index];
                if broker.is_running && !broker.is_cut && !broker.is_stopped {
                    cluster.dial(index);
                }
            }
        }
        Fault::Drain(which) => {
            let name = cluster.brokers[which].name.clone();
            let _ = cluster.core.drain_broker(&name, cluster.now);
            let _ = cluster.core.resume_broker(&name, cluster.now);
        }
    }
    cluster.connect_sensors();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_sum_is_within_the_limit_at_rest_and_in_trouble(
        faults in prop::collection::vec(fault(), 1..25)
    ) {
        let mut cluster = Cluster::carrying(3);
        cluster.is_idle = true;
        cluster.run(Duration::from_secs(12));
        for fault in &faults {
            // Checks the law with every step.
            happen(&mut cluster, fault);
        }
        cluster.run(Duration::from_secs(10));
    }
}
