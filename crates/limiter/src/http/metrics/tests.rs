//! The metrics page, as Prometheus reads it.

use super::*;

#[test]
fn every_site_and_class_has_its_series_and_labels_are_escaped() {
    let standing = StandingNumbers {
        passed: crate::site::Passed {
            forwarded_packets: 7,
            ..Default::default()
        },
        local_limit: None,
        demand: 3.0,
        passing: 2.0,
        connected: 1,
    };
    let limited = StandingNumbers {
        local_limit: Some(1250.5),
        ..standing
    };
    let snapshot = Snapshot {
        limits: vec![None, None],
        standings: vec![standing, limited],
        gossip: vec![Some(gossip::Counters {
            forged: 9,
            ..Default::default()
        })],
        unsent: Default::default(),
        counters: Default::default(),
        devices: crate::service::DeviceCounters {
            moved: 64,
            calls: 2,
            ..Default::default()
        },
        queues: Default::default(),
        held: 4,
    };
    let text = render(
        &["o\"ne".to_owned()],
        &["a".to_owned(), "b".to_owned()],
        &snapshot,
        &Counts::default(),
    );
    for line in [
        "srtm_limiter_forwarded_packets_total{site=\"o\\\"ne\",class=\"a\"} 7",
        "srtm_limiter_local_limit_bytes_per_second{site=\"o\\\"ne\",class=\"b\"} 1250.5",
        "srtm_limiter_gossip_forged_total{site=\"o\\\"ne\"} 9",
        "srtm_limiter_lost_packets_total{cause=\"odd_length\"} 0",
        "srtm_limiter_moved_packets_total 64",
        "srtm_limiter_device_calls_total 2",
        "srtm_limiter_held_packets 4",
        "srtm_limiter_http_connections 0",
        "srtm_limiter_http_refused_total 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    assert!(!text.contains("local_limit_bytes_per_second{site=\"o\\\"ne\",class=\"a\"}"));
    let mut types = text.lines().filter(|line| line.starts_with("# TYPE"));
    assert!(types.all(|line| line.ends_with(" counter") || line.ends_with(" gauge")));
}
