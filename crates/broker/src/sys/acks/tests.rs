//! The kernel's side, on a real loopback connection.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

use super::*;
use crate::sys::{self, Epoll, Event, Interest};

/// A connection under epoll, as the reactor has it.
struct Pair {
    ours: Stream,
    peer: TcpStream,
    epoll: Epoll,
}

impl Pair {
    fn new() -> Pair {
        let listener = sys::listen(([127, 0, 0, 1], 0).into()).expect("listens");
        let peer = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (ours, _) = sys::accept(&listener).expect("accepts");
        let epoll = Epoll::new(8).expect("an epoll instance");
        epoll
            .add(ours.as_fd(), 1, Interest::READ_ONCE)
            .expect("watched");
        Pair { ours, peer, epoll }
    }

    /// Waits for the next event that says `error`.
    fn wait_for_error(&mut self) -> Event {
        let mut events = Vec::new();
        loop {
            events.clear();
            self.epoll.wait(None, &mut events).expect("waits");
            if let Some(event) = events.iter().find(|event| event.error) {
                return *event;
            }
        }
    }

    fn read(&mut self, bytes: usize) {
        let mut buffer = vec![0; bytes];
        self.peer.read_exact(&mut buffer).expect("all of it comes");
    }
}

#[test]
fn the_stamp_names_the_last_byte_of_the_send_that_asked_for_it() {
    let mut pair = Pair::new();
    assert_eq!(sys::send(&pair.ours, &[0; 7]).ok(), Some(7));
    enable_ack_stamps(&pair.ours, true).expect("a kernel of 6.2 or later");
    let mut end = 0_u32;
    for (before, followed, behind) in [(0, 50, 0), (30, 50, 20), (0, 1, 0), (0, 60, 1000)] {
        if before > 0 {
            assert_eq!(sys::send(&pair.ours, &vec![1; before]).ok(), Some(before));
        }
        let bytes = vec![2; followed];
        let sent_at = sys::wall_now();
        let sent = send_followed(&pair.ours, &bytes, behind > 0).expect("there is room");
        assert_eq!(sent, followed);
        if behind > 0 {
            assert_eq!(sys::send(&pair.ours, &vec![3; behind]).ok(), Some(behind));
        }
        pair.read(before + followed + behind + if end == 0 { 7 } else { 0 });
        let event = pair.wait_for_error();
        assert!(!event.closing && !event.readable, "{event:?}");
        let ack = next_ack_stamp(&pair.ours)
            .expect("a stamp")
            .expect("and nothing else");
        assert_eq!(
            ack.last,
            end + (before + followed) as u32 - 1,
            "{followed} bytes"
        );
        let stamp = ack.stamp.expect("stamped");
        assert!(stamp >= sent_at && stamp <= sys::wall_now(), "{stamp:?}");
        let empty = next_ack_stamp(&pair.ours).map_err(|error| error.kind());
        assert_eq!(empty, Err(ErrorKind::WouldBlock));
        end += (before + followed + behind) as u32;
    }
}

#[test]
fn the_end_of_a_connection_is_told_apart_from_a_stamp() {
    let mut pair = Pair::new();
    enable_ack_stamps(&pair.ours, false).expect("a kernel of 6.2 or later");
    send_followed(&pair.ours, b"message", false).expect("there is room");
    pair.peer.write_all(b"FIN").expect("written");
    // With bytes unread the peer's end is a reset.
    drop(pair.peer);
    let mut events = Vec::new();
    while !events.iter().any(|event: &Event| event.closing) {
        pair.epoll.wait(None, &mut events).expect("waits");
    }
    while next_ack_stamp(&pair.ours).is_ok() {}
    let mut buffer = [0; 16];
    let end = loop {
        match sys::recv(&pair.ours, &mut buffer) {
            Ok(received) if received.bytes > 0 => continue,
            end => break end,
        }
    };
    let is_end = match &end {
        Ok(received) => received.bytes == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    };
    assert!(is_end, "{end:?}");
}

#[test]
fn a_path_has_a_smallest_round_trip_and_nothing_unsent() {
    let mut pair = Pair::new();
    assert_eq!(sys::send(&pair.ours, b"hello").ok(), Some(5));
    pair.read(5);
    let path = path(&pair.ours).expect("known");
    assert_eq!((path.unsent_bytes, path.retransmits), (0, 0), "{path:?}");
    assert!(path.min_rtt_us > 0, "{path:?}");
}

#[test]
fn what_the_peer_takes_no_more_is_unsent() {
    let pair = Pair::new();
    let chunk = vec![0; 1 << 20];
    while sys::send(&pair.ours, &chunk).is_ok() {}
    let path = path(&pair.ours).expect("known");
    assert!(path.unsent_bytes > 0, "{path:?}");
}
