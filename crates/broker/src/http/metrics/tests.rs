//! The rendered page, line by line, and the bound on its series.

use std::time::Duration;

use http::metrics::Kind;
use kernel::TaskStats;
use topics::MemoryBudget;

use super::memory::{BUDGET, PARTS};
use super::*;
use crate::backlog::BacklogState;
use crate::catalog_file::CatalogState;
use crate::reactor::TaskRow;
use crate::stats::StageLatency;

fn topic(name: &str, message_count: u64) -> TopicStats {
    let channels = vec![ChannelStats {
        channel: "c".into(),
        message_count,
        depth: 2,
        ..ChannelStats::default()
    }];
    let latency = vec![StageLatency {
        stage: "total",
        count: 3,
        sum_us: 30,
        p50_us: 9.5,
        max_us: 12.0,
        ..StageLatency::default()
    }];
    TopicStats {
        topic: name.into(),
        message_count,
        depth: 1,
        channels,
        latency: latency.into(),
        ..TopicStats::default()
    }
}

fn stats(topics: Vec<TopicStats>) -> Stats {
    Stats {
        topics,
        producers: Vec::new(),
        reactors: vec![ReactorStats {
            turns: 7,
            ..ReactorStats::default()
        }],
    }
}

/// Of two reactors, with the topics that the tests have.
fn tasks() -> Vec<TaskReport> {
    let row = |topic: Option<&str>, number: u64| TaskRow {
        topic: topic.map(str::to_owned),
        is_home: topic.is_some(),
        stats: TaskStats {
            share: topic.and_then(|_| kernel::CpuShare::new(0.25).ok()),
            used: Duration::from_millis(500 * number),
            overruns: number,
            wait_max: Duration::from_millis(number),
            is_unstable: number == 2,
            ..TaskStats::default()
        },
    };
    let report = |tasks| TaskReport {
        period: Duration::from_millis(10),
        periods: 7,
        busy: Duration::from_secs(8),
        tasks,
    };
    vec![
        report(vec![row(None, 1), row(Some("t"), 1), row(Some("a"), 1)]),
        report(vec![row(None, 3), row(Some("c"), 2), row(Some("b"), 4)]),
        report(vec![row(Some("other"), 2)]),
    ]
}

fn announcements() -> AnnounceStats {
    let mut stats = AnnounceStats {
        instances: 4,
        dials_failed: 5,
        ..AnnounceStats::default()
    };
    stats.datagrams.forged = 6;
    stats.datagrams.expired = 7;
    stats.names.foreign = 8;
    stats
}

fn surroundings() -> Surroundings {
    Surroundings {
        http: http::Counts::default(),
        announcements: Some(announcements()),
        gossip: SharingFigures {
            brokers: 3,
            connected: 2,
            datagrams: vec![("sent", 8), ("forged", 9)],
            sent_bytes: vec![("updates", 96)],
            ..SharingFigures::default()
        },
        handovers: Some([("sent", 12), ("taken", 13)]),
        memory: MemoryFigures::of(&MemoryBudget::new(16 << 20)),
        names_refused: 14,
        link: Some([("sent", 10), ("received", 11)]),
        is_given_up: Some(true),
        backlog: Some(BacklogState {
            bytes: 4096,
            files: 2,
            bytes_max: 1 << 30,
            failure: Some(String::from("no space left")),
            failures: 3,
            is_full: false,
            damages: 1,
            logs: crate::backlog::LogsState {
                bytes: 2048,
                appended: 10,
                synced: 8,
                syncs: 2,
                waiting: 1,
                recovered: 5,
            },
        }),
        catalog: Some(CatalogState {
            failure: Some(String::from("full")),
            failures: 7,
        }),
    }
}

#[test]
fn limits_that_brokers_share_have_their_series() {
    let mut shared = topic("t", 5);
    shared.limit = Some(limit::Limit::messages(1000.0, 50.0).expect("valid"));
    shared.share = shared.limit.as_ref().map(limit::Share::whole);
    shared.sharing = Some(crate::stats::SharingStats {
        policy: limit::sharing::Policy::Fps,
        brokers: 3,
        connected: 2,
        demand: 4.5,
        passed: 250.0,
    });
    let page = render(stats(vec![shared]), tasks(), surroundings(), 10);
    assert_lines(
        &page,
        &[
            r#"srtm_share_rate{topic="t"} 1000.0"#,
            r#"srtm_share_burst{topic="t"} 50.0"#,
            r#"srtm_share_demand{topic="t"} 4.5"#,
            r#"srtm_share_passed{topic="t"} 250.0"#,
            r#"srtm_share_connected{topic="t"} 2.0"#,
            r#"srtm_share_policy{topic="t",policy="fps"} 1.0"#,
            "srtm_gossip_brokers 3.0",
            "srtm_gossip_connected 2.0",
            "srtm_gossip_usable 1.0",
            r#"srtm_gossip_datagrams_total{outcome="forged"} 9.0"#,
            r#"srtm_gossip_sent_bytes_total{kind="updates"} 96.0"#,
            r#"srtm_link_bytes_total{direction="received"} 11.0"#,
            r#"srtm_handover_messages_total{direction="sent"} 12.0"#,
            "srtm_disk_writable 0.0",
            "srtm_disk_failures_total 3.0",
            "srtm_disk_used_bytes 4096.0",
            "srtm_disk_budget_bytes 1073741824.0",
            "srtm_disk_full 0.0",
            "srtm_disk_files 2.0",
            "srtm_disk_damages_total 1.0",
            "srtm_catalog_writable 0.0",
            "srtm_catalog_failed_writes_total 7.0",
        ],
    );
    let alone = render(
        stats(vec![topic("t", 5)]),
        tasks(),
        Surroundings::default(),
        10,
    );
    assert!(!alone.contains("srtm_gossip_brokers 0"), "{alone}");
}

