//! Publishers of all kinds. What the broker has accepted is written down once it has said so, and not before.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clock::{Xoshiro256PlusPlus, below, uniform};

use crate::body::{Name, body};
use crate::books::Books;
use crate::broker::Addresses;
use crate::clocks::{End, wall_ns};
use crate::connection::{Connection, Said, request};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(60);

/// How a publisher publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One PUB after the other's OK.
    Patient,
    /// Many PUBs before the first OK.
    Pipelined,
    /// Many PUBs, and acknowledgements of many at once.
    Cumulative,
    /// MPUB.
    Batches,
    /// DPUB.
    Deferred,
    /// `/mpub`, now and then `/pub`.
    Http,
}

impl Kind {
    pub(crate) const ALL: [Kind; 6] = [
        Kind::Patient,
        Kind::Pipelined,
        Kind::Cumulative,
        Kind::Batches,
        Kind::Deferred,
        Kind::Http,
    ];
}

/// A publisher of one life of a broker.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) kind: Kind,
    pub(crate) seed: u64,
    pub(crate) topic: usize,
    pub(crate) topic_name: String,
    /// Messages that it publishes at most.
    pub(crate) messages_max: usize,
    pub(crate) random: Xoshiro256PlusPlus,
    pub(crate) books: Arc<Mutex<Books>>,
    pub(crate) end: Arc<End>,
}

impl Publisher {
    /// Publishes until it has published enough, the end is told, or the broker is gone.
    pub(crate) fn run(mut self, addresses: &Addresses) {
        // What fails is the broker's death. What it did not confirm by then is not accepted.
        let _gone = match self.kind {
            Kind::Http => self.over_http(&addresses.http),
            _ => self.over_tcp(&addresses.tcp),
        };
    }

    fn over_http(&mut self, address: &str) -> io::Result<()> {
        let mut published = 0;
        while published < self.messages_max && !self.pauses() {
            let count = 1 + below(&mut self.random, 30) as usize;
            let (names, bodies) = self.take(count, 0);
            let (line, bytes) = match count {
                1 => (
                    format!("POST /pub?topic={}", self.topic_name),
                    bodies.concat(),
                ),
                _ => (
                    format!("POST /mpub?topic={}&binary=true", self.topic_name),
                    batch(&bodies),
                ),
            };
            let (status, answer) = request(address, &line, &bytes)?;
            assert_eq!(status, 200, "{line}: {}", String::from_utf8_lossy(&answer));
            self.lock().accepted(&names);
            published += count;
        }
        Ok(())
    }

    fn over_tcp(&mut self, address: &str) -> io::Result<()> {
        let acks = r#","srtm":{"ack_every_messages":50,"ack_interval_ms":5}"#;
        let fields = if self.kind == Kind::Cumulative {
            acks
        } else {
            ""
        };
        let mut connection = Connection::open(address, fields)?;
        let mut waiting = Waiting::default();
        let mut published = 0;
        while published < self.messages_max && !self.pauses() {
            published += self.say(&mut connection, &mut waiting);
            connection.flush()?;
            let may_wait = match self.kind {
                Kind::Pipelined | Kind::Cumulative => 200,
                _ => 0,
            };
            self.hear(&mut connection, &mut waiting, may_wait)?;
        }
        self.hear(&mut connection, &mut waiting, 0)
    }

    /// One or more commands; how many messages they have.
    fn say(&mut self, connection: &mut Connection, waiting: &mut Waiting) -> usize {
        let out = &mut connection.output;
        match self.kind {
            Kind::Batches => {
                let count = 1 + below(&mut self.random, 40) as usize;
                let (names, bodies) = self.take(count, 0);
                wire::command::put_mpub(out, &self.topic_name, &bodies);
                waiting.0.push_back(names);
                count
            }
            Kind::Deferred => {
                let delay_ms = u64::from(below(&mut self.random, 1500));
                let (names, bodies) = self.take(1, delay_ms);
                wire::command::put_dpub(out, &self.topic_name, delay_ms, &bodies[0]);
                waiting.0.push_back(names);
                1
            }
            Kind::Patient | Kind::Pipelined | Kind::Cumulative | Kind::Http => {
                let most = if self.kind == Kind::Patient { 1 } else { 60 };
                let count = 1 + below(&mut self.random, most) as usize;
                let (names, bodies) = self.take(count, 0);
                for (name, body) in names.into_iter().zip(bodies) {
                    wire::command::put_pub(out, &self.topic_name, &body);
                    waiting.0.push_back(vec![name]);
                }
                count
            }
        }
    }

    /// Reads answers until no more than so many commands wait for one.
    fn hear(
        &mut self,
        connection: &mut Connection,
        waiting: &mut Waiting,
        may_wait: usize,
    ) -> io::Result<()> {
        while waiting.0.len() > may_wait {
            match connection.next(ANSWER)? {
                Said::Response(text) => {
                    assert_eq!(text, b"OK");
                    let names = waiting.0.pop_front().expect("OK for a command");
                    self.lock().accepted(&names);
                }
                Said::Ack(total) => {
                    let names = waiting.up_to(total);
                    self.lock().accepted(&names);
                }
                other => return Err(io::Error::other(format!("{other:?}"))),
            }
        }
        Ok(())
    }

    /// New messages with their bodies.
    fn take(&mut self, count: usize, delay_ms: u64) -> (Vec<Name>, Vec<Vec<u8>>) {
        let due_ns = match delay_ms {
            0 => 0,
            // The broker counts from when it reads the command.
            delay_ms => wall_ns() + (delay_ms * 1_000_000) as i64,
        };
        let names = self.lock().publish(self.topic, count, due_ns);
        let bodies = names.iter().map(|&name| body(self.seed, name)).collect();
        (names, bodies)
    }

    /// Pauses now and then for a moment. Whether the end was told.
    fn pauses(&mut self) -> bool {
        match below(&mut self.random, 8) {
            0 => {
                let pause = Duration::from_secs_f64(0.02 * uniform(&mut self.random));
                self.end.told_within(pause)
            }
            _ => self.end.is_told(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Books> {
        self.books.lock().expect("no panic")
    }
}

/// Messages whose commands have no answer, by command; with how many were acknowledged together.
#[derive(Debug, Default)]
struct Waiting(VecDeque<Vec<Name>>, u64);

impl Waiting {
    /// Those that an acknowledgement of so many messages since IDENTIFY is for.
    fn up_to(&mut self, total: u64) -> Vec<Name> {
        let mut names = Vec::new();
        while self.1 < total {
            let command = self.0.pop_front().expect("acknowledged and never sent");
            self.1 += command.len() as u64;
            names.extend(command);
        }
        names
    }
}

/// The body of a binary `/mpub`.
fn batch(bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = (bodies.len() as u32).to_be_bytes().to_vec();
    for body in bodies {
        bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
        bytes.extend_from_slice(body);
    }
    bytes
}
