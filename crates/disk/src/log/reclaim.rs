//! Messages of a log are read, for their queues or to be carried to the end of the log.

use wire::{ChannelName, TopicName};

use super::open::message_payload;
use super::state::{Live, Spot, Standing, State};
use super::{Entry, Logs};
use crate::error::DiskError;
use crate::message::Message;
use crate::scan::{Damage, Piece, scan};
use crate::volume::Volume;

/// Bytes that are carried to the end of a log in one go.
const CARRIED_BYTES: u64 = 256 * 1024;

/// A message that was read, in a buffer of its own.
#[derive(Debug)]
pub struct ReadMessage {
    payload: Vec<u8>,
    /// What the queue that was asked for knows of it.
    pub standing: Standing,
}

impl ReadMessage {
    /// The message.
    #[must_use]
    pub fn message(&self) -> Option<Message<'_>> {
        Message::of_payload(&self.payload)
    }
}

impl<V: Volume> Logs<V> {
    /// Carries some messages from the first file of a topic's log to its end, where more than half of that is of no use, or from one whose
    /// sync has failed, or notes which of its files are over. Says whether there may be more to do.
    ///
    /// # Errors
    /// [`DiskError`]; everything is as before then.
    pub fn reclaim(&mut self, topic: &TopicName) -> Result<bool, DiskError> {
        let Some(log) = self.logs.get(topic) else {
            return Ok(false);
        };
        let State {
            bytes, live_bytes, ..
        } = log.state;
        let is_over = log
            .over(log.appending)
            .is_some_and(|file| file.number >= log.begins);
        let waste_max = live_bytes + 2 * self.config.file_bytes_max;
        let first = log.state.files.keys().next().copied();
        let first = first.filter(|&first| {
            let is_needed = log.state.over(log.appending).next().is_none();
            bytes - live_bytes > waste_max && Some(first) != log.appending && is_needed
        });
        let first = log.doubtful().or(first);
        let Some(first) = first else {
            if is_over {
                self.note_nothing(topic)?;
            }
            return Ok(false);
        };
        let here = |live: &Live| live.spot.file == first;
        let mut left = CARRIED_BYTES;
        let live = log.state.messages.iter().filter(|(_, live)| here(live));
        let some = live.take_while(|(_, live)| {
            let has_room = left > 0;
            left = left.saturating_sub(u64::from(live.spot.bytes));
            has_room
        });
        let some: Vec<(u64, Spot, Vec<Standing>)> = some
            .map(|(&id, live)| (id, live.spot, live.standings.clone()))
            .collect();
        let mut carried = Vec::new();
        for (id, spot, standings) in some {
            match self.payload(spot)? {
                Ok(payload) => carried.push((payload, standings)),
                Err(damage) => self.give_up(topic, id, spot, damage),
            }
        }
        let messages = carried.iter().filter_map(|(payload, standings)| {
            Some((Message::of_payload(payload)?, standings.as_slice()))
        });
        let entry = Entry {
            before: &[],
            messages,
            after: &[],
        };
        // It is more for a short while, in order to be less.
        self.write_beyond(topic, entry).map(|()| true)
    }

    fn note_nothing(&mut self, topic: &TopicName) -> Result<(), DiskError> {
        let messages = std::iter::empty();
        let entry = Entry {
            before: &[],
            messages,
            after: &[],
        };
        self.write(topic, entry)
    }

    /// The messages of those ids that a queue of a topic has, as far as they can be read. One that is damaged is given up; the log says
    /// so.
    ///
    /// # Errors
    /// [`DiskError::Io`] where the file cannot be read now.
    pub fn read(
        &mut self,
        topic: &TopicName,
        channel: Option<&ChannelName>,
        ids: &[u64],
    ) -> Result<(Vec<ReadMessage>, usize), DiskError> {
        let (mut messages, mut damaged) = (Vec::new(), 0);
        for &id in ids {
            let found = self.logs.get(topic).and_then(|log| {
                let queue = log.state.queue(channel)?;
                let live = log.state.messages.get(&id)?;
                let mut standings = live.standings.iter();
                let standing = standings.find(|each| each.queue == queue)?;
                Some((live.spot, *standing))
            });
            let Some((spot, standing)) = found else {
                continue;
            };
            match self.payload(spot)? {
                Ok(payload) => messages.push(ReadMessage { payload, standing }),
                Err(damage) => {
                    damaged += 1;
                    self.give_up(topic, id, spot, damage);
                }
            }
        }
        Ok((messages, damaged))
    }

    fn give_up(&mut self, topic: &TopicName, id: u64, spot: Spot, damage: Damage) {
        tracing::error!(
            "{}: {} bytes at {} are damaged, and the message of topic {topic} that they held is lost",
            spot.file,
            damage.bytes,
            damage.offset,
        );
        if let Some(log) = self.logs.get_mut(topic) {
            log.state.remove(id);
        }
    }

    /// The payload of a message as messages have it.
    fn payload(&mut self, spot: Spot) -> Result<Result<Vec<u8>, Damage>, DiskError> {
        let shown = spot.file.to_string();
        let bytes = self
            .volume
            .read_at(&shown, spot.offset, spot.bytes as usize)
            .map_err(DiskError::io("read", &shown))?;
        let mut damage = Damage {
            offset: spot.offset,
            bytes: u64::from(spot.bytes),
            is_tail: false,
        };
        for piece in scan(&bytes, spot.offset, spot.file.salt) {
            match piece {
                Piece::Record(record) => {
                    if let Some((_, payload)) = message_payload(&record) {
                        return Ok(Ok(payload.to_vec()));
                    }
                }
                Piece::Damage(found) => damage = found,
            }
        }
        Ok(Err(damage))
    }
}
