//! Who published when: the arrivals of one topic while a profiling window or a recording is open.
//!
//! The window's trace is for the controller whose fit opened it, the recording for whoever asks
//! over HTTP. Neither knows of the other: each has its own memory, beginning and end, and both see
//! every arrival.
//!
//! One entry per publish command, in the order in which the topic took them. That is not quite the
//! order of arrival; sorting is left to whoever has the time. Memory is reserved when the trace
//! begins, so recording never copies what was recorded before. At either bound the trace is cut,
//! not thinned: it is complete up to there.

use clock::Instant;
use rustc_hash::FxHashMap;

use super::window::OPEN_MAX;

/// Arrivals kept in the trace of one window or recording at most, 16 bytes each.
pub const TRACE_ARRIVALS_MAX: usize = 1 << 20;

/// Publishers that one trace can name.
pub const TRACE_PUBLISHERS_MAX: usize = 1 << 17;

/// Where a publish command came from, as a number; cheap to make for every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// Reactor that read it.
    pub reactor: usize,
    /// The connection, in that reactor's numbering.
    pub connection: u64,
    /// Whether the connection is a declared publisher of the topic.
    pub is_declared: bool,
}

/// The content of a recording of a topic's arrivals, or of a window's trace of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceResult {
    /// Names of the publishers in `arrivals`, by their position.
    pub publishers: Vec<String>,
    /// Publish commands: nanoseconds since 1970, publisher, messages.
    pub arrivals: Vec<(u64, u32, u32)>,
    /// A bound was reached ([`TRACE_ARRIVALS_MAX`]): what came later is missing.
    pub is_cut: bool,
}

/// The arrivals of one window or recording.
#[derive(Debug)]
pub struct Trace {
    began: Instant,
    arrivals_max: usize,
    publishers: Vec<String>,
    by_source: FxHashMap<Source, u32>,
    by_name: FxHashMap<String, u32>,
    arrivals: Vec<(u64, u32, u32)>,
    is_cut: bool,
}

impl Source {
    /// Everything that comes through the handle.
    pub const HTTP: Source = Source {
        reactor: usize::MAX,
        connection: 0,
        is_declared: false,
    };

    /// Its name in traces.
    pub const HTTP_NAME: &str = "~http";
}

impl Trace {
    /// An empty trace that begins at `now`.
    #[must_use]
    pub fn new(now: Instant) -> Trace {
        Trace::with_room(now, TRACE_ARRIVALS_MAX)
    }

    fn with_room(now: Instant, arrivals_max: usize) -> Trace {
        Trace {
            began: now,
            arrivals_max,
            publishers: Vec::new(),
            by_source: FxHashMap::default(),
            by_name: FxHashMap::default(),
            // Reserved addresses; the system gives memory page by page as it is written to.
            arrivals: Vec::with_capacity(arrivals_max),
            is_cut: false,
        }
    }

    /// Records one publish command.
    pub fn record(
        &mut self,
        source: Source,
        name: impl FnOnce() -> String,
        wall_ns: u64,
        messages: u32,
    ) {
        if self.is_cut || self.arrivals.len() >= self.arrivals_max {
            self.is_cut = true;
            return;
        }
        let known = self.by_source.get(&source).copied();
        match known.or_else(|| self.number(source, name())) {
            Some(publisher) => self.arrivals.push((wall_ns, publisher, messages)),
            None => self.is_cut = true,
        }
    }

    /// Whether it has been open too long for anybody to ask for it.
    #[must_use]
    pub fn is_stale(&self, now: Instant) -> bool {
        now.saturating_since(self.began) >= OPEN_MAX
    }

    /// What was recorded.
    #[must_use]
    pub fn finish(self) -> TraceResult {
        TraceResult {
            publishers: self.publishers,
            arrivals: self.arrivals,
            is_cut: self.is_cut,
        }
    }

    /// The number of a name, also where the publisher was known from another connection.
    fn number(&mut self, source: Source, name: String) -> Option<u32> {
        if self.by_source.len() >= TRACE_PUBLISHERS_MAX {
            return None;
        }
        let next = self.publishers.len() as u32;
        let publisher = *self.by_name.entry(name).or_insert_with_key(|name| {
            self.publishers.push(name.clone());
            next
        });
        self.by_source.insert(source, publisher);
        Some(publisher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(connection: u64, is_declared: bool) -> Source {
        Source {
            reactor: 0,
            connection,
            is_declared,
        }
    }

    #[test]
    fn publishers_are_numbered_by_name_in_order_of_appearance() {
        let mut trace = Trace::new(Instant::ZERO);
        let rows = [
            (source(1, true), "s1", 30, 2),
            (source(2, false), "~10.0.0.1:9", 10, 1),
            (source(1, true), "s1", 40, 3),
            (Source::HTTP, Source::HTTP_NAME, 50, 1),
            // The publisher has connected again.
            (source(3, true), "s1", 60, 1),
        ];
        let mut names_asked = 0;
        for (source, name, wall_ns, messages) in rows {
            let name = || {
                names_asked += 1;
                name.to_owned()
            };
            trace.record(source, name, wall_ns, messages);
        }
        let traced = trace.finish();
        assert_eq!(traced.publishers, ["s1", "~10.0.0.1:9", "~http"]);
        let expected = [(30, 0, 2), (10, 1, 1), (40, 0, 3), (50, 2, 1), (60, 0, 1)];
        assert_eq!(
            (&traced.arrivals[..], traced.is_cut),
            (&expected[..], false)
        );
        assert_eq!(names_asked, 4, "once for each source");
    }

    #[test]
    fn at_its_bound_a_trace_is_cut_and_says_so() {
        let mut trace = Trace::with_room(Instant::ZERO, 3);
        for number in 0..5 {
            trace.record(source(number, false), || number.to_string(), number, 1);
        }
        let traced = trace.finish();
        let counts = (traced.publishers.len(), traced.arrivals.len());
        assert_eq!((counts, traced.is_cut), ((3, 3), true));
    }

    #[test]
    fn too_many_publishers_cut_it_as_well() {
        let mut trace = Trace::new(Instant::ZERO);
        let most = TRACE_PUBLISHERS_MAX as u64;
        for number in 0..=most {
            trace.record(source(number, false), || number.to_string(), number, 1);
        }
        trace.record(source(0, false), String::new, most + 1, 1);
        let traced = trace.finish();
        let counts = (traced.publishers.len(), traced.arrivals.len());
        let expected = (TRACE_PUBLISHERS_MAX, TRACE_PUBLISHERS_MAX);
        assert_eq!((counts, traced.is_cut), (expected, true));
    }
}
