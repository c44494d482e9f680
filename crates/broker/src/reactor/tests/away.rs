//! One connection with subscriptions to topics of several reactors.

use topics::{Part, Step, Walk};

use super::*;
use crate::connection::{OUTPUT_FULL_BYTES, SUBSCRIPTIONS_MAX};
use crate::reactor::guests::WINDOW_BYTES;
use crate::stats::{ClientStats, StatsFilter};

/// Time to finish a message, where a test is not about it.
const LONG_MS: u64 = 600_000;

fn scene() -> Scene {
    Scene::new(Config {
        threads: 2,
        mem_queue_size: 100_000,
        ..Config::default()
    })
}

impl Scene {
    /// Somebody at reactor 0 who speaks in lines, subscribed to a topic of reactor 0 and one of reactor 1, in this order.
    fn subscriber(&mut self, timeout_ms: u64) -> Peer {
        let mut peer = self.connect(0, Kind::Plain);
        peer.say(self, b"LINE", 4);
        for home in 0..2 {
            let topic = topic_of(home);
            let words = format!("SUB {topic} c {timeout_ms}\n");
            peer.say(self, words.as_bytes(), usize::MAX);
            assert_eq!(self.line(&mut peer), format!("SUBSCRIBED {home}"));
        }
        peer.say(self, b"RDY 0 2000\nRDY 1 2000\n", usize::MAX);
        peer
    }

    /// Publishes `bodies` to both topics; they are accepted.
    fn publish(&mut self, bodies: &[String]) {
        let mut publisher = self.connect(1, Kind::Plain);
        let mut words = b"  V2".to_vec();
        for home in 0..2 {
            let bodies = bodies.iter().map(|body| body.clone().into_bytes());
            words.extend(publishes(&topic_of(home), bodies));
        }
        publisher.say(self, &words, usize::MAX);
        for answer in self.frames(&mut publisher, 2 * bodies.len()) {
            assert_eq!(answer[4..], *b"OK");
        }
    }

    /// So many messages: subscription, number, attempts and body of each, in the order of all that.
    fn messages(&mut self, peer: &mut Peer, count: usize) -> Vec<(u32, u64, u16, String)> {
        let mut messages: Vec<_> = (0..count)
            .map(|_| {
                let line = self.line(peer);
                let mut words = line.split(' ');
                assert_eq!(words.next(), Some("MESSAGE"), "{line}");
                let mut next = || words.next().expect("whole");
                (
                    next().parse().expect("a number"),
                    next().parse().expect("a number"),
                    next().parse().expect("a number"),
                    next().to_owned(),
                )
            })
            .collect();
        messages.sort();
        messages
    }

    /// Messages that the reactors store.
    fn stored(&self) -> u64 {
        let stored = |reactor: &Reactor| reactor.hall.topics.table.stored().0;
        self.reactors.iter().map(stored).sum()
    }

    fn until_nothing_is_stored(&mut self) {
        self.until("all are finished", |scene| scene.stored() == 0);
    }
}

fn bodies(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("body{number}")).collect()
}

#[test]
fn what_a_session_answers_by_itself_is_written_at_once() {
    let mut scene = scene();
    let mut peer = scene.connect(0, Kind::Plain);
    peer.say(&mut scene, b"LINEPING\n", usize::MAX);
    assert_eq!(scene.line(&mut peer), "PONG");
    peer.say(&mut scene, b"PING\nPING\n", 1);
    assert_eq!(scene.line(&mut peer), "PONG");
    assert_eq!(scene.line(&mut peer), "PONG");
}

#[test]
fn messages_of_several_reactors_come_once_each_with_their_subscription() {
    const COUNT: usize = 1000;
    let mut scene = scene();
    let mut peer = scene.subscriber(LONG_MS);
    scene.publish(&bodies(COUNT));
    let messages = scene.messages(&mut peer, 2 * COUNT);
    for of in 0..2 {
        let mut came: Vec<_> = messages.iter().filter(|message| message.0 == of).collect();
        came.sort_by_key(|message| message.1);
        let came: Vec<_> = came.iter().map(|message| message.3.clone()).collect();
        assert_eq!(came, bodies(COUNT), "in order, of subscription {of}");
    }
    assert_eq!(scene.stored(), 2 * COUNT as u64);
    // More at once than may be in transit.
    let finish = |(of, id, ..): &(u32, u64, u16, String)| format!("FIN {of} {id}\n");
    let words: String = messages.iter().map(finish).collect();
    peer.say(&mut scene, words.as_bytes(), usize::MAX);
    scene.until_nothing_is_stored();
    // Each of them can be finished once.
    let (of, id, ..) = messages[2 * COUNT - 1];
    peer.say(
        &mut scene,
        format!("FIN {of} {id}\n").as_bytes(),
        usize::MAX,
    );
    let told = scene.line(&mut peer);
    let expected = format!("FAILED Order(Finish({id})) was refused: ID not in flight");
    assert_eq!((of, told), (1, expected));
}

