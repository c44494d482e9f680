//! Time as a value: instants, stamps mapped between clocks, named seeded random streams.
//!
//! Nothing here reads a clock or draws from a global generator. The shell of a program reads its
//! clocks and passes the readings in, so the same code runs in a broker, in virtual time and in
//! property tests.
//!
//! * [`Instant`]: a reading of the one monotonic clock, in nanoseconds.
//! * [`WallTime`]: a reading of the wall clock, in nanoseconds since the Unix epoch.
//! * [`DurationText`]: a duration as people write it, `250ms`.
//! * [`StampMap`]: brings wall-clock packet stamps onto the monotonic clock.
//! * [`Streams`], [`stream`]: random streams told apart by name.

mod duration;
mod instant;
mod stamp;
mod stream;

pub use duration::DurationText;
pub use instant::{Instant, WallTime};
pub use stamp::{Observed, STEP_THRESHOLD, StampMap};
pub use stream::{Streams, below, stream, uniform};

/// The generator behind every named stream.
pub use rand_xoshiro::Xoshiro256PlusPlus;
