//! A simulation does what the scenario says, the same each time; nonsense is refused.

use limit::sharing::Policy;

use super::super::{Bottleneck, Cut, Flows, Reach, Scenario, WebSessions, run};
use super::{near, outcome};

fn short(scenario: Scenario) -> Scenario {
    Scenario {
        duration_s: 10.0,
        ..scenario
    }
}

#[test]
fn the_seed_decides_everything() {
    let web = WebSessions::default();
    for reach in [Reach::Oracle, Reach::Mesh, Reach::Random(1)] {
        let scenario = |seed| {
            let mut scenario = short(Scenario::joining(50.0, seed));
            scenario.flows.extend(Scenario::baseline(seed).flows);
            scenario.web.push(web.clone());
            scenario.updates.reach = reach;
            scenario.updates.loss = 0.1;
            scenario.updates.reordered = 0.1;
            scenario
        };
        let first = outcome(&scenario(1));
        assert_eq!(first, outcome(&scenario(1)), "{reach:?}");
        assert_ne!(first.hash, outcome(&scenario(2)).hash, "{reach:?}");
    }
}

#[test]
fn every_packet_is_forwarded_or_dropped_and_nothing_arrives_twice() {
    let outcome = outcome(&short(Scenario::baseline(3)));
    let sent: u64 = outcome
        .flows
        .iter()
        .map(|flow| flow.sender.segments + u64::from(flow.sender.syns))
        .sum();
    let forwarded: u64 = outcome.limiters.iter().map(|limiter| limiter.packets).sum();
    let decided = forwarded + outcome.drops();
    assert!(
        (decided..decided + 100).contains(&sent),
        "{sent} sent, {decided} decided"
    );
    let dropped: u64 = outcome.flows.iter().map(|flow| flow.drops).sum();
    assert_eq!(dropped, outcome.drops());
    let payload: f64 = outcome.goodputs_mbps(1.0, 10.0).iter().sum();
    let forwarded_mbps = outcome.mean_mbps(1.0, 10.0);
    assert!(payload <= forwarded_mbps);
    assert!(
        payload > forwarded_mbps * 0.95,
        "{payload} of {forwarded_mbps}"
    );
}

#[test]
fn without_excess_a_transfer_takes_its_round_trips() {
    let transfer = |segments: u64, rtt_ms| Flows {
        transfer_bytes: Some(segments * 1448),
        rtt_ms,
        ..Flows::bulk(0, 1)
    };
    let scenario = Scenario {
        policy: Policy::Static,
        limiters: 1,
        limit_mbps: 90.0,
        depth_bytes: 1e6,
        flows: vec![
            transfer(1, 40.0),
            transfer(10, 40.0),
            transfer(25, 40.0),
            transfer(10, 100.0),
        ],
        duration_s: 3.0,
        ..Scenario::default()
    };
    let outcome = outcome(&scenario);
    // SYN; a window of 10, half of one of 20. Buckets begin empty: 1,500 bytes at 90 Mbps take 0.13 ms.
    for (flow, round_trips_s) in outcome.flows.iter().zip([0.08, 0.08, 0.12, 0.2]) {
        let took = flow.took_s().expect("finished");
        assert!(
            took >= round_trips_s && took < round_trips_s + 0.02,
            "{took} for {flow:?}"
        );
        assert_eq!(flow.drops, 0);
    }
}

#[test]
fn a_bottleneck_has_its_rate_from_its_time_on() {
    let mut scenario = Scenario {
        policy: Policy::Ctb,
        flows: vec![Flows {
            bottleneck: Some(0),
            ..Flows::bulk(0, 4)
        }],
        bottlenecks: vec![Bottleneck {
            mbps: 2.0,
            queue_bytes: 30_000.0,
            start_s: 10.0,
        }],
        duration_s: 30.0,
        ..Scenario::default()
    };
    scenario.flows.push(Flows {
        stop_s: Some(5.0),
        ..Flows::bulk(1, 1)
    });
    let outcome = outcome(&scenario);
    assert!(near(outcome.limiter_mbps(0, 4.0, 6.0, 10.0)[0], 10.0, 0.03));
    assert!(near(
        outcome.limiter_mbps(0, 15.0, 15.0, 30.0)[0],
        2.0,
        0.03
    ));
    assert_eq!(
        outcome.limiter_mbps(1, 24.0, 6.0, 30.0),
        [0.0],
        "it was stopped"
    );
    assert!(outcome.flows[0].drops_upstream > 0);
}

