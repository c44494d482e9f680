//! What a connection may rely on, whatever goes over the wire.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use super::*;

/// Tries after which what is waited for is taken never to come.
const TRIES: usize = 3_000_000;

/// A transport of each kind, and the client at the other end.
fn pairs() -> Vec<(Transport, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let records = |stream| Transport::Records(Box::new(Records::new(stream)));
    let kinds: [fn(Stream) -> Transport; 2] = [Transport::plain, records];
    let pair = |kind: fn(Stream) -> Transport| {
        let address = listener.local_addr().expect("bound");
        let client = TcpStream::connect(address).expect("connects");
        let (stream, _) = listener.accept().expect("accepted");
        let stream = Stream::of(stream).expect("set");
        wait_for_stamps(&stream, &client);
        (kind(stream), client)
    };
    kinds.into_iter().map(pair).collect()
}

/// The kernel begins to stamp some time after the first socket has asked for it.
fn wait_for_stamps(stream: &Stream, mut client: &TcpStream) {
    sys::enable_arrival_stamps(stream).expect("Linux");
    let is_stamped = (0..TRIES).any(|_| {
        client.write_all(&[0]).expect("written");
        std::thread::yield_now();
        let received = sys::recv_stamped(stream, &mut [0; 100]);
        received.is_ok_and(|received| received.stamp.is_some())
    });
    assert!(is_stamped, "the kernel stamps nothing");
    // What is still under way comes before anything else is said.
    client.set_nodelay(true).expect("set");
    while sys::recv(stream, &mut [0; 100]).is_ok() {}
}

fn on_wire(transport: &Transport, plain: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    match transport {
        Transport::Plain(_) => wire.extend_from_slice(plain),
        Transport::Records(_) => plain
            .chunks(RECORD_MAX)
            .for_each(|record| seal(&mut wire, record)),
    }
    wire
}

/// Waits until something is given.
fn receive(transport: &mut Transport, buffer: &mut [u8]) -> Received {
    let given = (0..TRIES).find_map(|_| match transport.receive(buffer, true) {
        Ok(received) => Some(received),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            std::thread::yield_now();
            None
        }
    });
    given.expect("what was written arrives")
}

fn wait_for_bytes(transport: &Transport) {
    let socket = socket2::SockRef::from(transport);
    let has_come = (0..TRIES).any(|_| {
        std::thread::yield_now();
        socket.peek(&mut [std::mem::MaybeUninit::uninit()]).is_ok()
    });
    assert!(has_come, "what was written does not arrive");
}

#[test]
fn plain_bytes_have_the_stamp_of_what_completed_them_on_the_wire() {
    for (mut transport, mut client) in pairs() {
        let wire = on_wire(&transport, &[7; 100]);
        client.write_all(&wire[..60]).expect("written");
        wait_for_bytes(&transport);
        let mut buffer = [0; 200];
        let first = transport.receive(&mut buffer, true);
        let is_whole = matches!(transport, Transport::Plain(_));
        assert_eq!(
            first.as_ref().map_err(std::io::Error::kind).err(),
            (!is_whole).then_some(ErrorKind::WouldBlock),
            "what is no whole record gives nothing, and is no end"
        );
        let between = sys::wall_now();
        client.write_all(&wire[60..]).expect("written");
        let second = receive(&mut transport, &mut buffer);
        let first_bytes = first.map_or(0, |received| received.bytes);
        assert_eq!(first_bytes + second.bytes, 100);
        assert!(second.stamp.expect("the kernel stamps") >= between);
    }
}

