//! Waiting messages in order: one type of bounded queue for topics and channels.
//!
//! The caller passes the bound, because it applies to all queues of a table and does not apply
//! while a broker stops; its meaning is defined only here. It counts messages in memory. Where a
//! [`Backlog`] is kept, later messages wait outside and come back in their order.

use std::collections::VecDeque;

use clock::Instant;

use crate::backlog::{Around, Backlog, BacklogBounds, Lost, Outcome, Outside};

/// Things that wait, first in, first out.
#[derive(Debug)]
pub(super) struct Queue<T> {
    /// The oldest. Empty only where all that waits is outside.
    front: VecDeque<T>,
    /// Later messages, where a backlog is kept.
    backlog: Option<Box<Backlog<T>>>,
}

/// Whether `count` fit beside `held` into a queue. More than a whole queue holds enter an empty one, else they could never wait.
#[inline]
pub(super) fn fit(held: usize, count: usize, capacity: usize) -> bool {
    held == 0 || held + count <= capacity
}

impl<T> Queue<T> {
    /// An empty queue; with `bounds`, one that keeps a backlog.
    pub(super) fn new(capacity: usize, bounds: Option<BacklogBounds>) -> Queue<T> {
        Queue {
            front: VecDeque::new(),
            backlog: bounds.map(|bounds| Box::new(Backlog::new(capacity, bounds))),
        }
    }

