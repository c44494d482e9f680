//! A topic is one topic, wherever it is: what brokers say of channels, what they are told, and what a restart remembers.

use std::time::Duration;

use link::{ToController, TopicChange, TopicState};

use super::cluster::{Cluster, TOPIC, VirtualBroker, VirtualTopic, settings};
use crate::ControlError;
use crate::core::{CHANNELS_MAX, Core};
use crate::view::{PublisherSpec, TopicSpec};

fn created(channel: &str) -> TopicChange {
    let channel = channel.to_owned();
    TopicChange::ChannelCreated { channel }
}

fn deleted(channel: &str) -> TopicChange {
    let channel = channel.to_owned();
    TopicChange::ChannelDeleted { channel }
}

fn paused(channel: &str) -> TopicChange {
    let channel = channel.to_owned();
    TopicChange::ChannelPaused { channel }
}

fn resumed(channel: &str) -> TopicChange {
    let channel = channel.to_owned();
    TopicChange::ChannelResumed { channel }
}

impl VirtualBroker {
    /// As `Topic` says.
    pub(super) fn make(&mut self, state: TopicState) {
        let topic = self.topics.entry(state.topic).or_default();
        topic.is_paused = state.is_paused;
        for channel in state.channels {
            topic.channels.insert(channel.channel, channel.is_paused);
        }
    }

    /// As `Change` says; also by a client or an operator, but for what makes a topic.
    pub(super) fn change(&mut self, name: &str, change: &TopicChange) {
        let Some(topic) = self.topics.get_mut(name) else {
            return;
        };
        let mut pause = |channel: &str, is_paused| {
            if let Some(state) = topic.channels.get_mut(channel) {
                *state = is_paused;
            }
        };
        match change {
            TopicChange::TopicCreated => {}
            TopicChange::TopicDeleted => drop(self.topics.remove(name)),
            TopicChange::TopicPaused => topic.is_paused = true,
            TopicChange::TopicResumed => topic.is_paused = false,
            TopicChange::ChannelCreated { channel } => {
                topic.channels.entry(channel.clone()).or_default();
            }
            TopicChange::ChannelDeleted { channel } => drop(topic.channels.remove(channel)),
            TopicChange::ChannelPaused { channel } => pause(channel, true),
            TopicChange::ChannelResumed { channel } => pause(channel, false),
            TopicChange::TopicEmptied | TopicChange::ChannelEmptied { .. } => topic.emptied += 1,
        }
    }
}

impl Cluster {
    /// A client or an operator does something at a broker, which says so. What the controller has to say to that is still under
    /// way.
    fn does(&mut self, index: usize, topic: &str, change: TopicChange) {
        let broker = &mut self.brokers[index];
        let is_new = !broker.topics.contains_key(topic) && change != TopicChange::TopicDeleted;
        let mut words = Vec::new();
        if is_new {
            broker
                .topics
                .insert(topic.to_owned(), VirtualTopic::default());
            words.push(ToController::Changed {
                topic: topic.to_owned(),
                change: TopicChange::TopicCreated,
            });
            words.push(ToController::TopicAsked {
                topic: topic.to_owned(),
            });
        }
        broker.change(topic, &change);
        if change != TopicChange::TopicCreated {
            words.push(ToController::Changed {
                topic: topic.to_owned(),
                change,
            });
        }
        if broker.link == 0 {
            return;
        }
        for word in words {
            self.core.heard(self.brokers[index].number, word, self.now);
        }
    }

    /// The same, and everybody has heard of it.
    fn done(&mut self, index: usize, topic: &str, change: TopicChange) {
        self.does(index, topic, change);
        self.carry_out();
    }

    /// Channels of a topic at a broker, paused ones with a bar.
    fn channels(&self, index: usize, topic: &str) -> Option<String> {
        let topic = self.brokers[index].topics.get(topic)?;
        let names = topic
            .channels
            .iter()
            .map(|(name, is_paused)| match is_paused {
                true => format!("{name}|"),
                false => name.clone(),
            });
        Some(names.collect::<Vec<String>>().join(" "))
    }

    /// The link breaks, the broker lives.
    fn cut(&mut self, index: usize) {
        let link = std::mem::take(&mut self.brokers[index].link);
        self.core.link_lost(link, self.now);
        self.carry_out();
    }

