//! Future events. Events of one instant happen in the order in which they were entered.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use clock::Instant;

/// Events ahead, earliest first.
#[derive(Debug)]
pub struct Agenda<E> {
    ahead: BinaryHeap<Reverse<Entry<E>>>,
    noted: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Instant,
    number: u64,
    event: E,
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Agenda {
            ahead: BinaryHeap::new(),
            noted: 0,
        }
    }
}

impl<E> Agenda<E> {
    /// Notes an event.
    pub fn note(&mut self, at: Instant, event: E) {
        self.noted += 1;
        let number = self.noted;
        self.ahead.push(Reverse(Entry { at, number, event }));
    }

    /// Takes the next one.
    pub fn pop(&mut self) -> Option<(Instant, E)> {
        self.ahead
            .pop()
            .map(|Reverse(entry)| (entry.at, entry.event))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<E> Eq for Entry<E> {}
