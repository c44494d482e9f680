//! A broker whose queues outgrow their memory and continue on disk.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use broker::stats::StatsFilter;
use broker::{BacklogConfig, Broker, Config, Operation};
use client::{Publisher, PublisherOptions, Subscriber, SubscriberOptions};

const MESSAGES: usize = 3_000;
const TOPICS: [&str; 3] = ["one", "two", "three"];
const IN_MEMORY: usize = 20;

/// A folder that vanishes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("srtm-backlog-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }

    fn files(&self) -> usize {
        let entries = std::fs::read_dir(&self.0).expect("a folder");
        let names = entries.map(|entry| entry.expect("readable").file_name());
        names
            .filter(|name| name.to_string_lossy().ends_with(".segments"))
            .count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn start(threads: usize, folder: &Path, bytes_max: u64) -> Broker {
    let config = Config {
        tcp_address: SocketAddr::from(([127, 0, 0, 1], 0)),
        http_address: None,
        threads,
        mem_queue_size: IN_MEMORY,
        backlog: Some(BacklogConfig {
            file_bytes_max: 64 * 1024,
            bytes_max,
            ..BacklogConfig::within(folder.to_owned())
        }),
        ..Config::default()
    };
    Broker::start(config).expect("a broker starts on a free port")
}

/// Of each topic, how many messages wait in it and how many of those on disk; its channels' as well.
fn depths(broker: &Broker) -> Vec<(u64, u64)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let stats = runtime.block_on(broker.handle().stats(StatsFilter::default()));
    let topics = stats.expect("it answers").topics.into_iter();
    topics
        .map(|topic| {
            let channels = topic.channels.iter();
            let in_channels = channels.fold((0, 0), |(all, outside), channel| {
                (all + channel.depth, outside + channel.backlog_depth)
            });
            (
                topic.depth + in_channels.0,
                topic.backlog_depth + in_channels.1,
            )
        })
        .collect()
}

fn operate(broker: &Broker, operation: Operation, topic: &str, channel: Option<&str>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let topic = topic.parse().expect("valid");
    let handle = broker.handle();
    let done = match channel {
        None => runtime.block_on(handle.topic(topic, operation)),
        Some(channel) => {
            let channel = channel.parse().expect("valid");
            runtime.block_on(handle.channel(topic, channel, operation))
        }
    };
    done.expect("it is done");
}

fn publish(broker: &Broker, topics: &[&'static str], range: std::ops::Range<usize>) {
    let publishers: Vec<_> = topics
        .iter()
        .map(|&topic| {
            let options = PublisherOptions::default();
            let mut publisher =
                Publisher::connect(broker.tcp_address(), options).expect("connects");
            let range = range.clone();
            std::thread::spawn(move || {
                for number in range {
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
}

fn consume(broker: &Broker, topic: &str, range: std::ops::Range<usize>) {
    let options = SubscriberOptions::default();
    let mut subscriber =
        Subscriber::connect(broker.tcp_address(), topic, "c", options).expect("subscribes");
    for number in range {
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

#[test]
fn what_does_not_fit_into_memory_comes_in_its_order() {
    for threads in [1, 2] {
        let folder = Folder::new(&format!("order{threads}"));
        let broker = start(threads, &folder.0, u64::MAX);
        publish(&broker, &TOPICS, 0..MESSAGES);
        for (depth, outside) in depths(&broker) {
            assert_eq!(depth, MESSAGES as u64);
            assert!(outside + 2 * IN_MEMORY as u64 > depth, "{outside} outside");
        }
        assert!(folder.files() >= TOPICS.len());
        for topic in TOPICS {
            consume(&broker, topic, 0..MESSAGES);
        }
        assert_eq!(broker.stop().messages(), 0);
    }
}

#[test]
fn a_stop_loses_nothing_and_the_next_start_goes_on_whatever_the_number_of_threads() {
    let folder = Folder::new("stop");
    for (round, threads) in [1, 2, 1].into_iter().enumerate() {
        let broker = start(threads, &folder.0, u64::MAX);
        if round > 0 {
            let before = (round * MESSAGES) as u64;
            assert!(depths(&broker).iter().all(|&(depth, _)| depth == before));
        }
        publish(&broker, &TOPICS, round * MESSAGES..(round + 1) * MESSAGES);
        assert_eq!(broker.stop().messages(), 0);
    }
    let broker = start(2, &folder.0, u64::MAX);
    for topic in TOPICS {
        consume(&broker, topic, 0..3 * MESSAGES);
    }
    assert_eq!(broker.stop().messages(), 0);
    let broker = start(1, &folder.0, u64::MAX);
    assert!(depths(&broker).iter().all(|&depths| depths == (0, 0)));
    assert_eq!(folder.files(), 0);
    assert_eq!(broker.stop().messages(), 0);
}

#[test]
fn what_is_emptied_or_deleted_leaves_no_file() {
    let folder = Folder::new("emptied");
    let broker = start(2, &folder.0, u64::MAX);
    for topic in ["one", "two"] {
        operate(&broker, Operation::Create, topic, None);
        operate(&broker, Operation::Create, topic, Some("c"));
    }
    publish(&broker, &TOPICS, 0..MESSAGES);
    assert!(folder.files() >= 3);
    operate(&broker, Operation::Pause, "one", Some("c"));
    operate(&broker, Operation::Empty, "one", Some("c"));
    operate(&broker, Operation::Empty, "one", None);
    operate(&broker, Operation::Delete, "two", Some("c"));
    operate(&broker, Operation::Delete, "two", None);
    operate(&broker, Operation::Empty, "three", None);
    // The stop carries out what was ordered.
    assert_eq!(broker.stop().messages(), 0);
    assert_eq!(folder.files(), 0);
}

#[test]
fn a_second_broker_on_the_folder_is_refused() {
    let folder = Folder::new("second");
    let first = start(1, &folder.0, u64::MAX);
    let config = Config {
        tcp_address: SocketAddr::from(([127, 0, 0, 1], 0)),
        backlog: Some(BacklogConfig::within(folder.0.clone())),
        ..Config::default()
    };
    let refused = Broker::start(config).expect_err("the folder is taken");
    assert!(
        refused.to_string().contains("in use by another process"),
        "{refused}"
    );
    assert_eq!(first.stop().messages(), 0);
}
