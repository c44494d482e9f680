//! A session for tests in place of a protocol with several subscriptions: lines of words.
//!
//! `SUB topic channel timeout_ms`, `RDY number count`, `FIN number id`, `REQ number id delay_ms`,
//! `TOUCH number id`, `PING`; the answers are `SUBSCRIBED number`, `MESSAGE number id attempts body`,
//! `FAILED why`, `PONG`.

use std::time::Duration;

use clock::Instant;

use super::act::{Act, Aftermath, Failure, Message, Next, Terms};
use crate::connection::{Output, SubscriptionNumber};
use topics::ConsumerOrder;

/// Its first bytes.
pub const MAGIC: &[u8; 4] = b"LINE";

/// A peer that speaks in lines.
#[derive(Debug)]
pub struct Lines;

impl Lines {
    pub(super) fn put_subscribed(&mut self, number: SubscriptionNumber, output: &mut Output) {
        say(output, &format!("SUBSCRIBED {number}"));
    }
}

pub(super) fn next<'a>(bytes: &'a [u8], output: &mut Output) -> Result<Next<'a>, Failure> {
    let Some(length) = bytes.iter().position(|&byte| byte == b'\n') else {
        let needed = bytes.len() + 1;
        return Ok(Next::Incomplete { needed });
    };
    let line = std::str::from_utf8(&bytes[..length]).expect("tests speak UTF-8");
    let words: Vec<&str> = line.split(' ').collect();
    let number = |at: usize| words[at].parse::<u64>().expect("a number");
    let order = |order| Act::Order {
        of: number(1) as SubscriptionNumber,
        order,
    };
    let act = match words[0] {
        "SUB" => Act::Subscribe {
            topic: words[1],
            channel: words[2],
            terms: Terms {
                msg_timeout: Duration::from_millis(number(3)),
                sample_rate: 0,
                is_finished_when_sent: false,
            },
        },
        "RDY" => order(ConsumerOrder::Ready(number(2) as u32)),
        "FIN" => order(ConsumerOrder::Finish(number(2))),
        "REQ" => {
            let delay = Duration::from_millis(number(3));
            order(ConsumerOrder::Requeue(number(2), delay))
        }
        "TOUCH" => order(ConsumerOrder::Touch(number(2))),
        "PING" => {
            say(output, "PONG");
            Act::Rest
        }
        word => panic!("{word}"),
    };
    let used = length + 1;
    Ok(Next::Act { act, used })
}

pub(super) fn put_message(message: Message<'_>, output: &mut Output, now: Instant) {
    let Message {
        id,
        attempts,
        subscription,
        body,
        ..
    } = message;
    let body = std::str::from_utf8(body).expect("tests speak UTF-8");
    let line = format!("MESSAGE {subscription} {id} {attempts} {body}\n");
    output.push_message(line.as_bytes(), b"", subscription, now);
}

pub(super) fn put_failure(failure: &Failure, output: &mut Output) -> Aftermath {
    say(output, &format!("FAILED {failure}"));
    Aftermath::GoesOn
}

fn say(output: &mut Output, line: &str) {
    output.bytes().extend_from_slice(line.as_bytes());
    output.bytes().push(b'\n');
}