#[test]
fn what_is_given_back_or_timed_out_comes_again() {
    let mut scene = scene();
    let mut peer = scene.subscriber(LONG_MS);
    scene.publish(&bodies(1));
    for attempts in 1..=3 {
        let messages = scene.messages(&mut peer, 2);
        for (number, (of, id, tried, _)) in messages.iter().enumerate() {
            assert_eq!((*of as usize, *tried), (number, attempts));
            let words = match attempts {
                1 => format!("REQ {of} {id} 0\n"),
                2 => format!("REQ {of} {id} 1\n"),
                _ => format!("TOUCH {of} {id}\nFIN {of} {id}\n"),
            };
            peer.say(&mut scene, words.as_bytes(), usize::MAX);
        }
    }
    scene.until_nothing_is_stored();

    let mut forgetful = scene.subscriber(1);
    drop(peer);
    scene.until("it is gone", |scene| {
        scene.reactors[0].hall.peers.connections.len() == 1
    });
    scene.publish(&bodies(1));
    let mut seen = [0; 2];
    while seen.contains(&0) || seen.contains(&1) {
        let (of, _, attempts, _) = scene.messages(&mut forgetful, 1)[0].clone();
        seen[of as usize] = attempts;
    }
    assert_eq!(scene.stored(), 2, "nothing is lost or doubled");
}

#[test]
fn what_a_lost_connection_had_in_flight_goes_to_another() {
    for has_heard in [false, true] {
        let mut scene = scene();
        let mut lost = scene.subscriber(LONG_MS);
        scene.publish(&bodies(50));
        if has_heard {
            assert_eq!(scene.messages(&mut lost, 100).len(), 100);
        }
        drop(lost);
        let mut heir = scene.subscriber(LONG_MS);
        let messages = scene.messages(&mut heir, 100);
        assert_eq!(scene.stored(), 100);
        let finish = |(of, id, ..): &(u32, u64, u16, String)| format!("FIN {of} {id}\n");
        let words: String = messages.iter().map(finish).collect();
        heir.say(&mut scene, words.as_bytes(), usize::MAX);
        scene.until_nothing_is_stored();
    }
}

/// A subscriber whose socket takes little, and who wants as much as there is of the topic elsewhere.
fn slow_subscriber(scene: &mut Scene) -> Peer {
    let mut peer = scene.subscriber(LONG_MS);
    let (_, key) = peer.at;
    let connection = scene.reactors[0].hall.peers.connections.get(key);
    let transport = &connection.expect("open").transport;
    let socket = socket2::SockRef::from(transport);
    socket.set_send_buffer_size(4096).expect("set");
    peer.say(scene, b"RDY 0 0\nRDY 1 100000\n", usize::MAX);
    peer
}

#[test]
fn a_peer_that_does_not_read_holds_a_bounded_part_of_it() {
    const COUNT: usize = 4000;
    let mut scene = scene();
    let mut peer = slow_subscriber(&mut scene);
    let (_, key) = peer.at;
    let bodies: Vec<String> = (0..COUNT).map(|_| "x".repeat(1000)).collect();
    scene.publish(&bodies);
    scene.until("the guest is full", |scene| {
        scene.reactors[1].guests.on_their_way_bytes() >= WINDOW_BYTES
    });
    for _ in 0..100 {
        scene.turn();
        let on_their_way = scene.reactors[1].guests.on_their_way_bytes();
        assert!(on_their_way < WINDOW_BYTES + 2000, "{on_their_way}");
        let connection = scene.reactors[0].hall.peers.connections.get(key);
        let unsent = connection.expect("open").output.unsent().len();
        assert!(unsent < OUTPUT_FULL_BYTES + WINDOW_BYTES + 2000, "{unsent}");
    }
    assert_eq!(scene.messages(&mut peer, COUNT).len(), COUNT);
    scene.until("all batches are back", |scene| {
        scene.reactors[1].guests.on_their_way_bytes() == 0
    });
}

