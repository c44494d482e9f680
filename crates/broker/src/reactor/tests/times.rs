//! Delays and timeouts of commands that come after a reactor has looked at the clock.

use super::*;
use clock::Instant;

const DELAY: Duration = Duration::from_secs(1000);

/// A timeout, where a test is not about it.
const LONG: Duration = Duration::from_secs(3000);

/// More than stamps may be wrong by; and a broker that counted from its look would be early by this.
const GAP: Duration = Duration::from_millis(5);

fn scene() -> Scene {
    Scene::new(Config {
        threads: 2,
        max_req_timeout: 2 * DELAY,
        max_msg_timeout: LONG,
        ..Config::default()
    })
}

impl Scene {
    /// Has `peer`, which is at reactor 0, say `before` and reactor `looking` look at the clock for that; then has it say
    /// `words`, which that reactor gets in the same turn. Gives when that was said.
    fn say_after_a_look(
        &mut self,
        peer: &mut Peer,
        looking: usize,
        before: &[u8],
        words: &[u8],
    ) -> Instant {
        peer.client.set_nodelay(true).expect("set");
        let say = |scene: &mut Scene, words: &[u8]| {
            let count = (&peer.client).write(words).expect("there is room");
            assert_eq!(count, words.len());
            if looking != 0 {
                scene.reactors[0].turn(Some(Duration::ZERO));
            }
        };
        say(self, before);
        self.reactors[looking].wait(Some(Duration::ZERO));
        let looked = self.reactors[looking].hall.time.now;
        while sys::monotonic_now() < looked + GAP {}
        let said = sys::monotonic_now();
        say(self, words);
        self.reactors[looking].go_on();
        said
    }

    /// When the time is over that began with what was `said` to reactor `home`.
    fn end_of_time(&mut self, home: usize, said: Instant) -> Instant {
        let mut end = None;
        self.until("a time has begun", |scene| {
            let at = scene.reactors[home].hall.topics.table.next_wakeup();
            end = at.filter(|&at| at < said + 2 * DELAY);
            end.is_some()
        });
        end.expect("it has begun")
    }

    /// Somebody at reactor 0 who takes one message at a time of the topic of reactor `home`.
    fn consumer(&mut self, home: usize, timeout: Duration) -> Peer {
        let mut peer = self.connect(0, Kind::Plain);
        let topic = topic_of(home);
        let timeout_ms = timeout.as_millis();
        let words = format!("LINESUB {topic} c {timeout_ms}\n");
        peer.say(self, words.as_bytes(), usize::MAX);
        self.line(&mut peer);
        peer.say(self, b"RDY 0 1\n", usize::MAX);
        peer
    }

    /// Somebody at reactor 0 who has published to the topic of reactor `home`, and the number of that message, which
    /// `consumer` has. Nobody has anything to say.
    fn publisher(&mut self, home: usize, consumer: &mut Peer) -> (Peer, String) {
        let mut peer = self.connect(0, Kind::Plain);
        let mut words = b"  V2".to_vec();
        words.extend(publishes(&topic_of(home), [b"a".to_vec()]));
        peer.say(self, &words, usize::MAX);
        self.frames(&mut peer, 1);
        let message = self.line(consumer);
        let id = message.split(' ').nth(2).expect("its number");
        for _ in 0..8 {
            self.turn();
        }
        (peer, id.to_owned())
    }
}

#[test]
fn a_message_given_back_never_comes_early_by_its_consumers_clock() {
    for home in 0..2 {
        let mut scene = scene();
        let mut consumer = scene.consumer(home, LONG);
        let (_publisher, id) = scene.publisher(home, &mut consumer);
        let words = format!("REQ 0 {id} {}\n", DELAY.as_millis());
        let said = scene.say_after_a_look(&mut consumer, home, b"RDY 0 1\n", words.as_bytes());
        assert!(scene.end_of_time(home, said) >= said + DELAY, "home {home}");
    }
}

#[test]
fn a_delayed_message_never_comes_early_by_its_publishers_clock() {
    for home in 0..2 {
        let mut scene = scene();
        let mut consumer = scene.consumer(home, LONG);
        let (mut publisher, _) = scene.publisher(home, &mut consumer);
        let topic = topic_of(home);
        let mut words = format!("DPUB {topic} {}\n", DELAY.as_millis()).into_bytes();
        words.extend([0, 0, 0, 1, b'a']);
        let said = scene.say_after_a_look(&mut publisher, 0, b"NOP\n", &words);
        assert!(scene.end_of_time(home, said) >= said + DELAY, "home {home}");
    }
}

#[test]
fn a_message_never_times_out_early_by_its_publishers_clock() {
    let mut scene = scene();
    let mut first = scene.consumer(0, LONG);
    let (mut publisher, _) = scene.publisher(0, &mut first);
    let _second = scene.consumer(0, DELAY);
    let words = publishes(&topic_of(0), [b"a".to_vec()]);
    let said = scene.say_after_a_look(&mut publisher, 0, b"NOP\n", &words);
    assert!(scene.end_of_time(0, said) >= said + DELAY);
}
