//! What of a queue waits outside of memory, or is on its way there or back.
//!
//! A queue is, from its oldest on: the front; segments outside; a segment that is being written out; what came behind that. At most one
//! segment is on its way out and one back, and what is on its way out stays in memory until it is said to be there. Where nothing is
//! outside the front takes from behind, so nothing waits for a write. What fails is tried again [`RETRY_AFTER`] later: a segment that
//! could not be written waits in memory, where the queue's bound holds publishers back; one that could not be read holds up the queue.

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;

/// What failed is tried again after so long.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The bounds of each queue's backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BacklogBounds {
    /// Messages that are written out together; of short queues a quarter.
    pub segment_messages: usize,
    /// Messages outside. At the bound a queue takes no more than without a backlog.
    pub outside_max: usize,
}

/// What a read came to.
#[derive(Debug)]
pub(super) enum Outcome<T> {
    /// This is what came back, in its order, with that many body bytes; what is missing is lost.
    Back(Vec<T>, u64),
    /// It has to be tried again.
    Failed,
}

/// The later part of a queue.
#[derive(Debug)]
pub(super) struct Backlog<T> {
    /// What the queue has room for in memory. With an empty front it may have a segment more: else nothing went on.
    capacity: usize,
    /// So much stays in front.
    front_max: usize,
    segment_max: usize,
    outside_max: usize,
    /// Outside, the oldest first.
    segments: VecDeque<Segment>,
    /// Messages in those.
    outside: usize,
    /// The first of them is on its way back.
    is_reading: bool,
    writing: Option<Writing<T>>,
    /// Behind that.
    behind: VecDeque<T>,
    /// The next segment's.
    number: u64,
    retry_at: Option<Instant>,
}

/// What is outside together.
#[derive(Clone, Copy, Debug)]
struct Segment {
    number: u64,
    messages: usize,
    bytes: u64,
}

/// A segment on its way out. Where some of it was needed here meanwhile, `items` lacks that.
#[derive(Debug)]
struct Writing<T> {
    segment: Segment,
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
        Backlog {
            capacity,
            front_max: (capacity / 2).max(segment_max),
            segment_max,
            outside_max: bounds.outside_max,
            segments: VecDeque::new(),
            outside: 0,
            is_reading: false,
            writing: None,
            behind: VecDeque::new(),
            number: 0,
            retry_at: None,
        }
    }

    /// What is in memory behind the front.
    pub(super) fn behind(&self) -> usize {
        let writing = self
            .writing
            .as_ref()
            .map_or(0, |writing| writing.items.len());
        writing + self.behind.len()
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

    /// Takes the oldest that is not outside.
    pub(super) fn pop_behind(&mut self) -> Option<T> {
        let writing = self.writing.as_mut();
        writing
            .and_then(|writing| writing.items.pop_front())
            .or_else(|| self.behind.pop_front())
    }

    /// Takes all that is not outside.
    pub(super) fn take_behind(&mut self) -> VecDeque<T> {
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
        front.extend(self.behind.drain(..room.min(self.behind.len())));
    }

    /// Gives up what is outside or on its way there; says how much was outside, and nothing where nothing was on any way.
    pub(super) fn forget(&mut self) -> Option<usize> {
        let was_any = !self.segments.is_empty() || self.writing.is_some();
        if let Some(writing) = self.writing.take() {
            self.put_back(writing.items);
        }
        self.segments.clear();
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
        let has_room = self.outside + self.segment_max <= self.outside_max;
        let is_due = self.writing.is_none() && self.behind.len() >= self.segment_max && has_room;
        if !is_due || !self.may_try(now) {
            return None;
        }
        let items: VecDeque<T> = self.behind.drain(..self.segment_max).collect();
        self.number += 1;
        let segment = Segment {
            number: self.number,
            messages: items.len(),
            bytes: items.iter().map(weigh).sum(),
        };
        let writing = self.writing.insert(Writing { segment, items });
        Some((writing.segment.number, &writing.items))
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
        items.append(&mut self.behind);
        self.behind = items;
    }

    /// The segment to read back now behind a front of that length, if there is room for one.
    pub(super) fn begin_read(&mut self, held: usize, now: Instant) -> Option<u64> {
        let first = *self.segments.front()?;
        let fits = held + self.behind() + first.messages <= self.capacity;
        let is_wanted = held + first.messages <= self.front_max && (fits || held == 0);
        if self.is_reading || !is_wanted || !self.may_try(now) {
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

    /// What was being read back is here, and goes to the end of the front, or is not.
    pub(super) fn end_read(
        &mut self,
        outcome: Outcome<T>,
        front: &mut VecDeque<T>,
        now: Instant,
    ) -> Lost {
        self.is_reading = false;
        let Outcome::Back(items, bytes) = outcome else {
            self.retry_at = Some(now + RETRY_AFTER);
            return Lost::default();
        };
        let Some(first) = self.segments.pop_front() else {
            return Lost::default();
        };
        self.outside -= first.messages;
        let lost = Lost {
            messages: first.messages.saturating_sub(items.len()),
            bytes: first.bytes.saturating_sub(bytes),
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
