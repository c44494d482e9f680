//! Queues, with socket pairs in place of the packet filter's sockets.

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::*;
use crate::nfqueue::question;

/// An IPv4 packet of so many bytes, that says so.
fn packet(bytes: u8) -> Vec<u8> {
    let mut packet = vec![0; bytes.into()];
    packet[0] = 0x45;
    packet[3] = bytes;
    packet
}

#[test]
fn all_that_wait_come_at_once_and_are_answered_in_order() {
    let text = "intake = 'nfqueue'\n[[nfqueue]]\nnumber = 7\n[[site]]\nname = 'one'";
    let config = Config::parse(text, |_| {}).expect("a configuration");
    let now = Instant::ZERO;
    let mut router = Router::new(&config, now, false).expect("a router");
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let (near, kernel) = pair.expect("a pair of sockets");
    let mut queues = Queues::of(vec![(7, near)]);
    for id in 0..70 {
        // Each seventh is no whole packet.
        let head = if id % 7 == 0 {
            vec![0x45; 9]
        } else {
            packet(40)
        };
        send(&kernel, &question(7, id, &head), SendFlags::empty()).expect("room");
    }
    for (most, ids) in [(64, 0..64), (64, 64..70)] {
        queues.judge(now, 0, most, &mut router);
        let mut expected = Vec::new();
        ids.for_each(|id| put_verdict(&mut expected, 7, id, id % 7 != 0));
        let mut answers = vec![0; 65_536];
        let (_, bytes) = recv(&kernel, &mut answers[..], RecvFlags::empty()).expect("answers");
        assert!(answers[..bytes] == expected);
    }
    // Nothing waits, nothing is said; and no queue of another number is there.
    queues.judge(now, 0, 64, &mut router);
    queues.judge(now, 1, 64, &mut router);
    assert!(recv(&kernel, &mut [0; 8], RecvFlags::empty()).is_err());
    assert_eq!(queues.counters(), QueueCounters::default());
}