#[test]
fn what_is_on_its_way_counts_as_output_and_is_less_where_memory_is_short() {
    const COUNT: usize = 600;
    const BUDGET_BYTES: u64 = 4 * 1024 * 1024;
    // Of 3/16 for outputs each may hold a sixteenth.
    const WINDOW_MAX: usize = BUDGET_BYTES as usize / 16 * 3 / 16;
    let mut scene = Scene::new(Config {
        threads: 2,
        memory_budget_bytes: BUDGET_BYTES,
        ..Config::default()
    });
    const { assert!(WINDOW_MAX + 2000 < WINDOW_BYTES) };
    let mut peer = slow_subscriber(&mut scene);
    let (_, key) = peer.at;
    let bodies: Vec<String> = (0..COUNT).map(|_| "x".repeat(1000)).collect();
    scene.publish(&bodies);
    let mut most = 0;
    for _ in 0..1000 {
        scene.turn();
        let on_their_way = scene.reactors[1].guests.on_their_way_bytes();
        most = most.max(on_their_way);
        let connection = scene.reactors[0].hall.peers.connections.get(key);
        let charged = connection.expect("open").output.charged;
        let used = scene.reactors[0].hall.shared.memory.used(Part::Output);
        assert_eq!(used, (charged + on_their_way) as u64);
    }
    assert!((1..WINDOW_MAX + 2000).contains(&most), "{most}");
    assert_eq!(scene.messages(&mut peer, COUNT).len(), COUNT);
    scene.until("nothing is charged", |scene| {
        scene.reactors[0].hall.shared.memory.used(Part::Output) == 0
    });
}

#[test]
fn what_was_on_its_way_to_a_guest_that_has_left_counts_no_more() {
    let mut scene = scene();
    let peer = slow_subscriber(&mut scene);
    let bodies: Vec<String> = (0..4000).map(|_| "x".repeat(1000)).collect();
    scene.publish(&bodies);
    scene.until("the guest is full", |scene| {
        scene.reactors[1].guests.on_their_way_bytes() >= WINDOW_BYTES
    });
    drop(peer);
    scene.until("nothing is charged", |scene| {
        scene.reactors[0].hall.shared.memory.used(Part::Output) == 0
    });
}

#[test]
fn a_subscription_elsewhere_that_is_refused_or_ends_is_told() {
    let mut scene = Scene::new(Config {
        threads: 2,
        max_channel_consumers: 1,
        ..Config::default()
    });
    let mut first = scene.subscriber(LONG_MS);
    let mut second = scene.connect(0, Kind::Plain);
    let topic = topic_of(1);
    let words = format!("LINESUB {topic} c 1000\nSUB {topic} other 1000\nRDY 1 5\n");
    second.say(&mut scene, words.as_bytes(), usize::MAX);
    let told = scene.line(&mut second);
    assert!(told.starts_with("FAILED Subscribe was refused"), "{told}");
    assert_eq!(scene.line(&mut second), "SUBSCRIBED 1");
    let table = &mut scene.reactors[1].hall.topics.table;
    let key = table.find(&topic).expect("it is there");
    table.delete(key);
    scene.until("both are closed", |_| !first.listen() && !second.listen());
    assert_eq!(scene.reactors[0].hall.peers.connections.len(), 0);
}

#[test]
fn a_connection_has_a_bounded_number_of_subscriptions() {
    let mut scene = scene();
    let mut peer = scene.connect(0, Kind::Plain);
    peer.say(&mut scene, b"LINE", 4);
    for number in 0..=SUBSCRIPTIONS_MAX {
        let words = format!("SUB {} c{number} 1000\n", topic_of(number % 2));
        peer.say(&mut scene, words.as_bytes(), usize::MAX);
        let told = scene.line(&mut peer);
        match number < SUBSCRIPTIONS_MAX {
            true => assert_eq!(told, format!("SUBSCRIBED {number}")),
            false => assert!(told.contains("use another one"), "{told}"),
        }
    }
}

#[test]
fn messages_from_another_reactor_are_followed_to_the_subscriber() {
    const COUNT: usize = 40;
    let mut scene = scene();
    let mut peer = scene.subscriber(LONG_MS);
    scene.publish(&bodies(COUNT));
    assert_eq!(scene.messages(&mut peer, 2 * COUNT).len(), 2 * COUNT);
    let followed = |scene: &mut Scene, home: usize| {
        let table = &mut scene.reactors[home].hall.topics.table;
        let mut walk = Walk::new(StatsFilter::default());
        let step = table.walk(&mut walk, sys::monotonic_now(), |_| ClientStats::default());
        let Step::Topic(topic) = step else {
            panic!("there is one");
        };
        let mut stages = topic.latency.iter();
        let stage = stages.find(|stage| stage.stage == "end_to_end");
        stage.map_or(0, |stage| stage.count)
    };
    for home in 0..2 {
        // A second begins with each message followed; several in one write count with one of them.
        scene.until("one has landed", |scene| followed(scene, home) > 0);
    }
}
