//! What a connection may rely on, whatever goes over the wire.

mod layers;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use super::far::{Authority, Far, KINDS, Kind, near};
use super::*;

/// Tries after which what is waited for is taken never to come.
const TRIES: usize = 3_000_000;

/// Both ends of a connection.
struct Pair {
    kind: Kind,
    transport: Transport,
    client: TcpStream,
    far: Far,
}

/// Both ends of connections of each kind.
fn pairs(name: &str) -> impl Iterator<Item = Pair> {
    let authority = Authority::new(name);
    KINDS.into_iter().map(move |kind| pair(kind, &authority))
}

fn pair(kind: Kind, authority: &Authority) -> Pair {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let client = TcpStream::connect(address).expect("connects");
    let (stream, _) = listener.accept().expect("accepted");
    let stream = Stream::of(stream).expect("set");
    wait_for_stamps(&stream, &client);
    let mut pair = Pair {
        kind,
        transport: near(kind, stream, authority),
        client,
        far: Far::new(kind, authority),
    };
    pair.shake(usize::MAX);
    pair
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

impl Pair {
    fn on_wire(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut wire = Vec::new();
        self.far.seal(plain, &mut wire);
        wire
    }

    /// Does the handshake, where there is one, with what the client says in pieces.
    fn shake(&mut self, piece: usize) {
        self.client.set_nonblocking(true).expect("set");
        while !self.far.is_shaken() || self.transport.awaits_handshake() {
            for piece in self.on_wire(&[]).chunks(piece) {
                self.client.write_all(piece).expect("there is room");
                wait_for_bytes(&self.transport);
                self.shake_once();
            }
            let mut came = [0; 10_000];
            if let Ok(count) = self.client.read(&mut came) {
                self.far.open(&came[..count], &mut Vec::new());
            }
        }
        self.client.set_nonblocking(false).expect("set");
    }

    fn shake_once(&mut self) {
        let transport = &mut self.transport;
        let received = transport.receive(&mut [0; 100], true);
        let error = received.expect_err("nothing was said yet");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        if let Some(mut handshake) = transport.depart() {
            let held = transport.receive(&mut [0; 100], true);
            assert_eq!(held.map_err(|e| e.kind()), Err(ErrorKind::WouldBlock));
            handshake.go_on();
            transport.resume(*handshake).expect("it goes well");
        }
        while transport.wants_to_send() {
            transport.send(&[], None).expect("there is room");
        }
    }
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

/// Bytes that nothing makes smaller.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}

#[test]
fn plain_bytes_have_the_stamp_of_what_completed_them_on_the_wire() {
    for mut pair in pairs("stamp") {
        let body = noise(100);
        let wire = pair.on_wire(&body);
        pair.client.write_all(&wire[..60]).expect("written");
        wait_for_bytes(&pair.transport);
        let mut buffer = [0; 200];
        let first = pair.transport.receive(&mut buffer, true);
        let deflate = matches!(
            pair.kind,
            Kind::Layers { tls: false, compression } if compression != Some(wire::identify::Compression::Snappy)
        );
        let is_in_pieces = pair.kind == Kind::Plain || deflate;
        assert_eq!(
            first.as_ref().map_err(std::io::Error::kind).err(),
            (!is_in_pieces).then_some(ErrorKind::WouldBlock),
            "{:?}: what is no whole record gives nothing, and is no end",
            pair.kind
        );
        let between = sys::wall_now();
        pair.client.write_all(&wire[60..]).expect("written");
        let mut bytes = first.map_or(0, |received| received.bytes);
        assert!(bytes < body.len());
        while bytes < body.len() {
            let received = receive(&mut pair.transport, &mut buffer);
            bytes += received.bytes;
            assert!(received.stamp.expect("the kernel stamps") >= between);
        }
        assert_eq!(bytes, body.len());
    }
}

#[test]
fn what_does_not_fit_is_given_later_with_its_stamp() {
    for mut pair in pairs("later") {
        let body: Vec<u8> = (0..=255).cycle().take(2 * GIVEN_MAX).collect();
        let wire = pair.on_wire(&body);
        pair.client.write_all(&wire).expect("written");
        let (mut plain, mut stamps) = (Vec::new(), Vec::new());
        let mut buffer = [0; 70];
        while plain.len() < body.len() {
            let received = receive(&mut pair.transport, &mut buffer);
            plain.extend_from_slice(&buffer[..received.bytes]);
            assert!(received.is_more || plain.len() == body.len());
            stamps.push(received.stamp.expect("stamped"));
        }
        assert_eq!(plain, body);
        stamps.dedup();
        assert_eq!(stamps.len(), 1, "{:?}: one segment, one stamp", pair.kind);
        assert!(!pair.transport.holds_input());
        drop(pair.client);
        assert_eq!(receive(&mut pair.transport, &mut buffer).bytes, 0);
    }
}

#[test]
fn what_the_socket_did_not_take_whole_is_not_taken_and_goes_once() {
    for mut pair in pairs("whole") {
        let Pair {
            kind,
            transport,
            client,
            far,
        } = &mut pair;
        let socket = socket2::SockRef::from(&*transport);
        socket.set_send_buffer_size(4096).expect("set");
        client.set_nonblocking(true).expect("set");
        let body = noise(2_000_000);
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
                    let is_owed = *kind != Kind::Plain;
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
        assert_eq!(transport.unsent_bytes(), 0, "{kind:?}: it is idle");
        client.set_nonblocking(false).expect("set");
        while came.len() < wire {
            let count = client.read(&mut buffer).expect("it comes");
            came.extend_from_slice(&buffer[..count]);
        }
        assert_eq!(came.len(), wire);
        let mut heard = Vec::new();
        far.open(&came, &mut heard);
        assert!(heard == body, "{kind:?}");
        transport.end();
        let mut last = Vec::new();
        client.read_to_end(&mut last).expect("to its end");
        let has_tls = matches!(kind, Kind::Layers { tls: true, .. });
        assert_eq!(!last.is_empty(), has_tls, "{kind:?}: TLS says that it ends");
    }
}

#[test]
fn an_acknowledgement_names_a_byte_on_the_wire() {
    for mut pair in pairs("acknowledged") {
        let transport = &mut pair.transport;
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
        let taken = transport.send(&body[plain..], None).expect("room");
        assert_eq!(plain + taken.plain, body.len());
        pair.client
            .read_exact(&mut vec![0; wire + taken.wire])
            .expect("all of it comes");
        let last = (0..TRIES).find_map(|_| {
            std::thread::yield_now();
            transport.next_ack_stamp().ok().flatten()
        });
        let last = last.expect("it is acknowledged").last;
        assert_eq!(last as usize + 1, wire, "{:?}", pair.kind);
    }
}

#[test]
fn what_a_transport_has_to_say_itself_is_sent_without_output() {
    let mut pair = pair(Kind::Records, &Authority::new("own"));
    let (transport, client) = (&mut pair.transport, &mut pair.client);
    client.write_all(&[0, 0, 0x5a]).expect("written");
    wait_for_bytes(transport);
    let error = transport.receive(&mut [0; 9], true).expect_err("no bytes");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(transport.interest(Interest::READ_ONCE).write);
    let taken = transport.send(&[], None).expect("room");
    assert_eq!((taken.plain, taken.wire), (0, HEAD_BYTES));
    assert!(!transport.interest(Interest::READ_ONCE).write);
    client.read_exact(&mut [0; HEAD_BYTES]).expect("answered");
}
