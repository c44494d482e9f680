//! No acknowledged message is lost, except with the memory that held it, and none at all whose topic is durable; nothing comes twice
//! without a cause.
//!
//! Each message names its publisher and number. A second acceptance has one cause: its publisher
//! lost a connection before it heard the acknowledgement. Causes of a second delivery of what one
//! broker holds: a requeue, a timeout, a consumer that left. A second copy at another broker has
//! one cause: a hand-over whose answer was never heard. What was on disk may come once more from each life of its broker after the first,
//! but not what was finished, where that was written.

use std::collections::{BTreeMap, BTreeSet};

use clock::Instant;
use rustc_hash::{FxHashMap, FxHashSet};

/// Names a message: publisher and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Whose.
    pub publisher: u16,
    /// Which of its messages.
    pub number: u32,
}

/// Names one life of one broker's process: place and life.
pub type Memory = (usize, u64);

/// A channel that every message of its topic is to reach: topic and name.
pub type Queue = (String, String);

/// One message.
#[derive(Debug, Default)]
struct Message {
    topic: String,
    /// Connections that were lost before their acknowledgement of it was heard.
    lost_with: u32,
    accepted_by: Vec<Memory>,
    taken_by: Vec<Memory>,
    /// Hand-overs that may have gone to two brokers.
    unclear: u32,
    finished: BTreeMap<String, u32>,
    /// Lives that had it on disk.
    kept_by: Vec<Kept>,
    /// One of these copies may be lost.
    is_forfeit: bool,
    /// Copies whose brokers have ended since: each may be there again.
    revivals: u32,
}

/// A durable copy of a message.
#[derive(Clone, Copy, Debug)]
struct Kept {
    by: Memory,
    /// It is to outlive the power of its host.
    is_synced: bool,
}

/// A message that a broker holds for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flight {
    Flying { due: Instant },
    Back,
    Finished,
}

/// A message in a channel of a process: memory, channel, id.
type FlightKey = (Memory, Queue, u64);

/// The books.
#[derive(Debug, Default)]
pub struct Deliveries {
    messages: BTreeMap<Key, Message>,
    flights: FxHashMap<FlightKey, Flight>,
    finishes: u64,
    /// Memories that are gone.
    gone: BTreeSet<Memory>,
    /// Channels that all messages reach.
    lasting: BTreeSet<Queue>,
    /// Messages of topics that somebody emptied, or deleted.
    forgiven: BTreeSet<String>,
    /// Brokers have disks for messages.
    is_durable: bool,
    /// Places whose disks have lost, or not taken, something.
    doubtful: BTreeSet<usize>,
    /// Places that are gone for good, with their disks.
    buried: BTreeSet<usize>,
    /// What was finished in durable topics, and may not be written yet.
    unsettled: Vec<FlightKey>,
    /// What was, and is; by place.
    settled: FxHashSet<(usize, Queue, u64)>,
}

impl Key {
    /// A body that begins with the key and is `bytes` long, at least 6.
    #[must_use]
    pub fn body(self, bytes: usize) -> Vec<u8> {
        let mut body = Vec::with_capacity(bytes.max(6));
        body.extend(self.publisher.to_be_bytes());
        body.extend(self.number.to_be_bytes());
        body.resize(bytes.max(6), b'.');
        body
    }

    /// The key that a body begins with.
    #[must_use]
    pub fn of(body: &[u8]) -> Option<Key> {
        let (publisher, rest) = body.split_first_chunk()?;
        let number = rest.first_chunk()?;
        Some(Key {
            publisher: u16::from_be_bytes(*publisher),
            number: u32::from_be_bytes(*number),
        })
    }
}

impl Deliveries {
    /// From now on every message of the topic is to reach this channel.
    pub fn lasts(&mut self, topic: &str, channel: &str) {
        self.lasting.insert((topic.to_owned(), channel.to_owned()));
    }

    /// Messages of a topic may be lost from now on: somebody wants it.
    pub fn forgive(&mut self, topic: &str) {
        self.forgiven.insert(topic.to_owned());
    }

    /// Brokers have disks for messages: what they had may come again from their next life.
    pub fn on_disks(&mut self) {
        self.is_durable = true;
    }

