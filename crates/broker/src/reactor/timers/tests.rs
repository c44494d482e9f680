//! Who is closed for being silent, and who is not because the reactor did not run. Nothing waits: what is to have happened
//! long ago is dated back.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::Shared;
use super::super::inbox::Inbox;
use super::*;
use crate::{Config, sys};

const INTERVAL: Duration = Duration::from_secs(1);

/// A reactor that runs when the test says so, and a client of it.
struct Scene {
    reactor: Reactor,
    client: TcpStream,
    key: ConnectionKey,
}

impl Scene {
    /// The client has said `words`, and they were read.
    fn new(words: &[u8]) -> Scene {
        let config = Config {
            heartbeat_interval: INTERVAL,
            threads: 1,
            ..Config::default()
        };
        let listener = sys::listen(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let inbox = Inbox::new().expect("an event descriptor");
        let shared = Shared::new(config, vec![Arc::new(inbox)]);
        shared.open.store(true, Ordering::Release);
        shared.inboxes[0].waker.wake();
        let mut reactor = Reactor::new(0, Arc::new(shared), Some(listener)).expect("made");
        let mut client = TcpStream::connect(address).expect("connects");
        client.write_all(words).expect("written");
        let key = (0..1_000_000).find_map(|_| {
            reactor.turn(Some(Duration::ZERO));
            let (key, connection) = reactor.connections.iter().next()?;
            let is_read = words.is_empty() || connection.progress != Progress::Handshake;
            is_read.then_some(key)
        });
        Scene {
            key: key.expect("it is accepted and read"),
            reactor,
            client,
        }
    }

    /// Says something, which arrives and is not read.
    fn say(&mut self, words: &[u8]) {
        self.client.write_all(words).expect("written");
        let connection = self.reactor.connections.get(self.key).expect("open");
        let socket = socket2::SockRef::from(&connection.stream);
        let has_come = (0..1_000_000).any(|_| {
            std::thread::yield_now();
            socket.peek(&mut [std::mem::MaybeUninit::uninit()]).is_ok()
        });
        assert!(has_come, "what was written does not arrive");
    }

    /// Dates back when the client was heard last and when its timer was due; the turn after tells whether it is still
    /// there.
    fn outlives(&mut self, read_ms_ago: u64, due_ms_ago: u64) -> bool {
        let now = sys::monotonic_now();
        let due = now - Duration::from_millis(due_ms_ago);
        let connection = self.reactor.connections.get_mut(self.key).expect("open");
        connection.last_read = now - Duration::from_millis(read_ms_ago);
        connection.timer_at = Some(due);
        self.reactor.timers.push(due, self.key);
        self.reactor.turn(Some(Duration::ZERO));
        self.reactor.connections.get(self.key).is_some()
    }
}

#[test]
fn silence_is_the_peers_and_not_the_reactors() {
    for (read_ms_ago, due_ms_ago, says, stays, why) in [
        (1_900, 0, "", true, "silent for less than two intervals"),
        (2_100, 0, "", false, "silent for two"),
        (60_000, 57_500, "", false, "it was when the timer was due"),
        (60_000, 58_500, "", true, "the reactor did not ask since"),
        (60_000, 0, "NOP\n", true, "its answer only was not read yet"),
    ] {
        let mut scene = Scene::new(b"  V2NOP\n");
        if !says.is_empty() {
            scene.say(says.as_bytes());
        }
        assert_eq!(scene.outlives(read_ms_ago, due_ms_ago), stays, "{why}");
    }
}

#[test]
fn a_greeting_that_was_not_read_yet_has_come_in_time() {
    for (says, stays) in [("", false), ("  V2", true)] {
        let mut scene = Scene::new(b"");
        if !says.is_empty() {
            scene.say(says.as_bytes());
        }
        assert_eq!(scene.outlives(6_000, 1_000), stays, "{says:?}");
    }
}
