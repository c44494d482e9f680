//! The part of a queue that is outside memory, or on its way out or back.
//!
//! A queue consists, from its oldest message on, of the front, segments outside, a segment that is
//! being written out, and what came behind that. At most one segment is on its way out and one on
//! its way back, and one on its way out stays in memory until it is confirmed. While nothing is
//! outside, the front takes from what came behind, so nothing waits for a write. What fails is
//! retried [`RETRY_AFTER`] later: a segment that could not be written waits in memory, where the
//! queue's bound holds publishers back; one that could not be read holds up the queue.

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;

/// What failed is tried again after so long.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The number of a queue's first segment. Messages older than everything outside get lower ones.
const FIRST_NUMBER: u64 = 1 << 32;

/// So many times as much as a segment may have comes back into the front.
const FRONT_SEGMENTS: u64 = 16;

/// The bounds of each queue's backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BacklogBounds {
    /// Messages that are written out together; of short queues a quarter.
    pub segment_messages: usize,
    /// Bytes of their bodies: what has as many goes out, however few messages it is.
    pub segment_bytes: u64,
    /// Messages outside. At the bound a queue takes no more than without a backlog.
    pub outside_max: usize,
    /// Bytes of the longest message that a durable topic takes: a longer one could never be written.
    pub logged_bytes_max: u64,
}

/// The outcome of a read.
#[derive(Debug)]
pub(super) enum Outcome<T> {
    /// This is what came back, in its order; what is missing is lost.
    Back(Vec<T>, Returned),
    /// It has to be tried again.
    Failed,
}

/// How much came back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Returned {
    /// Messages, those included that go elsewhere.
    pub(super) messages: usize,
    /// Body bytes.
    pub(super) bytes: u64,
}

/// A segment that is outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside {
    /// Its number: segments of a queue come back in the order of theirs.
    pub number: u64,
    /// Messages in it.
    pub messages: usize,
    /// Bytes of their bodies.
    pub bytes: u64,
}

/// How to write out what a queue has in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    /// The number of the first segment of what is older than all that is outside. There are as many below the others' as messages.
    pub(super) older_from: u64,
    /// That of the first of what is younger.
    pub(super) younger_from: u64,
    /// Messages of a segment.
    pub(super) messages_max: usize,
    /// Bytes of their bodies: what has as many is one, however few messages it is.
    pub(super) bytes_max: u64,
}

/// The later part of a queue.
#[derive(Debug)]
pub(super) struct Backlog<T> {
    /// Messages that the queue may have in memory. With an empty front it may have a segment more:
    /// otherwise it would be stuck.
    capacity: usize,
    /// So much stays in front, and so much does where memory is not short.
    front_max: usize,
    front_wanted: usize,
    segment_max: usize,
    segment_bytes: u64,
    outside_max: usize,
    /// Outside, the oldest first.
    segments: VecDeque<Outside>,
    /// Messages in those.
    outside: usize,
    /// The first of them is on its way back.
    is_reading: bool,
    writing: Option<Writing<T>>,
    /// Behind that.
    behind: VecDeque<T>,
    /// This many of those have been weighed, with this many bytes in all.
    weighed: (usize, u64),
    /// The messages behind go out, however few they are.
    is_pressed: bool,
    /// The highest number that a segment ever had, and the lowest.
    number: u64,
    lowest: u64,
    retry_at: Option<Instant>,
}

/// A segment on its way out. Where some of it was needed here meanwhile, `items` lacks that.
#[derive(Debug)]
struct Writing<T> {
    segment: Outside,
    items: VecDeque<T>,
}

/// What of a segment did not come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) messages: usize,
    /// Body bytes.
    pub(super) bytes: u64,
}

impl<T> Backlog<T> {
    /// Of a queue that has room for `capacity` in memory: half of that is for the front.
    pub(super) fn new(capacity: usize, bounds: BacklogBounds) -> Backlog<T> {
        let segment_max = bounds.segment_messages.min(capacity / 4).max(1);
        let front_wanted = (capacity / 2).max(segment_max);
        Backlog {
            capacity,
            front_max: front_wanted,
            front_wanted,
            segment_max,
            segment_bytes: bounds.segment_bytes,
            outside_max: bounds.outside_max,
            segments: VecDeque::new(),
            outside: 0,
            is_reading: false,
            writing: None,
            behind: VecDeque::new(),
            weighed: (0, 0),
            is_pressed: false,
            number: FIRST_NUMBER,
            lowest: FIRST_NUMBER + 1,
            retry_at: None,
        }
    }