    pub(super) fn restart_controller(&mut self) {
        self.core = Core::restore(settings(), &self.kept.clone(), self.now).expect("kept");
    }

    /// Brokers that consumers of a topic find.
    fn found(&self, topic: &str) -> Vec<String> {
        let holdings = self.core.all_holdings(self.now);
        let with = holdings.brokers.into_iter();
        with.filter(|broker| broker.topics.contains_key(topic))
            .map(|broker| broker.broker)
            .collect()
    }
}

#[test]
fn a_topic_that_comes_into_being_has_the_channels_that_it_has_elsewhere() {
    let mut cluster = Cluster::new(2);
    assert!(cluster.brokers.iter().all(|broker| broker.is_complete));
    cluster.done(0, "t", created("c"));
    cluster.done(0, "t", created("d"));
    assert_eq!(cluster.channels(1, "t"), None, "nobody needs it there");
    cluster.done(1, "t", TopicChange::TopicCreated);
    assert_eq!(cluster.channels(1, "t").as_deref(), Some("c d"));
    // From now on both have both.
    cluster.done(1, "t", created("e"));
    assert_eq!(cluster.channels(0, "t").as_deref(), Some("c d e"));
    cluster.done(0, "t", deleted("c"));
    cluster.done(0, "t", paused("d"));
    assert_eq!(cluster.channels(1, "t").as_deref(), Some("d| e"));
    cluster.done(1, "t", created("own#ephemeral"));
    cluster.done(1, "t", TopicChange::TopicPaused);
    let shown = cluster.core.channel_views("t").expect("known");
    let channels = shown.channels.iter();
    let channels = channels.map(|view| (view.channel.as_str(), view.is_paused));
    assert!(channels.eq([("d", true), ("e", false), ("own#ephemeral", false)]));
    assert_eq!(
        (shown.is_paused, shown.brokers),
        (true, vec![String::from("b1"), String::from("b2")])
    );
    assert!(matches!(
        cluster.core.channel_views("u"),
        Err(ControlError::NotFound(_))
    ));
    cluster.done(
        1,
        "t",
        TopicChange::ChannelEmptied {
            channel: String::from("e"),
        },
    );
    let topic = &cluster.brokers[0].topics["t"];
    assert_eq!((topic.is_paused, topic.emptied), (true, 1));
    cluster.done(1, "t", TopicChange::TopicDeleted);
    assert_eq!(cluster.channels(0, "t"), None);
    assert!(cluster.found("t").is_empty());
}

#[test]
fn the_contract_comes_before_the_channels() {
    let mut cluster = Cluster::new(1);
    let limit = limit::Limit::messages(10.0, 5.0).expect("good");
    let spec = TopicSpec {
        limit: Some(limit),
        ..TopicSpec::default()
    };
    cluster
        .core
        .put_topic("t", spec, cluster.now)
        .expect("good");
    cluster.carry_out();
    let (number, now) = (cluster.brokers[0].number, cluster.now);
    let created = ToController::Changed {
        topic: String::from("t"),
        change: TopicChange::TopicCreated,
    };
    cluster.core.heard(number, created, now);
    cluster.core.heard(number, asked("t"), now);
    assert_eq!(orders(&mut cluster.core), ["contract t", "topic t"]);
}

fn asked(topic: &str) -> ToController {
    let topic = topic.to_owned();
    ToController::TopicAsked { topic }
}

/// What brokers are told, in order.
fn orders(core: &mut Core) -> Vec<String> {
    let effects = core.take_effects().into_iter();
    effects
        .filter_map(|effect| match effect {
            crate::core::Effect::Send(_, order) => match *order {
                link::ToBroker::Contract { topic, .. } => Some(format!("contract {topic}")),
                link::ToBroker::Topic { state, .. } => Some(format!("topic {}", state.topic)),
                link::ToBroker::Change { topic, .. } => Some(format!("change {topic}")),
                link::ToBroker::Complete => Some(String::from("complete")),
                _ => None,
            },
            _ => None,
        })
        .collect()
}