#[test]
fn what_does_not_fit_is_given_later_with_its_stamp() {
    for (mut transport, mut client) in pairs() {
        let body: Vec<u8> = (0..=255).cycle().take(2 * GIVEN_MAX).collect();
        let wire = on_wire(&transport, &body);
        client.write_all(&wire).expect("written");
        let (mut plain, mut stamps) = (Vec::new(), Vec::new());
        let mut buffer = [0; 50];
        while plain.len() < body.len() {
            let received = receive(&mut transport, &mut buffer);
            assert!(received.is_more, "50 of {}", body.len());
            plain.extend_from_slice(&buffer[..received.bytes]);
            stamps.push(received.stamp.expect("stamped"));
        }
        assert_eq!(plain, body);
        stamps.dedup();
        assert_eq!(stamps.len(), 1, "one segment, one stamp");
        assert!(!transport.holds_input());
        drop(client);
        assert_eq!(receive(&mut transport, &mut buffer).bytes, 0);
    }
}

#[test]
fn what_the_socket_did_not_take_whole_is_not_taken_and_goes_once() {
    for (mut transport, mut client) in pairs() {
        let socket = socket2::SockRef::from(&transport);
        socket.set_send_buffer_size(4096).expect("set");
        client.set_nonblocking(true).expect("set");
        let body: Vec<u8> = (0..=255).cycle().take(2_000_000).collect();
        let expected = on_wire(&transport, &body);
        let (mut plain, mut wire, mut came) = (0, 0, Vec::new());
        let mut buffer = [0; 65_536];
        let mut was_refused = false;
        while plain < body.len() {
            match transport.send(&body[plain..], None) {
                Ok(taken) => {
                    plain += taken.plain;
                    wire += taken.wire;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    let is_owed = matches!(transport, Transport::Records(_));
                    assert_eq!(transport.interest(Interest::READ_ONCE).write, is_owed);
                    was_refused = true;
                    // What came has been acknowledged some time later: it is tried again, and never waited for.
                    if let Ok(count) = client.read(&mut buffer) {
                        came.extend_from_slice(&buffer[..count]);
                    }
                }
            }
        }
        assert!(was_refused);
        transport.end();
        client.set_nonblocking(false).expect("set");
        client.read_to_end(&mut came).expect("to its end");
        assert_eq!((came.len(), wire), (expected.len(), expected.len()));
        assert!(came == expected);
    }
}

#[test]
fn an_acknowledgement_names_a_byte_on_the_wire() {
    for (mut transport, mut client) in pairs() {
        if let Err(error) = transport.enable_ack_stamps(true) {
            println!("not checked: {error}");
            return;
        }
        let body = [7; 3 * RECORD_MAX];
        let followed = 2 * RECORD_MAX + 10;
        let (mut plain, mut wire) = (0, 0);
        while plain < followed {
            let taken = transport.send(&body[plain..], Some(followed - plain));
            let taken = taken.expect("there is room");
            plain += taken.plain;
            wire += taken.wire;
        }
        assert_eq!(plain, followed, "nothing behind it is sent along");
        assert_eq!(wire, on_wire(&transport, &body[..followed]).len());
        let taken = transport.send(&body[plain..], None).expect("room");
        assert_eq!(plain + taken.plain, body.len());
        client
            .read_exact(&mut vec![0; wire + taken.wire])
            .expect("all of it comes");
        let last = (0..TRIES).find_map(|_| {
            std::thread::yield_now();
            transport.next_ack_stamp().ok().flatten()
        });
        let last = last.expect("it is acknowledged").last;
        assert_eq!(last as usize + 1, wire);
    }
}

#[test]
fn what_a_transport_has_to_say_itself_is_sent_without_output() {
    let (mut transport, mut client) = pairs().pop().expect("records");
    client.write_all(&[0, 0, 0x5a]).expect("written");
    wait_for_bytes(&transport);
    let error = transport.receive(&mut [0; 9], true).expect_err("no bytes");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(transport.interest(Interest::READ_ONCE).write);
    let taken = transport.send(&[], None).expect("room");
    assert_eq!((taken.plain, taken.wire), (0, HEAD_BYTES));
    assert!(!transport.interest(Interest::READ_ONCE).write);
    client.read_exact(&mut [0; HEAD_BYTES]).expect("answered");
}
