//! Records of a log, put together before they are written.

use wire::TopicName;

use super::open::push_standings;
use super::state::{Spot, Standing, State};
use super::step::Step;
use crate::error::DiskError;
use crate::message::{MESSAGE_HEAD_BYTES, Message};
use crate::record::{self, Kind, Salt};
use crate::segment::{FileName, Owner, begin_file};

/// A message that was pushed.
#[derive(Debug)]
pub(super) struct Put {
    pub(super) id: u64,
    pub(super) spot: Spot,
    pub(super) standings: Vec<Standing>,
}

/// Bytes of a log that are being put together.
pub(super) struct Sheet {
    pub(super) bytes: Vec<u8>,
    pub(super) base: u64,
    pub(super) file: FileName,
    pub(super) spots: Vec<Put>,
}

impl Sheet {
    fn place(&self) -> (u64, Salt) {
        (self.base, self.file.salt)
    }

    pub(super) fn push_steps(&mut self, steps: &[Step]) {
        let place = self.place();
        push_steps(&mut self.bytes, place, steps);
    }

    pub(super) fn push_messages<'a>(
        &mut self,
        messages: impl Iterator<Item = (Message<'a>, &'a [Standing])>,
    ) -> Result<(), DiskError> {
        for (message, standings) in messages {
            let begin = self.bytes.len();
            let mut head = Vec::new();
            let kind = match standings {
                [Standing::OWN] => Kind::Message,
                _ => {
                    push_standings(&mut head, standings);
                    Kind::Standing
                }
            };
            head.extend_from_slice(&message.head());
            let (place, payload) = (self.place(), [&head[..], message.body]);
            let pushed = record::push(&mut self.bytes, place, (kind, 0), payload);
            let length = u32::try_from(self.bytes.len() - begin);
            let (true, Ok(bytes)) = (pushed, length) else {
                return Err(DiskError::TooLong(MESSAGE_HEAD_BYTES + message.body.len()));
            };
            self.spots.push(Put {
                id: message.id,
                spot: Spot {
                    file: self.file,
                    offset: self.base + begin as u64,
                    bytes,
                    body_bytes: message.body.len() as u32,
                },
                standings: standings.to_vec(),
            });
        }
        Ok(())
    }
}

fn push_steps(bytes: &mut Vec<u8>, place: (u64, Salt), steps: &[Step]) {
    if steps.is_empty() {
        return;
    }
    let mut payload = Vec::new();
    steps.iter().for_each(|step| step.push_to(&mut payload));
    record::push(bytes, place, (Kind::Steps, 0), [&payload, b""]);
}

/// What a file begins with: whose log it is, which channels there are, and whether it is whole. Without these what follows could not be understood, so
/// all are there twice.
pub(super) fn push_beginning(bytes: &mut Vec<u8>, salt: Salt, topic: &TopicName, state: &State) {
    let owner = Owner {
        topic: topic.clone(),
        channel: None,
    };
    bytes.extend(begin_file(salt, &owner));
    let again = owner.to_bytes();
    record::push(bytes, (0, salt), (Kind::Owner, 0), [&again, b""]);
    let channels = state.channels.iter();
    let channels = channels.map(|(&number, name)| (number, name.clone()));
    let mut steps = vec![Step::Channels(channels.collect())];
    steps.extend(state.is_whole.then_some(Step::Whole));
    for _ in 0..2 {
        push_steps(bytes, (0, salt), &steps);
    }
}
