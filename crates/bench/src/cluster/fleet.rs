//! Thousands of publishers that go where the controller places them, on one thread.
//!
//! Each is a [`Follower`]; here are the sockets, one epoll instance for all, and a few threads that
//! ask the controller so that nobody waits for HTTP.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use client::PlacedOptions;
use client::placed::{Action, Answer, ConnectionId, Controller, Enquiry, Follower, Traffic};
use clock::Instant;

use crate::error::BenchError;
use crate::publishers::is_transient;
use crate::sys::{Epoll, monotonic_ns};

/// Threads that ask the controller.
const ASKERS: usize = 4;
/// A broker on the loopback interface that does not accept within this time is away.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Interval at which the deadlines of followers are checked.
const TICK_NS: u64 = 20_000_000;

/// The publishers.
pub struct Fleet {
    members: Vec<Follower>,
    epoll: Epoll,
    sockets: Vec<Option<Socket>>,
    free: Vec<usize>,
    socket_of: HashMap<(u32, ConnectionId), usize>,
    questions: mpsc::Sender<(u32, PlacedOptions, Enquiry)>,
    answers: mpsc::Receiver<(u32, Answer)>,
    options: Vec<PlacedOptions>,
    ticked_ns: u64,
    scratch: Vec<u8>,
}

struct Socket {
    member: u32,
    connection: ConnectionId,
    stream: TcpStream,
    awaits_room: bool,
}

impl Fleet {
    /// One publisher for each of `options`; all ask the controller of the first.
    ///
    /// # Errors
    /// [`BenchError`] for options that no broker would take, or where the system gives no epoll instance.
    pub fn new(options: Vec<PlacedOptions>) -> Result<Fleet, BenchError> {
        let now = now();
        let members = (0u64..)
            .zip(&options)
            .map(|(seed, options)| Follower::new(options.clone(), seed, now));
        let members: Result<Vec<Follower>, _> = members.collect();
        let members = members.map_err(|error| BenchError::Options(error.to_string()))?;
        let controller = options.first().map(|options| options.controller.as_str());
        let (questions, answers) = start_askers(controller.unwrap_or_default());
        let mut fleet = Fleet {
            members,
            epoll: Epoll::new(1024).map_err(BenchError::io("make an epoll instance"))?,
            sockets: Vec::new(),
            free: Vec::new(),
            socket_of: HashMap::new(),
            questions,
            answers,
            options,
            ticked_ns: 0,
            scratch: vec![0; 64 << 10],
        };
        for member in 0..fleet.members.len() as u32 {
            fleet.act(member);
        }
        Ok(fleet)
    }

    /// Publishes a batch of one publisher; false if it has too much unacknowledged, for the batch is lost then.
    pub fn publish(&mut self, publisher: u32, bodies: &[Vec<u8>]) -> bool {
        let member = &mut self.members[publisher as usize];
        let taken = match bodies {
            [body] => member.publish(body),
            bodies => member.publish_batch(bodies),
        };
        self.act(publisher);
        taken.is_ok()
    }

    /// Serves sockets, answers and deadlines for at most so long.
    ///
    /// # Errors
    /// When the system refuses to wait.
    pub fn serve(&mut self, at_most: Duration) -> Result<(), BenchError> {
        let tokens: Vec<u64> = self
            .epoll
            .wait(Some(at_most))
            .map_err(BenchError::io("wait for brokers"))?
            .collect();
        for token in tokens {
            self.serve_socket(token as usize);
        }
        while let Ok((member, answer)) = self.answers.try_recv() {
            self.members[member as usize].told(now(), answer);
            self.act(member);
        }
        let now_ns = monotonic_ns();
        if now_ns - self.ticked_ns >= TICK_NS {
            self.ticked_ns = now_ns;
            let now = Instant::from_nanos(now_ns);
            for member in 0..self.members.len() as u32 {
                if self.members[member as usize].next_deadline() <= now {
                    self.members[member as usize].tick(now);
                    self.act(member);
                }
            }
        }
        Ok(())
    }

    /// Number of publishers.
    #[expect(clippy::len_without_is_empty, reason = "a fleet is never empty")]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Publishers that have a broker.
    pub fn connected(&self) -> usize {
        self.members
            .iter()
            .filter(|member| member.broker().is_some())
            .count()
    }

    /// Publishers by the address of their broker.
    pub fn by_broker(&self) -> std::collections::BTreeMap<String, usize> {
        let mut counts = std::collections::BTreeMap::new();
        for broker in self.members.iter().filter_map(Follower::broker) {
            *counts.entry(broker.to_owned()).or_default() += 1;
        }
        counts
    }

    /// Address of a publisher's broker.
    pub fn broker_of(&self, publisher: u32) -> Option<&str> {
        self.members[publisher as usize].broker()
    }

    /// Messages that no broker has acknowledged yet.
    pub fn unacknowledged(&self) -> usize {
        self.members.iter().map(Follower::unacknowledged).sum()
    }

    /// Sum over all publishers.
    pub fn traffic(&self) -> Traffic {
        let mut sum = Traffic::default();
        for traffic in self.members.iter().map(Follower::traffic) {
            sum.published += traffic.published;
            sum.acknowledged += traffic.acknowledged;
            sum.refused += traffic.refused;
            sum.resent += traffic.resent;
            sum.moves += traffic.moves;
        }
        sum
    }