#[test]
fn who_joins_hears_of_everything_and_then_that_this_was_all() {
    let mut cluster = Cluster::new(1);
    cluster.done(0, "t", created("c"));
    cluster.done(0, "empty", TopicChange::TopicCreated);
    cluster.done(0, "x#ephemeral", created("c"));
    let limit = limit::Limit::messages(10.0, 5.0).expect("good");
    let spec = TopicSpec {
        limit: Some(limit),
        ..TopicSpec::default()
    };
    cluster
        .core
        .put_topic("limited", spec, cluster.now)
        .expect("good");
    cluster.add_broker();
    assert!(cluster.brokers[1].is_complete);
    assert_eq!(cluster.channels(1, "t").as_deref(), Some("c"));
    assert_eq!(cluster.channels(1, "empty"), None, "it says nothing");
    assert_eq!(
        cluster.channels(1, "x#ephemeral"),
        None,
        "it is not asked for"
    );
    assert!(cluster.brokers[1].told.contains(&String::from("limited")));
}

#[test]
fn a_restart_of_the_controller_remembers_channels_and_pauses() {
    let mut cluster = Cluster::new(2);
    cluster.done(0, "t", created("c"));
    cluster.done(0, "t", paused("c"));
    cluster.done(0, "t", created("own#ephemeral"));
    cluster.done(0, "u#ephemeral", created("c"));
    // The only broker that has it is away, for good.
    cluster.kill(0);
    cluster.restart_controller();
    cluster.dial(1);
    assert_eq!(cluster.channels(1, "t").as_deref(), Some("c|"));
    let topics = cluster.core.all_holdings(cluster.now).topics;
    assert!(topics.keys().map(|topic| topic.as_str()).eq(["t"]));
}

#[test]
fn a_deletion_reaches_a_broker_that_was_away_also_over_a_restart_of_the_controller() {
    let mut cluster = Cluster::new(3);
    for index in 0..3 {
        cluster.done(index, "t", created("c"));
        cluster.done(index, "u", created("c"));
        cluster.done(index, "v", created("c"));
    }
    cluster.cut(1);
    cluster.kill(2);
    cluster.done(0, "t", deleted("c"));
    cluster.done(0, "u", TopicChange::TopicDeleted);
    cluster.done(0, "v", deleted("c"));
    cluster.done(0, "v", created("c"));
    assert!(cluster.found("u").is_empty(), "gone at once, everywhere");
    // Meanwhile the one that is away has gone on by itself.
    cluster.does(1, "t", created("e"));
    cluster.restart_controller();
    cluster.dial(0);
    cluster.dial(1);
    // What the third one kept on disk it has.
    cluster.start(2);
    for index in 0..3 {
        assert_eq!(
            cluster.channels(index, "t").as_deref(),
            Some("e"),
            "{index}"
        );
        assert_eq!(cluster.channels(index, "u"), None, "{index}");
        assert_eq!(
            cluster.channels(index, "v").as_deref(),
            Some("c"),
            "{index}"
        );
    }
    // It is told once: what comes into being again stays.
    cluster.done(1, "u", created("c"));
    cluster.cut(1);
    cluster.dial(1);
    assert_eq!(cluster.channels(1, "u").as_deref(), Some("c"));
}

#[test]
fn two_that_change_at_once_end_alike() {
    type Step = (usize, TopicChange);
    let rounds: [(&[Step], &str); 7] = [
        (&[(0, paused("c")), (1, resumed("c"))], "c"),
        (&[(1, resumed("c")), (0, paused("c"))], "c|"),
        (&[(0, deleted("c")), (1, deleted("c"))], ""),
        (&[(0, deleted("c")), (1, paused("c"))], ""),
        (
            &[(0, created("d")), (0, deleted("d")), (1, created("d"))],
            "c d",
        ),
        (
            &[(0, deleted("c")), (1, deleted("c")), (1, created("c"))],
            "c",
        ),
        (
            &[(0, created("d")), (1, created("d")), (1, deleted("d"))],
            "c",
        ),
    ];
    for (steps, expected) in rounds {
        let mut cluster = Cluster::new(3);
        for index in 0..3 {
            cluster.done(index, TOPIC, created("c"));
        }
        for (index, change) in steps {
            cluster.does(*index, TOPIC, change.clone());
        }
        cluster.carry_out();
        for index in 0..3 {
            let channels = cluster.channels(index, TOPIC);
            assert_eq!(channels.as_deref(), Some(expected), "{steps:?} at {index}");
        }
        assert_eq!(told(&mut cluster, TOPIC), expected, "{steps:?}");
    }
}