    /// Messages in memory behind the front.
    pub(super) fn behind(&self) -> usize {
        let writing = self
            .writing
            .as_ref()
            .map_or(0, |writing| writing.items.len());
        writing + self.behind.len()
    }

    /// Of that, each in its order.
    pub(super) fn iter_behind(&self) -> impl Iterator<Item = &T> {
        let writing = self.writing.iter().flat_map(|writing| &writing.items);
        writing.chain(&self.behind)
    }

    pub(super) fn outside(&self) -> usize {
        self.outside
    }

    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Whether what comes now is next after a front of that length, and has room there.
    pub(super) fn takes_front(&self, held: usize) -> bool {
        held < self.front_max && self.segments.is_empty() && self.behind() == 0
    }

    pub(super) fn push(&mut self, item: T) {
        self.behind.push_back(item);
    }

    /// Has what was outside in a former life, in the order of its numbers. Nothing has been there in this one.
    pub(super) fn restore(&mut self, segments: impl IntoIterator<Item = Outside>) {
        self.segments.extend(segments);
        self.outside = self.segments.iter().map(|each| each.messages).sum();
        if let (Some(first), Some(last)) = (self.segments.front(), self.segments.back()) {
            (self.lowest, self.number) = (first.number, last.number);
        }
    }

    /// Has something go out because memory is short: where nothing is outside, half of what is in front. The front stays as short until
    /// nothing is outside any more, else that came back at once.
    pub(super) fn press(&mut self, front: &mut VecDeque<T>) {
        self.is_pressed = true;
        self.front_max = (self.front_max.min(front.len()) / 2).max(1);
        if self.segments.is_empty() && self.behind() == 0 && front.len() > 1 {
            self.weighed = (0, 0);
            self.behind = front.split_off(front.len().div_ceil(2));
        }
    }

    /// How to write out what is older than everything outside, this many messages, and what is
    /// younger.
    pub(super) fn around(&self, older: usize) -> Around {
        Around {
            older_from: self.lowest.saturating_sub(older as u64),
            younger_from: self.number + 1,
            messages_max: self.segment_max,
            bytes_max: self.segment_bytes,
        }
    }

    /// Gives up what is on its way out and says which it was: its items are behind again.
    pub(super) fn stop_writing(&mut self) -> Option<u64> {
        let writing = self.writing.take()?;
        self.put_back(writing.items);
        Some(writing.segment.number)
    }

    /// Takes the oldest that is not outside.
    pub(super) fn pop_behind(&mut self) -> Option<T> {
        self.weighed = (0, 0);
        let writing = self.writing.as_mut();
        writing
            .and_then(|writing| writing.items.pop_front())
            .or_else(|| self.behind.pop_front())
    }

    /// Takes all that is not outside.
    pub(super) fn take_behind(&mut self) -> VecDeque<T> {
        self.weighed = (0, 0);
        let writing = self.writing.as_mut();
        let mut items =
            writing.map_or_else(VecDeque::new, |writing| std::mem::take(&mut writing.items));
        items.append(&mut self.behind);
        items
    }

    /// Fills an empty front with what is next, unless that is outside.
    pub(super) fn draw_up(&mut self, front: &mut VecDeque<T>) {
        if !front.is_empty() || !self.segments.is_empty() {
            return;
        }
        if let Some(writing) = &mut self.writing {
            front.append(&mut writing.items);
        }
        let room = self.front_max.saturating_sub(front.len());
        self.weighed = (0, 0);
        front.extend(self.behind.drain(..room.min(self.behind.len())));
    }

    /// Gives up what is outside or on its way there; says how much was outside, and nothing where nothing was on any way.
    pub(super) fn forget(&mut self) -> Option<usize> {
        let was_any = !self.segments.is_empty() || self.writing.is_some();
        if let Some(writing) = self.writing.take() {
            self.put_back(writing.items);
        }
        self.segments.clear();
        self.front_max = self.front_wanted;
        self.is_reading = false;
        let outside = std::mem::take(&mut self.outside);
        was_any.then_some(outside)
    }