fn assert_lines(page: &str, lines: &[&str]) {
    for line in lines {
        assert!(
            page.lines().any(|each| each == *line),
            "no line {line:?} in\n{page}"
        );
    }
}

#[test]
fn every_topic_channel_and_stage_has_its_series() {
    let mut limited = topic("t", 5);
    limited.limit = Some(limit::Limit::messages(1000.0, 50.0).expect("valid"));
    limited.tokens = Some(12.5);
    let page = render(stats(vec![limited]), tasks(), Surroundings::default(), 10);
    assert_lines(
        &page,
        &[
            "srtm_topics 1.0",
            "srtm_topics_summed 0.0",
            "# TYPE srtm_topic_messages counter",
            r#"srtm_topic_messages_total{topic="t"} 5.0"#,
            r#"srtm_topic_limit_rate{topic="t"} 1000.0"#,
            r#"srtm_topic_limit_burst{topic="t"} 50.0"#,
            r#"srtm_topic_limit_tokens{topic="t"} 12.5"#,
            r#"srtm_channel_messages_total{topic="t",channel="c"} 5.0"#,
            r#"srtm_channel_depth{topic="t",channel="c"} 2.0"#,
            r#"srtm_topic_latency_us{topic="t",stage="total",quantile="0.5"} 9.5"#,
            r#"srtm_topic_latency_us_count{topic="t",stage="total"} 3.0"#,
            r#"srtm_topic_latency_us_sum{topic="t",stage="total"} 30.0"#,
            r#"srtm_topic_latency_max_us{topic="t",stage="total"} 12.0"#,
            r#"srtm_reactor_turns_total{reactor="0"} 7.0"#,
            r#"srtm_reactor_periods_total{reactor="1"} 7.0"#,
            r#"srtm_task_used_seconds_total{topic="t"} 0.5"#,
            r#"srtm_task_cpu_share{topic="t"} 0.25"#,
            r#"srtm_task_unstable{topic="t"} 0.0"#,
            r#"srtm_task_used_seconds_total{topic=""} 2.0"#,
            r#"srtm_task_wait_max_seconds{topic=""} 0.003"#,
            "# EOF",
        ],
    );
}

