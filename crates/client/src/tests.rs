//! Publisher and subscriber against a scripted broker: a thread that checks what it is sent and
//! answers by script.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use wire::{MESSAGE_HEADER_BYTES, MessageId, OK_FRAME};

use super::*;

/// The broker's side of a connection: expects bytes, sends bytes.
struct Peer {
    stream: TcpStream,
}

impl Peer {
    /// Reads the greeting, checks that IDENTIFY contains `expected`, and answers with `answer`.
    fn greet(&mut self, expected: &str, answer: &str) {
        self.expect(b"  V2IDENTIFY\n");
        let size: [u8; 4] = self.read(4).try_into().expect("4 bytes");
        let body = String::from_utf8(self.read(u32::from_be_bytes(size) as usize)).expect("text");
        assert!(body.contains(expected), "{body} lacks {expected}");
        let mut frame = Vec::new();
        wire::put_response(&mut frame, answer.as_bytes());
        self.send(&frame);
    }

    fn expect(&mut self, bytes: &[u8]) {
        let got = self.read(bytes.len());
        assert_eq!(
            String::from_utf8_lossy(&got),
            String::from_utf8_lossy(bytes)
        );
    }

    fn read(&mut self, bytes: usize) -> Vec<u8> {
        let mut got = vec![0; bytes];
        self.stream
            .read_exact(&mut got)
            .expect("the client sends what is expected");
        got
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the client reads");
    }
}

/// Starts a broker that serves one connection with `script`.
fn broker(script: impl FnOnce(Peer) + Send + 'static) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("the client connects");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a timeout");
        script(Peer { stream });
    });
    (address, thread)
}

fn message(id: u64, body: &[u8]) -> Vec<u8> {
    let mut header = [0; MESSAGE_HEADER_BYTES];
    wire::put_message_header(&mut header, body.len(), 77, 2, MessageId::from_u64(id));
    [header.as_slice(), body].concat()
}

fn error(text: &[u8]) -> Vec<u8> {
    let mut frame = (text.len() as u32 + 4).to_be_bytes().to_vec();
    frame.extend_from_slice(&[0, 0, 0, 1]);
    frame.extend_from_slice(text);
    frame
}

fn ack(total: u64) -> Vec<u8> {
    let mut frame = Vec::new();
    wire::put_ack(&mut frame, total);
    frame
}

#[test]
fn a_full_window_waits_for_the_oks() {
    let (address, peer) = broker(|mut peer| {
        peer.greet("\"heartbeat_interval\":-1", "{}");
        peer.expect(b"PUB t\n\x00\x00\x00\x01a");
        peer.expect(b"MPUB t\n\x00\x00\x00\x0e\x00\x00\x00\x02\x00\x00\x00\x01b\x00\x00\x00\x01c");
        // The window of 3 is full: only after an OK does the next one come.
        peer.send(&OK_FRAME);
        peer.expect(b"DPUB t 1500\n\x00\x00\x00\x01d");
        peer.send(&[OK_FRAME, OK_FRAME].concat());
    });
    let options = PublisherOptions {
        window_messages: 3,
        ..PublisherOptions::default()
    };
    let mut publisher = Publisher::connect(address, options).expect("connects");
    publisher.publish("t", b"a").expect("room");
    publisher.publish_many("t", &["b", "c"]).expect("room");
    assert_eq!(publisher.unacknowledged(), 3);
    publisher
        .publish_deferred("t", Duration::from_millis(1500), b"d")
        .expect("room after the OK");
    assert!(publisher.acknowledged() >= 1);
    publisher.flush().expect("everything is acknowledged");
    assert_eq!(
        (publisher.acknowledged(), publisher.unacknowledged()),
        (4, 0)
    );
    peer.join().expect("the script holds");
}

#[test]
fn cumulative_acks_are_negotiated_and_counted() {
    let (address, peer) = broker(|mut peer| {
        peer.greet(
            "\"srtm\":{\"ack_every_messages\":2,\"ack_interval_ms\":7}",
            r#"{"srtm":{"version":1}}"#,
        );
        peer.expect(&b"PUB t\n\x00\x00\x00\x01a".repeat(3));
        peer.send(&[ack(2), ack(3)].concat());
    });
    let options = PublisherOptions {
        acknowledgement: Acknowledgement::Cumulative {
            every_messages: 2,
            interval_ms: 7,
        },
        ..PublisherOptions::default()
    };
    let mut publisher = Publisher::connect(address, options).expect("connects");
    assert!(publisher.is_cumulative());
    for _ in 0..3 {
        publisher.publish("t", b"a").expect("room");
    }
    publisher.flush().expect("everything is acknowledged");
    assert_eq!(publisher.acknowledged(), 3);
    peer.join().expect("the script holds");
}

