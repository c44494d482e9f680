//! A real broker with real sockets, for what the pure core cannot show. Few tests, and without
//! sleeps.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use broker::{Broker, Config};
use client::{Acknowledgement, Publisher, PublisherOptions, Subscriber, SubscriberOptions};

fn start(change: impl FnOnce(&mut Config)) -> Broker {
    let mut config = Config {
        tcp_address: SocketAddr::from(([127, 0, 0, 1], 0)),
        http_address: None,
        threads: 1,
        drain_timeout: Duration::from_millis(100),
        ..Config::default()
    };
    change(&mut config);
    Broker::start(config).expect("a broker starts on a free port")
}

fn publisher(broker: &Broker, acknowledgement: Acknowledgement) -> Publisher {
    let options = PublisherOptions {
        acknowledgement,
        ..PublisherOptions::default()
    };
    Publisher::connect(broker.tcp_address(), options).expect("connects")
}

fn subscriber(broker: &Broker, topic: &str) -> Subscriber {
    Subscriber::connect(
        broker.tcp_address(),
        topic,
        "c",
        SubscriberOptions::default(),
    )
    .expect("subscribes")
}

/// Publishes from several connections to several topics and checks that each message comes once.
fn every_message_once(threads: usize, mem_queue_size: usize, acknowledgement: Acknowledgement) {
    const TOPICS: [&str; 3] = ["one", "two", "three"];
    const EACH: usize = 5_000;
    let broker =
        start(|config| (config.threads, config.mem_queue_size) = (threads, mem_queue_size));
    let publishing: Vec<_> = (0..4)
        .map(|number: usize| {
            let mut publisher = publisher(&broker, acknowledgement);
            std::thread::spawn(move || {
                for message in 0..EACH {
                    let body = format!("{number}:{message}");
                    publisher
                        .publish(TOPICS[message % 3], body.as_bytes())
                        .expect("published");
                }
                publisher.flush().expect("acknowledged");
                publisher.acknowledged()
            })
        })
        .collect();
    let consuming: Vec<_> = (0..3)
        .map(|topic: usize| {
            let mut subscriber = subscriber(&broker, TOPICS[topic]);
            let expected = 4 * (0..EACH).filter(|message| message % 3 == topic).count();
            std::thread::spawn(move || {
                let mut seen = HashSet::new();
                while seen.len() < expected {
                    let message = subscriber.next_message().expect("a message comes");
                    assert!(
                        seen.insert(message.body.to_vec()),
                        "twice: {:?}",
                        message.body
                    );
                    let id = message.id;
                    subscriber.finish(id).expect("finished");
                }
                subscriber.flush().expect("written");
            })
        })
        .collect();
    for thread in publishing {
        assert_eq!(thread.join().expect("publisher"), EACH as u64);
    }
    for thread in consuming {
        thread.join().expect("subscriber");
    }
    broker.stop();
}

#[test]
fn one_reactor_delivers_every_message_once() {
    every_message_once(1, 10_000, Acknowledgement::Each);
}

#[test]
fn several_reactors_deliver_every_message_once() {
    every_message_once(3, 10_000, Acknowledgement::Each);
}

#[test]
fn full_queues_hold_publishers_back_and_lose_nothing() {
    every_message_once(1, 16, Acknowledgement::Each);
    every_message_once(3, 16, Acknowledgement::Each);
}
