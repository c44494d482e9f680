//! Batches under way: how each is encoded, which broker is tried next, and what happens when none
//! takes it. Pure; the caller carries them and reports the result of each try ([`super::run`], or a
//! simulated network).

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use bytes::Bytes;
use rustc_hash::FxHasher;
use topics::{Batch, Handed, QueueName};
use wire::handover::{HandedMessage, Handover, NotAHandover, decode_handover, put_handover};

/// What flows is given so long to flow before it is handed over.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at what waits.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// A taker has so long to answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a batch is sent to a taker that may have it already, before another gets it.
const TRIES: u32 = 3;

/// This process's batches: a number that no other has, and how many there were.
#[derive(Debug)]
pub struct Stream {
    id: u64,
    last: u64,
}

impl Stream {
    /// Of a process with a number that no other has.
    #[must_use]
    pub fn new(id: u64) -> Stream {
        Stream { id, last: 0 }
    }

    /// The next batch, as it travels.
    pub fn next_batch(&mut self, lifted: &[Handed]) -> Vec<u8> {
        self.last += 1;
        let messages = lifted.iter().map(|handed| HandedMessage {
            published_ns: handed.published_ns,
            delay_us: u64::try_from(handed.delay.as_micros()).unwrap_or(u64::MAX),
            attempts: handed.attempts,
            has_paid: handed.has_paid,
            body: &handed.body,
        });
        let handover = Handover {
            stream: self.id,
            number: self.last,
            messages: messages.collect(),
        };
        let mut bytes = Vec::new();
        put_handover(&handover, &mut bytes);
        bytes
    }
}

/// A batch that came, with messages of `max_msg_size` bytes and delays of `longest_delay` at most.
///
/// # Errors
/// What is wrong with the bytes.
pub fn read_batch(
    bytes: &Bytes,
    max_msg_size: u32,
    longest_delay: Duration,
) -> Result<Batch, NotAHandover> {
    let handover = decode_handover(bytes, max_msg_size)?;
    let messages = handover.messages.iter().map(|message| Handed {
        published_ns: message.published_ns,
        delay: Duration::from_micros(message.delay_us).min(longest_delay),
        attempts: message.attempts,
        has_paid: message.has_paid,
        body: bytes.slice_ref(message.body),
    });
    Ok(Batch {
        stream: handover.stream,
        number: handover.number,
        messages: messages.collect(),
    })
}

/// The outcome of sending a batch to one taker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has it.
    Taken,
    /// It certainly does not have it.
    Refused(String),
    /// It may have it.
    Unclear(String),
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The batch is gone from here.
    Done,
    /// Send it to [`Carriage::taker`], if there is one. `is_passed_over`: that is now another one,
    /// and the former may have the batch.
    Say {
        /// The former taker may have the batch.
        is_passed_over: bool,
    },
}

/// One batch on its way from taker to taker.
#[derive(Debug)]
pub struct Carriage {
    /// Those that are still to be tried, the present one first.
    takers: VecDeque<String>,
    tries: u32,
    /// The present one may have it.
    is_unclear: bool,
    problem: String,
}

impl Carriage {
    /// A batch of a queue for one of `takers`; where a queue's batches begin does not change, so that they stay together.
    #[must_use]
    pub fn new(queue: &QueueName, takers: &[String]) -> Carriage {
        let mut takers: VecDeque<String> = takers.iter().cloned().collect();
        let first = hash_of(queue) as usize % takers.len().max(1);
        takers.rotate_left(first);
        Carriage {
            takers,
            tries: 0,
            is_unclear: false,
            problem: String::new(),
        }
    }

    /// To whom the batch is to be said; `None`: nobody takes it.
    #[must_use]
    pub fn taker(&self) -> Option<&str> {
        self.takers.front().map(String::as_str)
    }

    /// Takes in the outcome at the present taker.
    pub fn tried(&mut self, outcome: Outcome) -> Step {
        let (why, is_clear) = match outcome {
            Outcome::Taken => return Step::Done,
            Outcome::Refused(why) => (why, true),
            Outcome::Unclear(why) => (why, false),
        };
        self.problem = format!("{}: {why}", self.taker().unwrap_or_default());
        self.tries += 1;
        self.is_unclear |= !is_clear;
        let mut is_passed_over = false;
        if is_clear || self.tries >= TRIES {
            self.takers.pop_front();
            self.tries = 0;
            is_passed_over = std::mem::take(&mut self.is_unclear);
        }
        Step::Say { is_passed_over }
    }

    /// Why the last of them did not take it.
    #[must_use]
    pub fn into_problem(self) -> String {
        self.problem
    }
}

/// A number that stands for a value.
pub(super) fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takers() -> Vec<String> {
        ["a:1", "b:1", "c:1"].map(str::to_owned).to_vec()
    }

    fn queue(topic: &str) -> QueueName {
        QueueName {
            topic: topic.parse().expect("valid"),
            channel: None,
        }
    }

    #[test]
    fn who_refuses_is_passed_over_at_once_and_who_may_have_it_after_three_tries() {
        let refused = || Outcome::Refused(String::from("no"));
        let unclear = || Outcome::Unclear(String::from("silence"));
        let mut carriage = Carriage::new(&queue("t"), &takers());
        let first = carriage.taker().expect("three").to_owned();
        let again = Step::Say {
            is_passed_over: false,
        };
        assert_eq!(carriage.tried(refused()), again);
        let second = carriage.taker().expect("two").to_owned();
        assert_ne!(first, second);
        for _ in 0..2 {
            assert_eq!(carriage.tried(unclear()), again);
            assert_eq!(carriage.taker(), Some(second.as_str()));
        }
        let passed = Step::Say {
            is_passed_over: true,
        };
        assert_eq!(carriage.tried(unclear()), passed);
        let third = carriage.taker().expect("one").to_owned();
        assert_eq!(carriage.tried(unclear()), again);
        assert_eq!(
            carriage.tried(refused()),
            passed,
            "it may have had it before"
        );
        assert_eq!(carriage.taker(), None);
        assert_eq!(carriage.into_problem(), format!("{third}: no"));
    }

    #[test]
    fn batches_of_a_queue_begin_at_one_taker() {
        let first = |topic: &str| {
            let carriage = Carriage::new(&queue(topic), &takers());
            carriage.taker().map(str::to_owned)
        };
        assert_eq!(first("t"), first("t"));
        let begun = (0..50).map(|number| first(&format!("t{number}")));
        let begun: std::collections::BTreeSet<_> = begun.collect();
        assert_eq!(begun.len(), 3, "queues differ");
        assert_eq!(Carriage::new(&queue("t"), &[]).taker(), None);
    }

    #[test]
    fn a_batch_that_was_written_is_read() {
        let handed = Handed {
            published_ns: 5,
            delay: Duration::from_secs(90),
            attempts: 3,
            has_paid: true,
            body: Bytes::from_static(b"body"),
        };
        let mut stream = Stream::new(7);
        stream.next_batch(std::slice::from_ref(&handed));
        let bytes = Bytes::from(stream.next_batch(std::slice::from_ref(&handed)));
        let read = read_batch(&bytes, 1024, Duration::from_secs(60)).expect("written so");
        assert_eq!((read.stream, read.number), (7, 2));
        let within = Handed {
            delay: Duration::from_secs(60),
            ..handed
        };
        assert_eq!(read.messages, [within]);
        assert!(read_batch(&bytes, 3, Duration::MAX).is_err());
    }
}