    /// A broker has a message on disk; `is_synced`: and that has confirmed it.
    pub fn kept(&mut self, key: Key, by: Memory, is_synced: bool) {
        let message = self.messages.entry(key).or_default();
        message.kept_by.push(Kept { by, is_synced });
        message.is_forfeit |= self.buried.contains(&by.0);
    }

    /// A topic of the broker in that place is not durable any more.
    pub fn not_kept_any_more(&mut self, topic: &str, place: usize) {
        let messages = self.messages.values_mut();
        let forfeit = messages.filter(|message| message.topic == topic);
        forfeit.for_each(|message| message.forfeit(|kept| kept.by.0 == place));
        self.settled
            .retain(|(at, queue, _)| *at != place || queue.0 != topic);
        self.unsettled
            .retain(|(by, queue, _)| by.0 != place || queue.0 != topic);
    }

    /// The host of the broker in that place has lost its power.
    pub fn powerless(&mut self, place: usize) {
        self.doubtful.insert(place);
        for message in self.messages.values_mut() {
            message.forfeit(|kept| kept.by.0 == place && !kept.is_synced);
        }
        self.settled.retain(|(at, ..)| *at != place);
    }

    /// The disk of the broker in that place has not taken something.
    pub fn doubt(&mut self, place: usize) {
        self.doubtful.insert(place);
    }

    /// The broker in that place is gone for good, with its disk.
    pub fn bury(&mut self, place: usize) {
        self.buried.insert(place);
        for message in self.messages.values_mut() {
            message.forfeit(|kept| kept.by.0 == place);
        }
    }

    /// All that this life of a broker was told is written: it outlives the process.
    pub fn settled(&mut self, memory: Memory) {
        let settled = self.unsettled.extract_if(.., |(by, ..)| *by == memory);
        let settled = settled.map(|((place, _), queue, id)| (place, queue, id));
        self.settled.extend(settled);
    }

    /// A publisher has taken a message from its program.
    pub fn published(&mut self, key: Key, topic: &str) {
        let message = self.messages.entry(key).or_default();
        topic.clone_into(&mut message.topic);
    }

    /// A connection is lost that a message was sent on and not acknowledged.
    pub fn lost(&mut self, key: Key) {
        self.messages.entry(key).or_default().lost_with += 1;
    }

    /// A broker's topic has taken a message from a publisher.
    ///
    /// # Errors
    /// Twice without a cause.
    pub fn accepted(&mut self, key: Key, by: Memory) -> Result<(), String> {
        let message = self.messages.entry(key).or_default();
        message.accepted_by.push(by);
        let (times, causes) = (message.accepted_by.len(), message.lost_with);
        match times as u32 <= 1 + causes {
            true => Ok(()),
            false => Err(format!(
                "{key:?} was accepted {times} times, by {:?}, and its publisher lost {causes} connections with it",
                message.accepted_by
            )),
        }
    }

    /// A publisher has heard that a message is accepted.
    ///
    /// # Errors
    /// It is not.
    pub fn acknowledged(&mut self, key: Key) -> Result<(), String> {
        let message = self.messages.entry(key).or_default();
        match message.accepted_by.is_empty() {
            false => Ok(()),
            true => Err(format!(
                "{key:?} was acknowledged, and no topic has taken it"
            )),
        }
    }

    /// A broker has taken a message over from another.
    pub fn taken_over(&mut self, key: Key, by: Memory) {
        self.messages.entry(key).or_default().taken_by.push(by);
    }

    /// A hand-over was given up without a clear answer; the next broker gets the message too.
    pub fn unclear(&mut self, key: Key) {
        self.messages.entry(key).or_default().unclear += 1;
    }

    /// A broker gives a message to a consumer, which has until `due`.
    ///
    /// # Errors
    /// Again without a cause.
    pub fn delivered(
        &mut self,
        (by, queue, id): (Memory, Queue, u64),
        key: Key,
        now: Instant,
        due: Instant,
    ) -> Result<(), String> {
        let flight = (by, queue, id);
        let is_settled = self.settled.contains(&(flight.0.0, flight.1.clone(), id));
        if is_settled && !self.may_be_there_twice(key, flight.0.0) {
            return Err(format!(
                "{key:?} ({id:x}) was finished for good in {:?} of {:?}, and is delivered again",
                flight.1, flight.0
            ));
        }
        let before = self.flights.insert(flight.clone(), Flight::Flying { due });
        match before {
            None | Some(Flight::Back) => Ok(()),
            Some(Flight::Flying { due }) if due <= now => Ok(()),
            Some(_) if self.may_be_there_twice(key, flight.0.0) => Ok(()),
            Some(before) => {
                let (by, queue, id) = flight;
                Err(format!(
                    "{key:?} ({id:x}) was delivered again to {queue:?} of {by:?}, where it was {before:?}"
                ))
            }
        }
    }

