//! A broker whose queues are longer than they may be in memory.

use std::net::SocketAddr;

use broker::stats::StatsFilter;
use broker::{BacklogConfig, Broker, Config};
use client::{Publisher, PublisherOptions, Subscriber, SubscriberOptions};

const MESSAGES: usize = 3_000;
const TOPICS: [&str; 3] = ["one", "two", "three"];
const IN_MEMORY: usize = 20;

fn start(threads: usize, bytes_max: u64) -> Broker {
    let config = Config {
        tcp_address: SocketAddr::from(([127, 0, 0, 1], 0)),
        http_address: None,
        threads,
        mem_queue_size: IN_MEMORY,
        backlog: Some(BacklogConfig {
            segment_messages: 100,
            messages_max: 10 * MESSAGES,
            bytes_max,
        }),
        ..Config::default()
    };
    Broker::start(config).expect("a broker starts on a free port")
}

fn depths(broker: &Broker) -> Vec<(u64, u64)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let stats = runtime.block_on(broker.handle().stats(StatsFilter::default()));
    let topics = stats.expect("it answers").topics.into_iter();
    topics
        .map(|topic| (topic.depth, topic.backlog_depth))
        .collect()
}

#[test]
fn what_does_not_fit_into_memory_comes_in_its_order() {
    for threads in [1, 2] {
        let broker = start(threads, u64::MAX);
        let publishers: Vec<_> = TOPICS
            .iter()
            .map(|topic| {
                let options = PublisherOptions::default();
                let mut publisher =
                    Publisher::connect(broker.tcp_address(), options).expect("connects");
                std::thread::spawn(move || {
                    for number in 0..MESSAGES {
                        let body = number.to_string();
                        publisher
                            .publish(topic, body.as_bytes())
                            .expect("published");
                    }
                    publisher
                        .flush()
                        .expect("acknowledged, though nobody subscribes");
                })
            })
            .collect();
        for publisher in publishers {
            publisher.join().expect("it published");
        }
        for (depth, outside) in depths(&broker) {
            assert_eq!(depth, MESSAGES as u64);
            assert!(outside + 2 * IN_MEMORY as u64 > depth, "{outside} outside");
        }
        for topic in TOPICS {
            let options = SubscriberOptions::default();
            let mut subscriber =
                Subscriber::connect(broker.tcp_address(), topic, "c", options).expect("subscribes");
            for number in 0..MESSAGES {
                let message = subscriber.next_message().expect("a message comes");
                let (id, body) = (
                    message.id,
                    String::from_utf8_lossy(message.body).into_owned(),
                );
                assert_eq!(body, number.to_string(), "{topic}");
                subscriber.finish(id).expect("finished");
            }
            subscriber.flush().expect("written");
        }
        assert_eq!(broker.stop().messages(), 0);
    }
}
