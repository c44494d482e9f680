//! Whole reactors, turned by tests, with peers over real sockets.

mod away;
mod layers;
mod strangers;
mod times;
mod transport;

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::{Inbox, Reactor, Shared, home_of};
use crate::Config;
use crate::connection::{Connection, ConnectionKey};
use crate::sys::{self, Stream};
use crate::tls::ByHand;
use crate::transport::far::{Authority, Far, KINDS, Kind, near};

/// Turns after which what is waited for is taken never to come.
const TURNS: usize = 300_000;

/// Reactors of one broker.
struct Scene {
    reactors: Vec<Reactor>,
    listener: TcpListener,
    authority: Authority,
    handshakes: ByHand,
}

/// Somebody at the other end of a connection.
struct Peer {
    client: TcpStream,
    /// Where its connection was put.
    at: (usize, ConnectionKey),
    /// What it speaks in.
    far: Far,
    /// What came, and was not taken by the test.
    heard: Vec<u8>,
}

impl Scene {
    fn new(config: Config) -> Scene {
        let inbox = || Arc::new(Inbox::new().expect("descriptors"));
        let inboxes: Vec<_> = (0..config.threads).map(|_| inbox()).collect();
        let authority = Authority::new(&format!("scene-{:?}", std::thread::current().id()));
        let mut shared = Shared::new(config, inboxes);
        let (handshakes, by_hand) = authority.handshakes(&shared.inboxes);
        shared.handshakes = Some(handshakes);
        let shared = Arc::new(shared);
        let reactor = |number| Reactor::new(number, Arc::clone(&shared), None, None);
        let reactors = 0..shared.inboxes.len();
        Scene {
            reactors: reactors
                .map(|number| reactor(number).expect("descriptors"))
                .collect(),
            listener: TcpListener::bind("127.0.0.1:0").expect("a free port"),
            authority,
            handshakes: by_hand,
        }
    }

    /// Somebody whose connection is at reactor `number`, and speaks in `kind` from its first word on.
    fn connect(&mut self, number: usize, kind: Kind) -> Peer {
        self.connect_from(Ipv4Addr::LOCALHOST, number, kind)
    }

    /// The same, from an address that it need not have.
    fn connect_from(&mut self, from: Ipv4Addr, number: usize, kind: Kind) -> Peer {
        let (client, key) = self.arrive(from, number, kind);
        let mut peer = Peer {
            client,
            at: (number, key.expect("watched")),
            far: Far::new(kind, &self.authority),
            heard: Vec::new(),
        };
        self.shake(&mut peer);
        peer
    }

    /// A connection that may have been refused.
    fn arrive(
        &mut self,
        from: Ipv4Addr,
        number: usize,
        kind: Kind,
    ) -> (TcpStream, Option<ConnectionKey>) {
        let address = self.listener.local_addr().expect("bound");
        let client = TcpStream::connect(address).expect("connects");
        client.set_nonblocking(true).expect("set");
        let (stream, mut peer) = self.listener.accept().expect("accepted");
        peer.set_ip(from.into());
        let stream = Stream::of(stream).expect("set");
        sys::enable_arrival_stamps(&stream).expect("Linux");
        let transport = near(kind, stream, &self.authority);
        let connection = Connection::new(transport, peer, sys::monotonic_now(), 0);
        (client, self.reactors[number].hall.adopt(connection))
    }

    /// Does a handshake, where there is one.
    fn shake(&mut self, peer: &mut Peer) {
        while !peer.far.is_shaken() {
            peer.say(self, &[], usize::MAX);
            self.until("it is answered", |_| {
                peer.listen();
                peer.far.has_to_say() || peer.far.is_shaken()
            });
        }
        peer.say(self, &[], usize::MAX);
    }

    fn turn(&mut self) {
        for reactor in &mut self.reactors {
            reactor.turn(Some(Duration::ZERO));
        }
        self.handshakes.go_on();
    }

    /// Turns until `done` says so.
    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Scene) -> bool) {
        for _ in 0..TURNS {
            if done(self) {
                return;
            }
            self.turn();
        }
        panic!("{what}: never");
    }

    /// Turns until `peer` has heard so many frames of NSQ's; takes them, each without its size.
    fn frames(&mut self, peer: &mut Peer, count: usize) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        self.until(&format!("{count} frames"), |_| {
            peer.listen();
            while frames.len() < count
                && let Some(size) = peer.heard.first_chunk::<4>()
                && let end = 4 + u32::from_be_bytes(*size) as usize
                && end <= peer.heard.len()
            {
                frames.push(peer.heard.drain(..end).skip(4).collect());
            }
            frames.len() == count
        });
        frames
    }

    /// The next line that a peer hears.
    fn line(&mut self, peer: &mut Peer) -> String {
        let mut line = None;
        self.until("a line", |_| {
            peer.listen();
            if let Some(end) = peer.heard.iter().position(|&byte| byte == b'\n') {
                let words = peer.heard.drain(..=end).take(end).collect();
                line = Some(String::from_utf8(words).expect("UTF-8"));
            }
            line.is_some()
        });
        line.expect("it has come")
    }
}

impl Peer {
    /// Says `words`, in pieces of `piece` bytes with turns in between.
    fn say(&mut self, scene: &mut Scene, words: &[u8], piece: usize) {
        let mut wire = Vec::new();
        self.far.seal(words, &mut wire);
        for piece in wire.chunks(piece) {
            let mut left = piece;
            scene.until("the socket takes it", |_| {
                match self.client.write(left) {
                    Ok(count) => left = &left[count..],
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
                }
                left.is_empty()
            });
            scene.turn();
        }
    }

    /// Takes what has come; false at the end.
    fn listen(&mut self) -> bool {
        let mut buffer = [0; 64 * 1024];
        loop {
            match self.client.read(&mut buffer) {
                Ok(0) => return false,
                Ok(count) => self.far.open(&buffer[..count], &mut self.heard),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                    break;
                }
            }
        }
        true
    }
}

/// A topic that lives on reactor `home` of two.
fn topic_of(home: usize) -> String {
    let names = (0..).map(|number| format!("t{number}"));
    let mut at_home = names.filter(|name| home_of(name, 2) == home);
    at_home.next().expect("there are many")
}

/// Words that publish `bodies` to `topic`.
fn publishes(topic: &str, bodies: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut words = Vec::new();
    for body in bodies {
        wire::command::put_pub(&mut words, topic, &body);
    }
    words
}