#[test]
fn web_transfers_come_at_their_rate_with_a_heavy_tail() {
    let scenario = Scenario {
        policy: Policy::Static,
        limit_mbps: 80.0,
        depth_bytes: 1e6,
        web: vec![WebSessions::default()],
        duration_s: 60.0,
        ..Scenario::default()
    };
    let outcome = outcome(&scenario);
    let web: Vec<_> = outcome.flows.iter().filter(|flow| flow.web).collect();
    assert!(near(web.len() as f64, 900.0, 0.1), "{} in 60 s", web.len());
    let mut sizes: Vec<u64> = web.iter().filter_map(|flow| flow.transfer_bytes).collect();
    sizes.sort_unstable();
    assert!(sizes[0] >= 2_500 && sizes[sizes.len() - 1] <= 5_000_000);
    // Half are below 2^(1/1.1) times the least; the mean is far above.
    assert!(near(sizes[sizes.len() / 2] as f64, 4_695.0, 0.1));
    assert!(sizes.iter().sum::<u64>() as f64 / sizes.len() as f64 > 9_000.0);
    for flow in web.iter().filter(|flow| flow.finished.is_some()) {
        let received: u64 = flow.delivered.iter().map(|&bytes| u64::from(bytes)).sum();
        assert_eq!(Some(received), flow.transfer_bytes);
    }
    let unfinished = web.iter().filter(|flow| flow.finished.is_none()).count();
    assert!(unfinished < 10, "{unfinished} are not done");
}

#[test]
fn a_scenario_is_read_from_text() {
    let text = "policy = 'grd'\nlimiters = 3\nlimit_mbps = 5\n\
                updates = { reach = { random = 2 }, loss = 0.01 }\n\
                [[flows]]\nlimiter = 2\ncount = 4\nrtt_ms = 10\n\
                [[web]]\nlimiter = 1\n[[cuts]]\nfirst = 1\nat_s = 1\nheal_s = 2\nnotice_ms = 100\n";
    let scenario: Scenario = toml::from_str(text).expect("sane");
    assert_eq!(scenario.updates.reach, Reach::Random(2));
    assert_eq!(scenario.flows[0].count, 4);
    assert_eq!(scenario.estimate_interval_ms, 50.0);
    scenario.check().expect("sane");
    assert!(toml::from_str::<Scenario>("limitters = 3").is_err());
}

#[test]
fn nonsense_is_refused_with_its_name() {
    type Change = fn(&mut Scenario);
    let cases: [(&str, Change); 14] = [
        ("0 limiters", |s| s.limiters = 0),
        ("rate", |s| s.limit_mbps = -1.0),
        ("estimate_interval_ms", |s| s.estimate_interval_ms = 0.0),
        ("duration_s", |s| s.duration_s = f64::NAN),
        ("bin_ms", |s| s.bin_ms = 0.0),
        ("updates.loss", |s| s.updates.loss = 1.5),
        ("updates.delay_ms", |s| s.updates.delay_ms = f64::INFINITY),
        ("flows.limiter is 2", |s| s.flows.push(Flows::bulk(2, 1))),
        ("200010 flows", |s| s.flows.push(Flows::bulk(1, 200_000))),
        ("flows.rtt_ms", |s| s.flows[0].rtt_ms = 0.0),
        ("flows.bottleneck is 0", |s| s.flows[0].bottleneck = Some(0)),
        ("web.least_bytes", |s| {
            s.web.push(WebSessions {
                least_bytes: 2.0,
                most_bytes: 1.0,
                ..WebSessions::default()
            });
        }),
        ("cuts.first is 2", |s| s.cuts.push(cut(2, 3.0))),
        ("cannot heal", |s| s.cuts.push(cut(1, 0.5))),
    ];
    for (word, change) in cases {
        let mut scenario = Scenario::baseline(1);
        change(&mut scenario);
        let error = run(&scenario).expect_err(word).to_string();
        assert!(error.contains(word), "{word}: {error}");
    }
}

fn cut(first: u32, heal_s: f64) -> Cut {
    Cut {
        first,
        at_s: 1.0,
        heal_s,
        notice_ms: 100.0,
    }
}
