//! The metrics page, as Prometheus reads it.

use std::collections::BTreeMap;

use super::*;

/// A sample of each series, as the page has had them since its first release: name, labels, value.
const SAMPLES: &str = include_str!("samples.txt");

/// Every number is another one.
fn snapshot() -> Snapshot {
    let mut next = 0;
    let mut number = || {
        next += 1;
        next
    };
    let mut standing = |local_limit| StandingNumbers {
        passed: crate::site::Passed {
            forwarded_packets: number(),
            forwarded_bytes: number(),
            dropped_packets: number(),
            dropped_bytes: number(),
        },
        local_limit,
        demand: number() as f64 + 0.5,
        passing: number() as f64,
        connected: number() as u32,
    };
    let standings = vec![standing(None), standing(Some(1250.5))];
    let gossip = gossip::Counters {
        updates_sent: number(),
        update_bytes_sent: number(),
        membership_sent: number(),
        membership_bytes_sent: number(),
        overflowed: number(),
        updates_received: number(),
        membership_received: number(),
        lost: number(),
        overtaken: number(),
        forged: number(),
        replayed: number(),
        malformed: number(),
        unknown_peer: number(),
        unknown_limit: number(),
        refused: number(),
    };
    Snapshot {
        limits: vec![None, None],
        standings,
        gossip: vec![Some(gossip)],
        unsent: crate::service::Unsent {
            emulated: number(),
            blocked: number(),
            unreachable: number(),
            failed: number(),
        },
        counters: crate::router::Counters {
            odd: [number(), number(), number()],
            unplaced: number(),
            unclassed: number(),
            returned: number(),
            returned_bytes: number(),
            lost_at_bottlenecks: number(),
            lost_at_links: number(),
            lost_in_hold: number(),
            delivered: number(),
            late_ns: 2_500_000_000,
            latest_ns: 125_000_000,
        },
        devices: crate::service::DeviceCounters {
            refused: number(),
            gone: number(),
            moved: number(),
            calls: number(),
        },
        queues: crate::service::QueueCounters {
            overruns: number(),
            refused: number(),
        },
        held: number() as usize,
    }
}

fn page() -> String {
    let page = Page {
        sites: vec!["o\"ne".to_owned()],
        classes: vec!["a".to_owned(), "b".to_owned()],
        snapshot: snapshot(),
    };
    render(page, Counts::default())
}

/// Values by name and labels.
fn samples(page: &str) -> BTreeMap<&str, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| {
        let (series, value) = line.rsplit_once(' ').expect("a sample");
        (series, value.parse().expect("a number"))
    });
    samples.collect()
}

#[test]
fn names_labels_and_values_stay_as_they_are() {
    let page = page();
    assert_eq!(samples(&page), samples(SAMPLES));
    let mut types = page.lines().filter(|line| line.starts_with("# TYPE"));
    assert!(types.all(|line| line.ends_with(" counter") || line.ends_with(" gauge")));
}
