//! A real broker between Tempo publishers and subscribers, over real sockets. It waits for
//! conditions, never for a time.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use broker::announce::{AnnounceConfig, AnnouncePort, AnnounceStats};
use broker::{Broker, Config, Handle};
use client::tempo::{
    Channel, Node, NodeOptions, PublicationOptions, SubscriptionOptions, TopicPublisher,
};
use client::{Publisher, PublisherOptions, Subscriber, SubscriberOptions};
use tokio::sync::oneshot;
use wire::announce::{InstanceId, Key, TopicId};
use wire::tempo::{put_hello, put_message_header};

/// Longer than anything takes that is not broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// A broker with an announce port, and the thread that serves it.
struct Site {
    broker: Option<Broker>,
    handle: Handle,
    announce: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Site {
    fn start(threads: usize, key: Option<&str>) -> Site {
        let announce = AnnounceConfig {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            group: None,
            key: key.map(Key::from_text),
            interval: Duration::from_millis(500),
        };
        let config = Config {
            tcp_address: SocketAddr::from(([127, 0, 0, 1], 0)),
            http_address: None,
            threads,
            drain_timeout: Duration::from_millis(100),
            announce: Some(announce.clone()),
            ..Config::default()
        };
        let broker = Broker::start(config).expect("a broker starts on a free port");
        let (handle, data) = (broker.handle(), broker.tcp_address());
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = channel();
        let serving = handle.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let port = AnnouncePort::bind(announce).await.expect("a free port");
                tell.send(port.address().expect("bound")).expect("awaited");
                let stopped = async {
                    let _ = stopped.await;
                };
                port.run(serving, data, stopped).await;
            });
        });
        Site {
            announce: told.recv().expect("it listens"),
            broker: Some(broker),
            handle,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    fn tcp(&self) -> SocketAddr {
        self.broker.as_ref().expect("it runs").tcp_address()
    }

    fn node(&self, key: Option<&str>) -> Node {
        Node::start(NodeOptions {
            channel: Channel::Broker(self.announce),
            threads: 1,
            announce_interval: Duration::from_millis(500),
            key: key.map(Key::from_text),
            ..NodeOptions::default()
        })
        .expect("an endpoint starts")
    }

    fn until(&self, holds: impl Fn(&AnnounceStats) -> bool) {
        until(|| holds(&self.handle.announcements.stats()));
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it ends well");
        }
        if let Some(broker) = self.broker.take() {
            broker.stop();
        }
    }
}

/// Looks again and again whether something holds.
fn until(holds: impl Fn() -> bool) {
    let (_never, pause) = channel::<()>();
    let pauses = PATIENCE.as_millis() / 5;
    for _ in 0..pauses {
        if holds() {
            return;
        }
        let _timeout = pause.recv_timeout(Duration::from_millis(5));
    }
    panic!("it did not come to hold within {PATIENCE:?}");
}

fn subscribe(node: &Node, topic: &str) -> (client::tempo::Subscription, Receiver<Vec<u8>>) {
    let (send, received) = channel();
    let options = SubscriptionOptions::default();
    let subscription = node
        .subscribe(topic, options, move |message| {
            let _gone = send.send(message.body.to_vec());
        })
        .expect("subscribes");
    (subscription, received)
}

fn publisher(node: &Node, topic: &str) -> TopicPublisher {
    let publisher = node
        .publisher(topic, PublicationOptions::default())
        .expect("publishes");
    assert!(publisher.wait_for_subscriber(PATIENCE), "nobody subscribes");
    publisher
}

fn stored(site: &Site) -> broker::stats::ReactorStats {
    let stats = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
        .block_on(site.handle.stats(broker::stats::StatsFilter::default()))
        .expect("it answers");
    stats.reactors.into_iter().next().expect("one reactor")
}

#[test]
fn messages_pass_through_the_broker_in_order_whoever_reads_them_where() {
    for threads in [1, 2] {
        let site = Site::start(threads, None);
        let (reading, writing) = (site.node(None), site.node(None));
        let (_one, first) = subscribe(&reading, "temperature");
        let (_other, second) = subscribe(&writing, "temperature");
        let mut stock = Subscriber::connect(
            site.tcp(),
            "temperature",
            "archive",
            SubscriberOptions::default(),
        )
        .expect("subscribes");
        site.until(|stats| stats.deliveries == 2);
        let publisher = publisher(&writing, "temperature");
        assert_eq!(publisher.subscribers(), 1, "the broker speaks for all");
        for number in 0..5000_u32 {
            publisher.publish(&number.to_be_bytes()).expect("taken");
        }
        for received in [first, second] {
            for number in 0..5000_u32 {
                let body = received.recv_timeout(PATIENCE).expect("it comes");
                assert_eq!(body, number.to_be_bytes());
            }
        }
        for number in 0..5000_u32 {
            let message = stock.next_message().expect("it comes");
            assert_eq!(message.body, number.to_be_bytes());
            let id = message.id;
            stock.finish(id).expect("finished");
        }
    }
}

