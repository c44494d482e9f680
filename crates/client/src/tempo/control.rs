//! The task that runs Tempo's protocol: announcements in and out, names, greetings, and who has to
//! be told of changes.
//!
//! It is a task like the others, with a small CPU share, so a storm of announcements costs the data
//! path no more than that. The program's calls (publish this, subscribe that) change the same state
//! under a lock and leave the rest to the task; the data path never comes here.

mod announcing;
mod arrivals;
mod hearing;
mod members;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use announce::{Announcer, AnnouncerConfig, Directory, DirectoryConfig, Names, Route, Speaker};
use clock::Instant;
use kernel::{Kernel, Serve, Turn};
use rustc_hash::FxHashMap;
use wire::TopicName;
use wire::announce::{InstanceId, TopicId};

use self::arrivals::Arrivals;
use self::members::{PublicationMember, SubscriptionMember};
use super::alarms::AlarmId;
use super::channel::{Way, ways};
use super::inbox::Inbox;
use super::monotonic::now;
use super::options::{Channel, NodeOptions};
use super::poller::{Poller, Signal, Watching};
use super::subscription;
use crate::error::ClientError;

/// Topics whose identifiers are remembered.
const TOPICS_MAX: usize = 65_536;

const LISTENER: u32 = 0;
const DATAGRAMS: u32 = 1;
/// The first of the channel's sockets, of which there are two at most.
const WAYS: u32 = 2;
/// The first of the connections that are not a subscription's yet.
const ARRIVALS: u32 = 16;

/// Datagrams or connections taken in one turn; the rest is for the next.
const TAKEN_PER_TURN: usize = 64;

/// The control task's counts besides announcements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlCounts {
    /// Messages with an identifier of no topic that is subscribed here.
    pub unknown: u64,
    /// Connections that did not begin with a proper hello: another protocol, another key.
    pub hellos_refused: u64,
    /// Connections beyond the number that may wait for their first message.
    pub arrivals_refused: u64,
    /// Announcements that the system did not send.
    pub unsent: u64,
    /// Messages that came as datagrams and found their subscription's queue full.
    pub datagrams_dropped: u64,
    /// Identifiers that the name service gave out and that cannot be.
    pub assignments_refused: u64,
}

/// What happens to the control task.
pub(super) enum Event {
    /// The program has changed something.
    Look,
    /// Something at a socket.
    Socket(u32),
}

impl From<Signal> for Event {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Socket(key) => Event::Socket(key),
            Signal::Alarm(_) => Event::Look,
        }
    }
}

/// The protocol's state, and the task's inbox.
pub(super) struct Control {
    pub(super) inbox: Arc<Inbox<Event>>,
    state: Mutex<State>,
}

/// The handler of the task.
pub(super) struct ControlTask(pub(super) Arc<Control>);

/// Everything that the protocol knows.
pub(super) struct State {
    instance: InstanceId,
    options: NodeOptions,
    route: Route,
    /// Weak, since the kernel has the handler that has this.
    kernel: Weak<Kernel>,
    poller: Arc<Poller>,
    inbox: Arc<Inbox<Event>>,
    ways: Vec<(Watching, Way)>,
    datagrams: Option<(Watching, UdpSocket)>,
    names: Names,
    directory: Directory,
    announcer: Announcer,
    publications: BTreeMap<TopicName, PublicationMember>,
    subscriptions: BTreeMap<TopicName, SubscriptionMember>,
    /// Whose messages these are, of the topics that are subscribed here.
    listening: FxHashMap<TopicId, TopicName>,
    arrivals: Arrivals,
    /// Of the names when entries were made of them.
    generation: u64,
    /// A publication's part of its limit has changed since entries were made.
    is_stale: bool,
    alarm: Option<(Instant, AlarmId)>,
    counts: ControlCounts,
    has_left: bool,
}

