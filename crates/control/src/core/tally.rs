//! Sums over publishers, updated with every change so that nobody has to count: by topic and broker
//! ([`Tally`]), and over all topics ([`Loads`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::BrokerNumber;
use super::turns::Turns;

/// A sum of rates. What rounding takes is added up too (Neumaier), so that rates which come and go leave nothing behind.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    value: f64,
    lost: f64,
}

impl Sum {
    fn add(&mut self, rate: f64) {
        let sum = self.value + rate;
        self.lost += if self.value.abs() >= rate.abs() {
            (self.value - sum) + rate
        } else {
            (rate - sum) + self.value
        };
        self.value = sum;
    }
}

/// How many publishers, and their rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    number: usize,
    rate: Sum,
}

impl Count {
    /// How many.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// Messages per second of all.
    #[must_use]
    pub fn rate(&self) -> f64 {
        (self.rate.value + self.rate.lost).max(0.0)
    }

    /// One more, or one less.
    pub(super) fn change(&mut self, is_more: bool, rate: f64) {
        self.change_by(is_more, 1, rate);
    }

    fn change_by(&mut self, is_more: bool, number: usize, rate: f64) {
        if is_more {
            self.number += number;
            self.rate.add(rate);
            return;
        }
        self.number -= number;
        self.rate.add(-rate);
        if self.number == 0 {
            self.rate = Sum::default();
        }
    }
}

/// Publishers of a topic at one broker.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Those that belong there.
    pub placed: Count,
    /// Those that are connected there.
    pub attached: Count,
    /// Those that belong there and are connected anywhere.
    pub present: Count,
    /// Those that belong there and are connected there.
    pub(super) settled: Count,
    /// Of those connected there, how many have which batch.
    pub(super) batches: Bag<u32>,
}

impl Tally {
    /// Largest batch of the publishers connected there.
    pub(super) fn largest_batch(&self) -> f64 {
        f64::from(self.batches.largest().unwrap_or(1))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.placed.number == 0 && self.attached.number == 0
    }
}

/// How often each value occurs.
#[derive(Clone, Debug)]
pub(super) struct Bag<T>(BTreeMap<T, u32>);

impl<T> Default for Bag<T> {
    fn default() -> Self {
        Bag(BTreeMap::new())
    }
}

impl<T: Ord + Copy> Bag<T> {
    pub(super) fn change(&mut self, is_more: bool, value: T) {
        if is_more {
            *self.0.entry(value).or_default() += 1;
        } else if let Some(count) = self.0.get_mut(&value) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&value);
            }
        }
    }

    pub(super) fn largest(&self) -> Option<T> {
        self.0.last_key_value().map(|(value, _)| *value)
    }

    /// The smallest value, but for one occurrence of `own`.
    fn smallest_beside(&self, own: Option<T>) -> Option<T> {
        let others = self.0.iter();
        let mut others = others.filter(|&(value, &count)| Some(*value) != own || count > 1);
        others.next().map(|(value, _)| *value)
    }
}

/// A topic behind those with tighter promises; those without a promise are last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Promised {
    /// Bits of microseconds, which are in their order.
    bits: u64,
    /// Its name.
    pub(super) topic: Arc<str>,
}

impl Promised {
    pub(super) fn new(topic: &Arc<str>, promise_us: Option<f64>) -> Promised {
        Promised {
            bits: promise_us.unwrap_or(f64::INFINITY).to_bits(),
            topic: Arc::clone(topic),
        }
    }

    /// The promise, in microseconds; infinity: none.
    pub(super) fn promise_us(&self) -> f64 {
        f64::from_bits(self.bits)
    }
}

/// Publishers of all topics at one broker.
#[derive(Debug, Default)]
pub struct Load {
    /// Those that belong there.
    pub placed: Count,
    /// Those that are connected there.
    pub attached: Count,
    /// Those that belong there and are connected anywhere.
    pub present: Count,
    /// Those that belong there and are connected there.
    pub(super) settled: Count,
    /// Topics with publishers that belong there and are connected anywhere, by what is promised of them.
    pub(super) topics: BTreeSet<Promised>,
    /// What is promised to the topics that have publishers there: bits of microseconds, which are in their order.
    promises: Bag<u64>,
}

