//! Marks survive the way, nothing else is taken for a mark, and echoes come back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

fn addresses() -> impl Strategy<Value = SocketAddr> {
    let v4 = any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from(bits)));
    let v6 = any::<u128>().prop_map(|bits| Ipv6Addr::from(bits).to_canonical());
    (prop_oneof![v4, v6], any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip, port))
}

proptest! {
    #[test]
    fn a_mark_reads_back_and_leaves_the_body_alone(
        body in prop::collection::vec(any::<u8>(), 0..100), reply_to in addresses(), sent_ns: u64
    ) {
        let mark = Mark { reply_to, sent_ns };
        let mut marked = body.clone();
        mark.append_to(&mut marked);
        prop_assert_eq!(marked.len(), body.len() + MARK_BYTES);
        prop_assert_eq!(Mark::split(&marked), Some((&body[..], mark)));
    }

    #[test]
    fn a_damaged_mark_is_part_of_the_body(
        reply_to in addresses(), sent_ns: u64, at in 0..MARK_BYTES, flipped in 1_u8..
    ) {
        let mut marked = b"body".to_vec();
        Mark { reply_to, sent_ns }.append_to(&mut marked);
        marked[4 + at] ^= flipped;
        prop_assert_eq!(Mark::split(&marked), None);
    }

    #[test]
    fn no_bytes_are_too_strange(body in prop::collection::vec(any::<u8>(), 0..80)) {
        prop_assert_eq!(Mark::split(&body), None);
    }
}

#[test]
fn the_bytes_of_a_mark_are_these() {
    let mut body = b"21.5".to_vec();
    let mark = Mark {
        reply_to: SocketAddr::from(([192, 0, 2, 1], 4160)),
        sent_ns: 0x0102_0304_0506_0708,
    };
    mark.append_to(&mut body);
    let expected =
        b"21.5\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\x02\x01\x10\x40\x01\x02\x03\x04\x05\x06\x07\x08";
    assert_eq!(&body[..30], expected);
    // The check's own published example, "123456789", gives 0x29b1.
    assert_eq!(mark::check(b"123456789"), 0x29b1);
    let check = mark::check(&body[4..30]).to_be_bytes();
    assert_eq!((&body[30..32], &body[32..]), (&check[..], &b"\xe7MRK"[..]));
}

#[test]
fn an_echo_counts_only_where_it_belongs() {
    let here = SocketAddr::from(([127, 0, 0, 1], 5));
    let echo = |reply_to, sent_ms: u64| {
        let mut bytes = Vec::new();
        let sent_ns = sent_ms * 1_000_000;
        Mark { reply_to, sent_ns }.append_to(&mut bytes);
        bytes
    };
    let age = Duration::from_secs(100);
    let elsewhere = SocketAddr::from(([127, 0, 0, 1], 6));
    let mut long = b"x".to_vec();
    long.extend(echo(here, 99_990));
    for (datagram, expected_ms, why) in [
        (echo(here, 99_990), Some(10), "an echo"),
        (echo(here, 100_000), Some(0), "an instant one"),
        (echo(here, 100_001), None, "from the future"),
        (echo(here, 39_999), None, "too old"),
        (echo(elsewhere, 99_990), None, "somebody else's"),
        (long, None, "more than a mark"),
        (Vec::new(), None, "nothing"),
    ] {
        let latency = latency_of(&datagram, here, age);
        assert_eq!(latency, expected_ms.map(Duration::from_millis), "{why}");
    }
}

#[test]
fn a_mark_goes_out_and_its_echo_comes_back() {
    let mut listener = EchoListener::bind("127.0.0.1:0", 1).expect("binds");
    let mut echoer = Echoer::bind("127.0.0.1:0").expect("binds");
    assert_eq!(echoer.echo(b"plain"), b"plain");
    for number in 0..5_u8 {
        let mut body = vec![number; 10];
        assert!(listener.mark(&mut body));
        assert_eq!(body.len(), 10 + MARK_BYTES);
        assert_eq!(echoer.echo(&body), [number; 10]);
        assert!(listener.next_latency(PATIENCE).is_some());
    }
    assert_eq!((listener.latencies(), echoer.dropped()), (Vec::new(), 0));
}

#[test]
fn one_in_so_many_is_marked() {
    let mut listener = EchoListener::bind("127.0.0.1:0", 10).expect("binds");
    let marked = (0..10_000)
        .filter(|_| listener.mark(&mut Vec::new()))
        .count();
    assert!((850..1150).contains(&marked), "{marked} of 10,000");
}

#[test]
fn echoes_have_a_bound_and_messages_pass_beyond_it() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("binds");
    let reply_to = silent.local_addr().expect("bound");
    let mut echoer = Echoer::bind("127.0.0.1:0").expect("binds");
    let mut body = b"body".to_vec();
    Mark {
        reply_to,
        sent_ns: 0,
    }
    .append_to(&mut body);
    // Within a handful of seconds, far more than may be echoed in them.
    for _ in 0..100_000 {
        assert_eq!(echoer.echo(&body), b"body");
    }
    assert!(echoer.dropped() > 0);
}

#[test]
fn an_address_that_says_nothing_is_refused() {
    let refused = EchoListener::bind("0.0.0.0:0", 1);
    assert!(
        matches!(refused, Err(ClientError::Io { .. })),
        "{refused:?}"
    );
}
