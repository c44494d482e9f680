//! One running task: its queue, its writer, and its measurements.

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;
use kernel::theory::Demand;

use super::arrivals::EventSource;
use super::measured::TimesRecorder;
use super::spec::{OnFull, TaskSpec};

/// An event that waits or is being served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) arrived_ns: u64,
    pub(super) service_ns: u64,
    /// Work of the same task that was unfinished when it arrived.
    pub(super) ahead_ns: u64,
}

/// What became of an event that was to arrive.
pub(super) enum Fate {
    /// It is in the queue.
    Queued,
    /// It was dropped.
    Dropped,
    /// Its writer waits.
    Blocked,
}

/// A task as it runs.
pub(super) struct Task<'a> {
    pub(super) spec: &'a TaskSpec,
    source: EventSource<'a>,
    waiting: VecDeque<Event>,
    /// Events that wait or are being served.
    present: usize,
    /// Of all events that are present, what has not been finished.
    work_ns: u64,
    /// The service time of an event whose writer waits, and since when.
    blocked: Option<(u64, u64)>,
    blocked_ns: u64,
    pub(super) counts: Counts,
    pub(super) measured: Window,
    changed_ns: u64,
}

/// Events since the beginning. arrived = served + dropped + present.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) arrived: u64,
    pub(super) served: u64,
    pub(super) dropped: u64,
    /// Times that the queue was full.
    pub(super) full: u64,
}

/// What is measured after the warm-up.
pub(super) struct Window {
    pub(super) counts_before: Counts,
    pub(super) used_ns: u64,
    /// Events × time.
    pub(super) present_ns: u128,
    pub(super) wait: TimesRecorder,
    pub(super) response: TimesRecorder,
    pub(super) demand: Demand,
}

impl<'a> Task<'a> {
    pub(super) fn new(spec: &'a TaskSpec, source: EventSource<'a>, period: Duration) -> Task<'a> {
        Task {
            spec,
            source,
            waiting: VecDeque::new(),
            present: 0,
            work_ns: 0,
            blocked: None,
            blocked_ns: 0,
            counts: Counts::default(),
            measured: Window::new(period),
            changed_ns: 0,
        }
    }

    pub(super) fn present(&self) -> usize {
        self.present
    }

    /// How long the newest event in the queue takes.
    pub(super) fn newest_work(&self) -> Duration {
        let newest_ns = self.waiting.back().map_or(0, |event| event.service_ns);
        Duration::from_nanos(newest_ns)
    }

    /// When the next event is to arrive, given how long its writer has been blocked.
    pub(super) fn next_arrival_ns(&mut self) -> Option<u64> {
        let at_ns = self.source.next_arrival_ns()?;
        Some(at_ns.saturating_add(self.blocked_ns))
    }

    /// An event is to arrive.
    pub(super) fn offer(&mut self, now_ns: u64) -> Fate {
        let service_ns = self.source.service_ns();
        if self.present < self.spec.queue {
            self.put(service_ns, now_ns);
            return Fate::Queued;
        }
        self.counts.full += 1;
        match self.spec.on_full {
            OnFull::Drop => {
                self.counts.arrived += 1;
                self.counts.dropped += 1;
                Fate::Dropped
            }
            OnFull::Block => {
                self.blocked = Some((service_ns, now_ns));
                Fate::Blocked
            }
        }
    }

    /// Puts the event of a waiting writer in, now that there is room; whether there was one.
    pub(super) fn unblock(&mut self, now_ns: u64) -> bool {
        let Some((service_ns, since_ns)) = self.blocked.take() else {
            return false;
        };
        self.blocked_ns += now_ns - since_ns;
        self.put(service_ns, now_ns);
        true
    }

    /// The event that is first in the queue, to be served.
    pub(super) fn pop(&mut self) -> Event {
        let event = self.waiting.pop_front();
        event.expect("a task has as many turns as events")
    }

    /// An event has been served.
    pub(super) fn finish(&mut self, event: &Event, began_ns: u64, now_ns: u64, is_measured: bool) {
        self.pass(now_ns);
        self.present -= 1;
        self.work_ns -= event.service_ns;
        self.counts.served += 1;
        self.measured.used_ns += event.service_ns;
        if is_measured {
            self.measured.wait.record(began_ns - event.arrived_ns);
            self.measured.response.record(now_ns - event.arrived_ns);
        }
    }

    /// The warm-up is over: measures anew.
    pub(super) fn begin_window(&mut self, now_ns: u64, period: Duration) {
        self.pass(now_ns);
        self.measured = Window::new(period);
        self.measured.counts_before = self.counts;
    }

    /// Time passes without a change in who is present.
    pub(super) fn pass(&mut self, now_ns: u64) {
        let passed_ns = u128::from(now_ns - self.changed_ns);
        self.measured.present_ns += passed_ns * self.present as u128;
        self.changed_ns = now_ns;
    }

    /// Time that its writer has been blocked for up to `now_ns`.
    pub(super) fn blocked_ns(&self, now_ns: u64) -> u64 {
        let since_ns = self.blocked.map_or(now_ns, |(_, since_ns)| since_ns);
        self.blocked_ns + (now_ns - since_ns)
    }

    fn put(&mut self, service_ns: u64, now_ns: u64) {
        self.pass(now_ns);
        self.waiting.push_back(Event {
            arrived_ns: now_ns,
            service_ns,
            ahead_ns: self.work_ns,
        });
        self.present += 1;
        self.work_ns += service_ns;
        self.counts.arrived += 1;
        let work = Duration::from_nanos(service_ns);
        self.measured.demand.add(Instant::from_nanos(now_ns), work);
    }
}

impl Window {
    fn new(period: Duration) -> Window {
        Window {
            counts_before: Counts::default(),
            used_ns: 0,
            present_ns: 0,
            wait: TimesRecorder::new(),
            response: TimesRecorder::new(),
            demand: Demand::new(period),
        }
    }
}