impl Control {
    /// Opens the sockets. Nothing is heard or said before the task runs.
    ///
    /// # Errors
    /// [`ClientError::Option`], [`ClientError::Io`].
    pub(super) fn open(
        instance: InstanceId,
        options: NodeOptions,
        kernel: &Arc<Kernel>,
        poller: &Arc<Poller>,
    ) -> Result<Arc<Control>, ClientError> {
        let inbox = Inbox::new(kernel);
        let failed = || ClientError::io("watch a socket");
        let watch = |socket: std::os::fd::BorrowedFd<'_>, key| {
            let target: Arc<Inbox<Event>> = Arc::clone(&inbox);
            poller.watch(socket, target, key).map_err(failed())
        };
        use std::os::fd::AsFd as _;
        let listener = listen(options.data_address)?;
        let data = listener
            .local_addr()
            .map_err(ClientError::io("listen for data"))?;
        let listener = (watch(listener.as_fd(), LISTENER)?, listener);
        let datagrams = match options.udp {
            true => {
                let socket = bind_datagrams(data)?;
                Some((watch(socket.as_fd(), DATAGRAMS)?, socket))
            }
            false => None,
        };
        let mut watched = Vec::new();
        for (key, way) in (WAYS..).zip(ways(&options)?) {
            watched.push((watch(way.socket.as_fd(), key)?, way));
        }
        let now = now();
        let random = clock::stream(instance.0, "announcements");
        let pace = AnnouncerConfig::every(options.announce_interval);
        let speaker = Speaker::new(instance, data).with_udp(options.udp);
        let state = State {
            instance,
            route: route(options.channel),
            kernel: Arc::downgrade(kernel),
            poller: Arc::clone(poller),
            inbox: Arc::clone(&inbox),
            ways: watched,
            arrivals: Arrivals::new(listener, &inbox, poller, &options),
            datagrams,
            names: Names::new(TOPICS_MAX),
            directory: Directory::new(instance, DirectoryConfig::default()),
            announcer: Announcer::new(speaker, pace, random, now),
            publications: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            listening: FxHashMap::default(),
            generation: 0,
            is_stale: false,
            alarm: None,
            counts: ControlCounts::default(),
            has_left: false,
            options,
        };
        Ok(Arc::new(Control {
            inbox,
            state: Mutex::new(state),
        }))
    }

    /// The state, for a call of the program's.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the task look at what was changed.
    pub(super) fn look(&self) {
        self.inbox.put(Event::Look);
    }
}

impl Serve for ControlTask {
    fn serve(&mut self, _: &Turn) -> usize {
        let Some(event) = self.0.inbox.take() else {
            return 0;
        };
        let mut state = self.0.state();
        if state.has_left {
            return 1;
        }
        let now = now();
        match event {
            Event::Look => state.forget_ended(now),
            Event::Socket(LISTENER) => state.accept(),
            Event::Socket(DATAGRAMS) => state.take_datagrams(),
            Event::Socket(key) if key >= ARRIVALS => state.greet(key),
            Event::Socket(key) => state.hear(key, now),
        }
        state.go_on(now);
        1
    }
}

impl State {
    /// Takes new connections.
    fn accept(&mut self) {
        self.arrivals.accept(&mut self.counts);
    }

    /// Reads from a connection that nobody has yet; once it says whose it is, that subscription has it.
    fn greet(&mut self, key: u32) {
        let greeted = self.arrivals.greet(key, &self.listening, &mut self.counts);
        if let Some((topic, incoming)) = greeted
            && let Some(member) = self.subscriptions.get(&topic)
        {
            member.inbox.put(subscription::Event::Adopt(incoming));
        }
    }

    /// Forgets, announces and sets the alarm, each where it is time.
    fn go_on(&mut self, now: Instant) {
        if self.alarm.is_some_and(|(due, _)| due <= now) {
            self.alarm = None;
            self.reckon_all(now);
        }
        self.forget(now);
        self.announce(now);
        self.set_alarm(now);
    }

    pub(super) fn instance(&self) -> InstanceId {
        self.instance
    }

    /// Where data are taken, as bound.
    pub(super) fn data(&self) -> SocketAddr {
        self.announcer.speaker().data()
    }

    pub(super) fn counts(&self) -> ControlCounts {
        self.counts
    }

    pub(super) fn heard(&self) -> (announce::Counters, announce::NameCounts, usize) {
        let directory = &self.directory;
        (
            directory.counters(),
            self.names.counts(),
            directory.instances(),
        )
    }
}

fn route(channel: Channel) -> Route {
    match channel {
        Channel::Broker(_) => Route::Broker,
        Channel::Group(_) => Route::Peer,
        Channel::Auto { .. } => Route::Auto,
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, ClientError> {
    let failed = || ClientError::io("listen for data");
    let listener = TcpListener::bind(address).map_err(failed())?;
    listener.set_nonblocking(true).map_err(failed())?;
    Ok(listener)
}

fn bind_datagrams(address: SocketAddr) -> Result<UdpSocket, ClientError> {
    let failed = || ClientError::io("take data as datagrams");
    let socket = UdpSocket::bind(address).map_err(failed())?;
    socket.set_nonblocking(true).map_err(failed())?;
    Ok(socket)
}

/// An address that this machine reaches itself at.
fn within_this_machine(address: SocketAddr) -> SocketAddr {
    let mut address = address;
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
            address.set_ip(Ipv6Addr::LOCALHOST.into());
        }
        _ => {}
    }
    address
}

#[cfg(test)]
mod tests;
