//! What is sent, and in which packets.

use super::*;
use crate::stats::{ChannelStats, ProcessingStats, Stats, TopicStats};

fn channel(name: &str, messages: u64) -> ChannelStats {
    ChannelStats {
        channel: name.to_owned(),
        message_count: messages,
        depth: 4,
        backlog_depth: 3,
        in_flight_count: 2,
        deferred_count: 1,
        requeue_count: messages / 2,
        timeout_count: messages / 5,
        client_count: 6,
        ..ChannelStats::default()
    }
}

fn stats(topics: &[(&str, u64)]) -> Stats {
    let topic = |&(name, messages): &(&str, u64)| TopicStats {
        topic: name.to_owned(),
        channels: vec![channel("c", messages), channel("x#ephemeral", messages)],
        depth: 7,
        backlog_depth: 5,
        message_count: messages,
        message_bytes: messages * 10,
        ..TopicStats::default()
    };
    Stats {
        topics: topics.iter().map(topic).collect(),
        ..Stats::default()
    }
}

fn lines(packets: &Packets) -> Vec<String> {
    let all = packets.all().concat();
    let text = String::from_utf8(all).expect("names are text");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn names_and_kinds_are_nsqds() {
    let mut first = stats(&[("t", 10), ("e#ephemeral", 1)]);
    first.topics[0].processing = Some(ProcessingStats {
        count: 2,
        percentiles: vec![(1.0, 9_000), (0.99, 8_000)],
    });
    first.topics[0].channels[0].processing = first.topics[0].processing.clone();
    let mut packets = Packets::new(String::from("p."), 508);
    let counted = figures::put(&first, &Counted::default(), true, &mut packets);
    assert_eq!(
        lines(&packets),
        [
            "p.topic.t.message_count:10|c",
            "p.topic.t.message_bytes:100|c",
            "p.topic.t.depth:7|g",
            "p.topic.t.backend_depth:5|g",
            "p.topic.t.e2e_processing_latency_100:9000|g",
            "p.topic.t.e2e_processing_latency_99:8000|g",
            "p.topic.t.channel.c.message_count:10|c",
            "p.topic.t.channel.c.depth:4|g",
            "p.topic.t.channel.c.backend_depth:3|g",
            "p.topic.t.channel.c.in_flight_count:2|g",
            "p.topic.t.channel.c.deferred_count:1|g",
            "p.topic.t.channel.c.requeue_count:5|c",
            "p.topic.t.channel.c.timeout_count:2|c",
            "p.topic.t.channel.c.clients:6|g",
            "p.topic.t.channel.c.e2e_processing_latency_100:9000|g",
            "p.topic.t.channel.c.e2e_processing_latency_99:8000|g",
        ]
    );
    // Counters go on from there; a topic that began anew begins at nothing.
    let mut packets = Packets::new(String::new(), 508);
    let counted = figures::put(
        &stats(&[("t", 14), ("u", 3)]),
        &counted,
        false,
        &mut packets,
    );
    let told = lines(&packets);
    for line in [
        "topic.t.message_count:4|c",
        "topic.t.message_bytes:40|c",
        "topic.t.channel.c.message_count:4|c",
        "topic.t.channel.c.requeue_count:2|c",
        "topic.t.channel.c.timeout_count:0|c",
        "topic.t.channel.x#ephemeral.message_count:14|c",
        "topic.u.message_count:3|c",
    ] {
        assert!(told.iter().any(|each| each == line), "{line}: {told:?}");
    }
    let mut packets = Packets::new(String::new(), 508);
    figures::put(&stats(&[("t", 2)]), &counted, false, &mut packets);
    assert_eq!(lines(&packets)[0], "topic.t.message_count:2|c");
}

#[test]
fn packets_hold_whole_lines_and_no_more_than_they_may() {
    let mut packets = Packets::new(String::from("nsq."), 40);
    packets.gauge("a", 1);
    packets.gauge("b", 2);
    packets.gauge(&"long".repeat(20), 3);
    for number in 0..20 {
        packets.count("c", number);
    }
    let sizes: Vec<_> = packets.all().iter().map(Vec::len).collect();
    assert!(packets.all().iter().all(|packet| packet.ends_with(b"\n")));
    assert_eq!(sizes.iter().filter(|size| **size > 40).count(), 1);
    assert_eq!(lines(&packets).len(), 23);
    assert_eq!(&packets.all()[0], b"nsq.a:1|g\nnsq.b:2|g\n");
}

#[test]
fn a_prefix_names_the_host_as_nsqd_does() {
    let prefix = |prefix: &str, host: &str| {
        let config = StatsdConfig {
            prefix: prefix.to_owned(),
            ..StatsdConfig::default()
        };
        config.prefix_on(host, 4151)
    };
    for (written, host, expected) in [
        ("nsq.%s", "b1.example", "nsq.b1_example_4151."),
        ("%s.", "127.0.0.1", "127_0_0_1_4151."),
        ("%s", "::1", "[__1]_4151."),
        ("fleet", "b1", "fleet."),
        ("", "b1", ""),
    ] {
        assert_eq!(prefix(written, host), expected);
    }
}

#[test]
fn what_is_out_of_range_is_refused() {
    let config = |change: fn(&mut StatsdConfig)| {
        let mut config = StatsdConfig::default();
        change(&mut config);
        config.validate().map_err(|error| error.to_string())
    };
    assert_eq!(config(|_| ()), Ok(()));
    let interval = config(|config| config.interval = Duration::ZERO).expect_err("zero");
    assert!(interval.contains("--statsd-interval"), "{interval}");
    let sizes: [fn(&mut StatsdConfig); 2] = [|c| c.packet_bytes = 0, |c| c.packet_bytes = 65_508];
    for bytes in sizes {
        let size = config(bytes).expect_err("out of range");
        assert!(size.contains("within 1..=65507 bytes"), "{size}");
    }
}
