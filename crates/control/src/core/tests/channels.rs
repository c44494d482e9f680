//! A topic is one topic on all its brokers: what they say of channels, what they are told, and what
//! a restart remembers.

use std::time::Duration;

use link::{ToController, TopicChange};

use super::all_holdings;
use super::cluster::{Cluster, TOPIC, settings};
use crate::ControlError;
use crate::core::Core;
use crate::view::TopicSpec;

pub(super) fn created(channel: &str) -> TopicChange {
    let channel = channel.to_owned();
    TopicChange::ChannelCreated { channel }
}

pub(super) fn deleted(channel: &str) -> TopicChange {
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

impl Cluster {
    /// A client or an operator does something at a broker, which says so. What the controller has to say to that is still under
    /// way.
    pub(super) fn does(&mut self, index: usize, topic: &str, change: TopicChange) {
        let broker = &mut self.brokers[index];
        let is_new = !broker.topics.has(topic) && change != TopicChange::TopicDeleted;
        let mut words = Vec::new();
        if is_new {
            broker.topics.make(topic);
            words.push(ToController::Changed {
                topic: topic.to_owned(),
                change: TopicChange::TopicCreated,
            });
            words.push(ToController::TopicAsked {
                topic: topic.to_owned(),
            });
        }
        broker.topics.change(topic, &change);
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
    pub(super) fn done(&mut self, index: usize, topic: &str, change: TopicChange) {
        self.does(index, topic, change);
        self.carry_out();
    }

    /// Channels of a topic at a broker, paused ones with a bar.
    pub(super) fn channels(&self, index: usize, topic: &str) -> Option<String> {
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
    pub(super) fn cut(&mut self, index: usize) {
        let link = std::mem::take(&mut self.brokers[index].link);
        self.core.link_lost(link, self.now);
        self.carry_out();
    }

    pub(super) fn restart_controller(&mut self) {
        self.core = Core::restore(settings(), &self.kept.clone(), self.now).expect("kept");
    }

    /// Brokers that consumers of a topic find.
    pub(super) fn found(&self, topic: &str) -> Vec<String> {
        let holdings = all_holdings(&self.core, self.now);
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
    let topic = &cluster.brokers[0].topics.0["t"];
    assert_eq!((topic.is_paused, topic.emptied), (true, 1));
    cluster.done(1, "t", TopicChange::TopicDeleted);
    assert_eq!(cluster.channels(0, "t"), None);
    assert!(cluster.found("t").is_empty());
}

#[test]
fn the_contract_comes_before_the_channels() {
    let mut cluster = Cluster::new(1);
    let limit = limit::Limit::messages(10.0, 5.0).expect("good");
    let spec = TopicSpec::of_limit(limit);
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

pub(super) fn asked(topic: &str) -> ToController {
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
    let spec = TopicSpec::of_limit(limit);
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
    let topics = all_holdings(&cluster.core, cluster.now).topics;
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
fn a_deletion_reaches_a_broker_whose_link_was_dead_by_then() {
    let mut cluster = Cluster::new(2);
    for index in 0..2 {
        cluster.done(index, "t", created("c"));
        cluster.done(index, "t", created("d"));
    }
    // Nothing arrives there any more; its link is given up later.
    cluster.brokers[1].is_cut = true;
    cluster.run(settings().silent_after * 2);
    for channel in ["c", "d"] {
        cluster.done(0, "t", deleted(channel));
    }
    cluster.done(0, "t", created("d"));
    cluster.cut(1);
    cluster.brokers[1].is_cut = false;
    cluster.dial(1);
    for index in 0..2 {
        let channels = cluster.channels(index, "t");
        assert_eq!(channels.as_deref(), Some("d"), "{index}");
    }
}

#[test]
fn two_that_change_at_once_end_alike() {
    type Step = (usize, TopicChange);
    let rounds: [(&[Step], &str); 7] = [
        (&[(0, paused("c")), (1, resumed("c"))], "c"),
        (&[(1, resumed("c")), (0, paused("c"))], "c|"),
        (&[(0, deleted("c")), (1, deleted("c"))], ""),
        (&[(0, deleted("c")), (1, paused("c"))], ""),
        // What the second says it said before it heard of the deletion.
        (
            &[(0, created("d")), (0, deleted("d")), (1, created("d"))],
            "c",
        ),
        (
            &[(0, deleted("c")), (1, deleted("c")), (1, created("c"))],
            "",
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
fn what_was_said_before_a_deletion_was_heard_brings_nothing_back() {
    let changes = [
        (deleted("c"), created("c"), "d"),
        (deleted("c"), paused("c"), "d"),
        (TopicChange::TopicDeleted, created("c"), ""),
        (TopicChange::TopicDeleted, TopicChange::TopicPaused, ""),
    ];
    for (deletion, late, expected) in changes {
        let mut cluster = Cluster::new(2);
        for channel in ["c", "d"] {
            cluster.done(0, "t", created(channel));
            cluster.done(1, "t", created(channel));
        }
        let now = cluster.now;
        let asked = cluster.core.change_topic("t", &deletion, now);
        asked.expect("good");
        cluster.does(1, "t", late.clone());
        cluster.carry_out();
        for index in 0..2 {
            let here = cluster.channels(index, "t").unwrap_or_default();
            assert_eq!(here, expected, "{late:?} after {deletion:?} at {index}");
        }
        assert_eq!(told(&mut cluster, "t"), expected, "{late:?}");
        // What comes behind the confirmation is of another one.
        cluster.done(1, "t", created("c"));
        let again = told(&mut cluster, "t");
        assert!(again.contains('c'), "{again:?} after {deletion:?}");
    }
}

#[test]
fn a_deletion_that_was_told_and_not_confirmed_is_told_again() {
    for restarts in [false, true] {
        let mut cluster = Cluster::new(2);
        for index in 0..2 {
            cluster.done(index, "t", created("c"));
            cluster.done(index, "t", created("d"));
        }
        // Nothing arrives there for a moment, and nobody knows.
        cluster.brokers[1].is_cut = true;
        cluster.done(0, "t", deleted("c"));
        if restarts {
            cluster.restart_controller();
            cluster.dial(0);
        } else {
            cluster.cut(1);
        }
        cluster.brokers[1].is_cut = false;
        cluster.dial(1);
        for index in 0..2 {
            assert_eq!(cluster.channels(index, "t").as_deref(), Some("d"));
        }
        // It is confirmed, and kept no more.
        cluster.done(1, "t", created("c"));
        cluster.restart_controller();
        cluster.dial(1);
        assert_eq!(cluster.channels(1, "t").as_deref(), Some("c d"));
    }
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
    let topics = all_holdings(&cluster.core, cluster.now).topics;
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
