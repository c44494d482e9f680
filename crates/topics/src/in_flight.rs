//! Messages sent to a consumer and not yet finished.
//!
//! Each consumer has a list of its own, ordered by deadline. Its timeout is constant, so a new
//! entry belongs at the tail; only a TOUCH that reaches the maximum may belong further ahead. All
//! other operations take constant time and, once the table has grown, no memory.

use std::collections::hash_map::Entry as MapEntry;

use clock::Instant;
use rustc_hash::FxHashMap;

use super::consumer::ConsumerKey;
use super::store::MessageRef;

const NONE: u32 = u32::MAX;

/// One message in flight.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    /// The message.
    pub message: MessageRef,
    /// Deliveries of it on this channel, this one included.
    pub attempts: u16,
    /// The consumer that has it.
    pub consumer: ConsumerKey,
    /// When it was delivered.
    pub delivered: Instant,
    /// When it times out.
    pub deadline: Instant,
}

/// Head and tail of one consumer's list, oldest deadline first.
#[derive(Clone, Copy, Debug)]
pub struct FlightList {
    oldest: u32,
    newest: u32,
}

/// Why a FIN, REQ or TOUCH fails; the texts of what nsqd has, too, are nsqd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlightError {
    /// No such id in flight on this channel.
    UnknownId,
    /// It is in flight to somebody else.
    OtherClient,
    /// As many messages of the channel are deferred as consumers may give back with a delay; it stays in flight.
    TooManyDeferred,
}

impl FlightError {
    /// nsqd's text for the error frame.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            FlightError::UnknownId => "ID not in flight",
            FlightError::OtherClient => "client does not own message",
            FlightError::TooManyDeferred => {
                "too many messages are deferred: it stays in flight until its timeout"
            }
        }
    }
}

/// The messages in flight on one channel. Bounded by the sum of its consumers' RDY counts.
#[derive(Debug, Default)]
pub struct InFlight {
    entries: Vec<Entry>,
    free: Vec<u32>,
    by_id: FxHashMap<u64, u32>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    flight: Flight,
    id: u64,
    older: u32,
    newer: u32,
}

impl Default for FlightList {
    fn default() -> Self {
        FlightList {
            oldest: NONE,
            newest: NONE,
        }
    }
}

impl InFlight {
    /// Messages in flight.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Adds a flight to its consumer's list. False where a message of that id is in flight already: a crash of the machine may bring a
    /// message back that had gone out again since, and this is the second of the two.
    pub fn insert(&mut self, list: &mut FlightList, id: u64, flight: Flight) -> bool {
        let entry = Entry {
            flight,
            id,
            older: NONE,
            newer: NONE,
        };
        let free = self.free.last().copied();
        let index = free.unwrap_or(self.entries.len() as u32);
        match self.by_id.entry(id) {
            MapEntry::Occupied(_) => return false,
            MapEntry::Vacant(place) => place.insert(index),
        };
        match self.free.pop() {
            Some(index) => self.entries[index as usize] = entry,
            None => self.entries.push(entry),
        }
        self.link(list, index);
        true
    }

    /// Takes a flight of `consumer` out.
    ///
    /// # Errors
    /// [`FlightError`], with nsqd's texts.
    #[inline]
    pub fn take(
        &mut self,
        list: &mut FlightList,
        id: u64,
        consumer: ConsumerKey,
    ) -> Result<Flight, FlightError> {
        let index = self.find(id, consumer)?;
        Ok(self.unlink(list, index))
    }

    /// Moves the deadline of a flight to `now + timeout`, at most to `delivered + timeout_max`.
    ///
    /// # Errors
    /// [`FlightError`], with nsqd's texts.
    pub fn touch(
        &mut self,
        list: &mut FlightList,
        id: u64,
        consumer: ConsumerKey,
        deadline: impl FnOnce(&Flight) -> Instant,
    ) -> Result<(), FlightError> {
        let index = self.find(id, consumer)?;
        let mut flight = self.unlink(list, index);
        flight.deadline = deadline(&flight);
        let is_back = self.insert(list, id, flight);
        debug_assert!(is_back, "it was just taken out");
        Ok(())
    }

    /// Deadline of the list's oldest flight.
    #[must_use]
    pub fn next_deadline(&self, list: &FlightList) -> Option<Instant> {
        (list.oldest != NONE).then(|| self.entries[list.oldest as usize].flight.deadline)
    }

    /// The flights of a list, the oldest first.
    pub fn iter(&self, list: &FlightList) -> impl Iterator<Item = &Flight> {
        let entry = |index: u32| self.entries.get(index as usize);
        let first = entry(list.oldest);
        let all = std::iter::successors(first, move |each| entry(each.newer));
        all.map(|entry| &entry.flight)
    }

    /// Takes the list's oldest flight out if its deadline is at or before `until`.
    pub fn take_due(&mut self, list: &mut FlightList, until: Instant) -> Option<Flight> {
        let due = self.next_deadline(list)? <= until;
        due.then(|| self.unlink(list, list.oldest))
    }

    /// Where a flight of `consumer` is.
    ///
    /// # Errors
    /// [`FlightError`], with nsqd's texts.
    #[inline]
    pub fn find(&self, id: u64, consumer: ConsumerKey) -> Result<u32, FlightError> {
        let index = *self.by_id.get(&id).ok_or(FlightError::UnknownId)?;
        let owner = self.entries[index as usize].flight.consumer;
        if owner == consumer {
            Ok(index)
        } else {
            Err(FlightError::OtherClient)
        }
    }

    fn link(&mut self, list: &mut FlightList, index: u32) {
        let deadline = self.entries[index as usize].flight.deadline;
        let mut older = list.newest;
        while older != NONE && self.entries[older as usize].flight.deadline > deadline {
            older = self.entries[older as usize].older;
        }
        let newer = if older == NONE {
            list.oldest
        } else {
            self.entries[older as usize].newer
        };
        self.entries[index as usize].older = older;
        self.entries[index as usize].newer = newer;
        self.join(list, older, index);
        self.join(list, index, newer);
    }

    fn unlink(&mut self, list: &mut FlightList, index: u32) -> Flight {
        let Entry {
            flight,
            id,
            older,
            newer,
        } = self.entries[index as usize];
        self.join(list, older, newer);
        self.by_id.remove(&id);
        self.free.push(index);
        flight
    }

    fn join(&mut self, list: &mut FlightList, older: u32, newer: u32) {
        match older {
            NONE => list.oldest = newer,
            _ => self.entries[older as usize].newer = newer,
        }
        match newer {
            NONE => list.newest = older,
            _ => self.entries[newer as usize].older = older,
        }
    }
}
