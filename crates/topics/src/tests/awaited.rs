//! A broker that is told what topics have: what waits until then, what it asks, and what it
//! reports.

use limit::{Grant, OnExceed, Share};
use link::TopicChange;
use proptest::prelude::*;

use super::*;

const ROOMY: Bounds = Bounds {
    mem_queue_size: 1000,
    ..BOUNDS
};

/// A broker whose controller has not spoken yet.
fn unspoken() -> World {
    World::of(ROOMY, TopicTable::controlled)
}

fn known(topic: &str, channels: &[(&str, bool)]) -> KnownTopic {
    let named = |&(name, is_paused): &(&str, bool)| (name.parse().expect("valid"), is_paused);
    KnownTopic {
        name: topic.parse().expect("valid"),
        is_paused: false,
        channels: channels.iter().map(named).collect(),
    }
}

fn channel(name: &str) -> String {
    name.to_owned()
}

impl World {
    fn contract(&mut self, topic: &str, on_exceed: OnExceed) {
        let (key, now) = (self.topic(topic), self.now());
        let limit = Limit {
            on_exceed,
            ..Limit::messages(10.0, 5.0).expect("valid")
        };
        self.table.set_limit(key, Some(limit), now);
        self.run();
    }

    fn hear(&mut self, teller: Teller) {
        self.table.hear(teller);
        self.table.settle_all(self.out.now);
        self.run();
    }

    fn learn(&mut self, known: &KnownTopic) -> bool {
        let learned = self.table.learn(known).expect("within bounds");
        self.run();
        learned
    }

    fn answered(&mut self, topic: &str) {
        self.table.answered(&topic.parse().expect("valid"));
        self.run();
    }

    fn create_channel(&mut self, topic: &str, channel: &str) {
        let key = self.topic(topic);
        let name = channel.parse().expect("valid");
        let made = self.table.find_or_create_channel(key, &name);
        made.expect("within bounds");
        self.run();
    }

    fn set_paused(&mut self, topic: &str, paused: bool) {
        let key = self.topic(topic);
        self.table.pause(key, paused);
        self.run();
    }

    fn held(&mut self, topic: &str) -> Option<&'static str> {
        let key = self.topic(topic);
        let topic = self.table.topic(key).expect("there");
        topic.awaited.map(|awaited| awaited.text())
    }

    /// What was told since the last call, of the one topic that there is.
    fn changes(&mut self) -> Vec<TopicChange> {
        let told = std::mem::take(&mut self.table.effects.told).into_iter();
        let change = |told| match told {
            Told::Changed(_, change) => Some(change),
            Told::Asked(_) | Told::Followed(..) => None,
        };
        told.filter_map(change).collect()
    }

    fn asked(&mut self) -> Vec<String> {
        let told = std::mem::take(&mut self.table.effects.told).into_iter();
        let name = |told| match told {
            Told::Changed(..) => None,
            Told::Asked(name) => Some(name.to_string()),
            Told::Followed(..) => None,
        };
        told.filter_map(name).collect()
    }

    fn counts(&mut self, topic: &str) -> (u64, u64, usize) {
        let key = self.topic(topic);
        let topic = self.table.topic(key).expect("there");
        (topic.counts.passed, topic.counts.dropped, topic.depth())
    }

    fn excess(&mut self, topic: &str) -> f64 {
        let key = self.topic(topic);
        let topic = self.table.topic(key).expect("there");
        topic.limiter.as_ref().expect("limited").window_excess()
    }
}

#[test]
fn what_nobody_has_spoken_of_waits_and_is_not_lost() {
    let mut world = unspoken();
    world.subscribe("t", "c", 1, u32::MAX);
    assert_eq!(world.publish("t", &["m"; 1000]), Published::Accepted);
    world.advance_us(60_000_000);
    assert_eq!(world.publish("t", &["m"]), Published::Full, "they wait");
    assert_eq!(world.held("t"), Some("no word from the controller"));
    assert!(world.bodies().is_empty() && world.asked().is_empty());
    world.hear(Teller::Answering);
    assert_eq!(world.bodies().len(), 1000);
    assert_eq!((world.held("t"), world.counts("t")), (None, (1000, 0, 0)));
}