    /// All that waits, wherever.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.in_memory() + self.outside()
    }

    /// What waits in memory.
    #[inline]
    pub(super) fn in_memory(&self) -> usize {
        let behind = self.backlog.as_ref().map_or(0, |backlog| backlog.behind());
        self.front.len() + behind
    }

    /// What waits outside.
    #[inline]
    pub(super) fn outside(&self) -> usize {
        self.backlog.as_ref().map_or(0, |backlog| backlog.outside())
    }

    /// Whether another one fits.
    #[inline]
    pub(super) fn has_room(&self, capacity: usize) -> bool {
        self.in_memory() < capacity || self.passes_on()
    }

    /// Whether `count` more fit.
    pub(super) fn has_room_for(&self, count: usize, capacity: usize) -> bool {
        fit(self.in_memory(), count, capacity) || self.passes_on()
    }

    /// Whether a backlog takes what comes, as far as is known: nothing waits to go there.
    pub(super) fn passes_on(&self) -> bool {
        let backlog = self.backlog.as_ref();
        backlog.is_some_and(|backlog| backlog.behind() == 0)
    }

    /// Whether no more than half of what may wait does.
    pub(super) fn is_half_empty(&self, capacity: usize) -> bool {
        self.in_memory() <= capacity / 2
    }

    /// The oldest, if it is in memory.
    #[inline]
    pub(super) fn front(&self) -> Option<&T> {
        self.front.front()
    }

    /// The newest of those that can be taken one after the other now.
    pub(super) fn back(&self) -> Option<&T> {
        self.front.back()
    }

    /// All that is in memory, in its order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let backlog = self.backlog.as_ref();
        let behind = backlog
            .into_iter()
            .flat_map(|backlog| backlog.iter_behind());
        self.front.iter().chain(behind)
    }

    /// Takes the oldest, if it is in memory.
    #[inline]
    pub(super) fn pop_front(&mut self) -> Option<T> {
        let first = self.front.pop_front();
        if self.front.is_empty() {
            self.draw_up();
        }
        first
    }

    /// Takes the oldest that is in memory, out of its turn where older ones are outside.
    pub(super) fn pop_oldest(&mut self) -> Option<T> {
        match self.front.is_empty() {
            true => self.backlog.as_mut()?.pop_behind(),
            false => self.pop_front(),
        }
    }

    /// Puts one at the end.
    #[inline]
    pub(super) fn push_back(&mut self, item: T) {
        match &mut self.backlog {
            Some(backlog) if !backlog.takes_front(self.front.len()) => backlog.push(item),
            _ => self.front.push_back(item),
        }
    }

    /// Puts one back that was the oldest.
    pub(super) fn push_front(&mut self, item: T) {
        self.front.push_front(item);
    }

    /// Takes all that is in memory. What is outside was [forgotten](Queue::forget_outside) before,
    /// or still waits.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> {
        let behind = self.backlog.as_mut().map(|backlog| backlog.take_behind());
        self.front.drain(..).chain(behind.into_iter().flatten())
    }

    /// Gives up what is outside or on its way, and returns how much that was; `None` where nobody
    /// outside need hear of it.
    pub(super) fn forget_outside(&mut self) -> Option<usize> {
        let forgotten = self.backlog.as_mut()?.forget();
        self.draw_up();
        forgotten
    }

    /// The segment to write out now, if there is one: its number and its messages.
    pub(super) fn begin_write(
        &mut self,
        weigh: impl Fn(&T) -> u64,
        now: Instant,
    ) -> Option<(u64, &VecDeque<T>)> {
        self.backlog.as_mut()?.begin_write(weigh, now)
    }

    /// A segment was written out, or was not. Gives what need not be in memory any more, and whether it is needed outside: it is not
    /// where some of it was needed here meanwhile.
    pub(super) fn end_write(
        &mut self,
        number: u64,
        is_done: bool,
        now: Instant,
    ) -> (VecDeque<T>, bool) {
        let Some(backlog) = &mut self.backlog else {
            return (VecDeque::new(), true);
        };
        let ended = backlog.end_write(number, is_done, now);
        self.draw_up();
        ended
    }

    /// The segment to read back now, if there is room for one.
    pub(super) fn begin_read(&mut self, weigh: impl Fn(&T) -> u64, now: Instant) -> Option<u64> {
        let backlog = self.backlog.as_mut()?;
        backlog.begin_read(&self.front, weigh, now)
    }

    /// Has what was outside in a former life. False where it keeps no backlog.
    pub(super) fn restore(&mut self, segments: impl IntoIterator<Item = Outside>) -> bool {
        let backlog = self.backlog.as_mut();
        backlog.map(|backlog| backlog.restore(segments)).is_some()
    }

    /// Has something go out because memory is short.
    pub(super) fn press(&mut self) {
        if let Some(backlog) = &mut self.backlog {
            backlog.press(&mut self.front);
        }
    }

    /// How to write out what is older than everything outside, this many messages, and what is
    /// younger.
    pub(super) fn around(&self, older: usize) -> Option<Around> {
        Some(self.backlog.as_ref()?.around(older))
    }

    /// Gives up what is on its way out and says which it was.
    pub(super) fn stop_writing(&mut self) -> Option<u64> {
        self.backlog.as_mut()?.stop_writing()
    }

    /// Takes what is older than all that is outside, and what is younger.
    pub(super) fn take_around(&mut self) -> (VecDeque<T>, VecDeque<T>) {
        let behind = self.backlog.as_mut().map(|backlog| backlog.take_behind());
        (std::mem::take(&mut self.front), behind.unwrap_or_default())
    }

    /// How many messages that segment has, if it is the one that is being read back.
    pub(super) fn expected(&self, number: u64) -> Option<usize> {
        self.backlog.as_ref()?.expected(number)
    }

    /// The segment that is being read back is here, or is not; gives what of it is lost.
    pub(super) fn end_read(&mut self, outcome: Outcome<T>, now: Instant) -> Lost {
        let Some(backlog) = &mut self.backlog else {
            return Lost::default();
        };
        let lost = backlog.end_read(outcome, &mut self.front, now);
        self.draw_up();
        lost
    }

    /// When to try again what failed.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.backlog.as_ref()?.retry_at()
    }

    /// Moves up the next messages that are here.
    #[inline]
    fn draw_up(&mut self) {
        if let Some(backlog) = &mut self.backlog {
            backlog.draw_up(&mut self.front);
        }
    }
}

impl<T> Extend<T> for Queue<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        match self.backlog {
            None => self.front.extend(items),
            Some(_) => items.into_iter().for_each(|item| self.push_back(item)),
        }
    }
}

#[cfg(test)]
mod tests;
