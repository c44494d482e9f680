//! The thread behind a placed publisher: does what the follower says.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use clock::Instant;
use credentials::Trust;

use super::{Guarded, Shared};
use crate::encryption::OutputBuffer;
use crate::error::ClientError;
use crate::line::Line;
use crate::placed::ConnectionId;
use crate::placed::controller::Controller;
use crate::placed::follower::{Action, Answer, Follower, MAKE_TIMEOUT};
use crate::placed::options::PlacedOptions;
use crate::placed::sockets::{Interest, wait};

const READ_BYTES: usize = 16 << 10;

/// The result of a short-lived thread.
enum News {
    Connected(ConnectionId, Result<Line, ClientError>),
    Told(Answer),
}

pub(super) struct Service {
    shared: Arc<Shared>,
    options: Arc<PlacedOptions>,
    controller: Controller,
    woken: UnixStream,
    sockets: Vec<(ConnectionId, Line)>,
    news: Receiver<News>,
    messenger: Sender<News>,
}

impl Service {
    pub(super) fn new(shared: Arc<Shared>, options: PlacedOptions, woken: UnixStream) -> Self {
        let (messenger, news) = channel();
        Self {
            shared,
            controller: Controller::new(&options.controller, options.trust.as_ref())
                .with_token(options.token.clone()),
            options: Arc::new(options),
            woken,
            sockets: Vec::new(),
            news,
            messenger,
        }
    }

    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut buffer = vec![0; READ_BYTES];
        let mut readable: Vec<ConnectionId> = Vec::new();
        loop {
            let mut state = shared.lock();
            if state.must_stop {
                return;
            }
            state.is_woken = false;
            let follower = &mut state.follower;
            self.read(follower, &readable, &mut buffer);
            self.take_news(follower);
            follower.tick(self.shared.clock.now());
            // Writing may lose a connection, and what that leads to must be done before the wait.
            self.act(follower);
            self.write(follower);
            self.act(follower);
            let deadline = follower.next_deadline();
            let writing = self.writing(follower);
            shared.changed.notify_all();
            drop(state);
            match self.wait(&writing, deadline) {
                Ok(found) => readable = found,
                Err(error) => return self.fail(shared.lock(), &error),
            }
        }
    }

    fn read(&mut self, follower: &mut Follower, readable: &[ConnectionId], buffer: &mut [u8]) {
        for (connection, socket) in &mut self.sockets {
            if !readable.contains(connection) {
                continue;
            }
            let now = self.shared.clock.now();
            loop {
                match socket.read(buffer) {
                    Ok(0) => follower.closed(now, *connection, "the broker closed the connection"),
                    Ok(read) => follower.received(now, *connection, &buffer[..read]),
                    Err(error) if is_passing(&error) => {}
                    Err(error) => follower.closed(now, *connection, &error.to_string()),
                }
                // What TLS has opened already, no socket tells of.
                if !socket.has_more() {
                    break;
                }
            }
        }
    }

    fn take_news(&mut self, follower: &mut Follower) {
        while let Ok(news) = self.news.try_recv() {
            let now = self.shared.clock.now();
            match news {
                News::Told(answer) => follower.told(now, answer),
                News::Connected(connection, Err(error)) => {
                    follower.closed(now, connection, &error.to_string())
                }
                News::Connected(connection, Ok(socket)) => {
                    // One that the follower has given up meanwhile is dropped, and so closed.
                    if follower.connections().any(|known| known == connection) {
                        self.sockets.push((connection, socket));
                        follower.connected(now, connection);
                    }
                }
            }
        }
    }

    fn act(&mut self, follower: &mut Follower) {
        while let Some(action) = follower.next_action() {
            match action {
                Action::Close(connection) => self.sockets.retain(|(open, _)| *open != connection),
                Action::Connect {
                    connection,
                    address,
                } => {
                    let options = Arc::clone(&self.options);
                    let refused = self.aside(move || {
                        News::Connected(connection, open(&address, options.trust.as_ref()))
                    });
                    if let Err(error) = refused {
                        follower.closed(self.shared.clock.now(), connection, &error.to_string());
                    }
                }
                Action::Ask(enquiry) => {
                    let (controller, options) = (self.controller.clone(), self.options.clone());
                    let refused =
                        self.aside(move || News::Told(controller.ask(&options, &enquiry)));
                    if let Err(error) = refused {
                        let answer = Answer::Failed(error.to_string());
                        follower.told(self.shared.clock.now(), answer);
                    }
                }
            }
        }
    }

    fn write(&mut self, follower: &mut Follower) {
        for (connection, socket) in &mut self.sockets {
            while socket.has_unwritten() || !follower.output(*connection).is_empty() {
                match socket.write(follower.output(*connection)) {
                    Ok(written) => follower.written(*connection, written),
                    Err(error) if is_passing(&error) => break,
                    Err(error) => {
                        // The broker may have said why before it closed; reading will find that, or the end.
                        let is_readable = socket.has_something_to_read();
                        if !is_readable {
                            follower.closed(
                                self.shared.clock.now(),
                                *connection,
                                &error.to_string(),
                            );
                        }
                        break;
                    }
                }
            }
        }
    }

    /// The connections with bytes that found no room.
    fn writing(&self, follower: &Follower) -> Vec<ConnectionId> {
        let sockets = self.sockets.iter();
        let writing = sockets.filter(|(connection, socket)| {
            !follower.output(*connection).is_empty() || socket.has_unwritten()
        });
        writing.map(|(connection, _)| *connection).collect()
    }

    /// Waits for sockets, for a wake-up and for the deadline; gives the connections with something to read.
    fn wait(&self, writing: &[ConnectionId], deadline: Instant) -> io::Result<Vec<ConnectionId>> {
        let interest = |socket, wants_room| Interest {
            socket,
            wants_room,
            is_readable: false,
        };
        let mut interests = vec![interest(self.woken.as_fd(), false)];
        for (connection, socket) in &self.sockets {
            interests.push(interest(socket.as_fd(), writing.contains(connection)));
        }
        let timeout =
            (deadline < Instant::MAX).then(|| deadline.saturating_since(self.shared.clock.now()));
        wait(&mut interests, timeout)?;
        if interests[0].is_readable {
            let _drained = (&self.woken).read(&mut [0; 64]);
        }
        let connections = self.sockets.iter().zip(&interests[1..]);
        Ok(connections
            .filter(|(_, interest)| interest.is_readable)
            .map(|((connection, _), _)| *connection)
            .collect())
    }

    /// Runs something that blocks in a thread of its own.
    fn aside(&self, find_out: impl FnOnce() -> News + Send + 'static) -> io::Result<()> {
        let (messenger, shared) = (self.messenger.clone(), Arc::clone(&self.shared));
        std::thread::Builder::new()
            .name("placed-aside".to_owned())
            .spawn(move || {
                // A publisher that was dropped meanwhile needs no news.
                if messenger.send(find_out()).is_ok() {
                    shared.wake();
                }
            })?;
        Ok(())
    }

    fn fail(&self, mut state: MutexGuard<'_, Guarded>, error: &io::Error) {
        state.failure = Some(error.to_string());
        self.shared.changed.notify_all();
    }
}

/// Connects; blocks for as long as a link may take.
fn open(address: &str, trust: Option<&Trust>) -> Result<Line, ClientError> {
    let timeout = MAKE_TIMEOUT - Duration::from_millis(500);
    let line = Line::open(address, trust, OutputBuffer::default(), timeout)?;
    line.unblock()
        .map_err(ClientError::io("prepare the socket"))?;
    Ok(line)
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
