//! What becomes of messages and channels, as a log notes it: a step is a kind and its fields, little-endian, without padding.
//!
//! Steps say what is so from then on and not what changed, so that one that is noted twice, or after it was noted already, does no harm.

use wire::ChannelName;

/// The number of a topic's own queue. Channels have higher ones.
pub const OWN_QUEUE: u32 = 0;

/// Something that became of a message or of a channel of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// From now on the topic has a channel of that number.
    Channel(u32, ChannelName),
    /// That channel is gone, and what it held.
    ChannelGone(u32),
    /// A message left the topic's own queue for all channels that there are.
    Passed(u64),
    /// A message left the topic's own queue for nowhere.
    Discarded(u64),
    /// A message of a channel was given to a consumer, so often by now.
    Delivered {
        /// The channel's number.
        channel: u32,
        /// The message.
        id: u64,
        /// Deliveries so far.
        attempts: u16,
    },
    /// A message of a channel is not to be delivered before a time.
    Deferred {
        /// The channel's number.
        channel: u32,
        /// The message.
        id: u64,
        /// Deliveries so far.
        attempts: u16,
        /// When it is due, in nanoseconds since the Unix epoch.
        due_ns: i64,
    },
    /// A channel is done with a message.
    Finished {
        /// The channel's number.
        channel: u32,
        /// The message.
        id: u64,
    },
    /// The queue of that number has nothing any more, in whatever state: [`OWN_QUEUE`], or a channel's.
    Emptied(u32),
    /// Files of lower numbers are of no more use.
    Begins(u64),
    /// The topic has these channels and no others.
    Channels(Vec<(u32, ChannelName)>),
    /// All that waited when the log began is in it. Until that is noted, what is elsewhere counts.
    Whole,
}

const CHANNEL: u8 = 1;
const CHANNEL_GONE: u8 = 2;
const PASSED: u8 = 3;
const DISCARDED: u8 = 4;
const DELIVERED: u8 = 5;
const DEFERRED: u8 = 6;
const FINISHED: u8 = 7;
const EMPTIED: u8 = 8;
const BEGINS: u8 = 9;
const CHANNELS: u8 = 10;
const WHOLE: u8 = 11;

impl Step {
    /// The message that it is about.
    #[must_use]
    pub fn message(&self) -> Option<u64> {
        match *self {
            Step::Passed(id)
            | Step::Discarded(id)
            | Step::Delivered { id, .. }
            | Step::Deferred { id, .. }
            | Step::Finished { id, .. } => Some(id),
            Step::Channel(..)
            | Step::ChannelGone(_)
            | Step::Emptied(_)
            | Step::Begins(_)
            | Step::Channels(_)
            | Step::Whole => None,
        }
    }

    /// Whether it means the same when it is written once more, later.
    #[must_use]
    pub fn may_be_repeated(&self) -> bool {
        !matches!(self, Step::Emptied(_) | Step::Begins(_))
    }

    /// Appends it as [`Steps`] reads it.
    pub fn push_to(&self, bytes: &mut Vec<u8>) {
        match self {
            Step::Channel(number, name) => {
                bytes.push(CHANNEL);
                push_channel(bytes, *number, name);
            }
            Step::Channels(channels) => {
                push_number(bytes, CHANNELS, channels.len() as u32);
                for (number, name) in channels {
                    push_channel(bytes, *number, name);
                }
            }
            Step::ChannelGone(number) => push_number(bytes, CHANNEL_GONE, *number),
            Step::Passed(id) => push_id(bytes, PASSED, *id),
            Step::Discarded(id) => push_id(bytes, DISCARDED, *id),
            Step::Delivered {
                channel,
                id,
                attempts,
            } => {
                push_number(bytes, DELIVERED, *channel);
                bytes.extend_from_slice(&id.to_le_bytes());
                bytes.extend_from_slice(&attempts.to_le_bytes());
            }
            Step::Deferred {
                channel,
                id,
                attempts,
                due_ns,
            } => {
                push_number(bytes, DEFERRED, *channel);
                bytes.extend_from_slice(&id.to_le_bytes());
                bytes.extend_from_slice(&attempts.to_le_bytes());
                bytes.extend_from_slice(&due_ns.to_le_bytes());
            }
            Step::Finished { channel, id } => {
                push_number(bytes, FINISHED, *channel);
                bytes.extend_from_slice(&id.to_le_bytes());
            }
            Step::Emptied(queue) => push_number(bytes, EMPTIED, *queue),
            Step::Begins(file) => push_id(bytes, BEGINS, *file),
            Step::Whole => bytes.push(WHOLE),
        }
    }
}

