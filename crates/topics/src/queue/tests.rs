//! A queue against a plain list: whatever happens to its segments, it is one queue.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::backlog::{RETRY_AFTER, Returned};

const CAPACITY: usize = 16;

/// A queue of numbers, what is kept of it outside, and what was asked for and is not answered yet.
struct Play {
    bounds: BacklogBounds,
    queue: Queue<u32>,
    kept: Vec<(u64, Vec<u32>)>,
    writing: Option<(u64, Vec<u32>)>,
    reading: Option<u64>,
    /// What is to come out, in order.
    expected: VecDeque<u32>,
    next: u32,
    now: Instant,
}

fn weigh(item: &u32) -> u64 {
    u64::from(item % 5)
}

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Pop(usize),
    PopOldest,
    PutBack,
    Ask,
    Write(bool),
    Read(bool),
    Lose(usize),
    Forget,
    Press,
    Restart,
    Wait,
}

impl Play {
    fn new(segment_messages: usize, segment_bytes: u64, outside_max: usize) -> Play {
        let bounds = BacklogBounds {
            segment_messages,
            segment_bytes,
            outside_max,
            logged_bytes_max: u64::MAX,
        };
        Play {
            bounds,
            queue: Queue::new(CAPACITY, Some(bounds)),
            kept: Vec::new(),
            writing: None,
            reading: None,
            expected: VecDeque::new(),
            next: 0,
            now: Instant::ZERO,
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Push(count) => {
                for _ in 0..count {
                    if self.queue.has_room(CAPACITY) {
                        self.queue.push_back(self.next);
                        self.expected.push_back(self.next);
                        self.next += 1;
                    }
                }
            }
            Step::Pop(count) => {
                for _ in 0..count {
                    if let Some(item) = self.queue.pop_front() {
                        prop_assert_eq!(Some(item), self.expected.pop_front());
                    }
                }
            }
            Step::PopOldest => {
                if let Some(item) = self.queue.pop_oldest() {
                    let place = self.expected.iter().position(|&other| other == item);
                    prop_assert!(place.is_some(), "{} is not among those that wait", item);
                    self.expected.remove(place.unwrap_or_default());
                }
            }
            Step::PutBack => {
                if let Some(item) = self.queue.pop_front() {
                    self.queue.push_front(item);
                }
            }
            Step::Ask => self.ask(),
            Step::Write(is_done) => self.write(is_done),
            Step::Read(is_done) => self.read(is_done, 0),
            Step::Lose(count) => self.read(true, count),
            Step::Forget => self.forget(),
            Step::Press => self.queue.press(),
            Step::Restart => self.restart(),
            Step::Wait => self.now += RETRY_AFTER,
        }
        Ok(())
    }

    fn ask(&mut self) {
        if let Some((number, items)) = self.queue.begin_write(weigh, self.now) {
            assert!(self.writing.is_none(), "one is on its way out");
            self.writing = Some((number, items.iter().copied().collect()));
        }
        if let Some(number) = self.queue.begin_read(weigh, self.now) {
            assert!(self.reading.is_none(), "one is on its way back");
            self.reading = Some(number);
        }
    }

    fn write(&mut self, is_done: bool) {
        let Some((number, items)) = self.writing.take() else {
            return;
        };
        let (gone, is_needed) = self.queue.end_write(number, is_done, self.now);
        if !gone.is_empty() {
            assert!(is_done && is_needed && gone.iter().eq(&items));
            self.kept.push((number, items));
        }
    }

    /// Reads back what was asked for, without the last `missing` of it.
    fn read(&mut self, is_done: bool, missing: usize) {
        let Some(number) = self.reading.take() else {
            return;
        };
        if !is_done {
            self.queue.end_read(Outcome::Failed, self.now);
            return;
        }
        let place = self.kept.iter().position(|kept| kept.0 == number);
        let (_, items) = self.kept.remove(place.expect("it was written"));
        assert_eq!(self.queue.expected(number), Some(items.len()));
        let (back, lost) = items.split_at(items.len().saturating_sub(missing));
        self.expected.retain(|item| !lost.contains(item));
        let returned = Returned {
            messages: back.len(),
            bytes: back.iter().map(weigh).sum(),
        };
        let outcome = Outcome::Back(back.to_vec(), returned);
        let said = self.queue.end_read(outcome, self.now);
        let bytes: u64 = lost.iter().map(weigh).sum();
        assert_eq!((said.messages, said.bytes), (lost.len(), bytes));
    }

