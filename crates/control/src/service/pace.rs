//! How long turns of the controller's loop take: while one lasts, nobody else is heard.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::core::Work;

/// Turns are to be shorter than this; long work is done in parts.
pub const TURN_GOAL: Duration = Duration::from_millis(50);

/// The longest turn is remembered for so long, and up to twice that.
const REMEMBERED: Duration = Duration::from_secs(60);

/// What turns have come to so far; shared with whoever shows it.
#[derive(Clone, Debug, Default)]
pub struct Pace(Arc<Figures>);

#[derive(Debug, Default)]
struct Figures {
    turns: AtomicU64,
    busy_ns: AtomicU64,
    long: AtomicU64,
    /// The longest of this span of time and of the one before, nanoseconds.
    longest_ns: [AtomicU64; 2],
    span: AtomicU64,
    publishers: AtomicU64,
    topics: AtomicU64,
    reported: AtomicU64,
}

/// The figures at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PaceView {
    /// Turns so far.
    pub turns: u64,
    /// What they took, in seconds.
    pub busy_s: f64,
    /// Those that took longer than [`TURN_GOAL`].
    pub long_turns: u64,
    /// The longest of the last one to two minutes, in seconds.
    pub longest_s: f64,
    /// What they looked at.
    pub work: Work,
}

impl Pace {
    /// A turn that ended `at` after the start took so long; `work` is what all have looked at.
    pub(super) fn note(&self, at: Duration, took: Duration, work: Work) {
        let Pace(figures) = self;
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let span = at.as_secs() / REMEMBERED.as_secs();
        let [now, before] = &figures.longest_ns;
        let former = figures.span.swap(span, Ordering::Relaxed);
        if former != span {
            let is_next = former + 1 == span;
            let last = now.swap(0, Ordering::Relaxed);
            before.store(if is_next { last } else { 0 }, Ordering::Relaxed);
        }
        now.fetch_max(took_ns, Ordering::Relaxed);
        figures.turns.fetch_add(1, Ordering::Relaxed);
        figures.busy_ns.fetch_add(took_ns, Ordering::Relaxed);
        let is_long = u64::from(took > TURN_GOAL);
        figures.long.fetch_add(is_long, Ordering::Relaxed);
        figures.publishers.store(work.publishers, Ordering::Relaxed);
        figures.topics.store(work.topics, Ordering::Relaxed);
        figures.reported.store(work.reported, Ordering::Relaxed);
    }

    /// The figures now.
    #[must_use]
    pub fn view(&self) -> PaceView {
        let Pace(figures) = self;
        let read = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let seconds = |ns: u64| Duration::from_nanos(ns).as_secs_f64();
        let longest = figures.longest_ns.iter().map(read).max();
        PaceView {
            turns: read(&figures.turns),
            busy_s: seconds(read(&figures.busy_ns)),
            long_turns: read(&figures.long),
            longest_s: seconds(longest.unwrap_or(0)),
            work: Work {
                publishers: read(&figures.publishers),
                topics: read(&figures.topics),
                reported: read(&figures.reported),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_turn_is_remembered_for_a_while() {
        let pace = Pace::default();
        let (second, ms) = (Duration::from_secs, Duration::from_millis);
        let note = |at, took| pace.note(second(at), took, Work::default());
        note(1, ms(80));
        note(2, ms(10));
        assert_eq!((pace.view().longest_s, pace.view().long_turns), (0.08, 1));
        note(61, ms(20));
        assert_eq!(pace.view().longest_s, 0.08);
        note(121, ms(5));
        assert_eq!(pace.view().longest_s, 0.02);
        note(1000, ms(1));
        assert_eq!((pace.view().longest_s, pace.view().turns), (0.001, 5));
    }
}