    /// What keeps the first publisher without a broker from having one.
    pub fn trouble(&self) -> Option<&str> {
        let lost = self.members.iter().find(|member| member.broker().is_none());
        lost.map(|member| member.verdict().unwrap_or(member.trouble()))
    }

    fn act(&mut self, member: u32) {
        while let Some(action) = self.members[member as usize].next_action() {
            match action {
                Action::Connect {
                    connection,
                    address,
                } => self.connect(member, connection, &address),
                Action::Close(connection) => self.forget(member, connection),
                Action::Ask(enquiry) => {
                    let options = self.options[member as usize].clone();
                    // The askers live as long as the fleet.
                    let _ = self.questions.send((member, options, enquiry));
                }
            }
        }
        self.write_all(member);
    }

    fn connect(&mut self, member: u32, connection: ConnectionId, address: &str) {
        match open(address) {
            Ok(stream) => {
                let socket = Socket {
                    member,
                    connection,
                    stream,
                    awaits_room: false,
                };
                let index = self.free.pop().unwrap_or_else(|| {
                    self.sockets.push(None);
                    self.sockets.len() - 1
                });
                if let Err(error) = self.epoll.add(&socket.stream, index as u64, false) {
                    self.members[member as usize].closed(now(), connection, &error.to_string());
                    return;
                }
                self.sockets[index] = Some(socket);
                self.socket_of.insert((member, connection), index);
                self.members[member as usize].connected(now(), connection);
            }
            Err(error) => {
                self.members[member as usize].closed(now(), connection, &error.to_string())
            }
        }
    }

    /// A dropped socket leaves the epoll instance by itself.
    fn forget(&mut self, member: u32, connection: ConnectionId) {
        if let Some(index) = self.socket_of.remove(&(member, connection)) {
            self.sockets[index] = None;
            self.free.push(index);
        }
    }

    fn serve_socket(&mut self, index: usize) {
        let Some(socket) = self.sockets.get_mut(index).and_then(Option::as_mut) else {
            return;
        };
        let (member, connection) = (socket.member, socket.connection);
        let follower = &mut self.members[member as usize];
        match socket.stream.read(&mut self.scratch) {
            Ok(0) => {
                self.forget(member, connection);
                self.members[member as usize].closed(now(), connection, "closed by the broker");
            }
            Ok(read) => follower.received(now(), connection, &self.scratch[..read]),
            Err(error) if is_transient(error.kind()) => {}
            Err(error) => {
                self.forget(member, connection);
                self.members[member as usize].closed(now(), connection, &error.to_string());
            }
        }
        self.act(member);
    }

    fn write_all(&mut self, member: u32) {
        if !self.members[member as usize].has_output() {
            return;
        }
        let connections: Vec<ConnectionId> = self.members[member as usize].connections().collect();
        for connection in connections {
            let Some(&index) = self.socket_of.get(&(member, connection)) else {
                continue;
            };
            let Some(socket) = self.sockets[index].as_mut() else {
                continue;
            };
            let follower = &mut self.members[member as usize];
            let output = follower.output(connection);
            if output.is_empty() && !socket.awaits_room {
                continue;
            }
            match socket.stream.write(output) {
                Ok(written) => {
                    let is_all = written == output.len();
                    follower.written(connection, written);
                    if is_all == socket.awaits_room {
                        socket.awaits_room = !is_all;
                        // Of a socket that cannot be watched the read will tell.
                        let _ = self.epoll.modify(&socket.stream, index as u64, !is_all);
                    }
                }
                // Reading tells of a connection that broke.
                Err(_) => {
                    if !socket.awaits_room {
                        socket.awaits_room = true;
                        let _ = self.epoll.modify(&socket.stream, index as u64, true);
                    }
                }
            }
        }
    }
}

fn open(address: &str) -> std::io::Result<TcpStream> {
    let unknown = || std::io::Error::new(ErrorKind::NotFound, "no such host");
    let resolved = address.to_socket_addrs()?.next().ok_or_else(unknown)?;
    let stream = TcpStream::connect_timeout(&resolved, CONNECT_TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

fn now() -> Instant {
    Instant::from_nanos(monotonic_ns())
}

type Question = (u32, PlacedOptions, Enquiry);

fn start_askers(controller: &str) -> (mpsc::Sender<Question>, mpsc::Receiver<(u32, Answer)>) {
    let (questions, asked) = mpsc::channel::<Question>();
    let (told, answers) = mpsc::channel();
    let asked = Arc::new(Mutex::new(asked));
    let controller = Controller::new(controller, None);
    for _ in 0..ASKERS {
        let (asked, told, controller) = (Arc::clone(&asked), told.clone(), controller.clone());
        std::thread::spawn(move || {
            loop {
                let question = asked.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok((member, options, enquiry)) = question else {
                    return;
                };
                let answer = controller.ask(&options, &enquiry);
                if told.send((member, answer)).is_err() {
                    return;
                }
            }
        });
    }
    (questions, answers)
}