#[test]
fn a_stock_broker_falls_back_to_oks() {
    let (address, peer) = broker(|mut peer| {
        peer.greet("srtm", "OK");
        peer.expect(b"PUB t\n\x00\x00\x00\x01a");
        peer.send(&OK_FRAME);
    });
    let options = PublisherOptions {
        acknowledgement: Acknowledgement::Cumulative {
            every_messages: 2,
            interval_ms: 7,
        },
        ..PublisherOptions::default()
    };
    let mut publisher = Publisher::connect(address, options).expect("connects");
    assert!(!publisher.is_cumulative());
    publisher.publish("t", b"a").expect("room");
    publisher.flush().expect("acknowledged");
    peer.join().expect("the script holds");
}

#[test]
fn a_window_that_must_not_wait_refuses_and_recovers() {
    let (go, wait) = std::sync::mpsc::channel();
    let (address, peer) = broker(move |mut peer| {
        peer.greet("srtm-client", "{}");
        peer.expect(b"PUB t\n\x00\x00\x00\x01a");
        wait.recv().expect("the test says go");
        peer.send(&OK_FRAME);
        peer.expect(b"PUB t\n\x00\x00\x00\x01b");
    });
    let options = PublisherOptions {
        window_messages: 1,
        at_window: AtWindow::Refuse,
        ..PublisherOptions::default()
    };
    let mut publisher = Publisher::connect(address, options).expect("connects");
    publisher.publish("t", b"a").expect("room");
    let refused = publisher
        .publish("t", b"b")
        .expect_err("the window is full");
    assert!(
        matches!(
            refused,
            ClientError::WindowFull {
                unacknowledged: 1,
                window: 1
            }
        ),
        "{refused}"
    );
    assert!(!refused.is_fatal());
    go.send(()).expect("the broker waits");
    publisher.flush().expect("acknowledged");
    publisher.publish("t", b"b").expect("room again");
    peer.join().expect("the script holds");
}

#[test]
fn what_no_broker_accepts_is_not_sent() {
    let (address, peer) = broker(|mut peer| {
        peer.greet("srtm-client", "{}");
        peer.expect(b"PUB t\n\x00\x00\x00\x01a");
    });
    let mut publisher = Publisher::connect(address, PublisherOptions::default()).expect("connects");
    let none: [&[u8]; 0] = [];
    for error in [
        publisher.publish("a b", b"x").expect_err("bad name"),
        publisher.publish("", b"x").expect_err("no name"),
        publisher.publish("t", b"").expect_err("empty"),
        publisher.publish_many("t", &none).expect_err("no messages"),
        publisher
            .publish_many("t", &[b"x".as_slice(), b""])
            .expect_err("an empty one"),
    ] {
        assert!(!error.is_fatal(), "{error}");
    }
    publisher.publish("t", b"a").expect("room");
    peer.join().expect("the script holds");
}

/// What the broker sends after a PUB, and how the client tells it.
#[test]
fn failures_are_told_clearly() {
    for (answer, text) in [
        (
            error(b"E_BAD_TOPIC PUB topic name"),
            "the broker refused: E_BAD_TOPIC PUB topic name",
        ),
        (Vec::new(), "the broker closed the connection"),
        (
            [OK_FRAME, OK_FRAME].concat(),
            "the broker broke the protocol: more acknowledged than was sent",
        ),
        (
            b"\xff\xff\xff\xff\x00\x00\x00\x00".to_vec(),
            "the broker broke the protocol: ",
        ),
    ] {
        let (address, peer) = broker(move |mut peer| {
            peer.greet("srtm-client", "{}");
            peer.expect(b"PUB t\n\x00\x00\x00\x01a");
            peer.send(&answer);
        });
        let mut publisher =
            Publisher::connect(address, PublisherOptions::default()).expect("connects");
        publisher.publish("t", b"a").expect("room");
        let failure = publisher.flush().expect_err("the broker fails");
        assert!(
            failure.to_string().starts_with(text),
            "{failure} instead of {text}"
        );
        assert!(failure.is_fatal());
        peer.join().expect("the script holds");
    }
}