    /// The segment to write out now, if there is one: its number and its messages.
    pub(super) fn begin_write(
        &mut self,
        weigh: impl Fn(&T) -> u64,
        now: Instant,
    ) -> Option<(u64, &VecDeque<T>)> {
        if self.writing.is_some() || self.behind.is_empty() {
            return None;
        }
        let (count, bytes) = self.due(weigh)?;
        let has_room = self.outside + self.segment_max <= self.outside_max;
        if !has_room || !self.may_try(now) {
            return None;
        }
        let items: VecDeque<T> = self.behind.drain(..count).collect();
        self.weighed = (0, 0);
        self.is_pressed = false;
        self.number += 1;
        let segment = Outside {
            number: self.number,
            messages: items.len(),
            bytes,
        };
        let writing = self.writing.insert(Writing { segment, items });
        Some((writing.segment.number, &writing.items))
    }

    /// How many of those behind make up a segment, and their bytes, if they are enough for one.
    /// Each is weighed once.
    fn due(&mut self, weigh: impl Fn(&T) -> u64) -> Option<(usize, u64)> {
        let (mut count, mut bytes) = self.weighed;
        let most = self.behind.len().min(self.segment_max);
        while count < most && bytes < self.segment_bytes {
            bytes += weigh(&self.behind[count]);
            count += 1;
        }
        self.weighed = (count, bytes);
        let is_enough = count == self.segment_max || bytes >= self.segment_bytes;
        (is_enough || self.is_pressed).then_some((count, bytes))
    }

    /// A segment was written out, or was not. Gives what need not be in memory any more, and whether it is needed outside.
    pub(super) fn end_write(
        &mut self,
        number: u64,
        is_done: bool,
        now: Instant,
    ) -> (VecDeque<T>, bool) {
        let is_meant = |writing: &mut Writing<T>| writing.segment.number == number;
        let Some(Writing { segment, items }) = self.writing.take_if(is_meant) else {
            return (VecDeque::new(), true);
        };
        if is_done && items.len() == segment.messages {
            self.outside += segment.messages;
            self.segments.push_back(segment);
            return (items, true);
        }
        if !is_done {
            self.retry_at = Some(now + RETRY_AFTER);
        }
        self.put_back(items);
        (VecDeque::new(), !is_done)
    }

    fn put_back(&mut self, mut items: VecDeque<T>) {
        self.weighed = (0, 0);
        items.append(&mut self.behind);
        self.behind = items;
    }

    /// The segment to read back now behind a front, if there is room for one.
    pub(super) fn begin_read(
        &mut self,
        front: &VecDeque<T>,
        weigh: impl Fn(&T) -> u64,
        now: Instant,
    ) -> Option<u64> {
        let first = *self.segments.front()?;
        let held = front.len();
        let fits = held + first.messages <= self.front_max
            && held + self.behind() + first.messages <= self.capacity;
        if self.is_reading || !(fits || held == 0) || !self.may_try(now) {
            return None;
        }
        // The front is short where its messages are large, so this is soon known.
        let bytes_max = self.segment_bytes.saturating_mul(FRONT_SEGMENTS);
        let mut bytes = first.bytes;
        let is_light = |item| {
            bytes += weigh(item);
            bytes <= bytes_max
        };
        if !front.iter().all(is_light) {
            return None;
        }
        self.is_reading = true;
        Some(first.number)
    }

    /// How many messages that segment has, if it is the one that is being read back.
    pub(super) fn expected(&self, number: u64) -> Option<usize> {
        let first = self.segments.front().filter(|_| self.is_reading)?;
        (first.number == number).then_some(first.messages)
    }

    /// A read has ended: its segment goes to the end of the front, or could not be read.
    pub(super) fn end_read(
        &mut self,
        outcome: Outcome<T>,
        front: &mut VecDeque<T>,
        now: Instant,
    ) -> Lost {
        self.is_reading = false;
        let Outcome::Back(items, returned) = outcome else {
            self.retry_at = Some(now + RETRY_AFTER);
            return Lost::default();
        };
        let Some(first) = self.segments.pop_front() else {
            return Lost::default();
        };
        self.outside -= first.messages;
        if self.segments.is_empty() {
            self.front_max = self.front_wanted;
        }
        let lost = Lost {
            messages: first.messages.saturating_sub(returned.messages),
            bytes: first.bytes.saturating_sub(returned.bytes),
        };
        front.extend(items);
        lost
    }

    /// Whether nothing has failed so lately that trying were in vain.
    fn may_try(&mut self, now: Instant) -> bool {
        self.retry_at = self.retry_at.filter(|&at| at > now);
        self.retry_at.is_none()
    }
}
