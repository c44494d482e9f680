//! Brokers and a controller on real sockets, as small as the publisher allows.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::spawn;
use std::time::Duration;

use wire::{Command, Decoded, Limits, Phase};

/// A broker that keeps what it accepts.
#[derive(Clone)]
pub(super) struct Broker {
    pub(super) address: SocketAddr,
    shared: Arc<(Mutex<Held>, Condvar)>,
}

#[derive(Default)]
struct Held {
    bodies: Vec<String>,
    identities: Vec<String>,
    connections: Vec<TcpStream>,
    /// No OK is sent.
    is_mute: bool,
    /// New connections are closed at once.
    is_dead: bool,
    closed: usize,
}

impl Broker {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let broker = Self {
            address: listener.local_addr().expect("bound"),
            shared: Arc::default(),
        };
        let served = broker.clone();
        spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                let connection = served.clone();
                let mut held = served.shared.0.lock().expect("whole");
                if held.is_dead {
                    continue;
                }
                held.connections.push(stream.try_clone().expect("a clone"));
                drop(held);
                spawn(move || connection.serve(stream));
            }
        });
        broker
    }

    pub(super) fn name(&self) -> String {
        self.address.to_string()
    }

    pub(super) fn mute(&self) {
        self.shared.0.lock().expect("whole").is_mute = true;
    }

    /// Closes all connections, and new ones at once.
    pub(super) fn kill(&self) {
        let mut held = self.shared.0.lock().expect("whole");
        held.is_dead = true;
        for connection in held.connections.drain(..) {
            let _gone_already = connection.shutdown(Shutdown::Both);
        }
    }

    /// Sends bytes to the newest connection.
    pub(super) fn send(&self, bytes: &[u8]) {
        let held = self.shared.0.lock().expect("whole");
        let mut newest = held.connections.last().expect("a connection");
        newest.write_all(bytes).expect("the client reads");
    }

    pub(super) fn bodies(&self) -> Vec<String> {
        self.shared.0.lock().expect("whole").bodies.clone()
    }

    pub(super) fn identities(&self) -> Vec<String> {
        self.shared.0.lock().expect("whole").identities.clone()
    }

    pub(super) fn wait_for_bodies(&self, bodies: usize) {
        self.wait_until(|held| held.bodies.len() >= bodies);
    }

    pub(super) fn wait_for_close(&self) {
        self.wait_until(|held| held.closed > 0);
    }

    fn wait_until(&self, is_met: impl Fn(&Held) -> bool) {
        let held = self.shared.0.lock().expect("whole");
        let patience = Duration::from_secs(30);
        let waited = self
            .shared
            .1
            .wait_timeout_while(held, patience, |held| !is_met(held));
        assert!(!waited.expect("whole").1.timed_out(), "waited in vain");
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut input = Vec::new();
        let mut buffer = [0; 4096];
        let mut skipped = wire::MAGIC_V2.len();
        loop {
            let read = match stream.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(read) => read,
            };
            input.extend_from_slice(&buffer[..read]);
            if input.len() < skipped {
                continue;
            }
            input.drain(..std::mem::take(&mut skipped));
            let answers = self.execute(&mut input);
            if stream.write_all(&answers).is_err() {
                break;
            }
        }
        self.shared.0.lock().expect("whole").closed += 1;
        self.shared.1.notify_all();
    }

    fn execute(&self, input: &mut Vec<u8>) -> Vec<u8> {
        let mut held = self.shared.0.lock().expect("whole");
        let mut answers = Vec::new();
        let mut done = 0;
        while let Decoded::Complete { command, consumed } =
            wire::decode(&input[done..], &Limits::default(), Phase::Init, true).expect("valid")
        {
            done += consumed;
            let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
            match command {
                Command::Identify { body } => {
                    held.identities.push(text(body));
                    wire::put_response(&mut answers, br#"{"srtm":{"version":2}}"#);
                    continue;
                }
                Command::Nop => continue,
                Command::Pub { body, .. } => held.bodies.push(text(body)),
                Command::Mpub { messages, .. } => held.bodies.extend(messages.iter().map(text)),
                other => panic!("a publisher sends no {other:?}"),
            }
            if !held.is_mute {
                answers.extend_from_slice(&wire::OK_FRAME);
            }
        }
        input.drain(..done);
        self.shared.1.notify_all();
        answers
    }
}

/// A controller that answers by a table from `METHOD path` to status and body.
pub(super) struct Controller {
    pub(super) address: String,
    answers: Arc<Mutex<HashMap<String, (u16, String)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Controller {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let controller = Self {
            address: listener.local_addr().expect("bound").to_string(),
            answers: Arc::default(),
            asked: Arc::default(),
        };
        let (answers, asked) = (controller.answers.clone(), controller.asked.clone());
        spawn(move || {
            for stream in listener.incoming() {
                let (answers, asked) = (answers.clone(), asked.clone());
                spawn(move || serve_http(stream.expect("a connection"), &answers, &asked));
            }
        });
        controller
    }

    pub(super) fn answers(&self, request: &str, status: u16, body: &str) {
        let answer = (status, body.to_owned());
        let mut answers = self.answers.lock().expect("whole");
        answers.insert(request.to_owned(), answer);
    }

    /// Requests so far, each as `METHOD target body`.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("whole").clone()
    }
}

fn serve_http(
    stream: TcpStream,
    answers: &Mutex<HashMap<String, (u16, String)>>,
    asked: &Mutex<Vec<String>>,
) {
    let mut reader = BufReader::new(stream.try_clone().expect("a clone"));
    let mut writer = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let request = line.rsplit_once(' ').expect("a request line").0;
        let request = request.replace("%3A", ":");
        let mut length = 0;
        loop {
            line.clear();
            reader.read_line(&mut line).expect("headers");
            if line.trim().is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').expect("a header");
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("a body");
        let body = String::from_utf8(body).expect("text");
        let seen = format!("{request} {body}").trim().to_owned();
        asked.lock().expect("whole").push(seen);
        let nothing = (404, r#"{"message":"nothing here"}"#.to_owned());
        let known = answers.lock().expect("whole").get(&request).cloned();
        let (status, answer) = known.unwrap_or(nothing);
        let bytes = answer.len();
        let written = write!(
            writer,
            "HTTP/1.1 {status} X\r\nContent-Length: {bytes}\r\n\r\n{answer}"
        );
        if written.is_err() {
            return;
        }
    }
}