#[test]
fn messages_are_received_and_finished_in_one_write() {
    let (address, peer) = broker(|mut peer| {
        peer.greet("\"msg_timeout\":5000", "{}");
        peer.expect(b"SUB t c\n");
        peer.send(&OK_FRAME);
        peer.expect(b"RDY 256\n");
        peer.send(
            &[
                message(1, b"a"),
                wire::HEARTBEAT_FRAME.to_vec(),
                message(2, b"bc"),
            ]
            .concat(),
        );
        peer.expect(b"FIN 0000000000000001\nNOP\nREQ 0000000000000002 250\n");
        peer.send(&message(3, b"d"));
        peer.expect(b"TOUCH 0000000000000003\n");
        peer.expect(b"FIN 0000000000000003\nCLS\n");
        peer.send(&[message(4, b"late"), wire::CLOSE_WAIT_FRAME.to_vec()].concat());
    });
    let options = SubscriberOptions {
        msg_timeout: Some(Duration::from_secs(5)),
        ..SubscriberOptions::default()
    };
    let mut subscriber = Subscriber::connect(address, "t", "c", options).expect("connects");
    let first = subscriber.next_message().expect("a message");
    assert_eq!(
        (first.body, first.timestamp_ns, first.attempts),
        (b"a".as_slice(), 77, 2)
    );
    let id = first.id;
    subscriber.finish(id).expect("gathered");
    let second = subscriber.next_message().expect("a message");
    assert_eq!(second.body, b"bc");
    let id = second.id;
    subscriber
        .requeue(id, Duration::from_millis(250))
        .expect("gathered");
    let third = subscriber
        .next_message_within(Duration::from_secs(60))
        .expect("no error")
        .expect("a message");
    let id = third.id;
    subscriber.touch(id).expect("written");
    subscriber.finish(id).expect("gathered");
    subscriber.close().expect("closed in order");
    peer.join().expect("the script holds");
}

#[test]
fn late_answers_do_not_end_the_subscription() {
    let (address, peer) = broker(|mut peer| {
        peer.greet("srtm-client", "{}");
        peer.expect(b"SUB t c\n");
        peer.send(&OK_FRAME);
        peer.expect(b"RDY 256\n");
        peer.send(
            &[
                error(b"E_FIN_FAILED FIN 0000000000000001 failed ID not in flight"),
                message(2, b"b"),
            ]
            .concat(),
        );
        peer.expect(b"FIN 0000000000000002\n");
    });
    let mut subscriber =
        Subscriber::connect(address, "t", "c", SubscriberOptions::default()).expect("connects");
    let late = subscriber.next_message().expect_err("the broker complains");
    assert!(!late.is_fatal(), "{late}");
    let id = subscriber.next_message().expect("a message").id;
    subscriber.finish(id).expect("gathered");
    // Dropping writes what was gathered.
    drop(subscriber);
    peer.join().expect("the script holds");
}

#[test]
fn waiting_ends_without_a_message() {
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let (address, peer) = broker(move |mut peer| {
        peer.greet("srtm-client", "{}");
        peer.expect(b"SUB t c\n");
        peer.send(&OK_FRAME);
        peer.expect(b"RDY 256\n");
        assert!(wait.recv().is_err(), "the test has finished");
    });
    let mut subscriber =
        Subscriber::connect(address, "t", "c", SubscriberOptions::default()).expect("connects");
    assert_eq!(
        subscriber
            .next_message_within(Duration::ZERO)
            .expect("no error"),
        None
    );
    assert_eq!(
        subscriber
            .next_message_within(Duration::from_millis(5))
            .expect("no error"),
        None
    );
    drop(done);
    peer.join().expect("the script holds");
}

#[test]
fn a_silent_broker_counts_as_dead() {
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let (address, peer) = broker(move |mut peer| {
        peer.greet("\"heartbeat_interval\":1,", "{}");
        peer.expect(b"SUB t c\n");
        peer.send(&OK_FRAME);
        peer.expect(b"RDY 256\n");
        assert!(wait.recv().is_err(), "the test has finished");
    });
    let options = SubscriberOptions {
        heartbeat_interval: Duration::from_millis(1),
        ..SubscriberOptions::default()
    };
    let mut subscriber = Subscriber::connect(address, "t", "c", options).expect("connects");
    let error = subscriber.next_message().expect_err("no heartbeat");
    assert!(matches!(error, ClientError::Silent(_)), "{error}");
    drop(done);
    peer.join().expect("the script holds");
}
