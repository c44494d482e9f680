//! A broker that hands over to receivers played by the test, over real sockets. Nothing sleeps:
//! each step waits for a request.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use wire::handover::decode_handover;

use super::*;
use crate::stats::{ChannelStats, StatsFilter};
use crate::{Broker, Config, Operation};

struct Fixture {
    broker: Broker,
    sender: JoinHandle<()>,
}

/// One that is asked to take messages.
struct Taker(TcpListener);

/// What it was asked: the request's line and header, stream and number, bodies.
struct Asked {
    stream: TcpStream,
    head: String,
    batch: (u64, u64),
    bodies: Vec<String>,
}

impl Fixture {
    /// A broker with messages in channel `c` of topic `t`.
    async fn holding(bodies: &[&'static str]) -> Fixture {
        let config = Config {
            tcp_address: ([127, 0, 0, 1], 0).into(),
            http_address: None,
            threads: 2,
            drain_timeout: Duration::ZERO,
            ..Config::default()
        };
        let broker = Broker::start(config).expect("starts");
        let handle = broker.handle();
        let (topic, channel) = ("t".parse().expect("valid"), "c".parse().expect("valid"));
        let made = handle.topic(topic, Operation::Create).await;
        made.expect("made");
        let topic: wire::TopicName = "t".parse().expect("valid");
        let made = handle.channel(topic.clone(), channel, Operation::Create);
        made.await.expect("made");
        let bodies = bodies
            .iter()
            .map(|body| Bytes::from_static(body.as_bytes()));
        let published = handle.publish(topic, bodies.collect(), Duration::ZERO);
        published.await.expect("published");
        handle.handing.set_pass(String::from("secret"));
        let sender = tokio::spawn(async move { run(handle, "b1").await });
        Fixture { broker, sender }
    }

    fn hand_over_to(&self, takers: &[&Taker]) {
        let addresses = takers.iter().map(|taker| taker.address()).collect();
        self.broker.handle().handing.set_takers(addresses);
    }

    async fn channel(&self) -> ChannelStats {
        let filter = StatsFilter::default();
        let stats = self.broker.handle().stats(filter).await.expect("answers");
        stats.topics[0].channels[0].clone()
    }

    /// Waits until so many messages have gone.
    async fn until_sent(&self, messages: u64) {
        while self.broker.handle().handing.sent() < messages {
            tokio::task::yield_now().await;
        }
    }

    fn end(self) {
        self.sender.abort();
        self.broker.stop();
    }
}

impl Taker {
    async fn new() -> Taker {
        Taker(TcpListener::bind("127.0.0.1:0").await.expect("binds"))
    }

    fn address(&self) -> String {
        self.0.local_addr().expect("bound").to_string()
    }

    async fn hear(&self) -> Asked {
        let (mut stream, _) = self.0.accept().await.expect("dialled");
        let mut bytes = Vec::new();
        let head_bytes = loop {
            let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = end {
                break end + 4;
            }
            assert!(stream.read_buf(&mut bytes).await.expect("read") > 0);
        };
        let head = String::from_utf8(bytes.drain(..head_bytes).collect()).expect("text");
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.and_then(|text| text.parse().ok()).expect("a length");
        while bytes.len() < length {
            assert!(stream.read_buf(&mut bytes).await.expect("read") > 0);
        }
        let handover = decode_handover(&bytes, 1024).expect("a hand-over");
        let bodies = handover.messages.iter();
        let bodies = bodies.map(|message| String::from_utf8_lossy(message.body).into_owned());
        Asked {
            stream,
            head,
            batch: (handover.stream, handover.number),
            bodies: bodies.collect(),
        }
    }
}

impl Asked {
    async fn answer(mut self, status: &str) {
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        let written = self.stream.write_all(answer.as_bytes()).await;
        written.expect("written");
    }
}

#[tokio::test]
async fn a_taker_that_may_have_a_batch_is_asked_again_under_the_same_number() {
    let fixture = Fixture::holding(&["a", "b"]).await;
    let taker = Taker::new().await;
    fixture.hand_over_to(&[&taker]);
    let first = taker.hear().await;
    assert!(
        first
            .head
            .starts_with("POST /v1/handover?topic=t&channel=c ")
    );
    assert!(first.head.contains("authorization: Bearer secret\r\n"));
    let (batch, bodies) = (first.batch, first.bodies.clone());
    // It has read everything and dies.
    drop(first);
    let again = taker.hear().await;
    assert_eq!((again.batch, &again.bodies), (batch, &bodies));
    assert_eq!(fixture.channel().await.depth, 0, "they are on their way");
    again.answer("200 OK").await;
    fixture.until_sent(2).await;
    assert_eq!(fixture.channel().await.depth, 0);
    fixture.end();
}

#[tokio::test]
async fn who_refuses_is_passed_over_and_what_nobody_takes_stays() {
    let fixture = Fixture::holding(&["a"]).await;
    let (one, two) = (Taker::new().await, Taker::new().await);
    fixture.hand_over_to(&[&one, &two]);
    let refuse = async |taker: &Taker| taker.hear().await.answer("503 Service Unavailable").await;
    // Each is asked once, whichever comes first.
    tokio::join!(refuse(&one), refuse(&two));
    while fixture.channel().await.depth == 0 {
        tokio::task::yield_now().await;
    }
    // The next list is tried at once.
    fixture.hand_over_to(&[&two]);
    let asked = two.hear().await;
    assert_eq!(asked.bodies, ["a"]);
    asked.answer("200 OK").await;
    fixture.until_sent(1).await;
    fixture.end();
}

#[tokio::test]
async fn a_long_queue_goes_in_batches_in_order() {
    let fixture = Fixture::holding(&["m"; 600]).await;
    let taker = Taker::new().await;
    fixture.hand_over_to(&[&taker]);
    let (mut counts, mut numbers) = (Vec::new(), Vec::new());
    while counts.iter().sum::<usize>() < 600 {
        let asked = taker.hear().await;
        counts.push(asked.bodies.len());
        numbers.push(asked.batch.1);
        asked.answer("200 OK").await;
    }
    fixture.until_sent(600).await;
    assert_eq!(counts, [256, 256, 88]);
    assert!(numbers.is_sorted());
    fixture.end();
}