    /// Writes out all that is in memory, and goes on with a new queue.
    fn restart(&mut self) {
        if let Some(number) = self.queue.stop_writing() {
            assert_eq!(self.writing.take().map(|writing| writing.0), Some(number));
        }
        let (front, behind) = self.queue.take_around();
        let around = self.queue.around(front.len()).expect("it has a backlog");
        for (mut number, items) in [(around.older_from, front), (around.younger_from, behind)] {
            for items in Vec::from(items).chunks(around.messages_max) {
                self.kept.push((number, items.to_vec()));
                number += 1;
            }
        }
        self.kept.sort_by_key(|kept| kept.0);
        self.reading = None;
        self.queue = Queue::new(CAPACITY, Some(self.bounds));
        let outside = self.kept.iter().map(|(number, items)| Outside {
            number: *number,
            messages: items.len(),
            bytes: items.iter().map(weigh).sum(),
        });
        assert!(self.queue.restore(outside));
    }

    fn forget(&mut self) {
        let outside: Vec<u32> = self.kept.drain(..).flat_map(|(_, items)| items).collect();
        let was_any = !outside.is_empty() || self.writing.is_some();
        assert_eq!(
            self.queue.forget_outside(),
            was_any.then_some(outside.len())
        );
        self.expected.retain(|item| !outside.contains(item));
        (self.writing, self.reading) = (None, None);
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let kept: usize = self.kept.iter().map(|(_, items)| items.len()).sum();
        prop_assert_eq!(self.queue.outside(), kept);
        prop_assert_eq!(self.queue.len(), self.expected.len());
        prop_assert!(
            self.queue.in_memory() <= CAPACITY + CAPACITY / 4,
            "{:?}",
            self.queue
        );
        // What can be taken is there to be taken.
        let is_stuck = self.queue.front().is_none() && self.queue.len() > 0;
        prop_assert!(!is_stuck || kept > 0, "{:?}", self.queue);
        Ok(())
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..20usize).prop_map(Step::Push),
        5 => (1..12usize).prop_map(Step::Pop),
        1 => Just(Step::PopOldest),
        1 => Just(Step::PutBack),
        6 => Just(Step::Ask),
        6 => prop::bool::weighted(0.8).prop_map(Step::Write),
        6 => prop::bool::weighted(0.8).prop_map(Step::Read),
        1 => (1..3usize).prop_map(Step::Lose),
        1 => prop::bool::weighted(0.1).prop_map(|is_any| if is_any { Step::Forget } else { Step::Wait }),
        1 => Just(Step::Press),
        1 => Just(Step::Restart),
        1 => Just(Step::Wait),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    /// Whatever is pushed, taken, written out, read back and fails: what waits comes out once and in its order, and memory is bounded.
    #[test]
    fn what_waits_comes_out_in_its_order(
        steps in steps(),
        segment_messages in 1..8usize,
        segment_bytes in 1..40u64,
        outside_max in 0..64usize,
    ) {
        let mut play = Play::new(segment_messages, segment_bytes, outside_max);
        for step in &steps {
            play.step(step)?;
            play.check()?;
        }
        // Once nothing fails, all of it comes out.
        for _ in 0..200 {
            for step in [Step::Wait, Step::Ask, Step::Write(true), Step::Read(true), Step::Pop(CAPACITY)] {
                play.step(&step)?;
            }
        }
        prop_assert!(play.expected.is_empty() && play.kept.is_empty(), "{:?}", play.queue);
    }

    /// Without a backlog it is a plain queue.
    #[test]
    fn nothing_goes_out_without_a_backlog(pushes in 0..100usize) {
        let mut queue = Queue::new(CAPACITY, None);
        queue.extend(0..pushes);
        prop_assert!(queue.begin_write(|_| 1, Instant::ZERO).is_none());
        prop_assert_eq!(queue.forget_outside(), None);
        prop_assert_eq!((queue.len(), queue.in_memory(), queue.outside()), (pushes, pushes, 0));
        prop_assert_eq!(queue.drain().collect::<Vec<_>>(), (0..pushes).collect::<Vec<_>>());
    }
}

#[test]
fn the_bound_is_one_for_all() {
    for (held, count, fits) in [(0, 100, true), (1, 9, true), (1, 10, false), (10, 1, false)] {
        assert_eq!(fit(held, count, 10), fits, "{held} and {count}");
        let mut queue = Queue::new(10, None);
        queue.extend(0..held);
        assert_eq!(queue.has_room_for(count, 10), fits);
    }
    let mut queue = Queue::new(10, None);
    queue.extend(0..5);
    assert!(queue.is_half_empty(10) && queue.has_room(10));
    queue.extend(0..5);
    assert!(!queue.is_half_empty(10) && !queue.has_room(10));
}
