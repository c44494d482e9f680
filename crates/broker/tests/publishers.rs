//! Declared publishers over real sockets: attachments, moves, throttled notices, traces.
//! Connections are spread over the reactors, so with three reactors two publishers reach a topic by
//! post.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use broker::window::WindowOrder;
use broker::{Broker, Config, Handle};
use limit::Limit;
use link::{Attachment, Contract, Move};
use wire::{Frame, FrameDecoded, TopicName, command};

const REACTORS: [usize; 2] = [1, 3];

fn start(threads: usize, mem_queue_size: usize) -> Broker {
    let config = Config {
        tcp_address: SocketAddr::from(([127, 0, 0, 1], 0)),
        http_address: None,
        threads,
        mem_queue_size,
        drain_timeout: Duration::ZERO,
        ..Config::default()
    };
    Broker::start(config).expect("a broker starts on a free port")
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.build().expect("a runtime").block_on(future)
}

fn topic() -> TopicName {
    "t".parse().expect("valid")
}

/// A frame with what it borrowed copied.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Heard {
    Ok,
    Json(String),
    Error(String),
    Ack(u64),
    Migrate(String, String),
    Throttled(String, u32),
    End,
}

/// A client at the level of frames.
struct Peer {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Peer {
    /// Connects and says `srtm` of itself.
    fn connect(broker: &Broker, srtm: &str) -> Peer {
        let mut stream = TcpStream::connect(broker.tcp_address()).expect("connects");
        stream.set_nodelay(true).expect("a socket option");
        let deadline = Some(Duration::from_secs(60));
        stream.set_read_timeout(deadline).expect("a socket option");
        let mut hello = wire::MAGIC_V2.to_vec();
        let json =
            format!(r#"{{"feature_negotiation":true,"heartbeat_interval":-1,"srtm":{srtm}}}"#);
        command::put_identify(&mut hello, json.as_bytes());
        stream.write_all(&hello).expect("written");
        let bytes = Vec::new();
        Peer { stream, bytes }
    }

    fn announced(broker: &Broker, id: &str) -> Peer {
        let mut peer = Peer::connect(
            broker,
            &format!(r#"{{"publisher":{{"id":"{id}","topic":"t"}}}}"#),
        );
        match peer.hear() {
            Heard::Json(answer) => assert!(answer.contains(r#""publisher":true"#), "{answer}"),
            other => panic!("{other:?}"),
        }
        peer
    }

    /// One that NSQ's libraries could be.
    fn stock(broker: &Broker) -> Peer {
        let mut peer = Peer::connect(broker, "null");
        assert!(matches!(peer.hear(), Heard::Json(_)));
        peer
    }

    fn publish(&mut self, messages: usize) {
        let mut bytes = Vec::new();
        for _ in 0..messages {
            command::put_pub(&mut bytes, "t", b"m");
        }
        self.stream.write_all(&bytes).expect("written");
    }

    fn publish_and_hear_oks(&mut self, messages: usize) {
        self.publish(messages);
        for _ in 0..messages {
            assert_eq!(self.hear(), Heard::Ok);
        }
    }

    fn hear(&mut self) -> Heard {
        loop {
            if let FrameDecoded::Complete { frame, consumed } =
                wire::decode_frame(&self.bytes, 1 << 20).expect("frames")
            {
                let heard = heard(&frame);
                self.bytes.drain(..consumed);
                return heard;
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Heard::End,
                Ok(count) => self.bytes.extend_from_slice(&buffer[..count]),
                // A process that was stopped goes on so, where a socket has a timeout.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("nothing comes in time: {error}"),
            }
        }
    }
}

fn heard(frame: &Frame<'_>) -> Heard {
    let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
    match *frame {
        Frame::Response(b"OK") => Heard::Ok,
        Frame::Response(body) => Heard::Json(text(body)),
        Frame::Error(body) => Heard::Error(text(body)),
        Frame::Ack { total_messages } => Heard::Ack(total_messages),
        Frame::Migrate { topic, address } => Heard::Migrate(topic.into(), address.into()),
        Frame::Throttled {
            retry_after_us,
            topic,
        } => Heard::Throttled(topic.into(), retry_after_us),
        Frame::Message { .. } => panic!("a message for a publisher"),
    }
}

/// Asks for reports until they have told what is expected.
fn hear_attachments(handle: &Handle, number: &mut u64, expected: &[(&str, bool)]) {
    let mut told: Vec<(String, bool)> = Vec::new();
    for _ in 0..100_000 {
        *number += 1;
        let report = wait(handle.report(*number, *number == 1)).expect("a report");
        for Attachment {
            publisher,
            attached,
            ..
        } in report.attachments
        {
            assert_eq!(publisher.topic, "t");
            told.push((publisher.id, attached));
        }
        if told.len() >= expected.len() {
            break;
        }
    }
    told.sort();
    let expected: Vec<_> = expected
        .iter()
        .map(|&(id, attached)| (id.to_owned(), attached))
        .collect();
    assert_eq!(told, expected);
}

fn send_to(handle: &Handle, publisher: &str, to: &str) {
    let moves = vec![Move {
        publisher: publisher.into(),
        to: to.into(),
    }];
    wait(handle.migrate(topic(), moves)).expect("carried out");
}

/// How many moves were sent, and how many could not be.
fn moves(handle: &Handle) -> (u64, u64) {
    let stats = wait(handle.stats(Default::default())).expect("stats");
    let sum =
        |field: fn(&broker::stats::ReactorStats) -> u64| stats.reactors.iter().map(field).sum();
    (sum(|r| r.moves_sent), sum(|r| r.moves_unknown))
}

#[test]
fn publishers_are_reported_as_they_come_and_go() {
    for threads in REACTORS {
        let broker = start(threads, 100);
        let handle = broker.handle();
        let mut number = 0;
        let (first, second) = (Peer::announced(&broker, "a"), Peer::announced(&broker, "b"));
        let _stock = Peer::stock(&broker);
        hear_attachments(&handle, &mut number, &[("a", true), ("b", true)]);
        let _third = Peer::announced(&broker, "c");
        hear_attachments(&handle, &mut number, &[("c", true)]);
        drop((first, second));
        hear_attachments(&handle, &mut number, &[("a", false), ("b", false)]);
        broker.stop();
    }
}

#[test]
fn a_second_identify_is_a_new_announcement() {
    let broker = start(1, 100);
    let (handle, mut number) = (broker.handle(), 0);
    let mut peer = Peer::announced(&broker, "a");
    hear_attachments(&handle, &mut number, &[("a", true)]);
    let mut again = Vec::new();
    command::put_identify(
        &mut again,
        br#"{"feature_negotiation":true,"srtm":{"publisher":{"id":"b","topic":"t"}}}"#,
    );
    peer.stream.write_all(&again).expect("written");
    assert!(matches!(peer.hear(), Heard::Json(_)));
    hear_attachments(&handle, &mut number, &[("a", false), ("b", true)]);
    broker.stop();
}

#[test]
fn a_publisher_is_told_to_move_behind_its_oks_and_may_go_on() {
    for threads in REACTORS {
        let broker = start(threads, 1000);
        let handle = broker.handle();
        let mut peers: Vec<Peer> = (0..3)
            .map(|number| Peer::announced(&broker, &format!("s{number}")))
            .collect();
        for peer in &mut peers {
            peer.publish_and_hear_oks(10);
        }
        for (number, peer) in peers.iter_mut().enumerate() {
            send_to(&handle, &format!("s{number}"), "broker-2:4150");
            assert_eq!(
                peer.hear(),
                Heard::Migrate("t".into(), "broker-2:4150".into())
            );
            peer.publish_and_hear_oks(10);
        }
        send_to(&handle, "nobody", "broker-2:4150");
        send_to(&handle, "s0", "nowhere");
        assert_eq!(moves(&handle), (3, 2));
        broker.stop();
    }
}

#[test]
fn with_cumulative_acks_a_move_comes_as_well() {
    let broker = start(1, 1000);
    let srtm =
        r#"{"ack_every_messages":4,"ack_interval_ms":1000,"publisher":{"id":"s","topic":"t"}}"#;
    let mut peer = Peer::connect(&broker, srtm);
    assert!(matches!(peer.hear(), Heard::Json(_)));
    peer.publish(4);
    assert_eq!(peer.hear(), Heard::Ack(4));
    send_to(&broker.handle(), "s", "[::1]:4150");
    assert_eq!(peer.hear(), Heard::Migrate("t".into(), "[::1]:4150".into()));
    peer.publish(4);
    assert_eq!(peer.hear(), Heard::Ack(8));
    broker.stop();
}

#[test]
fn a_newer_connection_takes_the_name_over() {
    for threads in REACTORS {
        let broker = start(threads, 1000);
        let (handle, mut number) = (broker.handle(), 0);
        let mut older = Peer::announced(&broker, "s");
        older.publish_and_hear_oks(1);
        hear_attachments(&handle, &mut number, &[("s", true)]);
        let mut newer = Peer::announced(&broker, "s");
        hear_attachments(&handle, &mut number, &[("s", true)]);
        send_to(&handle, "s", "broker-2:4150");
        assert_eq!(
            newer.hear(),
            Heard::Migrate("t".into(), "broker-2:4150".into())
        );
        let order = WindowOrder {
            percentile: 99.0,
            with_trace: true,
            promise_us: None,
        };
        wait(handle.begin_window(topic(), order)).expect("begun");
        // Every reactor has read the post that came before this question.
        assert_eq!(moves(&handle), (1, 0));
        // The next thing that the older one hears are its OKs: nobody told it to move.
        older.publish_and_hear_oks(2);
        newer.publish_and_hear_oks(3);
        let window = wait(handle.end_window(topic())).expect("ended");
        let older_name = format!("~{}", older.stream.local_addr().expect("an address"));
        assert_eq!(window.publishers, [older_name, "s".to_owned()]);
        drop(older);
        drop(newer);
        hear_attachments(&handle, &mut number, &[("s", false)]);
        broker.stop();
    }
}

#[test]
fn a_trace_names_everybody_who_published() {
    for threads in REACTORS {
        let broker = start(threads, 1000);
        let handle = broker.handle();
        let mut sensors: Vec<Peer> = (0..3)
            .map(|number| Peer::announced(&broker, &format!("s{number}")))
            .collect();
        let mut stock: Vec<Peer> = (0..3).map(|_| Peer::stock(&broker)).collect();
        sensors[0].publish_and_hear_oks(1);
        let order = WindowOrder {
            percentile: 99.0,
            with_trace: true,
            promise_us: None,
        };
        wait(handle.begin_window(topic(), order)).expect("begun");
        for peer in sensors.iter_mut().chain(&mut stock) {
            peer.publish_and_hear_oks(5);
        }
        let bodies = vec!["a".into(), "b".into()];
        wait(handle.publish(topic(), bodies, Duration::ZERO)).expect("published");
        let window = wait(handle.end_window(topic())).expect("ended");

        assert!(window.arrivals.is_sorted() && !window.is_trace_cut);
        let mut counts: BTreeMap<&str, (usize, u32)> = BTreeMap::new();
        for &(_, publisher, messages) in &window.arrivals {
            let entry = counts
                .entry(&window.publishers[publisher as usize])
                .or_default();
            (entry.0, entry.1) = (entry.0 + 1, entry.1 + messages);
        }
        let mut expected: BTreeMap<String, (usize, u32)> = BTreeMap::new();
        expected.extend((0..3).map(|number| (format!("s{number}"), (5, 5))));
        expected.insert("~http".into(), (1, 2));
        for peer in &stock {
            let address = peer.stream.local_addr().expect("an address");
            expected.insert(format!("~{address}"), (5, 5));
        }
        assert!(
            counts
                .into_iter()
                .eq(expected.iter().map(|(name, count)| (&**name, *count)))
        );
        broker.stop();
    }
}

#[test]
fn a_limit_tells_announced_publishers_that_they_wait() {
    for threads in REACTORS {
        let broker = start(threads, 1000);
        let handle = broker.handle();
        // So slow that the queue outlasts any pause of this process.
        let limit = Limit::messages(0.1, 1.0).expect("valid");
        wait(handle.set_contract(topic(), Contract::of_limit(limit))).expect("set");
        let channel = "c".parse().expect("valid");
        wait(handle.channel(topic(), channel, broker::Operation::Create)).expect("made");
        let mut stock = Peer::stock(&broker);
        stock.publish_and_hear_oks(20);
        for number in 0..3 {
            let mut peer = Peer::announced(&broker, &format!("s{number}"));
            peer.publish(1);
            let heard = [peer.hear(), peer.hear()];
            assert!(heard.contains(&Heard::Ok), "{heard:?}");
            let is_notice = |heard: &Heard| matches!(heard, Heard::Throttled(topic, us) if topic == "t" && *us >= 10_000);
            assert!(heard.iter().any(is_notice), "{heard:?}");
        }
        stock.publish_and_hear_oks(1);
        broker.stop();
    }
}

#[test]
fn a_full_queue_tells_announced_publishers_that_they_wait() {
    for threads in REACTORS {
        let broker = start(threads, 5);
        let mut peer = Peer::announced(&broker, "s");
        // No channel, so nothing leaves the topic.
        peer.publish(6);
        let mut heard: Vec<Heard> = (0..6).map(|_| peer.hear()).collect();
        heard.retain(|heard| *heard != Heard::Ok);
        assert_eq!(heard, [Heard::Throttled("t".into(), 10_000)]);
        send_to(&broker.handle(), "s", "broker-2:4150");
        let migrate = Heard::Migrate("t".into(), "broker-2:4150".into());
        assert_eq!(peer.hear(), migrate, "an OK is outstanding");
        let channel = "c".parse().expect("valid");
        wait(
            broker
                .handle()
                .channel(topic(), channel, broker::Operation::Create),
        )
        .expect("made");
        assert_eq!(peer.hear(), Heard::Ok, "there is room now");
        broker.stop();
    }
}

#[test]
fn an_announcement_that_cannot_be_taken_ends_the_connection() {
    let broker = start(1, 100);
    let mut peer = Peer::connect(&broker, r#"{"publisher":{"id":"a b","topic":"t"}}"#);
    match peer.hear() {
        Heard::Error(text) => assert!(
            text.starts_with("E_BAD_BODY IDENTIFY publisher id"),
            "{text}"
        ),
        other => panic!("{other:?}"),
    }
    assert_eq!(peer.hear(), Heard::End);
    broker.stop();
}
