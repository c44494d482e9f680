//! Observations of one topic: latencies, profiling windows, traces and recordings, releases.

use clock::Instant;

use super::latency::{Landed, StageHistograms};
use super::store::Arrival;
use super::trace::{Source, Trace, TraceResult};
use super::window::{Window, WindowOrder, WindowResult};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// Where the time goes.
    pub(super) latency: Option<StageHistograms>,
    /// Arrivals within the profiling window.
    pub(super) trace: Option<Box<Trace>>,
    /// Arrivals since somebody asked for them over HTTP; none of a controller's business.
    pub(super) recording: Option<Box<Trace>>,
    /// Instants of releases, nanoseconds, where they are logged.
    releases: Vec<u64>,
}

impl Observed {
    /// Opens a profiling window; one that is open is thrown away.
    pub(super) fn begin_window(&mut self, order: &WindowOrder, now: Instant) {
        let latency = self.latency.get_or_insert_with(StageHistograms::default);
        latency.open_window(Window::new(order.percentile, now));
        latency.promise(order.promise_us);
        self.trace = order.with_trace.then(|| Box::new(Trace::new(now)));
    }

    /// Closes the window and says what it showed; `None` where none is open, or for too long.
    pub(super) fn end_window(&mut self, now: Instant) -> Option<WindowResult> {
        let trace = self.trace.take();
        let window = self.latency.as_mut()?.close_window()?;
        let traced = trace.map(|trace| trace.finish()).unwrap_or_default();
        (!window.is_stale(now)).then(|| WindowResult {
            publishers: traced.publishers,
            arrivals: traced.arrivals,
            is_trace_cut: traced.is_cut,
            ..window.result()
        })
    }

    /// Records a message that has reached its subscriber.
    pub(super) fn record_landed(&mut self, landed: &Landed) {
        if let Some(latency) = &mut self.latency {
            latency.record_landed(landed);
        }
    }

    /// Begins to record arrivals; a recording that is open is thrown away.
    pub(super) fn begin_recording(&mut self, now: Instant) {
        self.recording = Some(Box::new(Trace::new(now)));
    }

    /// Ends the recording and says what arrived; `None` where none is open, or for too long.
    pub(super) fn end_recording(&mut self, now: Instant) -> Option<TraceResult> {
        let recording = self.recording.take()?;
        (!recording.is_stale(now)).then(|| recording.finish())
    }

    /// Notes where an accepted publish command came from. `name` is asked for only where a trace meets the source for the
    /// first time.
    #[inline]
    pub(super) fn note_source(
        &mut self,
        source: Source,
        messages: u32,
        arrival: &Arrival,
        name: impl Fn() -> String,
    ) {
        for open in [&mut self.trace, &mut self.recording] {
            let Some(trace) = open else {
                continue;
            };
            if trace.is_stale(arrival.read) {
                *open = None;
                continue;
            }
            trace.record(source, &name, arrival.wall_ns.cast_unsigned(), messages);
        }
    }

    /// Logs a release, unless `releases_max` are logged already.
    #[inline]
    pub(super) fn log_release(&mut self, now: Instant, releases_max: usize) {
        if self.releases.len() < releases_max {
            self.releases.push(now.as_nanos());
        }
    }

    /// Takes the releases logged since the last call: nanoseconds of the monotonic clock, ascending.
    pub(super) fn take_releases(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.releases)
    }
}
