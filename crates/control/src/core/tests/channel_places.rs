//! Publishers and consumers go where all channels of a topic are; what brokers say of channels is
//! believed only as far as it can be true.

use std::time::Duration;

use link::{ToController, TopicState};

use super::all_holdings;
use super::channels::{asked, created, deleted};
use super::cluster::{Cluster, TOPIC};
use crate::core::CHANNELS_MAX;
use crate::view::{PublisherSpec, TopicSpec};

#[test]
fn no_publisher_goes_where_a_channel_is_missing() {
    let mut cluster = Cluster::new(2);
    cluster.brokers[1].is_mute = true;
    cluster.done(0, TOPIC, created("c"));
    cluster.workload(20, 10, TopicSpec::default());
    cluster.connect_sensors();
    cluster.run(Duration::from_secs(1));
    let carrier = cluster.carrier();
    assert_eq!(carrier, 0, "the other one has not confirmed");
    cluster.core.drain_broker("b1", cluster.now).expect("known");
    cluster.run(Duration::from_secs(5));
    assert_eq!(
        cluster.brokers[0].attached.len(),
        20,
        "nobody is told to move"
    );
    // It was told the channels, and does not say that it has them.
    assert_eq!(cluster.channels(1, TOPIC).as_deref(), Some("c"));
    let new = PublisherSpec {
        id: String::from("new"),
        rate: 1.0,
        batch: 1,
        group: None,
    };
    cluster
        .core
        .put_publishers(TOPIC, vec![new], cluster.now)
        .expect("good");
    let ids = [String::from("new")];
    assert!(!cluster.core.may_be_told(TOPIC, &ids[0]));
    assert!(
        cluster.core.publishers_named(TOPIC, &ids)[0]
            .broker
            .is_none()
    );
    cluster.brokers[1].is_mute = false;
    cluster.run(Duration::from_secs(4));
    assert!(cluster.core.may_be_told(TOPIC, &ids[0]));
    assert_eq!(cluster.brokers[1].attached.len(), 20);
}

#[test]
fn a_broker_that_never_answers_gets_no_publishers() {
    let mut cluster = Cluster::new(3);
    cluster.done(0, TOPIC, created("c"));
    cluster.brokers[1].is_mute = true;
    cluster.brokers[2].is_mute = true;
    cluster.workload(20, 10, TopicSpec::default());
    cluster.connect_sensors();
    cluster.core.drain_broker("b1", cluster.now).expect("known");
    cluster.run(Duration::from_secs(1));
    let target = cluster
        .core
        .placement_view(TOPIC, None, usize::MAX)
        .expect("declared")
        .publishers["s0000"]
        .clone();
    let (deaf, other) = if target == "b2" { (1, 2) } else { (2, 1) };
    cluster.brokers[other].is_mute = false;
    cluster.run(Duration::from_secs(14));
    assert!(
        cluster
            .events
            .iter()
            .any(|(_, text)| text.contains("no publisher is sent there"))
    );
    assert_eq!(cluster.brokers[other].attached.len(), 20);
    assert!(cluster.brokers[deaf].attached.is_empty());
}

#[test]
fn a_drained_broker_is_found_until_it_holds_nothing() {
    let mut cluster = Cluster::new(2);
    cluster.done(0, "t", created("c"));
    cluster.done(0, "idle", created("c"));
    cluster.brokers[0].unfinished.insert(String::from("t"), 7);
    cluster.run(Duration::from_secs(20));
    let holds = |cluster: &Cluster| cluster.core.broker_views(cluster.now)[0].holds;
    assert_eq!(
        (cluster.found("idle"), holds(&cluster)),
        (vec![String::from("b1")], 7)
    );
    cluster.core.drain_broker("b1", cluster.now).expect("known");
    assert_eq!(cluster.found("t"), ["b1"]);
    assert!(cluster.found("idle").is_empty());
    cluster.brokers[0].unfinished.clear();
    cluster.run(Duration::from_secs(2));
    assert!(cluster.found("t").is_empty());
    assert_eq!(holds(&cluster), 0);
    let topics = all_holdings(&cluster.core, cluster.now).topics;
    assert!(topics["t"].contains("c"), "it is known further on");
    cluster
        .core
        .resume_broker("b1", cluster.now)
        .expect("known");
    assert_eq!(cluster.found("t"), ["b1"]);
}

#[test]
fn what_a_broker_cannot_have_is_not_believed() {
    let mut cluster = Cluster::new(1);
    let number = cluster.brokers[0].number;
    let state = |topic: &str, channels: usize| {
        let channels = (0..channels).map(|channel| link::ChannelState {
            channel: format!("c{channel}"),
            is_paused: false,
        });
        TopicState {
            topic: topic.to_owned(),
            is_paused: false,
            channels: channels.collect(),
        }
    };
    let forged = |cluster: &mut Cluster, word: ToController| {
        cluster.events.clear();
        cluster.core.heard(number, word, cluster.now);
        cluster.carry_out();
        let mut events = cluster.events.iter();
        assert!(
            events.any(|(_, text)| text.contains("not believed")),
            "{:?}",
            cluster.events
        );
    };
    let mut bad_channel = state("t", 1);
    bad_channel.channels[0].channel = String::from("a b");
    let topics = vec![
        state("../x", 0),
        state("big", CHANNELS_MAX + 1),
        bad_channel,
    ];
    forged(
        &mut cluster,
        ToController::Inventory {
            topics,
            is_last: true,
        },
    );
    for (topic, change) in [
        ("../x", created("c")),
        ("t", created("")),
        ("t", deleted("a/b")),
    ] {
        let topic = topic.to_owned();
        forged(&mut cluster, ToController::Changed { topic, change });
    }
    forged(&mut cluster, asked("../x"));
    for channel in 0..CHANNELS_MAX {
        cluster.done(0, "full", created(&format!("c{channel}")));
    }
    let (topic, change) = (String::from("full"), created("one-more"));
    forged(&mut cluster, ToController::Changed { topic, change });
    // A confirmation of what was never told changes nothing.
    let (topic, ticket) = (String::from("t"), 4711);
    cluster.core.heard(
        number,
        ToController::TopicReady { topic, ticket },
        cluster.now,
    );
    let topics = all_holdings(&cluster.core, cluster.now).topics;
    assert!(topics.keys().map(|topic| topic.as_str()).eq(["full"]));
}