#[test]
fn a_topic_on_a_broker_of_its_own_is_held_until_its_channels_were_made() {
    let mut world = World::of(ROOMY, |table| table);
    world.subscribe("before", "c", 1, u32::MAX);
    assert!(world.table.effects.told.is_empty(), "nobody listens");
    world.hear(Teller::Answering);
    world.subscribe("t", "c", 2, u32::MAX);
    world.publish("t", &["m"; 3]);
    world.set_paused("t", true);
    assert_eq!(world.held("before"), None);
    assert_eq!(world.held("t"), Some("its channels are asked for"));
    assert!(world.bodies().is_empty());
    // Whoever asks makes them as anybody would, and everybody hears of it.
    world.changes();
    world.create_channel("t", "d");
    let channel = channel("d");
    assert_eq!(world.changes(), [TopicChange::ChannelCreated { channel }]);
    world.answered("t");
    assert_eq!((world.held("t"), world.counts("t")), (None, (0, 0, 3)));
    world.set_paused("t", false);
    assert_eq!(world.counts("t"), (3, 0, 0));
    world.answered("nothing");
    assert_eq!(world.table.find("nothing"), None);
}

#[test]
fn channels_are_made_before_anything_flows_and_are_not_told_back() {
    let mut world = unspoken();
    world.subscribe("t", "c", 1, u32::MAX);
    world.publish("t", &["m"; 3]);
    world.changes();
    let said = known("t", &[("c", false), ("d", true), ("e#ephemeral", false)]);
    assert!(world.learn(&said));
    assert_eq!(world.bodies().len(), 3);
    assert!(world.changes().is_empty());
    world.subscribe("t", "d", 2, u32::MAX);
    let key = world.topic("t");
    let paused = world.table.find_channel(key, &"d".parse().expect("valid"));
    let ephemeral = "e#ephemeral".parse().expect("valid");
    assert_eq!(world.table.find_channel(key, &ephemeral), None);
    assert!(world.bodies().is_empty(), "d is paused");
    world.table.pause_channel(paused.expect("made"), false);
    world.run();
    assert_eq!(world.bodies().len(), 3, "and has missed nothing");
    // Said again with another pause, it becomes as said; what is here besides stays.
    assert!(world.learn(&known("t", &[("d", true)])));
    world.publish("t", &["m"]);
    assert_eq!(world.bodies().len(), 1, "c goes on");
}

#[test]
fn a_topic_that_comes_into_being_is_asked_for_once_and_held() {
    let mut world = unspoken();
    world.hear(Teller::Answering);
    world.publish("t", &["m"; 2]);
    world.subscribe("t", "c", 1, u32::MAX);
    assert_eq!(world.held("t"), Some("its channels are asked for"));
    assert_eq!(world.asked(), ["t"]);
    assert!(world.bodies().is_empty());
    // Deleted before the answers come, to the news and to the question: it is not made anew.
    let key = world.topic("t");
    world.table.delete(key);
    for report in 1..3 {
        assert!(!world.learn(&known("t", &[("d", false)])));
        assert_eq!(world.table.find("t"), None);
        let now = world.now();
        world.table.report(report, usize::MAX, now);
    }
    // What is said without having been asked is to be made.
    assert!(world.learn(&known("t", &[("d", false)])));
    assert_eq!((world.held("t"), world.asked().len()), (None, 0));
    // A contract makes a topic as well, and says nothing of its channels.
    world.contract("u", OnExceed::Delay);
    assert_eq!(world.asked(), ["u"]);
    assert_eq!(world.held("u"), Some("its channels are asked for"));
}

#[test]
fn an_answer_at_the_bound_of_channels_leaves_the_topic_held() {
    let mut world = unspoken();
    world.publish("t", &["m"]);
    let said = known(
        "t",
        &[("a", false), ("b", false), ("c", false), ("d", false)],
    );
    assert!(world.table.learn(&said).is_err());
    assert!(world.held("t").is_some());
}

#[test]
fn a_contract_that_comes_late_finds_everything_held() {
    for on_exceed in [OnExceed::Delay, OnExceed::Drop, OnExceed::Reject] {
        let mut world = unspoken();
        world.subscribe("t", "c", 1, u32::MAX);
        for _ in 0..500 {
            assert_eq!(world.publish("t", &["m"]), Published::Accepted);
        }
        world.contract("t", on_exceed);
        world.hear(Teller::Answering);
        world.advance_us(60_000_000);
        assert_eq!(world.counts("t"), (0, 0, 500), "no share yet");
        let (key, now) = (world.topic("t"), world.now());
        world.table.report(1, usize::MAX, now);
        let grant = Grant {
            epoch: 1,
            seq: 1,
            share: Some(Share::whole(&Limit::messages(10.0, 5.0).expect("valid"))),
            floor: None,
            ttl_ms: 600_000,
            answers_report: 1,
            round: 0,
        };
        assert!(world.table.grant(key, &grant, now));
        world.run();
        world.advance_us(10_000_000);
        assert_eq!(world.counts("t"), (100, 0, 400), "as for `delay`");
        assert!(world.excess("t") <= 1e-6);
    }
}

