//! One peer's connection as a state machine: bytes in, answers out, and changes to the registry.
//!
//! Answers come in the order of the commands. A refusal ends the connection, as at nsqlookupd; a
//! full registry does not, because the nsqd would come back at once and repeat everything. Does not
//! read, write or wait.

use clock::Instant;

use super::registry::{PeerId, Registry};
use wire::lookup::{BAD_MAGIC, Command, MAGIC, decode, encode_answer};

/// A connection.
#[derive(Debug)]
pub struct Session {
    id: PeerId,
    remote_address: String,
    stage: Stage,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The magic has not come.
    Silent,
    /// It may say who it is.
    Greeted,
    /// It has said who it is.
    Identified,
}

/// The result of a piece of input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Bytes of the input that are done with.
    pub used: usize,
    /// What to send.
    pub answer: Vec<u8>,
    /// Whether the connection ends after it, and why.
    pub end: Option<String>,
}

impl Session {
    /// A connection from `remote_address` that has said nothing yet.
    #[must_use]
    pub fn new(id: PeerId, remote_address: String) -> Session {
        Session {
            id,
            remote_address,
            stage: Stage::Silent,
        }
    }

    /// How far it has come.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Takes the first thing in `input`; `None` while it has not come whole. `introduction` is the answer to `IDENTIFY`.
    pub fn receive(
        &mut self,
        input: &[u8],
        registry: &mut Registry,
        introduction: &[u8],
        now: Instant,
    ) -> Option<Turn> {
        if self.stage == Stage::Silent {
            let magic = input.first_chunk::<4>()?;
            if *magic != MAGIC {
                return Some(Turn::last(BAD_MAGIC));
            }
            self.stage = Stage::Greeted;
            return Some(Turn {
                used: MAGIC.len(),
                answer: Vec::new(),
                end: None,
            });
        }
        let (command, used) = match decode(input, self.stage == Stage::Identified) {
            Ok(decoded) => decoded?,
            Err(refusal) => return Some(Turn::last(&refusal.to_string())),
        };
        let answer = self.execute(command, registry, introduction, now);
        Some(Turn {
            used,
            answer: encode_answer(&answer),
            end: None,
        })
    }

    fn execute(
        &mut self,
        command: Command,
        registry: &mut Registry,
        introduction: &[u8],
        now: Instant,
    ) -> Vec<u8> {
        match command {
            Command::Ping => registry.ping(self.id, now),
            Command::Identify(identity) => {
                registry.identify(self.id, self.remote_address.clone(), identity, now);
                self.stage = Stage::Identified;
                return introduction.to_vec();
            }
            Command::Register(subject) => {
                if let Err(full) = registry.register(self.id, &subject) {
                    let topic = subject.topic.as_str();
                    tracing::warn!(peer = self.remote_address, topic, "not registered: {full}");
                    return format!("E_FULL REGISTER {full}").into_bytes();
                }
            }
            Command::Unregister(subject) => registry.unregister(self.id, &subject),
        }
        b"OK".to_vec()
    }
}

impl Turn {
    /// A refusal: everything that came or comes after it is void.
    fn last(text: &str) -> Turn {
        Turn {
            used: 0,
            answer: encode_answer(text.as_bytes()),
            end: Some(text.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::registry::{Bounds, Rules};

    const IDENTIFY: &str = "IDENTIFY\n";
    const BODY: &str =
        r#"{"broadcast_address":"h1","tcp_port":4150,"http_port":4151,"version":"1.3.0"}"#;

    /// Feeds a whole conversation; returns the answers and the end.
    fn converse(registry: &mut Registry, input: &[u8]) -> (Vec<String>, Option<String>) {
        let mut session = Session::new(1, String::from("10.0.0.1:5000"));
        let (mut rest, mut answers) = (input, Vec::new());
        while let Some(turn) = session.receive(rest, registry, b"{}", Instant::ZERO) {
            rest = &rest[turn.used..];
            if !turn.answer.is_empty() {
                answers.push(String::from_utf8_lossy(&turn.answer[4..]).into_owned());
            }
            if turn.end.is_some() {
                return (answers, turn.end);
            }
        }
        (answers, None)
    }

    fn identified(commands: &str) -> Vec<u8> {
        let body = encode_answer(BODY.as_bytes());
        [b"  V1", IDENTIFY.as_bytes(), &body, commands.as_bytes()].concat()
    }

    #[test]
    fn commands_are_answered_in_order() {
        let mut registry = Registry::default();
        let input = identified("PING\nREGISTER t c\nREGISTER u\nUNREGISTER u\nREGIST");
        let (answers, end) = converse(&mut registry, &input);
        assert_eq!(
            (answers, end),
            (
                ["{}", "OK", "OK", "OK", "OK"].map(String::from).to_vec(),
                None
            )
        );
        let producers: Vec<_> = registry.producers("t", Instant::ZERO).collect();
        assert_eq!(producers.len(), 1);
        assert_eq!(producers[0].remote_address, "10.0.0.1:5000");
        assert!(registry.topics().eq(["t", "u"]));
        assert_eq!(registry.producers("u", Instant::ZERO).count(), 0);
    }

    #[test]
    fn a_refusal_is_the_last_answer() {
        let cases = [
            (b"  V2\nPING\n".to_vec(), "E_BAD_PROTOCOL"),
            (
                b"  V1REGISTER t\nPING\n".to_vec(),
                "E_INVALID client must IDENTIFY",
            ),
            (
                identified("IDENTIFY\nPING\n"),
                "E_INVALID cannot IDENTIFY again",
            ),
            (
                identified("REGISTER t/u\nPING\n"),
                "E_BAD_TOPIC REGISTER topic name 't/u' is not valid",
            ),
        ];
        for (input, text) in cases {
            let (answers, end) = converse(&mut Registry::default(), &input);
            assert_eq!(answers.last().map(String::as_str), Some(text));
            assert_eq!(end.as_deref(), Some(text));
        }
    }

    #[test]
    fn a_full_registry_says_so_and_goes_on() {
        let bounds = Bounds {
            topics: 1,
            ..Bounds::default()
        };
        let rules = Rules::default();
        let mut registry = Registry::new(Rules { bounds, ..rules });
        let input = identified("REGISTER t\nREGISTER u\nPING\n");
        let (answers, end) = converse(&mut registry, &input);
        assert_eq!(
            answers[1..],
            ["OK", "E_FULL REGISTER too many topics", "OK"]
        );
        assert_eq!(end, None);
    }
}
