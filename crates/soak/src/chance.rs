//! Draws from one named stream of the run's seed.

use std::time::Duration;

use clock::{Streams, Xoshiro256PlusPlus, uniform};
use rand::Rng;

/// A stream of draws.
#[derive(Debug)]
pub struct Chance(Xoshiro256PlusPlus);

impl Chance {
    /// The stream called `name`.
    #[must_use]
    pub fn new(streams: &Streams, name: &str) -> Chance {
        Chance(streams.stream(name))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, which is above 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound as u64) as usize
    }

    /// Whether something of probability `p` happens.
    pub fn happens(&mut self, p: f64) -> bool {
        uniform(&mut self.0) < p
    }

    /// A span between two, in microseconds.
    pub fn span_us(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_micros(least + self.number() % (most - least + 1))
    }

    /// A span between two, in milliseconds.
    pub fn span_ms(&mut self, least: u64, most: u64) -> Duration {
        self.span_us(least * 1000, most * 1000)
    }

    /// One of these.
    ///
    /// # Panics
    /// Where there are none.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}