/// What a broker that joins now is told of a topic.
fn told(cluster: &mut Cluster, topic: &str) -> String {
    let index = cluster.add_broker();
    cluster.channels(index, topic).unwrap_or_default()
}

#[test]
fn a_channel_made_while_its_topic_is_deleted_elsewhere_is_there_in_the_end() {
    let mut cluster = Cluster::new(2);
    for index in 0..2 {
        cluster.done(index, "t", created("c"));
    }
    cluster.does(0, "t", TopicChange::TopicDeleted);
    cluster.does(1, "t", created("d"));
    cluster.carry_out();
    assert_eq!(cluster.channels(1, "t").as_deref(), Some("d"));
    assert_eq!(told(&mut cluster, "t"), "d");
}

#[test]
fn ephemeral_names_are_as_long_as_a_broker_has_them() {
    let mut cluster = Cluster::new(2);
    for index in 0..2 {
        cluster.done(index, "t", created("c"));
        cluster.done(index, "t", created("own#ephemeral"));
        cluster.done(index, "x#ephemeral", TopicChange::TopicCreated);
    }
    cluster.done(0, "x#ephemeral", created("d"));
    assert_eq!(cluster.channels(1, "x#ephemeral").as_deref(), Some("d"));
    cluster.done(0, "t", deleted("own#ephemeral"));
    cluster.done(0, "x#ephemeral", TopicChange::TopicDeleted);
    assert_eq!(cluster.channels(1, "t").as_deref(), Some("c own#ephemeral"));
    assert_eq!(cluster.found("x#ephemeral"), ["b2"]);
    cluster.kill(1);
    let topics = cluster.core.all_holdings(cluster.now).topics;
    assert!(topics.keys().map(|topic| topic.as_str()).eq(["t"]));
}

#[test]
fn a_deletion_under_a_tombstone_is_of_that_broker_alone() {
    let mut cluster = Cluster::new(2);
    for index in 0..2 {
        cluster.done(index, "t", created("c"));
    }
    let lifetime = Duration::from_secs(45);
    cluster
        .core
        .place_tombstone("t", "10.0.0.1:4151", lifetime, cluster.now);
    cluster.done(0, "t", TopicChange::TopicDeleted);
    assert_eq!(cluster.found("t"), ["b2"]);
    assert_eq!(cluster.channels(1, "t").as_deref(), Some("c"));
    cluster.done(0, "t", created("c"));
    cluster.run(lifetime);
    cluster.done(0, "t", TopicChange::TopicDeleted);
    assert_eq!(cluster.channels(1, "t"), None);
}

#[test]
fn an_operator_changes_topics_at_all_brokers() {
    let mut cluster = Cluster::new(2);
    let change = |cluster: &mut Cluster, topic: &str, change: TopicChange| {
        let now = cluster.now;
        let changed = cluster.core.change_topic(topic, &change, now);
        cluster.carry_out();
        changed
    };
    change(&mut cluster, "t", TopicChange::TopicCreated).expect("good");
    change(&mut cluster, "t", created("c")).expect("good");
    assert_eq!(cluster.channels(0, "t"), None, "no broker has it");
    cluster.done(0, "t", TopicChange::TopicCreated);
    assert_eq!(cluster.channels(0, "t").as_deref(), Some("c"));
    cluster.done(0, "t", created("x#ephemeral"));
    change(&mut cluster, "t", deleted("x#ephemeral")).expect("good");
    assert_eq!(cluster.channels(0, "t").as_deref(), Some("c"));
    change(&mut cluster, "t", TopicChange::TopicDeleted).expect("good");
    assert_eq!(cluster.channels(0, "t"), None);
    for bad in ["a b", "", "x/y"] {
        assert!(change(&mut cluster, bad, TopicChange::TopicCreated).is_err());
        assert!(change(&mut cluster, "t", created(bad)).is_err(), "{bad:?}");
    }
}

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
    let topics = cluster.core.all_holdings(cluster.now).topics;
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
    let topics = cluster.core.all_holdings(cluster.now).topics;
    assert!(topics.keys().map(|topic| topic.as_str()).eq(["full"]));
}
