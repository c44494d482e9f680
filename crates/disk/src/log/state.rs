//! What a log comes to: which messages live, where, and what of its files is needed.
//!
//! It is made anew from the records of the files, in their order, and is at each time what they would make of it. A message lives while
//! some queue has it.

use std::collections::BTreeMap;

use wire::ChannelName;

use super::step::{OWN_QUEUE, Step};
use crate::segment::FileName;

/// That a queue has a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The queue: [`OWN_QUEUE`], or a channel's number.
    pub queue: u32,
    /// Deliveries so far.
    pub attempts: u16,
    /// When it is due, in nanoseconds since the Unix epoch; 0: when the message says.
    pub due_ns: i64,
}

/// Where a message's record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) file: FileName,
    pub(super) offset: u64,
    pub(super) bytes: u32,
    /// Bytes of its body.
    pub(super) body_bytes: u32,
}

/// A message that lives.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) spot: Spot,
    pub(super) standings: Vec<Standing>,
}

/// A file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent {
    pub(super) length: u64,
    /// Messages in it that live.
    pub(super) live: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) channels: BTreeMap<u32, ChannelName>,
    /// By their ids: that is the order of arrival.
    pub(super) messages: BTreeMap<u64, Live>,
    pub(super) files: BTreeMap<FileName, Extent>,
    /// Bytes of all files.
    pub(super) bytes: u64,
    /// Of those, what messages that live take.
    pub(super) live_bytes: u64,
    /// It has all that waited when it began.
    pub(super) is_whole: bool,
}

impl Standing {
    /// In the topic's own queue.
    pub const OWN: Standing = Standing::new(OWN_QUEUE);

    /// In a queue, undelivered.
    #[must_use]
    pub const fn new(queue: u32) -> Standing {
        Standing {
            queue,
            attempts: 0,
            due_ns: 0,
        }
    }
}

impl State {
    /// A message's record is at `spot`. Of one that lives already that is a new copy; where it says more than that the topic has it,
    /// that counts from now on.
    pub(super) fn put(&mut self, id: u64, spot: Spot, standings: &[Standing]) {
        let all = standings.iter().copied();
        let known =
            all.filter(|each| each.queue == OWN_QUEUE || self.channels.contains_key(&each.queue));
        let mut now: Vec<Standing> = known.collect();
        if let Some(former) = self.messages.remove(&id) {
            self.vacate(former.spot);
            if standings == [Standing::OWN] {
                now = former.standings;
            }
        }
        if now.is_empty() {
            return;
        }
        let live = Live {
            spot,
            standings: now,
        };
        self.messages.insert(id, live);
        self.live_bytes += u64::from(spot.bytes);
        self.files.entry(spot.file).or_default().live += 1;
    }

    fn vacate(&mut self, spot: Spot) {
        self.live_bytes -= u64::from(spot.bytes);
        if let Some(extent) = self.files.get_mut(&spot.file) {
            extent.live -= 1;
        }
    }

    pub(super) fn set_length(&mut self, file: FileName, length: u64) {
        let extent = self.files.entry(file).or_default();
        self.bytes = self.bytes + length - extent.length;
        extent.length = length;
    }

    /// A file without messages is gone; gives the bytes that it had.
    pub(super) fn remove_file(&mut self, file: FileName) -> u64 {
        let length = self.files.remove(&file).map_or(0, |extent| extent.length);
        self.bytes -= length;
        length
    }

    /// What is in files of lower numbers was of no more use when that was noted. The files themselves are there still.
    fn forget_before(&mut self, number: u64) {
        let files = self.files.range(..FileName::before(number));
        if files.clone().all(|(_, extent)| extent.live == 0) {
            return;
        }
        let messages = self.messages.iter();
        let over = messages.filter(|(_, live)| live.spot.file.number < number);
        let over: Vec<u64> = over.map(|(&id, _)| id).collect();
        over.into_iter().for_each(|id| self.remove(id));
    }

    pub(super) fn remove(&mut self, id: u64) {
        if let Some(live) = self.messages.remove(&id) {
            self.vacate(live.spot);
        }
    }

    /// A step was noted.
    pub(super) fn apply(&mut self, step: &Step) {
        match step {
            Step::Channel(number, name) => {
                let channel = self.channels.entry(*number);
                channel.or_insert_with(|| name.clone());
            }
            Step::ChannelGone(number) => {
                self.channels.remove(number);
                self.empty(*number);
            }
            Step::Passed(id) => self.pass(*id),
            Step::Discarded(id) => self.finish(*id, OWN_QUEUE),
            Step::Delivered {
                channel,
                id,
                attempts,
            } => {
                if let Some(standing) = self.standing_mut(*id, *channel) {
                    standing.attempts = *attempts;
                }
            }
            Step::Deferred {
                channel,
                id,
                attempts,
                due_ns,
            } => {
                if let Some(standing) = self.standing_mut(*id, *channel) {
                    (standing.attempts, standing.due_ns) = (*attempts, *due_ns);
                }
            }
            Step::Finished { channel, id } => {
                // Without this a message whose passing is not known would stay for the others only.
                let _passed = self.standing_mut(*id, *channel);
                self.finish(*id, *channel);
            }
            Step::Emptied(queue) => self.empty(*queue),
            Step::Begins(number) => self.forget_before(*number),
            Step::Whole => self.is_whole = true,
            Step::Channels(channels) => {
                let numbers = self.channels.keys().copied();
                let is_gone = |number: &u32| !channels.iter().any(|(known, _)| known == number);
                for number in numbers.filter(is_gone).collect::<Vec<u32>>() {
                    self.channels.remove(&number);
                    self.empty(number);
                }
                self.channels.extend(channels.iter().cloned());
            }
        }
    }

    fn pass(&mut self, id: u64) {
        let Some(live) = self.messages.get_mut(&id) else {
            return;
        };
        let waits = live.standings.iter().any(|each| each.queue == OWN_QUEUE);
        if !waits {
            return;
        }
        live.standings.clear();
        let channels = self.channels.keys();
        live.standings
            .extend(channels.map(|&number| Standing::new(number)));
        if live.standings.is_empty() {
            self.remove(id);
        }
    }

    /// A channel has a message, so that was passed on, whether or not that is known.
    fn standing_mut(&mut self, id: u64, channel: u32) -> Option<&mut Standing> {
        if self.channels.contains_key(&channel) {
            self.pass(id);
        }
        let live = self.messages.get_mut(&id)?;
        let mut standings = live.standings.iter_mut();
        standings.find(|each| each.queue == channel)
    }

    fn finish(&mut self, id: u64, queue: u32) {
        let Some(live) = self.messages.get_mut(&id) else {
            return;
        };
        live.standings.retain(|each| each.queue != queue);
        if live.standings.is_empty() {
            self.remove(id);
        }
    }

    fn empty(&mut self, queue: u32) {
        let mut gone = Vec::new();
        for (&id, live) in &mut self.messages {
            live.standings.retain(|each| each.queue != queue);
            if live.standings.is_empty() {
                gone.push(id);
            }
        }
        gone.into_iter().for_each(|id| self.remove(id));
    }

    /// Files before the first that is needed, `appending` counted as needed.
    pub(super) fn over(&self, appending: Option<FileName>) -> impl Iterator<Item = FileName> {
        let files = self.files.iter();
        let over =
            files.take_while(move |&(&file, extent)| extent.live == 0 && Some(file) != appending);
        over.map(|(&file, _)| file)
    }
}
