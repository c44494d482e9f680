//! End-to-end latency over real sockets: stamps of acknowledgements arrive, are matched, and
//! disturb nothing.

use std::net::SocketAddr;
use std::time::Duration;

use broker::window::{SAMPLES_MIN, WindowOrder, WindowResult};
use broker::{Broker, Config, Handle};
use client::{Publisher, PublisherOptions, Subscriber, SubscriberOptions};

const ORDER: WindowOrder = WindowOrder {
    percentile: 99.0,
    with_trace: false,
    promise_us: None,
};

struct Scene {
    broker: Broker,
    handle: Handle,
    runtime: tokio::runtime::Runtime,
}

impl Scene {
    fn new(threads: usize) -> Scene {
        let config = Config {
            tcp_address: SocketAddr::from(([127, 0, 0, 1], 0)),
            http_address: None,
            threads,
            drain_timeout: Duration::from_millis(100),
            ..Config::default()
        };
        let broker = Broker::start(config).expect("a broker starts on a free port");
        Scene {
            handle: broker.handle(),
            broker,
            runtime: tokio::runtime::Builder::new_current_thread()
                .build()
                .expect("a runtime"),
        }
    }

    fn publisher(&self) -> Publisher {
        Publisher::connect(self.broker.tcp_address(), PublisherOptions::default())
            .expect("connects")
    }

    fn subscriber(&self, topic: &str) -> Subscriber {
        let options = SubscriberOptions::default();
        Subscriber::connect(self.broker.tcp_address(), topic, "c", options).expect("subscribes")
    }

    fn begin_window(&self, topic: &str) {
        let topic = topic.parse().expect("valid");
        let begun = self
            .runtime
            .block_on(self.handle.begin_window(topic, ORDER));
        begun.expect("the topic is there");
    }

    fn end_window(&self, topic: &str) -> WindowResult {
        let topic = topic.parse().expect("valid");
        let ended = self.runtime.block_on(self.handle.end_window(topic));
        ended.expect("a window is open")
    }

    /// Messages that end-to-end latencies stand for, and the largest latency in µs.
    fn end_to_end(&self) -> (u64, f64) {
        let stats = self.runtime.block_on(self.handle.stats(Default::default()));
        let topics = stats.expect("answered").topics;
        let stage = topics[0].latency.iter().find(|s| s.stage == "end_to_end");
        let stage = stage.expect("every stage is told");
        (stage.count, stage.max_us)
    }
}

/// Publishes `messages`, `batch` at a time, and has each batch finished before the next.
fn round_trips(
    publisher: &mut Publisher,
    subscriber: &mut Subscriber,
    messages: usize,
    batch: usize,
) {
    for number in 0..messages / batch {
        let bodies: Vec<String> = (0..batch).map(|at| format!("{number}:{at}")).collect();
        publisher.publish_many("t", &bodies).expect("published");
        for body in &bodies {
            let message = subscriber.next_message().expect("it comes");
            assert_eq!(message.body, body.as_bytes());
            let id = message.id;
            subscriber.finish(id).expect("finished");
        }
        subscriber.flush().expect("written");
    }
    publisher.flush().expect("acknowledged");
}

#[test]
fn every_message_is_followed_in_a_window_and_all_come() {
    for (threads, batch) in [(1, 1), (1, 7), (2, 1)] {
        let scene = Scene::new(threads);
        let mut subscriber = scene.subscriber("t");
        let mut publisher = scene.publisher();
        scene.begin_window("t");
        round_trips(&mut publisher, &mut subscriber, 2100, batch);
        let window = scene.end_window("t");
        let case = format!("{threads} threads, {batch} at a time: {window:?}");
        assert_eq!(window.messages, 2100, "{case}");
        assert!(window.samples >= SAMPLES_MIN, "{case}");
        let (p50, p99) = (window.p50_us, window.latency_us);
        assert!(p50 > Some(0.0) && p99 >= p50, "{case}");
        // Sampling has a rate, and a machine may be slow or fast: most, not all.
        let (followed, max_us) = scene.end_to_end();
        assert!((500..=2100).contains(&followed), "{followed}; {case}");
        assert!(max_us > 0.0, "{case}");
        drop(publisher);
        scene.broker.stop();
    }
}

#[test]
fn a_connection_that_publishes_and_subscribes_is_counted_right() {
    use std::io::{Read, Write};
    let scene = Scene::new(1);
    let mut stream = std::net::TcpStream::connect(scene.broker.tcp_address()).expect("connects");
    stream.set_nodelay(true).expect("set");
    let mut bytes = wire::MAGIC_V2.to_vec();
    wire::command::put_sub(&mut bytes, "t", "c");
    wire::command::put_rdy(&mut bytes, 100);
    stream.write_all(&bytes).expect("written");
    let mut ok = [0; wire::OK_FRAME.len()];
    stream.read_exact(&mut ok).expect("subscribed");
    // Its OKs go past the output and are bytes of the same connection.
    let mut publisher = scene.publisher();
    let frame = wire::MESSAGE_HEADER_BYTES + 4;
    for _ in 0..200 {
        bytes.clear();
        wire::command::put_pub(&mut bytes, "u", b"body");
        stream.write_all(&bytes).expect("written");
        stream.read_exact(&mut ok).expect("accepted");
        assert_eq!(ok, wire::OK_FRAME);
        publisher.publish("t", b"body").expect("published");
        publisher.flush().expect("acknowledged");
        let mut message = vec![0; frame];
        stream.read_exact(&mut message).expect("delivered");
        let id = &message[message.len() - 4 - 16..message.len() - 4];
        bytes.clear();
        bytes.extend_from_slice(b"FIN ");
        bytes.extend_from_slice(id);
        bytes.push(b'\n');
        stream.write_all(&bytes).expect("written");
    }
    // One more answer: all stamps of the messages before have been read by then, or never will be.
    bytes.clear();
    wire::command::put_pub(&mut bytes, "u", b"body");
    stream.write_all(&bytes).expect("written");
    stream.read_exact(&mut ok).expect("accepted");
    let stats = scene
        .runtime
        .block_on(scene.handle.stats(broker::stats::StatsFilter {
            topic: "t".into(),
            ..Default::default()
        }));
    let stats = stats.expect("answered");
    let stage = stats.topics[0]
        .latency
        .iter()
        .find(|s| s.stage == "end_to_end");
    assert!(stage.is_some_and(|stage| stage.count >= 20), "{stage:?}");
    scene.broker.stop();
}