#[test]
fn a_limit_from_the_data_folder_is_in_force_before_anybody_speaks() {
    let mut world = unspoken();
    world.contract("t", OnExceed::Drop);
    world.contract("d", OnExceed::Delay);
    for topic in ["t", "d", "free"] {
        assert!(world.learn(&known(topic, &[("c", false)])));
        for _ in 0..500 {
            world.publish(topic, &["m"]);
        }
    }
    world.advance_us(60_000_000);
    assert_eq!(world.counts("t"), (0, 500, 0));
    assert_eq!(world.counts("d"), (0, 0, 500));
    assert_eq!(world.counts("free"), (500, 0, 0), "known to have none");
}

#[test]
fn a_controller_that_is_given_up_is_waited_for_again_when_it_is_back() {
    let mut world = unspoken();
    world.subscribe("t", "c", 1, u32::MAX);
    world.publish("t", &["m"; 3]);
    world.hear(Teller::GivenUp);
    world.subscribe("u", "c", 2, u32::MAX);
    world.publish("u", &["m"]);
    assert_eq!(world.bodies().len(), 4);
    world.hear(Teller::Answering);
    world.publish("v", &["m"]);
    assert!(world.held("v").is_some() && world.held("u").is_none());
}

#[test]
fn the_witness_sees_what_passed_before_the_contract_was_known() {
    for (on_exceed, is_given_up) in [
        (OnExceed::Drop, true),
        (OnExceed::Delay, true),
        (OnExceed::Drop, false),
    ] {
        let mut world = unspoken();
        world.subscribe("t", "c", 1, u32::MAX);
        if is_given_up {
            world.hear(Teller::GivenUp);
        } else {
            // The data folder knew no limit of it.
            world.learn(&known("t", &[]));
        }
        for _ in 0..500 {
            world.publish("t", &["m"]);
            world.advance_us(20);
        }
        assert_eq!(world.counts("t"), (500, 0, 0));
        world.contract("t", on_exceed);
        world.hear(Teller::Answering);
        let excess = world.excess("t");
        assert!((494.8..=495.1).contains(&excess), "{excess}");
    }
    // What passed while it was known that there is no limit was not too much.
    let mut world = unspoken();
    world.subscribe("t", "c", 1, u32::MAX);
    world.hear(Teller::Answering);
    world.publish("t", &["m"; 500]);
    world.contract("t", OnExceed::Drop);
    assert!(world.excess("t") <= 0.0);
}

#[test]
fn what_a_limit_lets_in_at_arrival_is_witnessed_too() {
    for on_exceed in [OnExceed::Drop, OnExceed::Reject] {
        let mut world = World::with(ROOMY);
        world.subscribe("t", "c", 1, u32::MAX);
        world.contract("t", on_exceed);
        world.advance_us(10_000_000);
        for _ in 0..20 {
            world.publish("t", &["m"]);
        }
        assert_eq!(world.counts("t").0, 5);
        let excess = world.excess("t");
        assert!(excess.abs() < 1e-6, "the burst and no more: {excess}");
    }
}

