//! Who is closed for being silent or for not reading, and who is not because the reactor did not
//! run. Nothing waits: past events are dated back.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::super::inbox::Inbox;
use super::super::peers::OUTDATED_MIN;
use super::super::{Reactor, Shared};
use super::*;
use crate::connection::Pace;
use crate::session::Session;
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
        Scene::with(words, INTERVAL)
    }

    fn with(words: &[u8], heartbeat_interval: Duration) -> Scene {
        let config = Config {
            heartbeat_interval,
            threads: 1,
            ..Config::default()
        };
        let listener = sys::listen(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let inbox = Inbox::new().expect("an event descriptor");
        let shared = Shared::new(config, vec![Arc::new(inbox)]);
        shared.open.store(true, Ordering::Release);
        shared.inboxes[0].waker.wake();
        let mut reactor = Reactor::new(0, Arc::new(shared), Some(listener), None).expect("made");
        let mut client = TcpStream::connect(address).expect("connects");
        client.write_all(words).expect("written");
        let key = (0..1_000_000).find_map(|_| {
            reactor.turn(Some(Duration::ZERO));
            let (key, connection) = reactor.hall.peers.connections.iter().next()?;
            let is_read = words.is_empty() || !matches!(connection.session, Session::Greeting);
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
        let connection = self
            .reactor
            .hall
            .peers
            .connections
            .get(self.key)
            .expect("open");
        let socket = socket2::SockRef::from(&connection.transport);
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
        let connection = self
            .reactor
            .hall
            .peers
            .connections
            .get_mut(self.key)
            .expect("open");
        connection.last_read = now - Duration::from_millis(read_ms_ago);
        connection.timer_at = Some(due);
        self.reactor.hall.peers.timers.push(due, self.key);
        self.reactor.turn(Some(Duration::ZERO));
        self.reactor.hall.peers.connections.get(self.key).is_some()
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

#[test]
fn a_stranger_has_said_who_it_is_in_time_or_gets_on_with_it() {
    let large = [b"  V2PUB t\n\0\x10\0\0", &[b'x'; 1000][..]].concat();
    for (words, began_ms_ago, stays) in [
        (&b"  V2"[..], 5_000, false),
        (b"  V2IDENTIFY\n\0\0\0\x10{", 0, false),
        (b"  V2NOP\n", 5_000, true),
        (&large, 4_900, true),
        (&large, 5_100, false),
    ] {
        let mut scene = Scene::new(words);
        let now = sys::monotonic_now();
        let connection = scene.reactor.hall.peers.connections.get_mut(scene.key);
        let connection = connection.expect("open");
        if let Some(arriving) = &mut connection.arriving {
            let began = now - Duration::from_millis(began_ms_ago);
            *arriving = Pace::new(began, connection.needed);
        }
        assert_eq!(scene.outlives(0, 0), stays, "{began_ms_ago} ms: {words:?}");
        let late = scene.reactor.hall.peers.counters.strangers_late;
        assert_eq!(late, u64::from(!stays));
    }
}

/// Steps after which what is waited for is taken never to come.
const STEPS: usize = 3_000_000;

impl Scene {
    fn connection(&self) -> &crate::connection::Connection {
        self.reactor
            .hall
            .peers
            .connections
            .get(self.key)
            .expect("open")
    }

    /// Says `words` again and again without reading, `most` times or until the broker does not listen; gives how often.
    fn repeat(&mut self, words: &[u8], most: usize) -> usize {
        self.client.set_nonblocking(true).expect("set");
        let chunk = words.repeat(64 * 1024 / words.len());
        let (mut written, most_bytes) = (0, most.saturating_mul(words.len()));
        for _ in 0..STEPS {
            let begin = written % chunk.len();
            let end = chunk.len().min(begin + (most_bytes - written));
            match self.client.write(&chunk[begin..end]) {
                Ok(count) => written += count,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
            self.reactor.turn(Some(Duration::ZERO));
            if self.connection().pause == Pause::Unread || written == most_bytes {
                break;
            }
        }
        written / words.len()
    }

    /// Reads so many frames; what they are is no matter.
    fn read_frames(&mut self, frames: usize) {
        let (mut left, mut bytes): (_, Vec<u8>) = (frames, Vec::new());
        let mut taken = 0;
        // What comes is waited for at the socket, a moment at a time.
        self.client.set_nonblocking(false).expect("set");
        let moment = Some(Duration::from_millis(1));
        self.client.set_read_timeout(moment).expect("set");
        let mut buffer = vec![0; 64 * 1024];
        for _ in 0..STEPS {
            while let Some(size) = bytes[taken..].first_chunk::<4>() {
                let end = taken + 4 + u32::from_be_bytes(*size) as usize;
                if bytes.len() < end {
                    break;
                }
                taken = end;
                left = left.saturating_sub(1);
            }
            if left == 0 {
                return;
            }
            self.reactor.turn(Some(Duration::ZERO));
            match self.client.read(&mut buffer) {
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
        }
        panic!("{left} of {frames} answers do not come");
    }
}

#[test]
fn who_does_not_read_is_not_read_from_until_it_does() {
    for (begin, words) in [
        ("SUB t c\n", "FIN 0123456789abcdef\n"),
        ("SUB t c\n", "TOUCH 0123456789abcdef\n"),
        ("", "PUB t#ephemeral\n\0\0\0\x01x"),
        ("", "IDENTIFY\n\0\0\0\x1c{\"feature_negotiation\":true}"),
    ] {
        let mut scene = Scene::with(format!("  V2{begin}").as_bytes(), INTERVAL * 60);
        let socket = socket2::SockRef::from(&scene.connection().transport);
        socket.set_send_buffer_size(256 * 1024).expect("set");
        let said = scene.repeat(words.as_bytes(), usize::MAX);
        let unsent = scene.connection().output.unsent().len();
        assert_eq!(scene.connection().pause, Pause::Unread, "{words:?}");
        assert!(unsent < 300 * 1024, "{words:?}: {unsent}");
        scene.read_frames(said + usize::from(!begin.is_empty()));
        assert_eq!(scene.connection().pause, Pause::No, "{words:?}");
    }
}

#[test]
fn who_hardly_reads_for_an_interval_is_closed() {
    for (waits_ms, stays) in [(900, true), (1100, false)] {
        let mut scene = Scene::new(b"  V2NOP\n");
        let connection = scene
            .reactor
            .hall
            .peers
            .connections
            .get_mut(scene.key)
            .expect("open");
        // The kernel takes some of it, and less than an eighth.
        connection.output.bytes().resize(64 * 1024 * 1024, 0);
        let refused = sys::monotonic_now() - Duration::from_millis(waits_ms);
        connection.output.note_refused(refused);
        assert_eq!(scene.outlives(0, 0), stays, "{waits_ms} ms");
        assert_eq!(
            scene.reactor.hall.peers.counters.unread_closed,
            u64::from(!stays)
        );
    }
}

#[test]
fn terms_asked_for_again_and_again_leave_no_timers_behind() {
    let terms =
        r#"{"srtm":{"ack_every_messages":9,"ack_interval_ms":9999},"output_buffer_timeout":99}"#;
    let size = char::from(terms.len() as u8);
    let words = format!("IDENTIFY\n\0\0\0{size}{terms}PUB t#ephemeral\n\0\0\0\x01x");
    let mut scene = Scene::new(b"  V2");
    // One at a time, and many at the same instant.
    for most in [1; 200].into_iter().chain([300; 10]) {
        assert_eq!(scene.repeat(words.as_bytes(), most), most);
        scene.read_frames(most);
        let (timers, dues) = (
            scene.reactor.hall.peers.timers.len(),
            scene.reactor.hall.peers.dues.len(),
        );
        assert!(timers <= OUTDATED_MIN + 2, "{timers} timers");
        assert!(dues <= OUTDATED_MIN + 4, "{dues} dues");
    }
}

#[test]
fn a_turn_looks_at_a_bounded_number_of_those_whose_time_has_come() {
    let mut scene = Scene::new(b"  V2");
    let due = sys::monotonic_now();
    (0..1000).for_each(|_| scene.reactor.hall.peers.timers.push(due, scene.key));
    let mut turns = 0;
    while scene
        .reactor
        .hall
        .peers
        .timers
        .next()
        .is_some_and(|at| at <= due)
    {
        assert!(scene.reactor.next_due() <= Some(due), "it does not wait");
        let before = scene.reactor.hall.peers.timers.len();
        scene.reactor.turn(Some(Duration::ZERO));
        let looked_at = before - scene.reactor.hall.peers.timers.len();
        assert!((1..=TIMERS_PER_TURN).contains(&looked_at), "{looked_at}");
        turns += 1;
    }
    assert_eq!(turns, 1000usize.div_ceil(TIMERS_PER_TURN));
}