/// The sums over all topics.
#[derive(Debug, Default)]
pub struct Loads {
    by_broker: Vec<Load>,
    /// Topics with publishers that are not where they are to be; some of them may be by now.
    pub(super) moving: Turns,
}

impl Loads {
    /// The sums at a broker.
    #[must_use]
    pub fn at(&self, number: BrokerNumber) -> &Load {
        const NOTHING: &Load = &Load {
            placed: Count::NONE,
            attached: Count::NONE,
            present: Count::NONE,
            settled: Count::NONE,
            topics: BTreeSet::new(),
            promises: Bag(BTreeMap::new()),
        };
        self.by_broker.get(number as usize).unwrap_or(NOTHING)
    }

    pub(super) fn at_mut(&mut self, number: BrokerNumber) -> &mut Load {
        let index = number as usize;
        if index >= self.by_broker.len() {
            self.by_broker.resize_with(index + 1, Load::default);
        }
        &mut self.by_broker[index]
    }

    /// Takes a topic's publishers at a broker in, or out.
    pub(super) fn change(&mut self, is_more: bool, number: BrokerNumber, tally: &Tally) {
        let load = self.at_mut(number);
        let counts = [
            (&mut load.placed, &tally.placed),
            (&mut load.attached, &tally.attached),
            (&mut load.present, &tally.present),
            (&mut load.settled, &tally.settled),
        ];
        for (sum, part) in counts {
            sum.change_by(is_more, part.number(), part.rate());
        }
    }
}

impl Count {
    const NONE: Count = Count {
        number: 0,
        rate: Sum {
            value: 0.0,
            lost: 0.0,
        },
    };
}

impl Load {
    /// A topic with this promise came here, or left.
    pub(super) fn promise(&mut self, is_more: bool, promise_us: Option<f64>) {
        if let Some(us) = promise_us {
            self.promises.change(is_more, us.to_bits());
        }
    }

    /// The tightest promise in microseconds of topics here, but for one that is promised `own` itself.
    pub(super) fn tightest_beside(&self, own: Option<f64>) -> Option<f64> {
        let tightest = self.promises.smallest_beside(own.map(f64::to_bits));
        tightest.map(f64::from_bits)
    }

    /// The rate that other topics than one with this tally have placed here.
    pub(super) fn placed_beside(&self, own: Option<&Tally>) -> f64 {
        let own = own.map_or(Count::NONE, |tally| tally.placed);
        if own.number() == self.placed.number() {
            return 0.0;
        }
        let mut rest = self.placed.rate;
        rest.add(-own.rate.value);
        rest.add(-own.rate.lost);
        (rest.value + rest.lost).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_and_goes_leaves_nothing_behind() {
        let mut count = Count::default();
        count.change(true, 0.1);
        for _ in 0..1000 {
            count.change(true, 1e9);
            count.change(true, 0.3);
            count.change(false, 1e9);
            count.change(false, 0.3);
        }
        assert_eq!((count.number(), count.rate()), (1, 0.1));
        count.change(false, 0.1);
        assert_eq!((count.number(), count.rate()), (0, 0.0));
    }

    #[test]
    fn others_are_all_but_one() {
        let mut load = Load::default();
        load.promise(true, Some(1000.0));
        assert_eq!(load.tightest_beside(Some(1000.0)), None);
        load.promise(true, Some(1000.0));
        assert_eq!(load.tightest_beside(Some(1000.0)), Some(1000.0));
        load.promise(true, Some(500.0));
        load.promise(true, None);
        assert_eq!(load.tightest_beside(Some(500.0)), Some(1000.0));
        assert_eq!(load.tightest_beside(None), Some(500.0));
        let mut own = Tally::default();
        for rate in [0.1, 0.2, 1e6] {
            load.placed.change(true, rate);
            own.placed.change(true, rate);
        }
        assert_eq!(load.placed_beside(Some(&own)), 0.0);
        load.placed.change(true, 0.7);
        let rest = load.placed_beside(Some(&own));
        assert!((rest - 0.7).abs() < 1e-12, "{rest}");
    }
}
