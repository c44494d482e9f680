//! Messages from a byte stream, however it is cut.

use std::io::Write;
use std::net::TcpListener;

use wire::tempo::put_message_header;

use super::*;

/// A connection's two ends.
fn pair() -> (TcpStream, Incoming) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let sender = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
    sender.set_nodelay(true).expect("set");
    let (stream, _) = listener.accept().expect("accepts");
    // Reads of the tests wait for what was written.
    (sender, Incoming::new(InstanceId(1), stream, Vec::new()))
}

fn messages(bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for body in bodies {
        put_message_header(&mut bytes, TopicId(7), body.len() as u32);
        bytes.extend_from_slice(body);
    }
    bytes
}

fn read(incoming: &mut Incoming, per_turn: usize, got: &mut Vec<Vec<u8>>) -> Fate {
    let mut work = Vec::new();
    let reading = Reading {
        work: &mut work,
        body_bytes_max: 1000,
    };
    let mut left = per_turn;
    incoming.read(reading, |id, body| {
        assert_eq!(id, TopicId(7));
        got.push(body.to_vec());
        left -= 1;
        left == 0
    })
}

#[test]
fn a_message_may_come_in_any_pieces_and_turns() {
    let bodies: Vec<Vec<u8>> = [0, 1, 300, 0, 1000, 7]
        .iter()
        .map(|&length| vec![length as u8; length])
        .collect();
    let bytes = messages(&bodies);
    for piece in [1, 3, 8, 100, 5000] {
        for per_turn in [1, 2, 100] {
            let (mut sender, mut incoming) = pair();
            let mut got = Vec::new();
            for part in bytes.chunks(piece) {
                sender.write_all(part).expect("sent");
                assert_eq!(read(&mut incoming, per_turn, &mut got), Fate::Open);
            }
            drop(sender);
            // What one turn left, then the end.
            while read(&mut incoming, per_turn, &mut got) == Fate::Open {}
            assert_eq!(got, bodies, "in pieces of {piece}, {per_turn} a turn");
        }
    }
}

#[test]
fn what_was_read_with_the_hello_comes_first() {
    let (mut sender, incoming) = pair();
    let bytes = messages(&[vec![1], vec![2]]);
    let mut incoming = Incoming::new(InstanceId(1), incoming.stream, bytes[..12].to_vec());
    sender.write_all(&bytes[12..]).expect("sent");
    let mut got = Vec::new();
    assert_eq!(read(&mut incoming, 100, &mut got), Fate::Open);
    assert_eq!(got, [[1], [2]]);
}

#[test]
fn a_message_that_is_too_long_breaks_the_connection() {
    let (mut sender, mut incoming) = pair();
    let bytes = messages(&[vec![1], vec![2; 1001]]);
    sender.write_all(&bytes).expect("sent");
    let mut got = Vec::new();
    let mut fate = Fate::Open;
    while fate == Fate::Open {
        fate = read(&mut incoming, 100, &mut got);
    }
    assert_eq!((fate, got), (Fate::Broken, vec![vec![1]]));
}
