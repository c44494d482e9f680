//! Messages that one broker's queue hands over to another's: the body of `POST /v1/handover`.
//!
//! ```text
//! head, 21 bytes              message, 23 bytes and its body
//!  0  version: 1      1        0  published, ns of Unix time   8
//!  1  stream          8        8  delay left, us               8
//!  9  number          8       16  attempts                     2
//! 17  messages        4       18  has paid: 0, 1               1
//!                             19  length of the body           4
//! ```
//!
//! All numbers are big endian, one message follows the other to the end. A *stream* is one sender's
//! batches for one queue, numbered from 1: a receiver that hears a number again has already had
//! that batch.

/// Messages in one batch at most.
pub const HANDOVER_MESSAGES_MAX: usize = 256;

/// Bytes of a batch's head.
pub const HANDOVER_HEAD_BYTES: usize = 21;

/// Bytes of a message without its body.
pub const HANDED_HEAD_BYTES: usize = 23;

/// One message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedMessage<'a> {
    /// When it was published: the timestamp that its consumer is shown, nanoseconds since the Unix epoch.
    pub published_ns: i64,
    /// Time until it may be delivered, in microseconds.
    pub delay_us: u64,
    /// Deliveries so far.
    pub attempts: u16,
    /// The limit of its topic was asked already.
    pub has_paid: bool,
    /// The published bytes; at least one.
    pub body: &'a [u8],
}

/// A batch that was checked whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover<'a> {
    /// Whose batches these are.
    pub stream: u64,
    /// Which of them.
    pub number: u64,
    /// 1 to [`HANDOVER_MESSAGES_MAX`], in the order of their queue.
    pub messages: Vec<HandedMessage<'a>>,
}

/// Bytes that are no batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAHandover {
    /// Another release wrote it, or nobody.
    #[error("a hand-over of version {0}: run the same release on all brokers")]
    Version(u8),
    /// The bytes end within a message, or go on after the last.
    #[error("a hand-over that does not end where its messages end")]
    Length,
    /// No message, or too many.
    #[error("a hand-over of {0} messages: 1 to {HANDOVER_MESSAGES_MAX} go into one")]
    Count(u32),
    /// A message without a body, one that is too long, or a flag that is none.
    #[error("message {0} of a hand-over is malformed")]
    Message(usize),
}

/// Appends a batch. That it holds as many messages as it may is up to the caller.
pub fn put_handover(handover: &Handover<'_>, out: &mut Vec<u8>) {
    out.push(VERSION);
    out.extend_from_slice(&handover.stream.to_be_bytes());
    out.extend_from_slice(&handover.number.to_be_bytes());
    out.extend_from_slice(&(handover.messages.len() as u32).to_be_bytes());
    for message in &handover.messages {
        out.extend_from_slice(&message.published_ns.to_be_bytes());
        out.extend_from_slice(&message.delay_us.to_be_bytes());
        out.extend_from_slice(&message.attempts.to_be_bytes());
        out.push(u8::from(message.has_paid));
        out.extend_from_slice(&(message.body.len() as u32).to_be_bytes());
        out.extend_from_slice(message.body);
    }
}

/// Reads a batch of messages of up to `max_msg_size` bytes each.
///
/// # Errors
/// [`NotAHandover`]: then none of it counts.
pub fn decode_handover(bytes: &[u8], max_msg_size: u32) -> Result<Handover<'_>, NotAHandover> {
    let mut rest = Rest(bytes);
    let [version] = rest.take()?;
    if version != VERSION {
        return Err(NotAHandover::Version(version));
    }
    let stream = u64::from_be_bytes(rest.take()?);
    let number = u64::from_be_bytes(rest.take()?);
    let count = u32::from_be_bytes(rest.take()?);
    if count == 0 || count as usize > HANDOVER_MESSAGES_MAX {
        return Err(NotAHandover::Count(count));
    }
    let mut messages = Vec::with_capacity(count as usize);
    for index in 0..count as usize {
        messages.push(rest.message(index, max_msg_size)?);
    }
    if !rest.0.is_empty() {
        return Err(NotAHandover::Length);
    }
    Ok(Handover {
        stream,
        number,
        messages,
    })
}

