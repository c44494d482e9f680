//! Packets by hand: classes, sites, emulated links, changes of a limit.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::fabric::MemoryFabric;

const MS: Duration = Duration::from_millis(1);
const IN: Port = Port {
    pair: 0,
    side: Side::Inner,
};
const OUT: Port = Port {
    pair: 0,
    side: Side::Outer,
};

const SITES: &str = r#"
[[tun]]
inner = { name = "in0" }
outer = { name = "out0" }
[[site]]
name = "one"
destinations = ["10.2.0.0/24"]
[[site]]
name = "two"
destinations = ["10.2.1.0/24"]
[gossip]
transport = "memory"
"#;

/// A packet from 10.1.0.1 to 10.2.`site`.1, or back.
fn packet(site: u8, back: bool, length: u16) -> Vec<u8> {
    let mut packet = vec![0; length.into()];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet[9] = 6;
    let (source, sink) = ([10, 1, 0, 1], [10, 2, site, 1]);
    packet[12..16].copy_from_slice(if back { &sink } else { &source });
    packet[16..20].copy_from_slice(if back { &source } else { &sink });
    packet
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn router(text: &str) -> (Router, MemoryFabric) {
    let config = Config::parse(&format!("{SITES}{text}"), |_| {}).expect("a configuration");
    let fabric = MemoryFabric::new(2, config.class.len(), Duration::ZERO, 0.0, 1);
    (Router::new(&config, at(0), true).expect("a router"), fabric)
}

/// Offers both sites 1,000-byte packets for `seconds`, so many per ms, and ends intervals each 50 ms; returns what each
/// site forwarded, bytes per second.
fn offer(
    router: &mut Router,
    fabric: &mut MemoryFabric,
    ms: std::ops::Range<u64>,
    packets: [u32; 2],
) -> [f64; 2] {
    let before = [0, 1].map(|site| router.standing(site, 0).passed().forwarded_bytes);
    let seconds = (ms.end - ms.start) as f64 / 1e3;
    for now in ms {
        for (site, packets) in [0u8, 1].into_iter().zip(packets) {
            for _ in 0..packets {
                router.route(at(now), IN, &packet(site, false, 1000));
            }
            if now % 50 == u64::from(site) * 25 {
                router.estimate_site(at(now), site.into(), fabric);
            }
        }
    }
    [0, 1].map(|site| {
        (router.standing(site, 0).passed().forwarded_bytes - before[site]) as f64 / seconds
    })
}

#[test]
fn sites_hold_one_limit_together_and_a_new_one_at_once() {
    let class = "[[class]]\nname = 'all'\nlimit = { rate = 1_000_000, burst_bytes = 75_000, policy = 'grd' }";
    let (mut router, mut fabric) = router(class);
    let both = offer(&mut router, &mut fabric, 0..10_000, [1, 3]);
    let sum = both[0] + both[1];
    assert!((0.97e6..1.03e6).contains(&sum), "{both:?}");
    let config = format!("{SITES}{}", class.replace("1_000_000", "400_000"));
    let config = Config::parse(&config, |_| {}).expect("a configuration");
    let sharing = config
        .sharing(&config.class[0].limit.expect("a limit"), 0)
        .expect("a limit");
    router
        .set_limit(at(10_000), 0, &sharing)
        .expect("as many limiters");
    let both = offer(&mut router, &mut fabric, 10_000..20_000, [1, 3]);
    let sum = both[0] + both[1];
    assert!((0.38e6..0.42e6).contains(&sum), "{both:?}");
}

#[test]
fn what_no_class_covers_and_what_comes_back_passes() {
    let (mut router, _) = router(
        "[[class]]\nname = 'one'\nmatch = { destinations = ['10.2.0.0/24', '10.9.0.0/16'] }\n\
         limit = { rate = 1, burst_bytes = 1, policy = 'static' }",
    );
    assert_eq!(
        router.route(at(1), IN, &packet(0, false, 1000)),
        Route::Drop
    );
    assert_eq!(
        router.route(at(1), IN, &packet(1, false, 1000)),
        Route::Forward
    );
    assert_eq!(
        router.route(at(1), IN, &packet(7, false, 1000)),
        Route::Forward,
        "no site, no class"
    );
    assert_eq!(
        router.route(at(1), OUT, &packet(0, true, 1000)),
        Route::Forward
    );
    let mut unplaced = packet(0, false, 1000);
    unplaced[17] = 9;
    assert_eq!(router.route(at(1), IN, &unplaced), Route::Drop);
    let counters = router.counters();
    assert_eq!((counters.unclassed, counters.unplaced), (2, 1));
    assert_eq!((counters.returned, counters.returned_bytes), (1, 1000));
    assert_eq!(router.standing(0, 0).passed().dropped_bytes, 1000);
}

#[test]
fn without_contact_a_class_does_what_it_says() {
    for (on_failure, expected) in [("open", 100), ("closed", 0)] {
        let (mut router, mut fabric) = router(&format!(
            "[[class]]\nname = 'all'\nlimit = {{ rate = 1, burst_bytes = 1, policy = 'fps', on_failure = '{on_failure}' }}"
        ));
        let forwarded =
            (0..100).filter(|n| router.route(at(*n), IN, &packet(0, false, 100)) == Route::Forward);
        assert_eq!(forwarded.count(), expected, "{on_failure}");
        router.estimate_site(at(100), 0, &mut fabric);
        assert_eq!(
            router.route(at(101), IN, &packet(0, false, 100)),
            Route::Drop,
            "in contact: the limit"
        );
    }
}

#[test]
fn emulation_takes_a_packet_over_bottleneck_link_and_path() {
    let (mut router, _) = router(
        "[emulate]\nlink = 500_000\ndelay_us = 20_000\n[[emulate.bottleneck]]\nsource = '10.1.0.1'\nrate = 1_000_000\nqueue_bytes = 2500",
    );
    for _ in 0..3 {
        router.route(at(10), IN, &packet(0, false, 1000));
    }
    assert_eq!(router.counters().lost_at_bottlenecks, 1);
    router.route(at(10), OUT, &packet(0, true, 40));
    let mut arrived = Vec::new();
    while let Some(due) = router.due() {
        router.advance(due, |port, packet| arrived.push((due, port, packet.len())));
    }
    // Two packets need 1 ms each at the bottleneck and 2 ms each at the link.
    let expected = [(at(30), IN, 40), (at(33), OUT, 1000), (at(35), OUT, 1000)];
    assert_eq!(arrived, expected);
    assert_eq!(
        (
            router.held(),
            router.counters().delivered,
            router.counters().latest_ns
        ),
        (0, 3, 0)
    );
}

#[test]
fn a_late_turn_decides_as_of_the_time_when_packets_were_there() {
    let text = "[[class]]\nname = 'all'\nlimit = { rate = 1_000_000, burst_bytes = 3000, policy = 'ctb' }\n\
                [emulate]\nlink = 1_000_000\ndelay_us = 20_000";
    let run = |step: u64| {
        let (mut router, _) = router(text);
        let mut arrived = 0;
        for ms in 0..2000 {
            if ms % step == 0 {
                router.advance(at(ms), |_, _| arrived += 1);
            }
            if ms < 1000 {
                router.route(at(ms), IN, &packet(0, false, 1000));
            }
        }
        router.advance(at(5000), |_, _| arrived += 1);
        (arrived, router.standing(0, 0).passed())
    };
    assert_eq!(run(1), run(16));
}

#[test]
fn what_is_held_is_bounded() {
    let (mut router, _) = router("[emulate]\ndelay_us = 1000\nheld_packets = 5");
    for _ in 0..9 {
        router.route(at(1), OUT, &packet(0, true, 100));
    }
    assert_eq!((router.held(), router.counters().lost_in_hold), (5, 4));
    router.advance(at(1) + MS, |_, _| ());
    assert_eq!(router.held(), 0);
}

#[test]
fn flows_beyond_the_bound_are_added_up() {
    let mut flows = Flows::default();
    let header = Header::parse(&packet(0, false, 100)).expect("whole");
    for flow in 0..FLOWS_MAX as u64 + 10 {
        flows.count(at(1), flow, (0, 0), &header, Verdict::Forward);
    }
    assert_eq!(
        (flows.each().count(), flows.others().forwarded_packets),
        (FLOWS_MAX, 10)
    );
}

proptest! {
    #[test]
    fn no_bytes_disturb_the_router(packets in proptest::collection::vec(
        (any::<bool>(), proptest::collection::vec(any::<u8>(), 0..80)), 1..50), emulated: bool) {
        let emulate = if emulated { "[emulate]\nlink = 1000\nlink_queue_bytes = 100" } else { "" };
        let class = "[[class]]\nname = 'all'\nlimit = { rate = 1000, burst_bytes = 100, policy = 'fps' }\n";
        let (mut router, mut fabric) = router(&format!("{class}{emulate}"));
        for (number, (inner, bytes)) in packets.iter().enumerate() {
            let now = at(number as u64);
            router.advance(now, |_, _| ());
            router.route(now, if *inner { IN } else { OUT }, bytes);
            router.estimate_site(now, number % 2, &mut fabric);
        }
        router.advance(Instant::MAX, |_, _| ());
        prop_assert_eq!(router.held(), 0);
        let odd: u64 = router.counters().odd.iter().sum();
        prop_assert!(odd <= packets.len() as u64);
    }
}