#[test]
fn topics_beyond_the_bound_are_summed_and_counted() {
    let topics = vec![
        topic("a", 1),
        topic("b", 100),
        topic("c", 10),
        topic("other", 1000),
    ];
    let page = render(stats(topics), tasks(), Surroundings::default(), 2);
    assert_lines(
        &page,
        &[
            "srtm_topics 4.0",
            "srtm_topics_summed 2.0",
            "srtm_channels_summed 2.0",
            r#"srtm_topic_messages_total{topic="b"} 100.0"#,
            r#"srtm_topic_messages_total{topic="c"} 10.0"#,
            r#"srtm_topic_messages_total{topic="other"} 1001.0"#,
            r#"srtm_channel_messages_total{topic="other",channel="other"} 1001.0"#,
            r#"srtm_topic_latency_us_count{topic="other",stage="total"} 6.0"#,
            r#"srtm_task_overruns_total{topic="b"} 4.0"#,
            r#"srtm_task_overruns_total{topic="other"} 4.0"#,
            r#"srtm_task_wait_max_seconds{topic="other"} 0.002"#,
            r#"srtm_task_unstable{topic="other"} 1.0"#,
        ],
    );
    assert!(
        !page.contains(r#"topic="a""#),
        "summed topics have no series:\n{page}"
    );
    assert!(
        !page.contains(r#"topic="other",stage="total",quantile"#),
        "quantiles cannot be summed:\n{page}"
    );
    assert!(
        !page.contains(r#"srtm_task_cpu_share{topic="other"}"#),
        "nor do shares of several topics say anything of one:\n{page}"
    );
}

#[test]
fn announcements_and_moves_have_their_series() {
    let mut heard = stats(Vec::new());
    heard.reactors.push(ReactorStats {
        publishers: 9,
        moves_sent: 10,
        moves_unknown: 11,
        throttled_sent: 12,
        tempo_unknown_ids: 13,
        tempo_hellos_refused: 14,
        ..ReactorStats::default()
    });
    let page = render(heard.clone(), Vec::new(), surroundings(), 10);
    let of_announcements = [
        "# TYPE srtm_announcements counter",
        r#"srtm_announcements_total{outcome="forged"} 6.0"#,
        r#"srtm_announcements_total{outcome="own"} 0.0"#,
        r#"srtm_announce_departures_total{cause="expired"} 7.0"#,
        r#"srtm_identifiers_refused_total{cause="foreign"} 8.0"#,
        "srtm_announce_instances 4.0",
        "srtm_announce_failed_dials_total 5.0",
        "srtm_identifier_collisions_total 0.0",
        r#"srtm_tempo_unknown_identifiers_total{reactor="1"} 13.0"#,
        r#"srtm_tempo_refused_hellos_total{reactor="1"} 14.0"#,
    ];
    assert_lines(&page, &of_announcements);
    let of_publishers = [
        r#"srtm_reactor_publishers{reactor="1"} 9.0"#,
        r#"srtm_reactor_moves_total{reactor="1"} 10.0"#,
        r#"srtm_reactor_unknown_moves_total{reactor="1"} 11.0"#,
        r#"srtm_reactor_throttled_notices_total{reactor="1"} 12.0"#,
    ];
    assert_lines(&page, &of_publishers);
    let page = render(heard, Vec::new(), Surroundings::default(), 10);
    assert_lines(&page, &of_publishers);
    for line in of_announcements {
        assert!(!page.contains(line), "{line:?} in\n{page}");
    }
}

#[test]
fn no_series_appears_twice() {
    let many = (0..60).map(|n| ChannelStats {
        channel: format!("c{n}"),
        message_count: n,
        ..ChannelStats::default()
    });
    let mut wide = topic("wide", 1);
    wide.channels = many
        .chain([ChannelStats {
            channel: "other".into(),
            ..ChannelStats::default()
        }])
        .collect();
    let page = render(
        stats(vec![wide, topic("other", 9), topic("x", 3)]),
        tasks(),
        surroundings(),
        1,
    );
    let mut names: Vec<_> = page
        .lines()
        .filter_map(|line| line.rsplit_once(' ').map(|(name, _)| name))
        .collect();
    names.retain(|name| !name.starts_with('#'));
    let total = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), total);
    assert!(page.contains(r#"channel="other""#));
}

#[test]
fn the_operators_table_names_every_series() {
    let docs = include_str!("../../../../../docs/operating.md");
    let names = (PROCESS.iter().map(|each| (each.name, each.kind)))
        .chain(TOPIC.iter().map(|each| (each.name, each.kind)))
        .chain(CHANNEL.iter().map(|each| (each.name, each.kind)))
        .chain(
            STAGE
                .iter()
                .chain(STAGE_MAX)
                .map(|each| (each.name, each.kind)),
        )
        .chain(REACTOR.iter().map(|each| (each.name, each.kind)))
        .chain(TASK.iter().map(|each| (each.name, each.kind)))
        .chain(ANNOUNCE.iter().map(|each| (each.name, each.kind)))
        .chain(GOSSIP.iter().map(|each| (each.name, each.kind)))
        .chain([&DATAGRAMS, &BYTES, &LINK, &HANDOVERS, &POLICY].map(|each| (each.name, each.kind)))
        .chain(TEMPO.iter().map(|each| (each.name, each.kind)))
        .chain(
            BY_CAUSE
                .iter()
                .map(|each| (each.series.name, each.series.kind)),
        )
        .chain([(PERIODS.name, PERIODS.kind), (BUDGET.name, BUDGET.kind)])
        .chain(PARTS.iter().map(|each| (each.name, each.kind)))
        .chain(CATALOG.iter().map(|each| (each.name, each.kind)))
        .chain(DISK.iter().map(|each| (each.name, each.kind)))
        .chain([(GIVEN_UP.name, GIVEN_UP.kind)])
        .chain([(LATENCY.0, Kind::Gauge)]);
    for (name, kind) in names {
        let suffix = if kind == Kind::Counter { "_total" } else { "" };
        assert!(
            docs.contains(&format!("`{name}{suffix}`")),
            "docs/operating.md does not name {name}{suffix}"
        );
    }
    for (cause, _) in BY_CAUSE.iter().flat_map(|family| family.causes) {
        assert!(
            docs.contains(&format!("`{cause}`")),
            "docs/operating.md does not explain {cause}"
        );
    }
}