fn push_channel(bytes: &mut Vec<u8>, number: u32, name: &ChannelName) {
    bytes.extend_from_slice(&number.to_le_bytes());
    // Names are far shorter than 256 bytes.
    bytes.push(name.as_str().len() as u8);
    bytes.extend_from_slice(name.as_str().as_bytes());
}

fn push_number(bytes: &mut Vec<u8>, kind: u8, number: u32) {
    bytes.push(kind);
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn push_id(bytes: &mut Vec<u8>, kind: u8, id: u64) {
    bytes.push(kind);
    bytes.extend_from_slice(&id.to_le_bytes());
}

/// The steps of a record's payload. It ends with the first that is none.
#[derive(Debug)]
pub struct Steps<'a>(&'a [u8]);

impl<'a> Steps<'a> {
    /// Of such a payload.
    #[must_use]
    pub fn of_payload(payload: &'a [u8]) -> Steps<'a> {
        Steps(payload)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn id(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn name(&mut self) -> Option<ChannelName> {
        let [length] = self.take()?;
        let (name, rest) = self.0.split_at_checked(usize::from(length))?;
        self.0 = rest;
        std::str::from_utf8(name).ok()?.parse().ok()
    }

    fn read(&mut self) -> Option<Step> {
        let [kind] = self.take()?;
        Some(match kind {
            CHANNEL => Step::Channel(self.number()?, self.name()?),
            CHANNEL_GONE => Step::ChannelGone(self.number()?),
            PASSED => Step::Passed(self.id()?),
            DISCARDED => Step::Discarded(self.id()?),
            DELIVERED => Step::Delivered {
                channel: self.number()?,
                id: self.id()?,
                attempts: self.take().map(u16::from_le_bytes)?,
            },
            DEFERRED => Step::Deferred {
                channel: self.number()?,
                id: self.id()?,
                attempts: self.take().map(u16::from_le_bytes)?,
                due_ns: self.take().map(i64::from_le_bytes)?,
            },
            FINISHED => Step::Finished {
                channel: self.number()?,
                id: self.id()?,
            },
            EMPTIED => Step::Emptied(self.number()?),
            BEGINS => Step::Begins(self.id()?),
            WHOLE => Step::Whole,
            CHANNELS => {
                let count = self.number()?;
                let channels = (0..count).map(|_| Some((self.number()?, self.name()?)));
                Step::Channels(channels.collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }
}

impl Iterator for Steps<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let step = self.read();
        if step.is_none() {
            self.0 = &[];
        }
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_back_and_what_is_cut_is_none() {
        let steps = vec![
            Step::Channel(1, "c".parse().expect("a name")),
            Step::ChannelGone(2),
            Step::Passed(u64::MAX),
            Step::Discarded(4),
            Step::Delivered {
                channel: 5,
                id: 6,
                attempts: 7,
            },
            Step::Deferred {
                channel: 8,
                id: 9,
                attempts: u16::MAX,
                due_ns: -11,
            },
            Step::Finished {
                channel: 12,
                id: 13,
            },
            Step::Emptied(OWN_QUEUE),
            Step::Begins(14),
            Step::Whole,
            Step::Channels(vec![
                (1, "c".parse().expect("a name")),
                (2, "d".parse().expect("a name")),
            ]),
        ];
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        for step in &steps {
            step.push_to(&mut bytes);
            ends.push(bytes.len());
        }
        for length in 0..=bytes.len() {
            let whole = ends.iter().filter(|&&end| end <= length).count();
            let read: Vec<Step> = Steps::of_payload(&bytes[..length]).collect();
            assert_eq!(read, steps[..whole]);
        }
    }
}
