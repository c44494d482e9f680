//! An endpoint made of bare sockets: it says and sends whatever a test wants, true or not.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

use client::tempo::{InstanceId, Key};
use socket2::{Domain, Protocol, Socket, Type};
use wire::TopicName;
use wire::announce::{Announcement, Entry, Role, TopicId};
use wire::tempo::{
    HelloDecoded, MessageDecoded, decode_hello, decode_message, put_hello, put_message_header,
};

use crate::world::PATIENCE;

/// Speaks and listens in a group, and takes connections.
pub struct Stranger {
    pub listener: TcpListener,
    socket: UdpSocket,
    group: SocketAddr,
    sequence: u32,
}

impl Stranger {
    pub fn new(group: SocketAddr) -> Stranger {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).expect("a socket");
        socket.set_reuse_address(true).expect("shared");
        socket.bind(&group.into()).expect("bound");
        let SocketAddr::V4(address) = group else {
            panic!("an IPv4 group");
        };
        socket
            .join_multicast_v4(address.ip(), &Ipv4Addr::LOCALHOST)
            .expect("joined");
        socket
            .set_multicast_if_v4(&Ipv4Addr::LOCALHOST)
            .expect("sends there");
        socket.set_read_timeout(Some(PATIENCE)).expect("patient");
        Stranger {
            listener: TcpListener::bind("127.0.0.1:0").expect("listens"),
            socket: socket.into(),
            group,
            sequence: 0,
        }
    }

    /// Says once that `instance` has a role in a topic; holds for `expiry_ms`.
    pub fn announcement(
        &mut self,
        instance: u64,
        role: Role,
        topic: &str,
        expiry_ms: u32,
    ) -> Announcement {
        self.sequence += 1;
        let topic = name(topic);
        Announcement {
            instance: InstanceId(instance),
            sequence: self.sequence,
            is_proxy: false,
            is_leaving: false,
            expiry_ms,
            data: self.listener.local_addr().expect("bound"),
            udp: false,
            entries: vec![Entry {
                role,
                id: TopicId::hashed(&topic, 0),
                topic,
                held: None,
            }],
        }
    }

    pub fn say(&self, announcement: &Announcement, key: Option<&Key>) {
        let mut datagram = Vec::new();
        announcement.encode(key, &mut datagram);
        self.say_bytes(&datagram);
    }

    pub fn say_bytes(&self, datagram: &[u8]) {
        let sent = self.socket.send_to(datagram, self.group).expect("sent");
        assert_eq!(sent, datagram.len());
    }

    /// The next announcement that is not its own.
    pub fn hear(&self) -> (Announcement, SocketAddr) {
        let mut datagram = [0; 2048];
        loop {
            let (bytes, from) = patiently(|| self.socket.recv_from(&mut datagram));
            let heard = Announcement::decode(&datagram[..bytes], None).expect("well made");
            let own = self.listener.local_addr().expect("bound");
            if heard.data != own {
                return (heard, from);
            }
        }
    }

    /// A connection that somebody makes to it.
    pub fn accept(&self) -> Feed {
        let (stream, _) = self.listener.accept().expect("somebody connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("patient");
        Feed {
            stream,
            read: Vec::new(),
        }
    }
}

/// What comes on a data connection.
pub struct Feed {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Feed {
    pub fn hello(&mut self) -> InstanceId {
        loop {
            if let HelloDecoded::Complete { instance, used } =
                decode_hello(&self.read, None).expect("a hello")
            {
                self.read.drain(..used);
                return instance;
            }
            assert!(self.more(), "the connection ended before its hello");
        }
    }

    /// The next message; `None` at the end.
    pub fn next(&mut self) -> Option<(TopicId, Vec<u8>)> {
        loop {
            if let MessageDecoded::Complete { id, body, used } =
                decode_message(&self.read, 1 << 20).expect("a message")
            {
                let message = (id, body.to_vec());
                self.read.drain(..used);
                return Some(message);
            }
            if !self.more() {
                return None;
            }
        }
    }

    fn more(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let count = loop {
            match self.stream.read(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A reset is an end.
                read => break read.unwrap_or(0),
            }
        };
        self.read.extend_from_slice(&bytes[..count]);
        count > 0
    }
}

/// What a socket with a timeout receives; a process that was stopped is interrupted in that, and asks again.
pub fn patiently<T>(mut receive: impl FnMut() -> std::io::Result<T>) -> T {
    loop {
        match receive() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            received => return received.expect("something comes in time"),
        }
    }
}

/// A connection to an endpoint that has said hello.
pub fn connect(data: SocketAddr, instance: u64, key: Option<&Key>) -> TcpStream {
    let mut stream = TcpStream::connect(data).expect("it takes connections");
    stream.set_read_timeout(Some(PATIENCE)).expect("patient");
    let mut hello = Vec::new();
    put_hello(&mut hello, InstanceId(instance), key);
    stream.write_all(&hello).expect("sent");
    stream
}

pub fn message(id: TopicId, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_message_header(&mut bytes, id, body.len() as u32);
    bytes.extend_from_slice(body);
    bytes
}

pub fn name(topic: &str) -> TopicName {
    topic.parse().expect("a valid name")
}

/// The identifier that a topic has while nothing speaks against it.
pub fn id_of(topic: &str) -> TopicId {
    TopicId::hashed(&name(topic), 0)
}