    /// A consumer has until then from now on.
    pub fn touched(&mut self, flight: FlightKey, due: Instant) {
        self.flights.insert(flight, Flight::Flying { due });
    }

    /// A consumer gave a message back, or left with it.
    pub fn came_back(&mut self, flight: FlightKey) {
        self.flights.insert(flight, Flight::Back);
    }

    /// A broker has taken a consumer's word that a message is done.
    ///
    /// # Errors
    /// Done more often than it was accepted.
    pub fn finished(&mut self, flight: FlightKey, key: Key, is_logged: bool) -> Result<(), String> {
        self.finishes += 1;
        let channel = flight.1.1.clone();
        if is_logged {
            self.unsettled.push(flight.clone());
        }
        self.flights.insert(flight, Flight::Finished);
        let message = self.messages.entry(key).or_default();
        let times = message.finished.entry(channel.clone()).or_default();
        *times += 1;
        let times = *times;
        let mut copies = message.accepted_by.len() as u32 + message.unclear + message.revivals;
        if self.is_durable {
            // Who was killed before it answered is asked again, and may have the batch already.
            copies += message.taken_by.len().saturating_sub(1) as u32;
        }
        match times <= copies {
            true => Ok(()),
            false => Err(format!(
                "{key:?} was finished {times} times in {channel}, accepted {copies} times: {message:?}"
            )),
        }
    }

    /// A process is gone, and its memory with it.
    pub fn gone(&mut self, memory: Memory) {
        self.gone.insert(memory);
        self.flights.retain(|(by, ..), _| *by != memory);
        self.unsettled.retain(|(by, ..)| *by != memory);
        if self.is_durable {
            for message in self.messages.values_mut() {
                let lives = message.accepted_by.iter().chain(&message.taken_by);
                let copies = lives.filter(|life| life.0 == memory.0).count();
                message.revivals += copies as u32;
            }
        }
    }

    /// How often consumers were done with a message.
    #[must_use]
    pub fn finishes(&self) -> u64 {
        self.finishes
    }

    /// Messages published so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.messages.len()
    }

    /// Messages that have not reached a channel that they should have reached, and were not lost
    /// with a memory; at most this many.
    #[must_use]
    pub fn missing(&self, most: usize) -> Vec<String> {
        let mut missing = Vec::new();
        for (key, message) in &self.messages {
            if self.forgiven.contains(&message.topic) || self.may_be_lost(message) {
                continue;
            }
            let channels = self.lasting.iter();
            for (_, channel) in channels.filter(|(topic, _)| *topic == message.topic) {
                if !message.finished.contains_key(channel) {
                    missing.push(format!(
                        "{key:?} of {} not in {channel}, accepted by {:?}, taken over by {:?}, kept by {:?}",
                        message.topic, message.accepted_by, message.taken_by, message.kept_by
                    ));
                }
            }
            if missing.len() >= most {
                break;
            }
        }
        missing
    }

    /// What queues put out of memory may be on disk twice, where that did not confirm what was removed.
    fn may_be_there_twice(&self, key: Key, place: usize) -> bool {
        let message = self.messages.get(&key);
        self.doubtful.contains(&place) && message.is_some_and(|message| message.kept_by.is_empty())
    }

    fn may_be_lost(&self, message: &Message) -> bool {
        let is_kept = |memory: &Memory| message.kept_by.iter().any(|kept| kept.by == *memory);
        let is_gone = |memory: &Memory| self.gone.contains(memory) && !is_kept(memory);
        let all_gone = !message.accepted_by.is_empty() && message.accepted_by.iter().all(is_gone);
        message.is_forfeit || all_gone || message.taken_by.iter().any(is_gone)
    }
}

impl Message {
    fn forfeit(&mut self, is_lost: impl Fn(&Kept) -> bool) {
        self.is_forfeit |= self.kept_by.iter().any(is_lost);
    }
}