const VERSION: u8 = 1;

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], NotAHandover> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(NotAHandover::Length)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn message(
        &mut self,
        index: usize,
        max_msg_size: u32,
    ) -> Result<HandedMessage<'a>, NotAHandover> {
        let published_ns = i64::from_be_bytes(self.take()?);
        let delay_us = u64::from_be_bytes(self.take()?);
        let attempts = u16::from_be_bytes(self.take()?);
        let [flag] = self.take()?;
        let length = u32::from_be_bytes(self.take()?);
        if flag > 1 || length == 0 || length > max_msg_size {
            return Err(NotAHandover::Message(index));
        }
        let split = self.0.split_at_checked(length as usize);
        let (body, rest) = split.ok_or(NotAHandover::Length)?;
        self.0 = rest;
        Ok(HandedMessage {
            published_ns,
            delay_us,
            attempts,
            has_paid: flag == 1,
            body,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(body: &[u8]) -> HandedMessage<'_> {
        HandedMessage {
            published_ns: -1,
            delay_us: u64::MAX,
            attempts: 3,
            has_paid: true,
            body,
        }
    }

    fn encoded(messages: Vec<HandedMessage<'_>>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let (stream, number) = (7, 1);
        let handover = Handover {
            stream,
            number,
            messages,
        };
        put_handover(&handover, &mut bytes);
        bytes
    }

    #[test]
    fn heads_are_as_long_as_said() {
        assert_eq!(encoded(Vec::new()).len(), HANDOVER_HEAD_BYTES);
        let one = encoded(vec![message(b"ab")]);
        assert_eq!(one.len(), HANDOVER_HEAD_BYTES + HANDED_HEAD_BYTES + 2);
    }

    #[test]
    fn what_is_no_batch_is_refused_whole() {
        let good = encoded(vec![message(b"ab"), message(b"c")]);
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        let longer = [&good[..], b"x"].concat();
        let flag = HANDOVER_HEAD_BYTES + 18;
        let length = HANDOVER_HEAD_BYTES + 22;
        let many = vec![message(b"a"); HANDOVER_MESSAGES_MAX + 1];
        for (bytes, expected) in [
            (with(0, 2), NotAHandover::Version(2)),
            (encoded(Vec::new()), NotAHandover::Count(0)),
            (encoded(many), NotAHandover::Count(257)),
            (with(20, 3), NotAHandover::Length),
            (with(20, 1), NotAHandover::Length),
            (longer, NotAHandover::Length),
            (with(flag, 2), NotAHandover::Message(0)),
            (with(length, 0), NotAHandover::Message(0)),
            (with(length, 3), NotAHandover::Message(0)),
        ] {
            assert_eq!(decode_handover(&bytes, 2), Err(expected), "{bytes:?}");
        }
        for cut in 0..good.len() {
            assert!(decode_handover(&good[..cut], 2).is_err(), "{cut} bytes");
        }
        assert!(decode_handover(&good, 2).is_ok());
    }

    proptest! {
        #[test]
        fn a_batch_comes_back_as_it_was(
            stream: u64,
            number: u64,
            parts in prop::collection::vec((any::<i64>(), any::<u64>(), any::<u16>(), any::<bool>(), prop::collection::vec(any::<u8>(), 1..20)), 1..20),
        ) {
            let messages = parts.iter().map(|(published_ns, delay_us, attempts, has_paid, body)| HandedMessage {
                published_ns: *published_ns,
                delay_us: *delay_us,
                attempts: *attempts,
                has_paid: *has_paid,
                body,
            });
            let handover = Handover { stream, number, messages: messages.collect() };
            let mut bytes = Vec::new();
            put_handover(&handover, &mut bytes);
            prop_assert_eq!(decode_handover(&bytes, 20), Ok(handover));
        }
    }
}