#[test]
fn what_nsq_publishers_send_reaches_subscribers_of_tempo() {
    let site = Site::start(1, None);
    let node = site.node(None);
    let (_subscription, received) = subscribe(&node, "temperature");
    site.until(|stats| stats.deliveries == 1);
    let mut publisher =
        Publisher::connect(site.tcp(), PublisherOptions::default()).expect("connects");
    let mut number = 0_u32;
    // Until the connection to the subscriber is made, messages have nobody to go to.
    let first = loop {
        publisher
            .publish("temperature", &number.to_be_bytes())
            .expect("published");
        publisher.flush().expect("accepted");
        number += 1;
        if let Ok(body) = received.recv_timeout(Duration::from_millis(50)) {
            break body;
        }
        assert!(number < 600, "nothing comes");
    };
    assert_eq!(first.len(), 4);
}

#[test]
fn a_subscriber_that_goes_is_forgotten_and_one_that_comes_back_is_found() {
    let site = Site::start(1, None);
    let writing = site.node(None);
    let reading = site.node(None);
    let (subscription, received) = subscribe(&reading, "t");
    site.until(|stats| stats.deliveries == 1);
    let publisher = publisher(&writing, "t");
    publisher.publish(b"one").expect("taken");
    assert_eq!(received.recv_timeout(PATIENCE).expect("it comes"), b"one");
    drop(subscription);
    drop(reading);
    site.until(|stats| stats.deliveries == 0);
    until(|| publisher.subscribers() == 0);
    let again = site.node(None);
    let (_subscription, received) = subscribe(&again, "t");
    site.until(|stats| stats.deliveries == 1);
    assert!(publisher.wait_for_subscriber(PATIENCE));
    until(|| {
        publisher.publish(b"two").expect("taken");
        received.recv_timeout(Duration::from_millis(50)).is_ok()
    });
}

#[test]
fn unknown_identifiers_are_counted_and_disturb_nobody() {
    use std::io::Write as _;
    let site = Site::start(1, None);
    let node = site.node(None);
    let (_subscription, received) = subscribe(&node, "t");
    site.until(|stats| stats.deliveries == 1);
    let publisher = publisher(&node, "t");
    let mut stranger = std::net::TcpStream::connect(site.tcp()).expect("connects");
    let mut bytes = Vec::new();
    put_hello(&mut bytes, InstanceId(7), None);
    for _ in 0..3 {
        put_message_header(&mut bytes, TopicId(12_345), 2);
        bytes.extend_from_slice(b"hi");
    }
    stranger.write_all(&bytes).expect("sent");
    until(|| stored(&site).tempo_unknown_ids == 3);
    publisher.publish(b"one").expect("taken");
    assert_eq!(received.recv_timeout(PATIENCE).expect("it comes"), b"one");
}

#[test]
fn without_the_key_nobody_is_heard_and_no_connection_taken() {
    use std::io::{Read as _, Write as _};
    let site = Site::start(1, Some("secret"));
    let (friend, stranger) = (site.node(Some("secret")), site.node(None));
    let (_refused, nothing) = subscribe(&stranger, "t");
    let (_taken, received) = subscribe(&friend, "t");
    site.until(|stats| stats.deliveries == 1 && stats.datagrams.forged > 0);
    let publisher = publisher(&friend, "t");
    publisher.publish(b"one").expect("taken");
    assert_eq!(received.recv_timeout(PATIENCE).expect("it comes"), b"one");
    assert!(nothing.try_recv().is_err());
    let mut unsigned = std::net::TcpStream::connect(site.tcp()).expect("connects");
    let mut bytes = Vec::new();
    put_hello(&mut bytes, InstanceId(7), None);
    unsigned.write_all(&bytes).expect("sent");
    let end = unsigned.read(&mut [0; 16]);
    assert!(matches!(end, Ok(0) | Err(_)), "it is closed: {end:?}");
    assert_eq!(stored(&site).tempo_hellos_refused, 1);
}
