//! How long turns of the controller's loop take: nobody else is heard during a turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::step::Step;
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
    longest: Longest,
    /// The longest steps, by kind.
    steps: [Longest; Step::COUNT],
    span: AtomicU64,
    publishers: AtomicU64,
    topics: AtomicU64,
    reported: AtomicU64,
}

/// The longest of this span of time and of the one before, nanoseconds.
#[derive(Debug, Default)]
struct Longest {
    now: AtomicU64,
    before: AtomicU64,
}

impl Longest {
    fn note(&self, took_ns: u64) {
        self.now.fetch_max(took_ns, Ordering::Relaxed);
    }

    /// Another span begins, the next one or a later one.
    fn begin_span(&self, is_next: bool) {
        let last = self.now.swap(0, Ordering::Relaxed);
        self.before
            .store(if is_next { last } else { 0 }, Ordering::Relaxed);
    }

    fn seconds(&self) -> f64 {
        let spans = [&self.now, &self.before];
        let longest = spans.map(|span| span.load(Ordering::Relaxed));
        seconds(longest[0].max(longest[1]))
    }
}

/// The figures at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PaceView {
    /// Turns so far.
    pub turns: u64,
    /// The time they took, in seconds.
    pub busy_s: f64,
    /// Those that took longer than [`TURN_GOAL`].
    pub long_turns: u64,
    /// The longest of the last one to two minutes, in seconds.
    pub longest_s: f64,
    /// The longest step of each kind in that time, in seconds; kinds that did not occur are left out.
    pub longest_steps: Vec<(&'static str, f64)>,
    /// The work they did.
    pub work: Work,
}

impl Pace {
    /// A step of a turn took so long.
    pub(super) fn note_step(&self, step: Step, took: Duration) {
        self.0.steps[step as usize].note(nanoseconds(took));
    }

    /// A turn that ended `at` after the start took so long; `work` is what all have looked at.
    pub(super) fn note(&self, at: Duration, took: Duration, work: Work) {
        let Pace(figures) = self;
        let took_ns = nanoseconds(took);
        let span = at.as_secs() / REMEMBERED.as_secs();
        let former = figures.span.swap(span, Ordering::Relaxed);
        if former != span {
            for longest in figures.steps.iter().chain([&figures.longest]) {
                longest.begin_span(former + 1 == span);
            }
        }
        figures.longest.note(took_ns);
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
        let steps = Step::ALL.iter().zip(&figures.steps);
        let steps = steps.map(|(step, longest)| (step.name(), longest.seconds()));
        PaceView {
            turns: read(&figures.turns),
            busy_s: seconds(read(&figures.busy_ns)),
            long_turns: read(&figures.long),
            longest_s: figures.longest.seconds(),
            longest_steps: steps.filter(|(_, longest_s)| *longest_s > 0.0).collect(),
            work: Work {
                publishers: read(&figures.publishers),
                topics: read(&figures.topics),
                reported: read(&figures.reported),
            },
        }
    }
}

fn nanoseconds(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}

fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_turn_is_remembered_for_a_while() {
        let pace = Pace::default();
        let (second, ms) = (Duration::from_secs, Duration::from_millis);
        let note = |at, took| pace.note(second(at), took, Work::default());
        pace.note_step(Step::Report, ms(70));
        note(1, ms(80));
        note(2, ms(10));
        assert_eq!((pace.view().longest_s, pace.view().long_turns), (0.08, 1));
        assert_eq!(pace.view().longest_steps, [("report", 0.07)]);
        note(61, ms(20));
        assert_eq!(pace.view().longest_s, 0.08);
        note(121, ms(5));
        assert_eq!(pace.view().longest_s, 0.02);
        assert!(pace.view().longest_steps.is_empty());
        note(1000, ms(1));
        assert_eq!((pace.view().longest_s, pace.view().turns), (0.001, 5));
    }
}