#[test]
fn changes_are_told_in_their_order_and_orders_are_not_told_back() {
    let mut world = unspoken();
    world.hear(Teller::Answering);
    let consumer = world.subscribe("t", "c", 1, 1);
    let key = world.topic("t");
    let (c, now) = (
        world.table.find_channel(key, &"c".parse().expect("valid")),
        world.now(),
    );
    let c = c.expect("there");
    world.table.pause_channel(c, true);
    world.table.pause_channel(c, true);
    world.table.pause(key, true);
    world.table.empty_channel(c);
    world.table.empty(key);
    world.table.pause_channel(c, false);
    world.table.unsubscribe(consumer, now);
    world.table.delete_channel(c);
    let named = |change: fn(String) -> TopicChange| change(channel("c"));
    assert_eq!(
        world.changes(),
        [
            TopicChange::TopicCreated,
            named(|channel| TopicChange::ChannelCreated { channel }),
            named(|channel| TopicChange::ChannelPaused { channel }),
            TopicChange::TopicPaused,
            named(|channel| TopicChange::ChannelEmptied { channel }),
            TopicChange::TopicEmptied,
            named(|channel| TopicChange::ChannelResumed { channel }),
            named(|channel| TopicChange::ChannelDeleted { channel }),
        ]
    );
    world.subscribe("t", "c", 1, 1);
    world.changes();
    world.table.delete(key);
    assert_eq!(world.changes(), [TopicChange::TopicDeleted], "once for all");
    // Ordered: nothing is told, but that a topic with a limit is still there.
    world.contract("t", OnExceed::Delay);
    assert_eq!(world.changes(), [TopicChange::TopicCreated]);
    let key = world.topic("t");
    world.table.begin_order();
    world.table.pause(key, true);
    world.table.delete(key);
    world.table.end_order();
    assert_eq!(world.changes(), [TopicChange::TopicCreated]);
    // An ephemeral one ends with its last consumer.
    let consumer = world.subscribe("e#ephemeral", "c#ephemeral", 1, 1);
    world.changes();
    world.table.unsubscribe(consumer, now);
    let gone = TopicChange::ChannelDeleted {
        channel: channel("c#ephemeral"),
    };
    assert_eq!(world.changes(), [gone, TopicChange::TopicDeleted]);
    let mut alone = World::new();
    alone.subscribe("t", "c", 1, 1);
    assert!(alone.table.effects.told.is_empty(), "nobody to tell");
}

#[test]
fn an_inventory_names_everything_that_is_here() {
    let mut world = unspoken();
    world.subscribe("t", "c", 1, 1);
    world.subscribe("e#ephemeral", "x#ephemeral", 1, 1);
    world.learn(&known("d", &[("p", true)]));
    let slots = 0..world.table.topic_slots();
    let states = slots.filter_map(|slot| world.table.topic_state(world.table.topic_at(slot)?));
    let mut states: Vec<_> = states.collect();
    states.sort_by(|a, b| a.topic.cmp(&b.topic));
    let shown: Vec<_> = states
        .iter()
        .flat_map(|state| {
            let name = &state.topic;
            let channels = state.channels.iter();
            channels.map(move |each| format!("{name}/{}/{}", each.channel, each.is_paused))
        })
        .collect();
    assert_eq!(
        shown,
        ["d/p/true", "e#ephemeral/x#ephemeral/false", "t/c/false"]
    );
}

#[derive(Clone, Debug)]
enum Step {
    Publish(usize),
    Contract,
    Topic,
    Complete,
    Delete,
    Advance(u64),
}

proptest! {
    /// In whatever order the controller speaks, a topic that turns out to have a limit passes nothing without a share of it,
    /// and what was accepted is passed, dropped by an order to delete, or still there.
    #[test]
    fn nothing_passes_a_limit_that_is_said_in_time(
        before in prop::collection::vec(steps(), 0..12),
        after in prop::collection::vec(steps(), 0..12),
    ) {
        let mut world = unspoken();
        world.subscribe("t", "c", 1, u32::MAX);
        let speaks = |step: &Step| matches!(step, Step::Complete | Step::Topic | Step::Contract);
        for step in before.iter().filter(|step| !speaks(step)) {
            world.step(step);
        }
        // The contract comes before whatever lets a topic flow.
        world.contract("t", OnExceed::Delay);
        for step in &after {
            world.step(step);
        }
        prop_assert!(world.bodies().is_empty());
        let key = world.topic("t");
        let topic = world.table.topic(key).expect("there");
        prop_assert!(topic.is_conserved());
        prop_assert_eq!(topic.counts.passed, 0);
    }
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..20usize).prop_map(Step::Publish),
        Just(Step::Contract),
        Just(Step::Topic),
        Just(Step::Complete),
        Just(Step::Delete),
        (1..5_000_000u64).prop_map(Step::Advance),
    ]
}

impl World {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Publish(messages) => {
                self.publish("t", &vec!["m"; *messages]);
            }
            Step::Contract => self.contract("t", OnExceed::Delay),
            Step::Topic => {
                self.learn(&known("t", &[("c", false), ("d", false)]));
            }
            Step::Complete => self.hear(Teller::Answering),
            Step::Delete => {
                let key = self.topic("t");
                self.table.delete(key);
                self.subscribe("t", "c", 1, u32::MAX);
            }
            Step::Advance(us) => self.advance_us(*us),
        }
    }
}
