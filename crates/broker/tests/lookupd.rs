//! Brokers without a controller and a lookup service in one process: channels of a new topic, and a
//! list that changes.

use std::net::SocketAddr;
use std::time::Duration;

use broker::lookupd::{LookupdConfig, Registrar, identity};
use broker::stats::StatsFilter;
use broker::{Broker, Config, Handle, Operation};
use bytes::Bytes;
use control::lookup;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wire::{ChannelName, TopicName};

/// A lookup service that serves until the runtime ends; its TCP and HTTP addresses.
async fn start_lookup() -> [SocketAddr; 2] {
    let bind = || TcpListener::bind(("127.0.0.1", 0));
    let (tcp, http) = (bind().await.expect("free"), bind().await.expect("free"));
    let addresses = [&tcp, &http].map(|listener| listener.local_addr().expect("bound"));
    let config = lookup::Config {
        broadcast_address: Some(String::from("127.0.0.1")),
        ..lookup::Config::default()
    };
    tokio::spawn(lookup::serve(
        None,
        Some(tcp),
        http,
        config,
        std::future::pending(),
    ));
    addresses
}

/// A broker that registers with these for as long as it lives.
async fn start_broker(lookups: &[SocketAddr], http_port: u16) -> Broker {
    let config = Config {
        tcp_address: SocketAddr::from(([127, 0, 0, 1], 0)),
        http_address: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        broadcast_address: String::from("127.0.0.1"),
        threads: 2,
        drain_timeout: Duration::ZERO,
        lookupd: LookupdConfig {
            tcp_addresses: lookups.iter().map(SocketAddr::to_string).collect(),
            ..LookupdConfig::default()
        },
        ..Config::default()
    };
    let broker = Broker::prepare(config.clone()).expect("a broker starts on a free port");
    let identity = identity(&config, broker.tcp_address().port(), http_port);
    let registrar = Registrar::begin(broker.handle(), identity).await;
    tokio::spawn(registrar.expect("begins").run(std::future::pending()));
    broker.open();
    broker
}

/// The body of a lookup's answer.
async fn get(lookup: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(lookup).await.expect("listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {lookup}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answers");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
    body.to_owned()
}

/// Waits until a lookup says so.
async fn told(lookup: SocketAddr, path: &str, is_so: impl Fn(&str) -> bool) {
    while !is_so(&get(lookup, path).await) {
        tokio::task::yield_now().await;
    }
}

/// Waits until a channel holds so many messages.
async fn holds(handle: &Handle, topic: &TopicName, channel: &str, depth: u64) {
    loop {
        let stats = handle.stats(StatsFilter::default()).await.expect("answers");
        let of_topic = stats
            .topics
            .iter()
            .find(|each| each.topic == topic.as_str());
        let channels = of_topic.map(|topic| &topic.channels).into_iter().flatten();
        let held: u64 = channels
            .filter(|each| each.channel == channel)
            .map(|each| each.depth)
            .sum();
        if held == depth {
            return;
        }
        tokio::task::yield_now().await;
    }
}

fn names(topic: &str, channel: &str) -> (TopicName, ChannelName) {
    (
        topic.parse().expect("valid"),
        channel.parse().expect("valid"),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_of_one_broker_gets_the_first_message_at_another() {
    let [tcp, http] = start_lookup().await;
    let (first, second) = (start_broker(&[tcp], 1).await, start_broker(&[tcp], 2).await);
    for number in 0..20 {
        let (topic, channel) = names(&format!("t{number}"), "c");
        let at_first = first.handle();
        let made = at_first.topic(topic.clone(), Operation::Create).await;
        made.expect("made");
        let made = at_first.channel(topic.clone(), channel, Operation::Create);
        made.await.expect("made");
        told(http, &format!("/channels?topic={topic}"), |body| {
            body.contains(r#""c""#)
        })
        .await;
        let at_second = second.handle();
        let bodies = vec![Bytes::from_static(b"x"); 10];
        let published = at_second.publish(topic.clone(), bodies, Duration::ZERO);
        published.await.expect("published");
        holds(&at_second, &topic, "c", 10).await;
    }
    for broker in [first, second] {
        tokio::task::spawn_blocking(|| broker.stop())
            .await
            .expect("stops");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_is_told_and_a_pause_outlives_the_answer() {
    let [tcp, http] = start_lookup().await;
    let broker = start_broker(&[tcp], 1).await;
    let (topic, channel) = names("t", "c");
    let handle = broker.handle();
    handle
        .topic(topic.clone(), Operation::Create)
        .await
        .expect("made");
    handle
        .topic(topic.clone(), Operation::Pause)
        .await
        .expect("paused");
    let made = handle.channel(topic.clone(), channel.clone(), Operation::Create);
    made.await.expect("made");
    told(http, "/debug", |body| body.contains("channel:t:c")).await;
    let catalog = handle.catalog().await.expect("answers");
    assert!(catalog.topics[0].paused);
    handle
        .topic(topic.clone(), Operation::Delete)
        .await
        .expect("deleted");
    told(http, "/lookup?topic=t", |body| {
        body.contains(r#""producers":[]"#)
    })
    .await;
    tokio::task::spawn_blocking(|| broker.stop())
        .await
        .expect("stops");
}
