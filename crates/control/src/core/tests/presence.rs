//! Addresses that brokers announce: each counts, for what uses it, once it has answered; one that
//! does not answer is asked less and less often.

use std::collections::BTreeSet;
use std::time::Duration;

use limit::{Limit, SharePolicy};
use link::Door;

use super::cluster::{Cluster, HOST, promise};
use crate::core::{Core, Effect};
use crate::view::TopicSpec;

/// Two brokers, the second behind a firewall that closes `shut`, and a topic whose limit they share by gossip.
fn cluster(shut: &[Door]) -> Cluster {
    let mut cluster = Cluster::new(1);
    let gossiped = TopicSpec::of_limit(Limit {
        sharing: SharePolicy::Fps,
        ..Limit::messages(300.0, 30.0).expect("in range")
    });
    let put = cluster.core.put_topic("gossiped", gossiped, cluster.now);
    put.expect("good");
    cluster.workload(20, 10, promise(3000.0, 300.0, 1e6));
    let second = cluster.add_broker();
    cluster.kill(second);
    cluster.brokers[second].shut = shut.iter().copied().collect();
    cluster.start(second);
    cluster.run(Duration::from_secs(2));
    cluster
}

/// Whether the second broker is found by lookup, found there with its HTTP, shares limits by gossip, vouches in rounds, takes queues.
fn counts_for(cluster: &mut Cluster) -> [bool; 5] {
    cluster.core.drain_broker("b1", cluster.now).expect("known");
    cluster.run(Duration::from_millis(200));
    let takes = cluster.brokers[0].takers.clone();
    cluster
        .core
        .resume_broker("b1", cluster.now)
        .expect("known");
    let holdings = cluster.core.holdings(None, usize::MAX, cluster.now).brokers;
    let found = holdings.iter().find(|holds| holds.broker == "b2");
    let sharers = cluster.brokers[0].sharers.as_ref().expect("told");
    [
        found.is_some(),
        found.is_some_and(|holds| holds.http_address.is_some()),
        sharers
            .addresses
            .iter()
            .any(|address| address == "10.0.0.2:4150"),
        cluster.brokers[0]
            .held
            .others
            .contains(&"10.0.0.2:4150".to_owned()),
        takes == ["10.0.0.2:4151"],
    ]
}

fn not_counted(cluster: &Cluster) -> Option<String> {
    let views = cluster.core.broker_views(cluster.now);
    let view = views.into_iter().find(|view| view.broker == "b2");
    view.expect("known").not_counted
}

#[test]
fn an_address_that_does_not_answer_counts_for_nothing_and_the_others_do() {
    for (shut, expected, text) in [
        (&[][..], [true, true, true, true, true], ""),
        (
            &[Door::Http],
            [true, false, true, true, false],
            "by HTTP at 10.0.0.2:4151 (no answer): lookup does not name",
        ),
        (
            &[Door::Gossip],
            [true, true, false, false, true],
            "by UDP at 10.0.0.2:4150 (no answer): it is not among the brokers that share",
        ),
        (
            &[Door::Clients],
            [false; 5],
            "does not answer at 10.0.0.2:4150, the address that it announces (no answer): no publisher",
        ),
    ] {
        let mut cluster = cluster(shut);
        let said = not_counted(&cluster).unwrap_or_default();
        assert!(
            said.contains(text) && said.is_empty() == text.is_empty(),
            "{said}"
        );
        let told = cluster.events.iter();
        let told =
            told.filter(|(kind, said)| *kind == "problem" && said.contains("does not answer"));
        assert_eq!(told.count(), shut.len(), "each is told once: {shut:?}");
        assert_eq!(counts_for(&mut cluster), expected, "{shut:?}");
        // The firewall opens: the longest pause later all is as it should be.
        cluster.brokers[1].shut.clear();
        cluster.run(Duration::from_secs(31));
        assert_eq!(not_counted(&cluster), None);
        assert_eq!(counts_for(&mut cluster), [true; 5], "{shut:?}");
    }
}

#[test]
fn a_broker_without_http_or_gossip_lacks_nothing() {
    let mut cluster = Cluster::new(1);
    cluster.brokers[0].gossip_address = None;
    cluster.kill(0);
    cluster.start(0);
    cluster.run(Duration::from_secs(1));
    let views = cluster.core.broker_views(cluster.now);
    assert_eq!(
        (views[0].state.as_str(), &views[0].not_counted),
        ("up", &None)
    );
}

#[test]
fn who_moves_one_address_proves_that_one_again() {
    let mut cluster = cluster(&[]);
    cluster.brokers[1].gossip_address = Some(String::from("10.0.0.2:9999"));
    cluster.brokers[1].shut = BTreeSet::from(Door::ALL);
    cluster.core.link_lost(cluster.brokers[1].link, cluster.now);
    cluster.dial(1);
    cluster.run(Duration::from_secs(2));
    let said = not_counted(&cluster).expect("it does not count for everything");
    assert!(
        said.contains("10.0.0.2:9999") && !said.contains("4150"),
        "{said}"
    );
    assert_eq!(counts_for(&mut cluster), [true, true, false, false, true]);
}

#[test]
fn what_has_answered_is_kept_over_a_restart_of_the_controller() {
    let mut cluster = cluster(&[Door::Http]);
    cluster.core =
        Core::restore(super::cluster::settings(), &cluster.kept, cluster.now).expect("kept");
    let number = cluster.core.brokers.number_of("b2").expect("kept");
    let broker = &cluster.core.brokers[number];
    let answered = Door::ALL.map(|door| broker.has_answered(door));
    assert_eq!(answered, [true, false, true]);
}

#[test]
fn an_address_where_nobody_is_is_asked_ever_more_seldom_and_once_at_a_time() {
    for answers in [true, false] {
        let mut cluster = Cluster::new(1);
        let hello = link::Hello {
            tcp_address: String::from("10.9.9.9:4150"),
            http_address: Some(String::from("10.9.9.9:4151")),
            gossip_address: Some(String::from("10.9.9.9:4150")),
            ..super::registry::hello("far", 7, 0)
        };
        let said = cluster.core.hello((99, HOST), &hello, cluster.now);
        let far = said.expect("the key");
        let mut asked = Vec::new();
        // It reports, so that it never is silent.
        for _ in 0..20 * 600 {
            cluster.now += Duration::from_millis(50);
            cluster.core.brokers[far].silent_since = cluster.now;
            cluster.core.tick(cluster.now);
            for effect in cluster.core.take_effects() {
                let Effect::Probe(probe) = effect else {
                    continue;
                };
                if probe.broker == far {
                    asked.push(probe.door);
                    if answers {
                        let silence = crate::core::ProbeAnswer::Silence;
                        cluster.core.probed(&probe, &silence, cluster.now);
                    }
                }
            }
        }
        // 0, 50 ms, 100 ms … 25.6 s, then every 30 s for the rest of ten minutes.
        let expected = if answers { 10..=30 } else { 1..=1 };
        for door in Door::ALL {
            let times = asked.iter().filter(|asked| **asked == door).count();
            assert!(expected.contains(&times), "{door:?}: {times} times");
        }
    }
}
